# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests for the clouds and the hosts of one lease, each sent so that it is known afterwards what is ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import suggest_similar_name

from . import host_search, lease_lookup, quads_errors, quads_records
from .lease_file import LeaseFile
from .quads_client import QuadsClient
from .quads_options import LeaseSpec
from .quads_records import CloudAssignment, Lease, LeaseTag

#: How often a cloud is requested again after a failed request.
CLOUD_ATTEMPTS = 3
#: Seconds for which the assignment of a request is looked for whose handler has ended with an error.
FAILED_SETTLE = 6.0
LOOK_EVERY = 10.0


class CloudAssignments:
    """Creates the assignments of one lease."""

    def __init__(self, client: QuadsClient, spec: LeaseSpec, record: LeaseFile, report: Callable[[str], None]) -> None:
        self.client = client
        self.spec = spec
        self.record = record
        self.report = report

    def existing(self) -> dict[int, CloudAssignment]:
        """Return the lease's present assignments: part -> assignment.

        First the outcome of an earlier, unanswered request is awaited. Of two assignments for one part, the result of a
        late answer and a repeated request, the one with the lower number is kept.
        """
        pending = self.record.pending
        if pending:
            left = min(pending["sent"] + self.spec.settle - self.client.server_now(), self.spec.settle)
            self._await_assignment(pending["part"], float(pending["at"] // 60 * 60), left)
        return self.single()

    def single(self) -> dict[int, CloudAssignment]:
        """Return part -> assignment, after terminating duplicates."""
        kept: dict[int, CloudAssignment] = {}
        for assignment in lease_lookup.assignments_of_lease(self.client, self.spec.lease_id, active=True):
            part = assignment.tag.part if assignment.tag else 0
            if part in kept:
                self.report(
                    f"assignment {assignment.id} ({assignment.cloud}) duplicates part {part} of this lease: "
                    "terminating it"
                )
                self.client.terminate_assignment(assignment.id)
            else:
                kept[part] = assignment
        return kept

    def create(self, part: int) -> CloudAssignment:
        """Return a new assignment, the only one of its cloud. Raises QuadsRefused by cause, LeaseError."""
        for attempt in range(CLOUD_ATTEMPTS):
            created = self._ask(part)
            others = [assignment for assignment in self._on(created.cloud) if assignment.id != created.id]
            if not others:
                return created
            self.report(f"{created.cloud} was also assigned to {others[0].owner}: releasing it and requesting another")
            self.client.terminate_assignment(created.id)
            self.client.pause(2.0 * (attempt + 1))
        raise quads_errors.LeaseError(
            f"{CLOUD_ATTEMPTS} times the server assigned the same cloud to another user, last {created.cloud}: "
            "try again"
        )

    def _on(self, cloud: str) -> list[CloudAssignment]:
        return [
            assignment
            for assignment in self.client.assignments(("cloud", cloud), ("active", "true"))
            if assignment.active
        ]

    def _ask(self, part: int) -> CloudAssignment:
        created: CloudAssignment | None
        unsure: list[quads_errors.Unsure] = []
        for attempt in range(CLOUD_ATTEMPTS):
            at = self.client.server_now()
            tag = LeaseTag(self.spec.lease_id, part, len(self.spec.sizes), at)

            def note(at: float = at) -> None:
                self.record.ask(part, at, self.client.server_now())

            try:
                created = self.client.create_assignment_once(self._body(tag), note, self.record.answered)
            except quads_errors.Unsure as error:
                unsure.append(error)
                created = self._after(error, part, at)
            except quads_errors.QuotaReached as error:
                self.record.answered()
                raise self._quota(error) from error
            except quads_errors.QuadsRefused as error:
                self.record.answered()
                raise self._explained(error) from error
            if created:
                self.record.add_part(created)
                return created
            if attempt + 1 < CLOUD_ATTEMPTS:
                self.client.pause(3.0 * (attempt + 1))
        raise self._explained(unsure[-1]) from unsure[-1]

    def _body(self, tag: LeaseTag) -> dict[str, Any]:
        """Return the request. ``wipe`` is always sent: the server takes a missing value for false."""
        spec = self.spec
        optional = {
            "cloud": spec.cloud,
            "vlan": str(spec.vlan or ""),
            "cc_user": " ".join(spec.cc_users),
            "ticket": spec.ticket,
        }
        return {
            "description": tag.description(spec.description),
            "owner": self.client.account.owner,
            "qinq": spec.qinq,
            "wipe": spec.wipe,
            **{key: value for key, value in optional.items() if value},
        }

    def _after(self, error: quads_errors.Unsure, part: int, at: float) -> CloudAssignment | None:
        """Return the assignment of a request without a clear answer; None if there will be none."""
        if error.over:  # an assignment would exist already, so a release need not wait either
            self.record.ask(part, at, self.client.server_now() + FAILED_SETTLE - self.spec.settle)
        else:
            patience = quads_records.format_approximate_duration(self.spec.settle)
            self.report(f"{error}; looking for its assignment for up to {patience}")
        sent = self.record.pending["sent"] if self.record.pending else at
        assignment = self._await_assignment(part, at // 60 * 60, sent + self.spec.settle - self.client.server_now())
        if assignment is None:
            self.record.answered()
        return assignment

    def _await_assignment(self, part: int, at: float, patience: float) -> CloudAssignment | None:
        """Return the assignment of one request, looked for during ``patience`` seconds, at least twice."""
        until = self.client.clock.monotonic() + patience
        looks = 0
        while True:
            for assignment in lease_lookup.assignments_of_lease(self.client, self.spec.lease_id, active=True):
                if assignment.tag and assignment.tag.part == part and assignment.tag.at == at:
                    return assignment
            looks += 1
            left = until - self.client.clock.monotonic()
            if left <= 0 and looks > 1:
                return None
            self.client.pause(min(LOOK_EVERY, max(left, 1.0)))

    def _quota(self, error: quads_errors.QuotaReached) -> quads_errors.QuotaReached:
        mine = self.client.assignments(
            ("owner", self.client.account.owner), ("is_self_schedule", "true"), ("active", "true")
        )
        held = [
            f"{assignment.id} ({assignment.cloud}, '{assignment.description}')"
            for assignment in mine
            if assignment.active
        ]
        explained = quads_errors.QuotaReached(
            f"{self.client.account.owner} has reached the quota of self-scheduled clouds: assignment "
            f"{', '.join(held) or 'none that is visible'}. Release or adopt one. {error}",
            error.status,
            error.explanation,
        )
        explained.facts["active_assignments"] = [assignment.id for assignment in mine if assignment.active]
        return explained

    def _explained(self, error: quads_errors.QuadsRefused) -> quads_errors.QuadsRefused:
        """Return the error with its meaning and remedy."""
        texts: dict[type[quads_errors.QuadsRefused], str] = {
            quads_errors.ServiceDisabled: "the lab's administrators have disabled self-scheduling",
            quads_errors.RoleRefused: f"the role of {self.client.account.username} may not self-schedule: ask the lab",
            quads_errors.TicketNeeded: "this server creates no ticket: set quads_lease_ticket to the number of yours",
            quads_errors.TicketSystemDown: "no lease was created, the server's ticket system is down: try again later",
        }
        kind, text = type(error), texts.get(type(error), "")
        if isinstance(error, quads_errors.Unsure) and error.status == 500:
            version = self.client.version()
            kind = quads_errors.TicketSystemDown
            text = "no lease was created. The server's ticket system is probably down: try again later"
            if self.spec.ticket and "2.2." in version:
                kind = quads_errors.TicketRefused
                text = (
                    f"no lease was created. {version} accepts no ticket number if it creates no tickets: it can't "
                    "self-schedule at all until the lab enables ssm_jira_create_ticket or upgrades"
                )
        elif isinstance(error, quads_errors.Unsure):
            text = f"{CLOUD_ATTEMPTS} requests for a cloud got no answer, and none resulted in an assignment"
        return kind(f"{text}. {error}" if text else str(error), error.status, error.explanation)


#: How often one host is requested while the outcome is unknown.
HOST_ATTEMPTS = 3
#: Default lifetime (s) of a lease, used in GET /available until the lease's end is known.
USUAL = 86400.0


class HostScheduling:
    """The hosts of one lease: requested and rejected ones, and the parts that are full."""

    def __init__(self, client: QuadsClient, spec: LeaseSpec, record: LeaseFile, report: Callable[[str], None]) -> None:
        self.client = client
        self.spec = spec
        self.record = record
        self.report = report
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
            hosts = [host for host in self.spec.hosts if host not in tried]
            if not begun:
                self._all_free(hosts)
        else:
            hosts = [host for host in self._available() if host not in tried]
        if len(hosts) < need:
            raise self.too_few(lease, len(hosts))
        return hosts

    def _available(self) -> list[str]:
        now = self.client.server_now()
        end = self.end or now + (self.spec.min_lifetime or USUAL)
        hosts: dict[str, None] = {}
        for conditions in self.spec.prefer:
            names = host_search.find_free_hosts(self.client, conditions, end)
            hosts.update(dict.fromkeys(host_search.shuffle_hosts_by_lease(names, self.spec.lease_id)))
        return list(hosts)

    def _all_free(self, hosts: list[str]) -> None:
        """Raise NotEnoughHosts before the first request if one of the named hosts is not available."""
        free = host_search.find_free_hosts(
            self.client, {}, self.client.server_now() + (self.spec.min_lifetime or USUAL)
        )
        for host in hosts:
            if host not in free:
                self.reject(host, self._unfit(host, free) or "it is not free for the time of the lease")
        if self.rejected:
            raise self.too_few(None, len(hosts) - len(self.rejected))

    def _unfit(self, host: str, others: Iterable[str] = ()) -> str:
        """Return why nobody can lease a host, "" for a host that is in use. others: names for the nearest one."""
        known = self.client.host(host)
        if known is None:
            return f"the server has no such host{suggest_similar_name(host, others)}"
        if not known.get("can_self_schedule"):
            return "self-scheduling is not allowed for it"
        states = [name for name in ("broken", "retired") if known.get(name)]
        return f"the lab has marked it as {' and '.join(states)}" if states else ""

    # asking

    def belongs(self, host: str, number: int) -> bool:
        """Return whether a host may go into this part: of an exact list each has its own."""
        return not self.spec.hosts or self.spec.part_of(host) == number

    def ask(self, number: int, assignment: CloudAssignment, host: str) -> bool:
        """Request one host for a part; return whether it is in its cloud now."""
        self.asked.add(host)
        self.record.want([host])
        trouble = ""
        for attempt in range(HOST_ATTEMPTS):
            try:
                row = self.client.schedule_host_once(assignment.cloud, host)
                self.record.learned(self.client.ahead)
                self._ends(quads_records.parse_server_time(row.end, self.client.ahead or 0.0))
                return True
            except quads_errors.HostTaken as error:
                if self._is_in(assignment, host):
                    return True
                self.reject(host, self._unfit(host) or error.explanation)
                return False
            except quads_errors.HostRefused as error:
                self.reject(host, error.explanation)
                return False
            except quads_errors.CloudFull as error:
                self.full.add(number)
                self.reject(host, error.explanation)
                return self._is_in(assignment, host)
            except quads_errors.Unsure as error:
                trouble = str(error)
                if self._is_in(assignment, host):
                    return True
                self.client.pause(2.0 * (attempt + 1))
                if self._is_in(assignment, host):
                    return True
            except quads_errors.DeadlinePassed as error:
                raise quads_errors.LeaseTooShort(
                    f"this week's leases have ended: the lab assigns hosts again after its weekly deadline. {error}"
                ) from error
            except quads_errors.QuadsRefused as error:
                now = self.client.assignment(assignment.id)
                if not now or not now.active:
                    raise quads_errors.LeaseLost(
                        f"assignment {assignment.id} ({assignment.cloud}) has been terminated"
                    ) from error
                raise
        raise quads_errors.LeaseError(f"{host} is not in {assignment.cloud} after {HOST_ATTEMPTS} requests. {trouble}")

    def _is_in(self, assignment: CloudAssignment, host: str) -> bool:
        return any(row.host == host for row in lease_lookup.current_schedules_of_assignment(self.client, assignment))

    def _ends(self, end: float) -> None:
        """Record the end of the lease. Raises LeaseTooShort before more hosts are requested."""
        self.end = end if self.end is None else min(self.end, end)
        left = self.end - self.client.server_now()
        if left < self.spec.min_lifetime:
            raise quads_errors.LeaseTooShort(
                f"the lease would last {quads_records.format_approximate_duration(left)}, but quads_lease_min_lifetime "
                f"is {quads_records.format_approximate_duration(self.spec.min_lifetime)}: the lab ends all leases at"
                " its weekly deadline"
            )

    # refusing

    def reject(self, host: str, reason: str) -> None:
        """Record why a host is rejected; it is not requested again."""
        if host not in self.rejected:
            self.rejected[host] = reason
            self.report(f"rejected {host}: {reason}")

    def rejections(self) -> list[dict[str, str]]:
        """Return the rejected hosts, as modules return them."""
        return [{"host": host, "reason": reason} for host, reason in self.rejected.items()]

    def too_few(self, lease: Lease | None, more: int = 0) -> quads_errors.NotEnoughHosts:
        """Return the error for a lease with too few hosts. more: hosts that are still available."""
        have = len(lease.hosts) if lease else 0
        wanted = "; ".join(
            ", ".join(f"{key}={value}" for key, value in conditions.items())
            for conditions in self.spec.prefer
            if conditions
        )
        what = ", ".join(self.spec.hosts) if self.spec.hosts else f"hosts{f' with {wanted}' if wanted else ''}"
        reasons = "; ".join(f"{host}: {reason}" for host, reason in self.rejected.items())
        models = "" if self.spec.hosts else host_search.describe_unknown_models(self.client, self.spec.prefer)
        full = " The cloud is full; every user can add hosts to it." if self.full else ""
        return quads_errors.NotEnoughHosts(
            f"{self.spec.enough} of {self.spec.wanted} hosts are required, but {have + more} are available of {what}."
            f"{full}{f' {reasons}.' if reasons else ''}{f' {models[0].upper()}{models[1:]}.' if models else ''}",
            rejected_hosts=self.rejections(),
        )
