# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Getting one assignment, exactly one, from a server that may answer late, wrongly or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._quads import lease_lookup, server_errors, times
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.api_records import Assignment
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.lease_record import LeaseRecord
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.lease_spec import LeaseSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.lease_tag import LeaseTag
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.quads_client import QuadsClient

#: How often a cloud is asked for again after a request that came to nothing.
TRIES = 3
#: How long (s) to look for what a request made whose handler has ended with an error.
GLANCE = 6.0
LOOK_EVERY = 10.0


class CloudAssignments:
    """Makes the assignments of one lease."""

    def __init__(self, client: QuadsClient, order: LeaseSpec, memo: LeaseRecord, say: Callable[[str], None]) -> None:
        self.client = client
        self.order = order
        self.memo = memo
        self.say = say

    def existing(self) -> dict[int, Assignment]:
        """Return part -> assignment of what the lease holds already.

        A request of an earlier call that got no answer is waited for first. Of two assignments for one part, which a
        late answer and a repeated request make, the lower one is kept.
        """
        pending = self.memo.pending
        if pending:
            left = min(pending["sent"] + self.order.settle - self.client.server_now(), self.order.settle)
            self._look(pending["part"], float(pending["at"] // 60 * 60), left)
        return self.single()

    def single(self) -> dict[int, Assignment]:
        """Return part -> assignment, after ending what is there twice."""
        kept: dict[int, Assignment] = {}
        for one in lease_lookup.tagged(self.client, self.order.lease_id, active=True):
            part = one.tag.part if one.tag else 0
            if part in kept:
                self.say(f"assignment {one.id} ({one.cloud}) is part {part} of this lease once more: terminate it")
                self.client.terminate(one.id)
            else:
                kept[part] = one
        return kept

    def make(self, part: int) -> Assignment:
        """Return a new assignment, alone on its cloud. Raises what the server's refusal means."""
        for attempt in range(TRIES):
            made = self._ask(part)
            others = [one for one in self._on(made.cloud) if one.id != made.id]
            if not others:
                return made
            self.say(f"{made.cloud} was given to {others[0].owner} at the same moment: give it back and take another")
            self.client.terminate(made.id)
            self.client.pause(2.0 * (attempt + 1))
        raise server_errors.LeaseError(
            f"{TRIES} times the server gave a cloud to somebody else at the same moment, last {made.cloud}: try again"
        )

    def _on(self, cloud: str) -> list[Assignment]:
        return [one for one in self.client.assignments(("cloud", cloud), ("active", "true")) if one.active]

    def _ask(self, part: int) -> Assignment:
        made: Assignment | None
        unsure: list[server_errors.Unsure] = []
        for attempt in range(TRIES):
            at = self.client.server_now()
            mark = LeaseTag(self.order.lease_id, part, len(self.order.sizes), at)

            def note(at: float = at) -> None:
                self.memo.ask(part, at, self.client.server_now())

            try:
                made = self.client.create(self._body(mark), note, self.memo.answered)
            except server_errors.Unsure as error:
                unsure.append(error)
                made = self._after(error, part, at)
            except server_errors.QuotaReached as error:
                self.memo.answered()
                raise self._quota(error) from error
            except server_errors.QuadsRefused as error:
                self.memo.answered()
                raise self._explained(error) from error
            if made:
                self.memo.made(made)
                return made
            if attempt + 1 < TRIES:
                self.client.pause(3.0 * (attempt + 1))
        raise self._explained(unsure[-1]) from unsure[-1]

    def _body(self, mark: LeaseTag) -> dict[str, Any]:
        """Return the request. ``wipe`` always goes along: left out, the server takes it for no."""
        order = self.order
        optional = {
            "cloud": order.cloud,
            "vlan": str(order.vlan or ""),
            "cc_user": " ".join(order.cc_users),
            "ticket": order.ticket,
        }
        return {
            "description": mark.description(order.description),
            "owner": self.client.account.owner,
            "qinq": order.qinq,
            "wipe": order.wipe,
            **{key: value for key, value in optional.items() if value},
        }

    def _after(self, error: server_errors.Unsure, part: int, at: float) -> Assignment | None:
        """Find out what came of a request that got no clear answer; None when nothing will."""
        if error.over:  # what it made is there already, so whoever gives back needs no patience either
            self.memo.ask(part, at, self.client.server_now() + GLANCE - self.order.settle)
        else:
            self.say(f"{error}; looking for up to {times.about(self.order.settle)} whether it was made all the same")
        sent = self.memo.pending["sent"] if self.memo.pending else at
        found = self._look(part, at // 60 * 60, sent + self.order.settle - self.client.server_now())
        if found is None:
            self.memo.answered()
        return found

    def _look(self, part: int, at: float, patience: float) -> Assignment | None:
        """Look for the assignment of one request for up to ``patience`` seconds, at least twice."""
        until = self.client.timing.monotonic() + patience
        looks = 0
        while True:
            for one in lease_lookup.tagged(self.client, self.order.lease_id, active=True):
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
        told = server_errors.QuotaReached(
            f"{self.client.account.owner} holds as many self-scheduled clouds as one may: assignment "
            f"{', '.join(held) or 'none that is visible'}. Give one back, or adopt it. {error}",
            error.status,
            error.said,
        )
        told.facts["active_assignments"] = [one.id for one in mine if one.active]
        return told

    def _explained(self, error: server_errors.QuadsRefused) -> server_errors.QuadsRefused:
        """Return the error with what it means and what to do about it."""
        texts: dict[type[server_errors.QuadsRefused], str] = {
            server_errors.ServiceDisabled: "the lab's administrators have turned self-scheduling off",
            server_errors.RoleRefused: f"the role of {self.client.account.username} may not self-schedule: ask the lab",
            server_errors.TicketNeeded: (
                "this server makes no ticket by itself: give the number of yours (option ticket)"
            ),
            server_errors.TicketSystemDown: "the server's ticket system is down, so no lease was made: try again later",
        }
        kind, text = type(error), texts.get(type(error), "")
        if isinstance(error, server_errors.Unsure) and error.status == 500:
            version = self.client.version()
            kind = server_errors.TicketSystemDown
            text = "no lease was made. The server's ticket system is probably down: try again later"
            if self.order.ticket and "2.2." in version:
                kind = server_errors.TicketRefused
                text = (
                    f"no lease was made. {version} can't take a ticket from outside when it makes none by itself: it "
                    "can't self-schedule at all until the lab turns ssm_jira_create_ticket on, or upgrades"
                )
        elif isinstance(error, server_errors.Unsure):
            text = f"{TRIES} requests for a cloud got no answer, and none of them came to anything"
        return kind(f"{text}. {error}" if text else str(error), error.status, error.said)
