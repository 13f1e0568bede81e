# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releasing a lease, by its id alone if necessary, and finding leases of crashed runs."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    WaitTimeout,
)

from . import lease_lookup, quads_records
from .lease_file import LeaseFile
from .quads_client import QuadsClient
from .quads_records import CloudAssignment

#: Seconds between two searches for an assignment that may still appear.
LOOK_EVERY = 10.0
#: How often a terminated assignment that is still active is terminated again.
TRIES = 5

Report = Callable[[str], None]


def terminate_lease_assignments(
    client: QuadsClient,
    lease_id: str,
    record: LeaseFile | None = None,
    settle: float = 300.0,
    report: Report | None = None,
) -> list[int]:
    """Terminate all assignments with this lease's tag; return the numbers of those that were active.

    An unanswered request for a cloud may still succeed: the search is repeated until ``settle`` seconds after it.
    Without a record such a request must be assumed, unless all parts of the lease exist.
    """
    report = report or (lambda _text: None)
    began = client.clock.monotonic()
    done: list[int] = []
    reported = False
    while True:
        every = lease_lookup.assignments_of_lease(client, lease_id)
        active = [assignment for assignment in every if assignment.active]
        for assignment in active:
            report(f"terminating assignment {assignment.id} ({assignment.cloud}) of lease {lease_id}")
            client.terminate_assignment(assignment.id)
            done.append(assignment.id)
        if active:
            _terminate_until_inactive(client, lease_id, active)
            continue
        left = _seconds_assignment_may_appear(client, every, record, settle, began)
        if left <= 0:
            break
        if not reported:
            reported = True
            report(
                f"lease {lease_id}: a request for a cloud may still be under way at the server; "
                f"looking for {quads_records.format_approximate_duration(left)} more"
            )
        client.pause(min(LOOK_EVERY, left))
    if record:
        record.released()
    return sorted(set(done))


def refuse_mistyped_lease_id(client: QuadsClient, lease_id: str) -> None:
    """Raise InputError for a lease that the server has never had, if one of the owner has nearly this id.

    Without such a lease, the request of a killed run may still be under way.
    """
    if lease_lookup.assignments_of_lease(client, lease_id):
        return
    known = _lease_ids_of_owner(client)
    if near := difflib.get_close_matches(lease_id, known, n=1, cutoff=0.7):
        raise _unknown_lease_id(client, lease_id, f"; did you mean '{near[0]}'?")


def refuse_unknown_lease_id(client: QuadsClient, lease_id: str, record: LeaseFile) -> None:
    """Raise InputError for a lease of which neither the server nor the lease file knows anything."""
    if not record.remembers and not lease_lookup.assignments_of_lease(client, lease_id):
        known = ", ".join(_lease_ids_of_owner(client))
        raise _unknown_lease_id(client, lease_id, f". Active leases: {known or 'none'}")


def _lease_ids_of_owner(client: QuadsClient) -> list[str]:
    tagged = lease_lookup.tagged_active_assignments(client, client.account.owner)
    return sorted({assignment.tag.lease_id for assignment in tagged if assignment.tag})


def _unknown_lease_id(client: QuadsClient, lease_id: str, hint: str) -> InputError:
    return InputError(
        f"quads_lease_id '{lease_id}': {client.url} has never had this lease of {client.account.owner}{hint}"
    )


def _seconds_assignment_may_appear(
    client: QuadsClient, every: list[CloudAssignment], record: LeaseFile | None, settle: float, began: float
) -> float:
    """Return for how many seconds more an assignment of an unanswered request may appear."""
    if record and record.remembers:
        pending = record.pending
        if not pending or any(
            assignment.tag and (assignment.tag.part, assignment.tag.at) == _part_and_time(pending)
            for assignment in every
        ):
            return 0.0
        return min(settle, pending["sent"] + settle - client.server_now())
    parts = {assignment.tag.part for assignment in every if assignment.tag}
    complete = any(assignment.tag and parts >= set(range(1, assignment.tag.parts + 1)) for assignment in every)
    return 0.0 if complete else settle - (client.clock.monotonic() - began)


def _part_and_time(pending: dict[str, Any]) -> tuple[int, float]:
    return pending["part"], pending["at"] // 60 * 60


def _terminate_until_inactive(client: QuadsClient, lease_id: str, ended: list[CloudAssignment]) -> None:
    """Terminate the assignments again until they are inactive and have no host. Raises WaitTimeout.

    A request for a host that was in flight when the assignment ended may have added the host afterwards.
    """
    for attempt in range(TRIES):
        left = [assignment for assignment in ended if _is_assignment_still_held(client, assignment)]
        if not left:
            return
        if attempt:
            client.pause(2.0)
        for assignment in left:
            client.terminate_assignment(assignment.id)
    numbers = ", ".join(str(assignment.id) for assignment in left)
    raise WaitTimeout(f"lease {lease_id}: assignment {numbers} was terminated {TRIES} times and is still active")


def _is_assignment_still_held(client: QuadsClient, assignment: CloudAssignment) -> bool:
    now = client.assignment(assignment.id)
    return bool(now and (now.active or lease_lookup.current_schedules_of_assignment(client, assignment)))


def release_assignment(client: QuadsClient, number: int, force: bool, dry: bool, report: Report) -> list[int]:
    """Terminate one assignment by its number. Raises OwnershipError unless it has our tag and owner, or is forced."""
    assignment = client.assignment(number)
    if assignment is None or not assignment.active:
        return []
    if not force and not (assignment.self_schedule and assignment.tag):
        raise OwnershipError(
            f"assignment {number} ({assignment.cloud}, '{assignment.description}', owner {assignment.owner}) has no "
            "lease= tag: it is not a lease of this collection and is kept. force=true terminates it anyway"
        )
    if not force and assignment.owner.casefold() != client.account.owner.casefold():
        raise OwnershipError(
            f"assignment {number} ({assignment.cloud}, '{assignment.description}') belongs to {assignment.owner}, not "
            f"to {client.account.owner}, and is kept. force=true terminates it anyway"
        )
    if not dry:
        report(f"terminate assignment {number} ({assignment.cloud})")
        client.terminate_assignment(number)
        _terminate_until_inactive(client, assignment.tag.lease_id if assignment.tag else str(number), [assignment])
    return [number]


@dataclass(frozen=True)
class ExpiredLease:
    """A lease found by its age: seconds since its request."""

    lease_id: str
    assignment_id: int
    cloud: str
    age: float

    def view(self) -> dict[str, Any]:
        """Return the lease as the module returns it."""
        return {
            "lease_id": self.lease_id,
            "assignment_id": self.assignment_id,
            "cloud": self.cloud,
            "age_seconds": int(self.age),
        }


def assignments_older_than(client: QuadsClient, seconds: float, keep: tuple[str, ...] = ()) -> list[ExpiredLease]:
    """Return the tagged assignments of our owner that were requested more than ``seconds`` ago."""
    tagged = lease_lookup.tagged_active_assignments(client, client.account.owner)
    now = client.server_now()
    leases = [
        ExpiredLease(assignment.tag.lease_id, assignment.id, assignment.cloud, now - assignment.tag.at)
        for assignment in tagged
        if assignment.tag
    ]
    return [lease for lease in leases if lease.age > seconds and lease.lease_id not in keep]


def terminate_old_leases(
    client: QuadsClient, seconds: float, keep: tuple[str, ...], dry: bool, report: Report
) -> list[ExpiredLease]:
    """Terminate leases older than ``seconds``, except ``keep``; return them. A failure does not stop the others."""
    leases = assignments_older_than(client, seconds, keep)
    errors: list[str] = []
    for lease in leases:
        what = (
            f"lease {lease.lease_id}, assignment {lease.assignment_id} ({lease.cloud}),"
            f" {quads_records.format_approximate_duration(lease.age)} old"
        )
        report(f"would terminate {what}" if dry else f"terminate {what}")
        try:
            release_assignment(client, lease.assignment_id, False, dry, lambda _text: None)
        except Exception as error:
            errors.append(str(error))
    if errors:
        raise OwnershipError("; ".join(errors)) if len(errors) == len(leases) else WaitTimeout("; ".join(errors))
    return leases
