# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Acquiring a lease: all of it or nothing, and never twice.

A host that the server has given is not yet ours: it checks and then inserts, so two tenants may both be told yes. After
all hosts are there, each is looked up; the earliest schedule has it. A tenant can't drop a single host, so one that is
lost is replaced by another, or the whole lease is given back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._quads import lease_lookup, server_errors, times
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.api_records import Assignment, Lease
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.cloud_assignment import CloudAssignments
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.host_scheduling import HostScheduling
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.lease_record import LeaseRecord
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.lease_release import release
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.lease_spec import LeaseSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.quads_client import QuadsClient

#: How long (s) after the last host the owners are looked up once more: a rival's request that was checked before ours
#: was in may be inserted later, and one with a lower number may become visible later.
SECOND_LOOK = 5.0
#: How often hosts are taken and looked at before the lease is given up.
ROUNDS = 8


@dataclass
class Acquired:
    """What came of it. ``candidates``: in check mode, the hosts that would be asked for."""

    lease: Lease | None
    changed: bool
    rejected: list[dict[str, str]] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)


class Acquisition:
    """One call."""

    def __init__(self, client: QuadsClient, order: LeaseSpec, memo: LeaseRecord, say: Callable[[str], None]) -> None:
        self.client = client
        self.order = order
        self.memo = memo
        self.say = say
        self.clouds = CloudAssignments(client, order, memo, say)
        self.hosts = HostScheduling(client, order, memo, say)
        self.parts: dict[int, Assignment] = {}
        self.in_use = False
        client.remember_offset(memo.known["utc_offset"])

    def run(self, dry: bool = False) -> Acquired:
        """Acquire, or complete what an earlier call began. ``dry``: only look."""
        found = (
            lease_lookup.tagged(self.client, self.order.lease_id, active=True)
            if dry
            else self.clouds.existing().values()
        )
        self.parts = {one.tag.part: one for one in found if one.tag}
        used = any(one.provisioned or one.validated for one in self.parts.values())
        self.in_use = used or bool(self.parts) and self.memo.known["state"] == "held"
        if dry:
            return self._predict()
        try:
            return self._completed()
        except BaseException as error:
            self._roll_back(error)
            raise

    def _predict(self) -> Acquired:
        self._same_options()
        lease = self._read()
        if self._is_complete(lease):
            self._long_enough(lease)
            return Acquired(lease, False)
        need = self.order.wanted - len(lease.hosts)
        candidates = self.hosts.candidates(lease, bool(self.parts))[:need]
        return Acquired(lease if self.parts else None, True, self.hosts.rejections(), candidates)

    def _completed(self) -> Acquired:
        self._same_options()
        lease = self._read()
        changed = not self._is_complete(lease)
        if changed:
            self.hosts.candidates(lease, bool(self.parts))  # before anything is taken: can there be enough?
            lease = self._complete()
        else:
            self.in_use = True
        self._long_enough(lease)
        self.memo.held(lease)
        return Acquired(lease, changed, self.hosts.rejections())

    def _is_complete(self, lease: Lease) -> bool:
        enough = bool(self.parts) and lease.active and len(lease.hosts) >= self.order.enough
        return enough and set(self.order.hosts) <= set(lease.hosts)

    def _complete(self) -> Lease:
        """Take what is missing, look who owns it, replace what is lost, until two looks agree."""
        for number in range(1, len(self.order.sizes) + 1):
            if number not in self.parts:
                self.parts[number] = self.clouds.make(number)
                self.say(f"took {self.parts[number].cloud}, assignment {self.parts[number].id}")
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
        self._still_ours(one for number, one in self.parts.items() if number not in kept or kept[number].id != one.id)
        self.parts = kept
        return lease

    def _still_ours(self, ended: Iterable[Assignment]) -> None:
        """Raise LeaseLost naming the assignments of this lease that are over."""
        names = ", ".join(f"{one.id} ({one.cloud})" for one in ended)
        if names:
            raise server_errors.LeaseLost(f"assignment {names} of this lease was ended underneath us")

    # hosts

    def _fill(self, lease: Lease) -> int:
        """Ask for the hosts that each part lacks; return how many were given."""
        for host in lease.lost_hosts:
            self.hosts.reject(host, "another tenant's earlier schedule has it")
        lack = {}
        for part in lease.parts:
            number = next(number for number, one in self.parts.items() if one.id == part.assignment.id)
            mine = [host for host in part.hosts if host not in lease.lost_hosts]
            lack[number] = self.order.sizes[number - 1] - len(mine) if number not in self.hosts.full else 0
        if not any(need > 0 for need in lack.values()):
            return 0
        got = 0
        for host in self.hosts.candidates(lease, bool(self.parts)):
            number = next((one for one in lack if lack[one] > 0 and self.hosts.belongs(host, one)), 0)
            if number and number not in self.hosts.full and self.hosts.ask(number, self.parts[number], host):
                self.say(f"took {host}")
                lack[number] -= 1
                got += 1
        return got

    # owners

    def _read(self) -> Lease:
        remembered = self.memo.asked
        asked = None if remembered is None else remembered | self.hosts.asked
        now = [self.client.assignment(one.id) or one for one in self.parts.values()]
        self._still_ours(one for one in now if not one.active)
        return lease_lookup.read(self.client, now, self.order.lease_id, asked)

    # refusing

    def _same_options(self) -> None:
        """Raise LeaseDiffers when the lease is there with options that only an administrator can change."""
        wanted: dict[str, Any] = {"wipe": self.order.wipe, "qinq": self.order.qinq}
        for number, one in self.parts.items():
            there: dict[str, Any] = {"wipe": one.wipe, "qinq": one.qinq}
            if self.order.vlan:
                wanted["vlan"], there["vlan"] = self.order.vlan, one.vlan_number
            if self.order.cloud:
                wanted["cloud"], there["cloud"] = self.order.cloud, one.cloud
            if one.tag:
                wanted["parts"], there["parts"] = len(self.order.sizes), one.tag.parts
            wrong = [f"{key} {there[key]} (asked for {wanted[key]})" for key in wanted if wanted[key] != there[key]]
            if wrong:
                self.in_use = True
                raise server_errors.LeaseDiffers(
                    f"lease {self.order.lease_id} is there, part {number} as assignment {one.id}, with "
                    f"{', '.join(wrong)}. A tenant can't change that: release it, or take another lease_id"
                )

    def _long_enough(self, lease: Lease) -> None:
        left = lease.seconds_left
        if left is not None and left < self.order.min_lifetime:
            raise server_errors.LeaseTooShort(
                f"lease {self.order.lease_id} lasts {times.about(left)} more, and min_lifetime asks for "
                f"{times.about(self.order.min_lifetime)}. A lease can't be extended: release it and take a new one"
            )

    def _roll_back(self, error: BaseException) -> None:
        """Give back what was taken. A lease that is in use since before this call stays as it is."""
        facts: dict[str, Any] = getattr(error, "facts", {})
        error.facts = facts  # type: ignore[attr-defined]  # read where it becomes a result
        facts.setdefault("rejected_hosts", self.hosts.rejections())
        if self.in_use or not self.order.rollback:
            facts.update(held=bool(self.parts), in_use=self.in_use)
            return
        if not self.parts and not self.memo.remembers:
            return  # nothing was asked for
        self.client.undisturbed()
        try:
            release(self.client, self.order.lease_id, self.memo, self.order.settle, self.say)
        except Exception as second:
            raise server_errors.LeaseError(
                f"{error}. What was taken could not be given back either: {second}. "
                f"Give it back with: {self.memo.known['release'] or 'quads_lease state=absent'}",
                **{**facts, "held": True},
            ) from error
