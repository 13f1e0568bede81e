# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choosing hosts for a lease and requesting them, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import nearest

from . import host_preferences, lease_lookup, server_errors, times
from .api_records import Assignment, Lease
from .lease_record import LeaseRecord
from .lease_spec import LeaseSpec
from .quads_client import QuadsClient

#: How often one host is requested while the outcome is unknown.
TRIES = 3
#: Default lifetime (s) of a lease, used in GET /available until the lease's end is known.
USUAL = 86400.0


class HostScheduling:
    """The hosts of one lease: requested and rejected ones, and the parts that are full."""

    def __init__(self, client: QuadsClient, spec: LeaseSpec, record: LeaseRecord, say: Callable[[str], None]) -> None:
        self.client = client
        self.spec = spec
        self.record = record
        self.say = say
        self.asked: set[str] = set()
        self.rejected: dict[str, str] = {}
        #: Numbers of parts whose cloud is full.
        self.full: set[int] = set()
        #: End of the lease according to the server's answers: epoch seconds, UTC.
        self.end: float | None = None

    def candidates(self, lease: Lease, begun: bool) -> list[str]:
        """Return the hosts to request, best first. ``begun``: the lease has a cloud already.

        Raises NotEnoughHosts if there are too few.
        """
        need = self.spec.enough - len(lease.hosts)
        tried = {*self.rejected, *lease.hosts, *lease.lost_hosts, *self.spec.exclude}
        if self.spec.hosts:
            found = [host for host in self.spec.hosts if host not in tried]
            if not begun:
                self._all_free(found)
        else:
            found = [host for host in self._available() if host not in tried]
        if len(found) < need:
            raise self.too_few(lease, len(found))
        return found

    def _available(self) -> list[str]:
        now = self.client.server_now()
        end = self.end or now + (self.spec.min_lifetime or USUAL)
        found: dict[str, None] = {}
        for conditions in self.spec.prefer:
            names = host_preferences.free(self.client, conditions, end)
            found.update(dict.fromkeys(host_preferences.shuffled(names, self.spec.lease_id)))
        return list(found)

    def _all_free(self, hosts: list[str]) -> None:
        """Raise NotEnoughHosts before the first request if one of the named hosts is not available."""
        free = host_preferences.free(self.client, {}, self.client.server_now() + (self.spec.min_lifetime or USUAL))
        for host in hosts:
            if host not in free:
                self.reject(host, self._unfit(host, free) or "it is not free for the time of the lease")
        if self.rejected:
            raise self.too_few(None, len(hosts) - len(self.rejected))

    def _unfit(self, host: str, others: Iterable[str] = ()) -> str:
        """Return why nobody can lease a host, "" for a host that is in use. others: names for the nearest one."""
        known = self.client.host(host)
        if known is None:
            return f"the server has no such host{nearest(host, others)}"
        if not known.get("can_self_schedule"):
            return "self-scheduling is not allowed for it"
        states = [name for name in ("broken", "retired") if known.get(name)]
        return f"the lab has marked it as {' and '.join(states)}" if states else ""

    # asking

    def belongs(self, host: str, number: int) -> bool:
        """Return whether a host may go into this part: of an exact list each has its own."""
        return not self.spec.hosts or self.spec.part_of(host) == number

    def ask(self, number: int, one: Assignment, host: str) -> bool:
        """Request one host for a part; return whether it is in its cloud now."""
        self.asked.add(host)
        self.record.want([host])
        trouble = ""
        for attempt in range(TRIES):
            try:
                row = self.client.schedule(one.cloud, host)
                self.record.learned(self.client.ahead)
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
                    f"this week's leases have ended: the lab assigns hosts again after its weekly deadline. {error}"
                ) from error
            except server_errors.QuadsRefused as error:
                now = self.client.assignment(one.id)
                if not now or not now.active:
                    raise server_errors.LeaseLost(f"assignment {one.id} ({one.cloud}) has been terminated") from error
                raise
        raise server_errors.LeaseError(f"{host} is not in {one.cloud} after {TRIES} requests. {trouble}")

    def _is_in(self, one: Assignment, host: str) -> bool:
        return any(row.host == host for row in lease_lookup.rows(self.client, one))

    def _ends(self, end: float) -> None:
        """Record the end of the lease. Raises LeaseTooShort before more hosts are requested."""
        self.end = end if self.end is None else min(self.end, end)
        left = self.end - self.client.server_now()
        if left < self.spec.min_lifetime:
            raise server_errors.LeaseTooShort(
                f"the lease would last {times.about(left)}, but min_lifetime is "
                f"{times.about(self.spec.min_lifetime)}: the lab ends all leases at its weekly deadline"
            )

    # refusing

    def reject(self, host: str, reason: str) -> None:
        """Record why a host is rejected; it is not requested again."""
        if host not in self.rejected:
            self.rejected[host] = reason
            self.say(f"rejected {host}: {reason}")

    def rejections(self) -> list[dict[str, str]]:
        """Return the rejected hosts, as modules return them."""
        return [{"host": host, "reason": reason} for host, reason in self.rejected.items()]

    def too_few(self, lease: Lease | None, more: int = 0) -> server_errors.NotEnoughHosts:
        """Return the error for a lease with too few hosts. more: hosts that are still available."""
        have = len(lease.hosts) if lease else 0
        wanted = "; ".join(", ".join(f"{key}={value}" for key, value in one.items()) for one in self.spec.prefer if one)
        what = ", ".join(self.spec.hosts) if self.spec.hosts else f"hosts{f' with {wanted}' if wanted else ''}"
        reasons = "; ".join(f"{host}: {reason}" for host, reason in self.rejected.items())
        models = "" if self.spec.hosts else host_preferences.unknown_models(self.client, self.spec.prefer)
        full = " The cloud is full; every user can add hosts to it." if self.full else ""
        return server_errors.NotEnoughHosts(
            f"{self.spec.enough} of {self.spec.wanted} hosts are required, but {have + more} are available of {what}."
            f"{full}{f' {reasons}.' if reasons else ''}{f' {models[0].upper()}{models[1:]}.' if models else ''}",
            rejected_hosts=self.rejections(),
        )
