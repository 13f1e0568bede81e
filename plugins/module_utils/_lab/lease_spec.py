# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The specification of a lease, checked before the first request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from . import host_preferences, lease_tag, times


@dataclass(frozen=True)
class LeaseSpec:
    """A requested lease. Times in seconds.

    ``count`` hosts (at least ``min_count``) that meet the preferences, or exactly ``hosts``. ``settle``: how long an
    unanswered request may still succeed, which is the time that the server waits for its ticket system.
    """

    lease_id: str
    count: int = 0
    hosts: tuple[str, ...] = ()
    min_count: int = 0
    prefer: tuple[dict[str, str], ...] = ({},)
    exclude: tuple[str, ...] = ()
    description: str = ""
    cloud: str = ""
    vlan: int | None = None
    qinq: int = 0
    wipe: bool = True
    cc_users: tuple[str, ...] = ()
    ticket: str = ""
    min_lifetime: float = 0.0
    max_hosts: int = 10
    split: bool = False
    rollback: bool = True
    settle: float = 300.0

    @property
    def wanted(self) -> int:
        """Number of hosts."""
        return len(self.hosts) or self.count

    @property
    def enough(self) -> int:
        """The least acceptable number of hosts."""
        return self.wanted if self.hosts or not self.min_count else self.min_count

    @property
    def sizes(self) -> list[int]:
        """Number of hosts of each part."""
        full, rest = divmod(self.wanted, self.max_hosts)
        return [self.max_hosts] * full + ([rest] if rest else [])

    def part_of(self, host: str) -> int:
        """Return the part (from 1) that a host of an exact list belongs to."""
        return self.hosts.index(host) // self.max_hosts + 1

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> LeaseSpec:
        """Check the options of module quads_lease. Raises InputError."""
        hosts = tuple(dict.fromkeys(given.get("hosts") or ()))
        spec = cls(
            lease_id=lease_tag.check_id(given["lease_id"]),
            count=int(given.get("count") or 0),
            hosts=hosts,
            min_count=int(given.get("min_count") or 0),
            prefer=tuple(
                host_preferences.preferences(
                    given.get("model") or (), given.get("filters") or {}, given.get("prefer") or ()
                )
            ),
            exclude=tuple(given.get("exclude") or ()),
            description=str(given.get("description") or ""),
            cloud=str(given.get("cloud") or ""),
            vlan=int(given["vlan"]) if given.get("vlan") else None,
            qinq=int(given.get("qinq") or 0),
            wipe=bool(given.get("wipe", True)),
            cc_users=tuple(given.get("cc_users") or ()),
            ticket=str(given.get("ticket") or ""),
            min_lifetime=times.duration(given.get("min_lifetime") or 0, "min_lifetime"),
            max_hosts=int(given.get("max_hosts") or 10),
            split=bool(given.get("split", False)),
            rollback=bool(given.get("rollback", True)),
            settle=float(given.get("settle", 300.0)),
        )
        spec.check()
        return spec

    def check(self) -> None:
        """Raise InputError for options that no server can fulfil."""
        if self.hosts and self.count and self.count != len(self.hosts):
            raise InputError(f"count is {self.count}, but hosts has {len(self.hosts)} names: omit count")
        if not self.wanted:
            raise InputError("set count, the number of machines, or hosts, their names")
        if self.min_count > self.wanted:
            raise InputError(f"min_count {self.min_count} is more than the {self.wanted} requested hosts")
        if min(self.count, self.min_count) < 0 or self.max_hosts < 1:
            raise InputError("count, min_count and max_hosts can't be negative, and max_hosts not 0")
        both = sorted(set(self.hosts) & set(self.exclude))
        if both:
            raise InputError(f"{', '.join(both)}: named in hosts and in exclude")
        if self.wanted > self.max_hosts and not self.split:
            raise InputError(
                f"{self.wanted} hosts don't fit into one assignment: the server accepts at most {self.max_hosts} "
                f"(max_hosts). Request fewer, or let split=true distribute them over {len(self.sizes)} assignments, "
                "each of which is a cloud with separate networks and counts towards your quota"
            )
        if len(self.sizes) > 1 and (self.cloud or self.vlan):
            raise InputError(f"cloud and vlan can't apply to {len(self.sizes)} assignments: omit them")
