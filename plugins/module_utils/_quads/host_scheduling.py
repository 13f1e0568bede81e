# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choosing hosts for a lease and asking for them, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import nearest
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads import (
    host_preferences,
    lease_lookup,
    server_errors,
    times,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.api_records import Assignment, Lease
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.lease_record import LeaseRecord
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.lease_spec import LeaseSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.quads_client import QuadsClient

#: How often one host is asked for when nobody knows what came of it.
TRIES = 3
#: How long (s) a lease may last that says nothing else: what GET /available is asked for before the true end is known.
USUAL = 86400.0


class HostScheduling:
    """The hosts of one lease: which were asked for, refused, and which parts take no more."""

    def __init__(self, client: QuadsClient, order: LeaseSpec, memo: LeaseRecord, say: Callable[[str], None]) -> None:
        self.client = client
        self.order = order
        self.memo = memo
        self.say = say
        self.asked: set[str] = set()
        self.rejected: dict[str, str] = {}
        #: Numbers of parts whose cloud is full.
        self.full: set[int] = set()
        #: When the lease ends, as the server's answers say: epoch seconds, UTC.
        self.end: float | None = None

    def candidates(self, lease: Lease, begun: bool) -> list[str]:
        """Return hosts that may be asked for, best first. ``begun``: a cloud is ours already.

        Raises NotEnoughHosts when there can't be enough.
        """
        need = self.order.enough - len(lease.hosts)
        tried = {*self.rejected, *lease.hosts, *lease.lost_hosts, *self.order.exclude}
        if self.order.hosts:
            found = [host for host in self.order.hosts if host not in tried]
            if not begun:
                self._all_free(found)
        else:
            found = [host for host in self._available() if host not in tried]
        if len(found) < need:
            raise self.too_few(lease, len(found))
        return found

    def _available(self) -> list[str]:
        now = self.client.server_now()
        end = self.end or now + (self.order.min_lifetime or USUAL)
        found: dict[str, None] = {}
        for conditions in self.order.prefer:
            names = host_preferences.free(self.client, conditions, end)
            found.update(dict.fromkeys(host_preferences.shuffled(names, self.order.lease_id)))
        return list(found)

    def _all_free(self, hosts: list[str]) -> None:
        """See before anything is taken whether named hosts can be had."""
        free = host_preferences.free(self.client, {}, self.client.server_now() + (self.order.min_lifetime or USUAL))
        for host in hosts:
            if host not in free:
                self.reject(host, self._unfit(host, free) or "it is not free for the time of the lease")
        if self.rejected:
            raise self.too_few(None, len(hosts) - len(self.rejected))

    def _unfit(self, host: str, others: Iterable[str] = ()) -> str:
        """Return why a host can't be had by anybody, an empty text for one that others have. others: their names."""
        known = self.client.host(host)
        if known is None:
            return f"the server knows no such host{nearest(host, others)}"
        if not known.get("can_self_schedule"):
            return "it is not for self-scheduling"
        states = [name for name in ("broken", "retired") if known.get(name)]
        return f"the lab says that it is {' and '.join(states)}" if states else ""

    # asking

    def belongs(self, host: str, number: int) -> bool:
        """Return whether a host may go into this part: of an exact list each has its own."""
        return not self.order.hosts or self.order.part_of(host) == number

    def ask(self, number: int, one: Assignment, host: str) -> bool:
        """Ask for one host for a part; return whether it is in its cloud now."""
        self.asked.add(host)
        self.memo.want([host])
        trouble = ""
        for attempt in range(TRIES):
            try:
                row = self.client.schedule(one.cloud, host)
                self.memo.learned(self.client.ahead)
                self._ends(times.moment(row.end, self.client.ahead or 0.0))
                return True
            except server_errors.HostTaken as error:
                if self._is_in(one, host):
                    return True
                self.reject(host, self._unfit(host) or error.said)
                return False
            except server_errors.HostRefused as error:
                self.reject(host, error.said)
                return False
            except server_errors.CloudFull as error:
                self.full.add(number)
                self.reject(host, error.said)
                return self._is_in(one, host)
            except server_errors.Unsure as error:
                trouble = str(error)
                if self._is_in(one, host):
                    return True
                self.client.pause(2.0 * (attempt + 1))
                if self._is_in(one, host):
                    return True
            except server_errors.DeadlinePassed as error:
                raise server_errors.LeaseTooShort(
                    f"this week's leases are over: the lab gives out hosts again after its weekly deadline. {error}"
                ) from error
            except server_errors.QuadsRefused as error:
                now = self.client.assignment(one.id)
                if not now or not now.active:
                    raise server_errors.LeaseLost(
                        f"assignment {one.id} ({one.cloud}) was ended underneath us"
                    ) from error
                raise
        raise server_errors.LeaseError(f"{host}: {TRIES} requests, and it is not in {one.cloud}. {trouble}")

    def _is_in(self, one: Assignment, host: str) -> bool:
        return any(row.host == host for row in lease_lookup.rows(self.client, one))

    def _ends(self, end: float) -> None:
        """Learn when the lease ends; refuse one that is too short before more is taken."""
        self.end = end if self.end is None else min(self.end, end)
        left = self.end - self.client.server_now()
        if left < self.order.min_lifetime:
            raise server_errors.LeaseTooShort(
                f"the lease would last {times.about(left)}, and min_lifetime asks for "
                f"{times.about(self.order.min_lifetime)}: the lab ends all leases at its weekly deadline"
            )

    # refusing

    def reject(self, host: str, reason: str) -> None:
        """Note why a host can't be had; it is not asked for again."""
        if host not in self.rejected:
            self.rejected[host] = reason
            self.say(f"not {host}: {reason}")

    def rejections(self) -> list[dict[str, str]]:
        """Return the hosts that can't be had, as modules return them."""
        return [{"host": host, "reason": reason} for host, reason in self.rejected.items()]

    def too_few(self, lease: Lease | None, more: int = 0) -> server_errors.NotEnoughHosts:
        """Return the error for a lease that can't have enough. more: hosts that could still be had."""
        have = len(lease.hosts) if lease else 0
        wanted = "; ".join(
            ", ".join(f"{key}={value}" for key, value in one.items()) for one in self.order.prefer if one
        )
        what = ", ".join(self.order.hosts) if self.order.hosts else f"hosts{f' with {wanted}' if wanted else ''}"
        reasons = "; ".join(f"{host}: {reason}" for host, reason in self.rejected.items())
        models = "" if self.order.hosts else host_preferences.unknown_models(self.client, self.order.prefer)
        full = " The cloud is full; whoever has an account can put hosts into it." if self.full else ""
        return server_errors.NotEnoughHosts(
            f"{self.order.enough} of {self.order.wanted} hosts are needed, and {have + more} can be had of {what}."
            f"{full}{f' {reasons}.' if reasons else ''}{f' {models[0].upper()}{models[1:]}.' if models else ''}",
            rejected_hosts=self.rejections(),
        )
