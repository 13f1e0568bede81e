# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Acquires the hosts of a lease, all that are requested or none, or adopts an existing allocation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from . import lease_lookup, quads_errors, quads_records
from .lease_file import LeaseFile
from .lease_release import terminate_lease_assignments
from .quads_client import QuadsClient
from .quads_options import LeaseSpec
from .quads_records import CloudAssignment, Lease
from .request_clouds_and_hosts import CloudAssignments, HostScheduling

#: Seconds after the last host until the owners are looked up again: another tenant's request that was checked before
#: ours was inserted may be inserted later, and one with a lower number may become visible later.
SECOND_LOOK = 5.0
#: How often hosts are requested and verified before the acquisition fails.
ROUNDS = 8


@dataclass
class LeaseAcquisitionResult:
    """The result. ``candidates``: in check mode, the hosts that would be requested."""

    lease: Lease | None
    changed: bool
    rejected: list[dict[str, str]] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)


class Acquisition:
    """The acquisition of one lease, in one call."""

    def __init__(self, client: QuadsClient, spec: LeaseSpec, record: LeaseFile, report: Callable[[str], None]) -> None:
        self.client = client
        self.spec = spec
        self.record = record
        self.report = report
        self.clouds = CloudAssignments(client, spec, record, report)
        self.hosts = HostScheduling(client, spec, record, report)
        self.parts: dict[int, CloudAssignment] = {}
        self.in_use = False
        client.remember_offset(record.known["utc_offset"])

    def run(self, dry: bool = False) -> LeaseAcquisitionResult:
        """Acquire the lease, or complete that of an earlier call. ``dry``: only read.

        Raises LeaseError, QuadsRefused by cause, after releasing what was acquired.
        """
        assignments = (
            lease_lookup.assignments_of_lease(self.client, self.spec.lease_id, active=True)
            if dry
            else self.clouds.existing().values()
        )
        self.parts = {assignment.tag.part: assignment for assignment in assignments if assignment.tag}
        used = any(part.provisioned or part.validated for part in self.parts.values())
        self.in_use = used or bool(self.parts) and self.record.known["state"] == "held"
        if dry:
            return self._predict()
        try:
            result = self._completed()
            self.client.raise_if_interrupted()  # until now: after this call nobody gives back what it has acquired
            return result
        except BaseException as error:
            self._roll_back(error)
            raise

    def _predict(self) -> LeaseAcquisitionResult:
        self._same_options()
        lease = self._read()
        if self._is_complete(lease):
            self._long_enough(lease)
            return LeaseAcquisitionResult(lease, False)
        need = self.spec.wanted - len(lease.hosts)
        candidates = self.hosts.candidates(lease, bool(self.parts))[:need]
        return LeaseAcquisitionResult(lease if self.parts else None, True, self.hosts.rejections(), candidates)

    def _completed(self) -> LeaseAcquisitionResult:
        self._same_options()
        lease = self._read()
        changed = not self._is_complete(lease)
        if changed:
            self.hosts.candidates(lease, bool(self.parts))  # before anything is requested: are there enough?
            lease = self._complete()
        else:
            self.in_use = True
        self._long_enough(lease)
        self.record.held(lease)
        return LeaseAcquisitionResult(lease, changed, self.hosts.rejections())

    def _is_complete(self, lease: Lease) -> bool:
        enough = bool(self.parts) and lease.active and len(lease.hosts) >= self.spec.enough
        return enough and set(self.spec.hosts) <= set(lease.hosts)

    def _complete(self) -> Lease:
        """Request missing hosts, verify their owners, replace lost ones, until two checks agree."""
        for number in range(1, len(self.spec.sizes) + 1):
            if number not in self.parts:
                self.parts[number] = self.clouds.create(number)
                self.report(f"acquired {self.parts[number].cloud}, assignment {self.parts[number].id}")
        lease = self._read()
        for _round in range(ROUNDS):
            if self._fill(lease):
                lease = self._read()
                continue
            self.client.pause(SECOND_LOOK)
            before, lease = lease.hosts, self._read()
            if lease.hosts == before:
                break
        if not self._is_complete(lease):
            raise self.hosts.too_few(lease)
        kept = self.clouds.single()
        self._still_ours(
            assignment
            for number, assignment in self.parts.items()
            if number not in kept or kept[number].id != assignment.id
        )
        self.parts = kept
        return lease

    def _still_ours(self, ended: Iterable[CloudAssignment]) -> None:
        """Raise LeaseLost if assignments of this lease have ended."""
        names = ", ".join(f"{assignment.id} ({assignment.cloud})" for assignment in ended)
        if names:
            raise quads_errors.LeaseLost(f"assignment {names} of this lease has been terminated")

    # hosts

    def _fill(self, lease: Lease) -> int:
        """Request the hosts that each part lacks; return how many were assigned."""
        for host in lease.lost_hosts:
            self.hosts.reject(host, "another tenant's earlier schedule has it")
        lack = {}
        for part in lease.parts:
            number = next(number for number, assignment in self.parts.items() if assignment.id == part.assignment.id)
            mine = [host for host in part.hosts if host not in lease.lost_hosts]
            lack[number] = self.spec.sizes[number - 1] - len(mine) if number not in self.hosts.full else 0
        if not any(need > 0 for need in lack.values()):
            return 0
        got = 0
        for host in self.hosts.candidates(lease, bool(self.parts)):
            number = next(
                (
                    part_number
                    for part_number in lack
                    if lack[part_number] > 0 and self.hosts.belongs(host, part_number)
                ),
                0,
            )
            if number and number not in self.hosts.full and self.hosts.ask(number, self.parts[number], host):
                self.report(f"acquired {host}")
                lack[number] -= 1
                got += 1
        return got

    # owners

    def _read(self) -> Lease:
        remembered = self.record.asked
        asked = None if remembered is None else remembered | self.hosts.asked
        now = [self.client.assignment(part.id) or part for part in self.parts.values()]
        self._still_ours(assignment for assignment in now if not assignment.active)
        return lease_lookup.lease_from_assignments(self.client, now, self.spec.lease_id, asked)

    # refusing

    def _same_options(self) -> None:
        """Raise LeaseDiffers if the lease exists with other options, which only an administrator can change."""
        wanted: dict[str, Any] = {"wipe": self.spec.wipe, "qinq": self.spec.qinq}
        for number, assignment in self.parts.items():
            there: dict[str, Any] = {"wipe": assignment.wipe, "qinq": assignment.qinq}
            if self.spec.vlan:
                wanted["vlan"], there["vlan"] = self.spec.vlan, assignment.vlan_number
            if self.spec.cloud:
                wanted["cloud"], there["cloud"] = self.spec.cloud, assignment.cloud
            if assignment.tag:
                wanted["parts"], there["parts"] = len(self.spec.sizes), assignment.tag.parts
            wrong = [f"{key} {there[key]} (requested: {wanted[key]})" for key in wanted if wanted[key] != there[key]]
            if wrong:
                self.in_use = True
                raise quads_errors.LeaseDiffers(
                    f"lease {self.spec.lease_id} exists, part {number} as assignment {assignment.id}, with "
                    f"{', '.join(wrong)}. A tenant can't change that: release it, or use another quads_lease_id"
                )

    def _long_enough(self, lease: Lease) -> None:
        left = lease.seconds_left
        if left is not None and left < self.spec.min_lifetime:
            raise quads_errors.LeaseTooShort(
                f"lease {self.spec.lease_id} ends in {quads_records.format_approximate_duration(left)}, but "
                f"quads_lease_min_lifetime is {quads_records.format_approximate_duration(self.spec.min_lifetime)}. A "
                "lease can't be extended: release it and acquire a new one"
            )

    def _roll_back(self, error: BaseException) -> None:
        """Release what was acquired. A lease that was in use before this call is kept."""
        facts: dict[str, Any] = getattr(error, "facts", {})
        error.facts = facts  # type: ignore[attr-defined]  # read where it becomes a result
        facts.setdefault("rejected_hosts", self.hosts.rejections())
        if self.in_use or not self.spec.rollback:
            facts.update(held=bool(self.parts), in_use=self.in_use)
            return
        if not self.parts and not self.record.remembers:
            return  # nothing was requested
        self.client.ignore_signals()
        try:
            terminate_lease_assignments(self.client, self.spec.lease_id, self.record, self.spec.settle, self.report)
        except Exception as second:
            raise quads_errors.LeaseError(
                f"{error}. The release of what was acquired failed too: {second}. "
                f"Release it with: {self.record.known['release'] or 'quads_lease state=absent'}",
                **{**facts, "held": True},
            ) from error


def lease_from_active_assignment(
    client: QuadsClient,
    which: str,
    lease_id: str,
    hosts: Collection[str] = (),
    count: int = 0,
    exclude: Collection[str] = (),
    min_lifetime: float = 0.0,
) -> Lease:
    """Return the lease of an active assignment, by its number or the name of its cloud. Sends only GET requests.

    hosts, count: the least that it must have. min_lifetime: seconds. Raises LeaseError if a condition is not met.
    """
    assignment = _find_active_assignment(client, which)
    lease = lease_lookup.lease_from_assignments(client, [assignment], lease_id, adopted=True)
    have = set(lease.hosts) - set(exclude)
    missing = sorted(set(hosts) - have)
    if missing:
        raise quads_errors.NotEnoughHosts(
            f"{assignment.cloud}, assignment {assignment.id}, does not have {', '.join(missing)}", held=True
        )
    if len(have) < max(count, 1):
        raise quads_errors.NotEnoughHosts(
            f"{assignment.cloud}, assignment {assignment.id}, has {len(have)} usable hosts, but {max(count, 1)} are "
            "requested. Nothing is added to an adopted allocation",
            held=True,
        )
    left = lease.seconds_left
    if left is not None and left < min_lifetime:
        raise quads_errors.LeaseTooShort(
            f"{assignment.cloud}, assignment {assignment.id}, ends in"
            f" {quads_records.format_approximate_duration(left)}, but quads_lease_min_lifetime is "
            f"{quads_records.format_approximate_duration(min_lifetime)}",
            held=True,
        )
    return lease


def _find_active_assignment(client: QuadsClient, which: str) -> CloudAssignment:
    if which.isdecimal():
        assignment = client.assignment(int(which))
        if assignment is None:
            raise quads_errors.LeaseError(f"there is no assignment {which} on this server")
        if not assignment.active:
            raise quads_errors.LeaseLost(f"assignment {which} ({assignment.cloud}) is no longer active")
        return assignment
    assignment = client.active_in(which)
    if assignment is None:
        raise quads_errors.LeaseError(f"there is no active assignment of {which}")
    return assignment
