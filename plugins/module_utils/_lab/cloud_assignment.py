# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requesting exactly one assignment from a server that may answer late, wrongly or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import lease_lookup, server_errors, times
from .api_records import Assignment
from .lease_record import LeaseRecord
from .lease_spec import LeaseSpec
from .lease_tag import LeaseTag
from .quads_client import QuadsClient

#: How often a cloud is requested again after a failed request.
TRIES = 3
#: Seconds for which the assignment of a request is looked for whose handler has ended with an error.
FAILED_SETTLE = 6.0
LOOK_EVERY = 10.0


class CloudAssignments:
    """Creates the assignments of one lease."""

    def __init__(self, client: QuadsClient, spec: LeaseSpec, record: LeaseRecord, say: Callable[[str], None]) -> None:
        self.client = client
        self.spec = spec
        self.record = record
        self.say = say

    def existing(self) -> dict[int, Assignment]:
        """Return the lease's present assignments: part -> assignment.

        First the outcome of an earlier, unanswered request is awaited. Of two assignments for one part, the result of a
        late answer and a repeated request, the one with the lower number is kept.
        """
        pending = self.record.pending
        if pending:
            left = min(pending["sent"] + self.spec.settle - self.client.server_now(), self.spec.settle)
            self._look(pending["part"], float(pending["at"] // 60 * 60), left)
        return self.single()

    def single(self) -> dict[int, Assignment]:
        """Return part -> assignment, after terminating duplicates."""
        kept: dict[int, Assignment] = {}
        for one in lease_lookup.tagged(self.client, self.spec.lease_id, active=True):
            part = one.tag.part if one.tag else 0
            if part in kept:
                self.say(f"assignment {one.id} ({one.cloud}) duplicates part {part} of this lease: terminating it")
                self.client.terminate(one.id)
            else:
                kept[part] = one
        return kept

    def create(self, part: int) -> Assignment:
        """Return a new assignment, the only one of its cloud. Raises QuadsRefused by cause, LeaseError."""
        for attempt in range(TRIES):
            created = self._ask(part)
            others = [one for one in self._on(created.cloud) if one.id != created.id]
            if not others:
                return created
            self.say(f"{created.cloud} was also assigned to {others[0].owner}: releasing it and requesting another")
            self.client.terminate(created.id)
            self.client.pause(2.0 * (attempt + 1))
        raise server_errors.LeaseError(
            f"{TRIES} times the server assigned the same cloud to another user, last {created.cloud}: try again"
        )

    def _on(self, cloud: str) -> list[Assignment]:
        return [one for one in self.client.assignments(("cloud", cloud), ("active", "true")) if one.active]

    def _ask(self, part: int) -> Assignment:
        created: Assignment | None
        unsure: list[server_errors.Unsure] = []
        for attempt in range(TRIES):
            at = self.client.server_now()
            tag = LeaseTag(self.spec.lease_id, part, len(self.spec.sizes), at)

            def note(at: float = at) -> None:
                self.record.ask(part, at, self.client.server_now())

            try:
                created = self.client.create(self._body(tag), note, self.record.answered)
            except server_errors.Unsure as error:
                unsure.append(error)
                created = self._after(error, part, at)
            except server_errors.QuotaReached as error:
                self.record.answered()
                raise self._quota(error) from error
            except server_errors.QuadsRefused as error:
                self.record.answered()
                raise self._explained(error) from error
            if created:
                self.record.add_part(created)
                return created
            if attempt + 1 < TRIES:
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

    def _after(self, error: server_errors.Unsure, part: int, at: float) -> Assignment | None:
        """Return the assignment of a request without a clear answer; None if there will be none."""
        if error.over:  # an assignment would exist already, so a release need not wait either
            self.record.ask(part, at, self.client.server_now() + FAILED_SETTLE - self.spec.settle)
        else:
            self.say(f"{error}; looking for its assignment for up to {times.about(self.spec.settle)}")
        sent = self.record.pending["sent"] if self.record.pending else at
        found = self._look(part, at // 60 * 60, sent + self.spec.settle - self.client.server_now())
        if found is None:
            self.record.answered()
        return found

    def _look(self, part: int, at: float, patience: float) -> Assignment | None:
        """Return the assignment of one request, looked for during ``patience`` seconds, at least twice."""
        until = self.client.timing.monotonic() + patience
        looks = 0
        while True:
            for one in lease_lookup.tagged(self.client, self.spec.lease_id, active=True):
                if one.tag and one.tag.part == part and one.tag.at == at:
                    return one
            looks += 1
            left = until - self.client.timing.monotonic()
            if left <= 0 and looks > 1:
                return None
            self.client.pause(min(LOOK_EVERY, max(left, 1.0)))

    def _quota(self, error: server_errors.QuotaReached) -> server_errors.QuotaReached:
        mine = self.client.assignments(
            ("owner", self.client.account.owner), ("is_self_schedule", "true"), ("active", "true")
        )
        held = [f"{one.id} ({one.cloud}, '{one.description}')" for one in mine if one.active]
        explained = server_errors.QuotaReached(
            f"{self.client.account.owner} has reached the quota of self-scheduled clouds: assignment "
            f"{', '.join(held) or 'none that is visible'}. Release or adopt one. {error}",
            error.status,
            error.said,
        )
        explained.facts["active_assignments"] = [one.id for one in mine if one.active]
        return explained

    def _explained(self, error: server_errors.QuadsRefused) -> server_errors.QuadsRefused:
        """Return the error with its meaning and remedy."""
        texts: dict[type[server_errors.QuadsRefused], str] = {
            server_errors.ServiceDisabled: "the lab's administrators have disabled self-scheduling",
            server_errors.RoleRefused: f"the role of {self.client.account.username} may not self-schedule: ask the lab",
            server_errors.TicketNeeded: ("this server creates no ticket: set the number of yours (option ticket)"),
            server_errors.TicketSystemDown: "no lease was created, the server's ticket system is down: try again later",
        }
        kind, text = type(error), texts.get(type(error), "")
        if isinstance(error, server_errors.Unsure) and error.status == 500:
            version = self.client.version()
            kind = server_errors.TicketSystemDown
            text = "no lease was created. The server's ticket system is probably down: try again later"
            if self.spec.ticket and "2.2." in version:
                kind = server_errors.TicketRefused
                text = (
                    f"no lease was created. {version} accepts no ticket number if it creates no tickets: it can't "
                    "self-schedule at all until the lab enables ssm_jira_create_ticket or upgrades"
                )
        elif isinstance(error, server_errors.Unsure):
            text = f"{TRIES} requests for a cloud got no answer, and none resulted in an assignment"
        return kind(f"{text}. {error}" if text else str(error), error.status, error.said)
