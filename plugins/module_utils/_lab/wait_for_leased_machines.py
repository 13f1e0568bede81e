# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for the machines of a lease."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import WaitTimeout

from . import lab_inventory, lease_lookup, quads_errors, quads_records
from .quads_client import QuadsClient
from .quads_records import CloudAssignment, Lease

GOALS = ("provisioned", "validated", "inventory")


@dataclass
class MachineStates:
    """The result. ``stages``: each stage with the seconds until it was observed."""

    lease: Lease
    elapsed: float
    stages: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class MachineWait:
    """One wait. Times in seconds. ``find``: returns the lease's assignments, active or not."""

    client: QuadsClient
    find: Callable[[], list[CloudAssignment]]
    goal: str
    timeout: float
    interval: float
    min_lifetime: float
    lease_id: str
    url: str
    asked: set[str] | None
    adopted: bool
    report: Callable[[str], None]
    _stages: list[dict[str, Any]] = field(default_factory=list)
    _reported: str = ""

    def run(self) -> MachineStates:
        """Wait until the goal is reached. Raises LeaseLost, LeaseTooShort, WaitTimeout naming pending hosts."""
        began = self.client.clock.monotonic()
        while True:
            lease = self._read()
            elapsed = self.client.clock.monotonic() - began
            reached = self._reached(lease)
            self._note("scheduled", elapsed)
            for stage in reached:
                self._note(stage, elapsed)
            if self.goal in reached:
                self._lasts(lease, self.min_lifetime)
                return MachineStates(lease, elapsed, self._stages)
            left = self.timeout - elapsed
            pending = self._pending(lease, reached)
            if left <= 0:
                raise WaitTimeout(
                    f"lease {self.lease_id} is not {self._words(self.goal)} after"
                    f" {quads_records.format_approximate_duration(elapsed)}: {pending}. "
                    "A host that never finishes blocks the whole lease: ask the lab, or release it and exclude the host"
                )
            self._lasts(lease, left + self.min_lifetime)
            self._report_change(f"waiting for {self._words(self.goal)}: {pending}", elapsed)
            self.client.pause(min(self.interval, max(left, 0.1)))

    def _words(self, goal: str) -> str:
        return "listed in the inventory" if goal == "inventory" else goal

    def _read(self) -> Lease:
        """Return the lease. Raises LeaseLost if it has ended or has no host."""
        assignments = self.find()
        if not assignments:
            raise quads_errors.LeaseLost(f"lease {self.lease_id}: the server has no assignment of it")
        ended = [f"{assignment.id} ({assignment.cloud})" for assignment in assignments if not assignment.active]
        if ended:
            raise quads_errors.LeaseLost(
                f"lease {self.lease_id}: assignment {', '.join(ended)} is no longer active: it was terminated or "
                "has expired. Everything on its machines is lost"
            )
        lease = lease_lookup.lease_from_assignments(self.client, assignments, self.lease_id, self.asked, self.adopted)
        if not lease.hosts:
            raise quads_errors.LeaseLost(f"lease {self.lease_id} has no host: there is nothing to wait for")
        return lease

    def _lasts(self, lease: Lease, needed: float) -> None:
        left = lease.seconds_left
        if left is not None and left < needed:
            raise quads_errors.LeaseTooShort(
                f"lease {self.lease_id} ends in {quads_records.format_approximate_duration(left)}, but the wait and"
                " what follows may take "
                f"{quads_records.format_approximate_duration(needed)} (quads_lease_wait_timeout and"
                " quads_lease_min_lifetime). A lease can't be extended: release it and acquire a new one, or allow less"
                " time"
            )

    def _reached(self, lease: Lease) -> list[str]:
        """Return the reached stages, in order; the inventory only after validated."""
        reached = []
        if all(part.assignment.provisioned for part in lease.parts):
            reached.append("provisioned")
        if all(part.assignment.validated for part in lease.parts):
            reached.append("validated")
            if self.goal == "inventory" and not self._inventory_trouble(lease):
                reached.append("inventory")
        return reached

    def _inventory_trouble(self, lease: Lease) -> str:
        for part in lease.parts:
            assignment = part.assignment
            hosts = [host for host in part.hosts if host not in lease.lost_hosts]
            try:
                url = lab_inventory.inventory_url(self.client, assignment.cloud, self.url)
                lab_inventory.read_published_inventory(self.client, url, hosts, assignment.ticket)
            except quads_errors.InventoryStale as error:
                return str(error)
        return ""

    def _pending(self, lease: Lease, reached: list[str]) -> str:
        """Return what is still missing, as a text."""
        if self.goal == "inventory" and "validated" in reached:
            return self._inventory_trouble(lease) or "the inventory"
        hosts = set(lease.hosts)
        moving = [f"{move['host']} still in {move['current']}" for move in self.client.moves() if move["host"] in hosts]
        if moving:
            return "to move: " + ", ".join(sorted(moving))
        stuck = self._not_validated(lease, hosts)
        return "not validated: " + ", ".join(sorted(stuck)) if stuck else "no message from the lab yet"

    def _not_validated(self, lease: Lease, hosts: set[str]) -> list[str]:
        unvalidated = []
        for part in lease.parts:
            cloud = part.assignment.cloud
            steps = {row["host"]: row for row in self.client.move_progress(cloud)}
            for host in self.client.hosts(("cloud", cloud), ("validated", "false")):
                name = host["name"]
                if name in hosts:
                    step = steps.get(name) or {}
                    text = step.get("error_message") or step.get("message") or step.get("status")
                    unvalidated.append(f"{name} ({text})" if text else name)
        return unvalidated

    def pending_hosts(self) -> list[str]:
        """Return the hosts that are not validated, for a module's result after a failure."""
        lease = lease_lookup.lease_from_assignments(
            self.client,
            [assignment for assignment in self.find() if assignment.active],
            self.lease_id,
            self.asked,
            verify=False,
        )
        moving = {move["host"] for move in self.client.moves()}
        unready = {name.split(" ")[0] for name in self._not_validated(lease, set(lease.hosts))}
        return sorted((moving | unready) & set(lease.hosts))

    def _note(self, stage: str, elapsed: float) -> None:
        if stage not in [stage["stage"] for stage in self._stages]:
            self._stages.append({"stage": stage, "seconds": round(elapsed, 1)})
            self.report(f"{stage} after {quads_records.format_approximate_duration(elapsed)}")

    def _report_change(self, text: str, elapsed: float) -> None:
        """Print what is waited for when it changes."""
        if text != self._reported:
            self._reported = text
            self.report(
                f"{text} ({quads_records.format_approximate_duration(elapsed)} of"
                f" {quads_records.format_approximate_duration(self.timeout)})"
            )
