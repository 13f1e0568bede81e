# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Using an existing allocation: it is checked, but never terminated, extended or added to."""

from __future__ import annotations

from collections.abc import Collection

from . import lease_lookup, server_errors, times
from .api_records import Assignment, Lease
from .quads_client import QuadsClient


def adopt(
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
    one = _find(client, which)
    lease = lease_lookup.read(client, [one], lease_id, adopted=True)
    have = set(lease.hosts) - set(exclude)
    missing = sorted(set(hosts) - have)
    if missing:
        raise server_errors.NotEnoughHosts(
            f"{one.cloud}, assignment {one.id}, does not have {', '.join(missing)}", held=True
        )
    if len(have) < max(count, 1):
        raise server_errors.NotEnoughHosts(
            f"{one.cloud}, assignment {one.id}, has {len(have)} usable hosts, but {max(count, 1)} are requested. "
            "Nothing is added to an adopted allocation",
            held=True,
        )
    left = lease.seconds_left
    if left is not None and left < min_lifetime:
        raise server_errors.LeaseTooShort(
            f"{one.cloud}, assignment {one.id}, ends in {times.about(left)}, but min_lifetime is "
            f"{times.about(min_lifetime)}",
            held=True,
        )
    return lease


def _find(client: QuadsClient, which: str) -> Assignment:
    if which.isdecimal():
        one = client.assignment(int(which))
        if one is None:
            raise server_errors.LeaseError(f"there is no assignment {which} on this server")
        if not one.active:
            raise server_errors.LeaseLost(f"assignment {which} ({one.cloud}) is no longer active")
        return one
    one = client.active_in(which)
    if one is None:
        raise server_errors.LeaseError(f"there is no active assignment of {which}")
    return one
