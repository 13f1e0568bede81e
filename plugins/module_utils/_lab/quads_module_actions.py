# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work of modules quads_lease and quads_info, and the wait for the machines of a lease."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory

from . import host_search, lab_inventory, lease_lookup, lease_release, quads_errors, quads_options, quads_records
from .lease_acquisition import Acquisition, LeaseAcquisitionResult, lease_from_active_assignment
from .lease_file import LeaseFile
from .quads_client import QuadsClient
from .quads_options import LeaseSelector, LeaseSpec
from .quads_records import CloudAssignment, Lease, check_lease_id

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


Report = Callable[[str], None]


def run_quads_lease(params: Mapping[str, Any], dry_run: bool, step: StepDirectory) -> dict[str, Any]:
    """Run module quads_lease; return its result."""
    report = step.reporter(params.get("progress_file"), "lease")
    if params["state"] == "registered":
        client = quads_options.client_from_params(params, secret=True, report=report)
        return {"changed": client.register(dry_run), "owner": client.account.owner}
    if params["state"] == "absent":
        return _absent(params, dry_run, step, report)
    if params.get("adopt"):
        return _adopt_existing_lease(params, dry_run, report)
    spec = LeaseSpec.from_params(params)
    client = quads_options.client_from_params(params, secret=not dry_run, report=report)
    file = _lease_file(params, client)
    if file.adopted:
        raise InputError(
            f"{params['lease_file']} records an adopted allocation, to which nothing is added: "
            "use another run directory for a lease"
        )
    with step.timed("cluster", "lease"), quads_options.interrupted_by_signals(client):
        acquired = Acquisition(client, spec, file, report).run(dry_run)
    lease = acquired.lease
    result: dict[str, Any] = {
        "changed": acquired.changed,
        "rejected_hosts": acquired.rejected,
        "surplus": max(len(lease.hosts) - spec.wanted, 0) if lease else 0,
        **({"lease": lease.view()} if lease else {}),
    }
    if dry_run:
        result["candidates"] = acquired.candidates
        report(_describe_hosts_to_request(acquired))
    elif lease:
        report(_format_lease_summary(result["lease"]))
    hosts = lease.hosts if lease else []
    before = [] if acquired.changed and not dry_run else hosts
    return {**result, "diff": _before_after_diff(before, [*before, *acquired.candidates] if dry_run else hosts)}


def _describe_hosts_to_request(acquired: LeaseAcquisitionResult) -> str:
    if not acquired.candidates:
        return "the lease exists: nothing would be requested"
    hosts = formats.format_count(len(acquired.candidates), "host")
    return f"would request {hosts}, given the present state of the lab: {', '.join(acquired.candidates)}"


def _format_lease_summary(view: Mapping[str, Any]) -> str:
    clouds = " and ".join(part["cloud"] for part in view["parts"])
    hosts = formats.format_count(len(view["hosts"]), "host")
    until = quads_records.describe_end_of_lease(view["expires_at"])
    return f"{hosts} in {clouds} until {until}: {', '.join(view['hosts'])}"


def _before_after_diff(before: Iterable[str], after: Iterable[str]) -> dict[str, str]:
    return {"before": "".join(f"{line}\n" for line in before), "after": "".join(f"{line}\n" for line in after)}


def _lease_file(params: Mapping[str, Any], client: QuadsClient) -> LeaseFile:
    lease_id = check_lease_id(str(params["lease_id"]))
    path, command = params.get("lease_file"), params.get("release_command") or ""
    return LeaseFile(path, lease_id, client.account.api_url, client.account.owner, command)


def _adopt_existing_lease(params: Mapping[str, Any], dry_run: bool, report: Report) -> dict[str, Any]:
    client = quads_options.client_from_params(params, report=report)
    file = _lease_file(params, client)
    lease = lease_from_active_assignment(
        client,
        str(params["adopt"]),
        file.known["lease_id"],
        params["hosts"],
        int(params.get("count") or 0),
        params["exclude"],
        quads_records.parse_duration(params.get("min_lifetime") or 0, "quads_lease_min_lifetime"),
    )
    if file.known["parts"] and not file.adopted and file.known["state"] != "released":
        raise InputError(f"{params['lease_file']} records a lease that was not released: release it before adopting")
    if not dry_run:
        file.held(lease)
    view = lease.view()
    report(f"adopted {_format_lease_summary(view)}; it is never released from here")
    return {"changed": False, "lease": view, "rejected_hosts": [], "surplus": 0, "diff": _before_after_diff([], [])}


def _absent(params: Mapping[str, Any], dry_run: bool, step: StepDirectory, report: Report) -> dict[str, Any]:
    ours = not (params.get("lease_id") and LeaseSelector.from_params(params).adopted)
    client = quads_options.client_from_params(params, secret=ours and not dry_run, report=report)
    with step.timed("cluster", "release"):
        if params.get("lease_id"):
            return _release_lease_by_id(params, client, dry_run, report)
        if params.get("assignment_id"):
            return _released_assignments_result(
                lease_release.release_assignment(client, params["assignment_id"], params["force"], dry_run, report)
            )
        if not client.account.owner:
            raise InputError("set quads_lease_username, the owner of the leases")
        age = quads_records.parse_duration(params["older_than"], "quads_lease_reap_older_than")
        expired = lease_release.terminate_old_leases(client, age, tuple(params["keep"]), dry_run, report)
        if not expired:
            report(f"no lease of {client.account.owner} is older than {quads_records.format_approximate_duration(age)}")
        leases = [lease.view() for lease in expired]
        return {**_released_assignments_result([lease.assignment_id for lease in expired]), "leases": leases}


def _release_lease_by_id(
    params: Mapping[str, Any], client: QuadsClient, dry_run: bool, report: Report
) -> dict[str, Any]:
    file = _lease_file(params, client)
    lease_id = file.known["lease_id"]
    if file.adopted:
        report("the machines were adopted: they are not released")
        if not dry_run:
            file.released()
        return _released_assignments_result([])
    if dry_run:
        return _released_assignments_result(
            [assignment.id for assignment in lease_lookup.assignments_of_lease(client, lease_id, active=True)]
        )
    if not file.remembers:
        lease_release.refuse_mistyped_lease_id(client, lease_id)
    numbers = lease_release.terminate_lease_assignments(
        client, lease_id, file if file.remembers else None, params["settle"], report
    )
    if not numbers:
        lease_release.refuse_unknown_lease_id(client, lease_id, file)
        report(f"lease {lease_id} has no active assignment")
    return _released_assignments_result(numbers)


def _released_assignments_result(numbers: list[int]) -> dict[str, Any]:
    diff = _before_after_diff([f"assignment {number}" for number in numbers], [])
    return {"changed": bool(numbers), "released": numbers, "diff": diff}


def run_quads_info(params: Mapping[str, Any], step: StepDirectory) -> dict[str, Any]:
    """Run module quads_info; return its result."""
    report = step.reporter(params.get("progress_file"), "lease")
    client = quads_options.client_from_params(params, report=report)
    if params["gather"] == "available":
        return host_search.find_available_lab_resources(client, host_search.HostSearch.from_params(params))
    selector = LeaseSelector.from_params(params)
    result = _wait_for_machines(params, client, selector, step, report) if params["wait_for"] else {}
    if params["gather"] == "inventory":
        lease = lease_lookup.active_lease(client, selector)
        return {**result, "nodes": lab_inventory.bmc_nodes(client, lease, params["inventory_url"]), "stale": False}
    if "lease" in result:
        return {**result, "leases": [result["lease"]]}
    leases = lease_lookup.find_selected_leases(client, selector, params.get("owner") or "", params["active"])
    return {"leases": [lease.view() for lease in leases]}


def _wait_for_machines(
    params: Mapping[str, Any], client: QuadsClient, selector: LeaseSelector, step: StepDirectory, report: Report
) -> dict[str, Any]:
    client.remember_offset(selector.remembered.get("utc_offset"))
    lease_id = selector.lease_id or selector.remembered.get("lease_id")
    wait = MachineWait(
        client=client,
        find=lease_lookup.create_assignment_finder(client, selector),
        goal=params["wait_for"],
        timeout=float(params["wait_timeout"]),
        interval=float(params["interval"]),
        min_lifetime=quads_records.parse_duration(params.get("min_lifetime") or 0, "quads_lease_min_lifetime"),
        lease_id=lease_id or str(selector.assignment_id or selector.cloud),
        url=params["inventory_url"],
        asked=selector.requested_hosts_in_lease_file,
        adopted=selector.adopted,
        report=report,
    )
    try:
        with step.timed("wait", "machines"), quads_options.interrupted_by_signals(client):
            states = wait.run()
    except SeatrialError as error:
        raise _add_pending_hosts(error, wait) from error
    if selector.remembered and selector.remembered["lease_id"] == states.lease.lease_id:
        file = _lease_file({**params, "lease_id": states.lease.lease_id}, client)
        file.write(expires_at=states.lease.view()["expires_at"])
        file.learned(states.lease.ahead)
    return {"lease": states.lease.view(), "elapsed": round(states.elapsed, 1), "stages": states.stages}


def _add_pending_hosts(error: SeatrialError, wait: MachineWait) -> SeatrialError:
    """Add the hosts that are not ready to an error's facts; errors of that query are ignored."""
    facts = getattr(error, "facts", {})
    try:
        wait.client.ignore_signals()
        facts["pending_hosts"] = wait.pending_hosts()
    except Exception:
        facts["pending_hosts"] = []
    error.facts = facts  # type: ignore[attr-defined]  # read by the module
    return error
