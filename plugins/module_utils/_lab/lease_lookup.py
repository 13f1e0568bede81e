# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding a lease by its tag or by what a user names, and reading its assignments and hosts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from . import quads_errors, quads_records
from .quads_client import QuadsClient
from .quads_options import LeaseSelector
from .quads_records import (
    CloudAssignment,
    HostSchedule,
    Lease,
    LeasePart,
    check_lease_id,
    first_created_active_schedule,
)


def assignments_of_lease(
    client: QuadsClient, lease_id: str, active: bool | None = None, owner: str = ""
) -> list[CloudAssignment]:
    """Return the assignments of a lease, by number. ``active`` None: past ones too.

    The server searches the description for a text; the tag and its id are checked here.
    """
    query = [("owner", owner or client.account.owner), ("is_self_schedule", "true")]
    query += [] if active is None else [("active", "true" if active else "false")]
    assignments = client.assignments(*query, ("description__like", f"%lease={lease_id} %"))
    same = [assignment for assignment in assignments if assignment.tag and assignment.tag.lease_id == lease_id]
    return sorted(
        (assignment for assignment in same if active is None or assignment.active == active),
        key=lambda assignment: assignment.id,
    )


def tagged_active_assignments(client: QuadsClient, owner: str) -> list[CloudAssignment]:
    """Return all active assignments of an owner that have a tag of ours."""
    query = [("owner", owner), ("is_self_schedule", "true"), ("active", "true")]
    assignments = client.assignments(*query, ("description__like", "%lease=%"))
    return sorted(
        (assignment for assignment in assignments if assignment.tag and assignment.active),
        key=lambda assignment: assignment.id,
    )


def current_schedules_of_assignment(client: QuadsClient, assignment: CloudAssignment) -> list[HostSchedule]:
    """Return the current schedules of an assignment."""
    return [row for row in client.current_schedules(cloud=assignment.cloud) if row.assignment_id == assignment.id]


def hosts_lost_to_others(client: QuadsClient, hosts: Iterable[str], ours: Collection[int]) -> list[str]:
    """Return those of the hosts that an earlier schedule of another tenant has. ``ours``: our assignments."""
    taken = []
    for host in sorted(set(hosts)):
        row = first_created_active_schedule(client.current_schedules(host=host))
        if row is None or row.assignment_id not in ours:
            taken.append(host)
    return taken


def _derive_utc_offset(client: QuadsClient, held: Iterable[tuple[CloudAssignment, list[HostSchedule]]]) -> None:
    """Derive the server's offset from UTC from the request time of a lease and the start of its first schedules."""
    if client.ahead is None:
        starts = (
            (row.start, assignment.tag.at) for assignment, schedules in held if assignment.tag for row in schedules
        )
        client.learn_offset(quads_records.utc_offset_from_request_times(starts))


def lease_from_assignments(
    client: QuadsClient,
    assignments: list[CloudAssignment],
    lease_id: str = "",
    asked: Collection[str] | None = None,
    adopted: bool = False,
    verify: bool = True,
) -> Lease:
    """Return the lease of these assignments with its hosts.

    asked: the requested hosts, None if unknown. Every user can add hosts to our cloud; such a host is listed in
    other_hosts and not counted. verify: look up the holder of each host.
    """
    pairs = [
        (assignment, current_schedules_of_assignment(client, assignment) if assignment.active else [])
        for assignment in assignments
    ]
    _derive_utc_offset(client, pairs)
    parts, others = [], []
    for assignment, held in pairs:
        others += [row.host for row in held if asked is not None and row.host not in asked]
        parts.append(LeasePart(assignment, tuple(row for row in held if asked is None or row.host in asked)))
    ours = {assignment.id for assignment in assignments}
    taken = hosts_lost_to_others(client, (host for part in parts for host in part.hosts), ours) if verify else []
    return Lease(
        parts=tuple(parts),
        now=client.server_now(),
        ahead=client.ahead,
        lease_id=lease_id,
        adopted=adopted,
        lost_hosts=tuple(taken),
        other_hosts=tuple(sorted(set(others))),
    )


def create_assignment_finder(client: QuadsClient, selector: LeaseSelector) -> Callable[[], list[CloudAssignment]]:
    """Return a function that returns the assignments of a lease, including ended ones.

    Assignments in a lease file are looked up by number, so that an ended one is found too.
    """
    numbers = [part["assignment_id"] for part in selector.remembered.get("parts") or ()]
    if selector.assignment_id:
        numbers = [selector.assignment_id]
    if selector.cloud:
        assignment = client.active_in(selector.cloud)
        if assignment is None:
            raise quads_errors.LeaseError(f"there is no active assignment of {selector.cloud}")
        numbers = [assignment.id]
    if numbers:
        return lambda: [found for number in numbers if (found := client.assignment(number))]
    if not client.account.owner:
        raise InputError(
            f"lease {selector.lease_id}: set quads_lease_username, in an inventory file username, to its owner"
        )
    lease_id = check_lease_id(selector.lease_id)
    return lambda: _newest_assignment_per_part(assignments_of_lease(client, lease_id))


def _newest_assignment_per_part(assignments: Iterable[CloudAssignment]) -> list[CloudAssignment]:
    """Return the active assignment of each part, else the last one: a part may have been acquired more than once."""
    parts: dict[int, CloudAssignment] = {}
    for assignment in assignments:
        number = assignment.tag.part if assignment.tag else 0
        if assignment.active or number not in parts or not parts[number].active:
            parts[number] = assignment
    return [parts[number] for number in sorted(parts)]


def active_lease(client: QuadsClient, selector: LeaseSelector) -> Lease:
    """Return the active lease. Raises LeaseError if there is none."""
    client.remember_offset(selector.remembered.get("utc_offset"))
    active = [assignment for assignment in create_assignment_finder(client, selector)() if assignment.active]
    if not active:
        raise quads_errors.LeaseLost(f"{selector}: none of its assignments is active")
    name = selector.lease_id or (active[0].tag.lease_id if active[0].tag else "")
    return lease_from_assignments(client, active, name, selector.requested_hosts_in_lease_file, selector.adopted)


def find_selected_leases(
    client: QuadsClient, selector: LeaseSelector, owner: str = "", active: bool = True
) -> list[Lease]:
    """Return the leases that are selected, or all of an owner. active: only those that have not ended."""
    client.remember_offset(selector.remembered.get("utc_offset"))
    assignments: Iterable[CloudAssignment | None]
    if selector.lease_id:
        owner = owner or client.account.owner
        if not owner:
            raise InputError(f"lease {selector.lease_id}: set quads_lease_username, or owner, to its owner")
        assignments = _newest_assignment_per_part(
            assignments_of_lease(client, check_lease_id(selector.lease_id), owner=owner)
        )
    elif selector.assignment_id:
        assignments = [client.assignment(selector.assignment_id)]
    elif selector.cloud:
        assignments = [client.active_in(selector.cloud)]
    else:
        assignments = client.assignments(("owner", owner), *([("active", "true")] if active else []))
    groups: dict[str, list[CloudAssignment]] = {}
    for assignment in assignments:
        if assignment and (assignment.active or not active):
            name = assignment.tag.lease_id if assignment.tag else f"assignment {assignment.id}"
            groups.setdefault(name, []).append(assignment)
    return [_selected_lease(client, selector, parts) for parts in groups.values()]


def _selected_lease(client: QuadsClient, selector: LeaseSelector, parts: list[CloudAssignment]) -> Lease:
    """Return the lease of these assignments; of the one in the lease file, only with the hosts that were requested."""
    name = parts[0].tag.lease_id if parts[0].tag else ""
    remembered = {part["assignment_id"] for part in selector.remembered.get("parts") or ()}
    if {part.id for part in parts} & remembered:
        return lease_from_assignments(client, parts, name, selector.requested_hosts_in_lease_file, selector.adopted)
    return lease_from_assignments(client, parts, name)
