# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API calls of a QUADS server: those of a tenant, and those that only read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError

from . import times
from .api_records import Assignment, HostSchedule
from .http_request import QuadsCall, QuadsReply
from .http_session import QuadsSession


class QuadsClient(QuadsSession):
    """The calls of one server; times in seconds."""

    # calls of a tenant

    def create(
        self,
        body: Mapping[str, Any],
        before: Callable[[], None] = lambda: None,
        unsent: Callable[[], None] = lambda: None,
    ) -> Assignment:
        """POST /assignments/self, once. ``before``: called right before; ``unsent``: called if it certainly failed."""
        reply = self._once("/assignments/self", body, "take a cloud", before, unsent)
        return Assignment.of(reply.body)

    def schedule(self, cloud: str, host: str) -> HostSchedule:
        """POST /schedules for one host, once. Status 200 or 201 does not prove that the host is ours."""
        reply = self._once("/schedules", {"cloud": cloud, "hostname": host}, f"take {host}")
        row = HostSchedule.of(reply.body)
        self.learn_offset(times.offset(row.start, reply.date))
        return row

    def terminate(self, number: int, give_up: float | None = None) -> bool:
        """Terminate an assignment (idempotent). Return False if the server has no such assignment."""
        call = QuadsCall("POST", f"{self.base}/assignments/terminate/{number}", {}, b"", self.account.timeout)
        what = f"terminate assignment {number}"
        reply = self._authorised(call, lambda one: self._repeat(one, what, give_up))
        if reply.status == 400 and "not found" in reply.said:
            return False
        if reply.status >= 300:
            raise self._refusal(what, reply)
        return True

    def register(self) -> bool:
        """Register the user. Return False if it is registered already."""
        data = json.dumps({"email": self.account.username, "password": self.account.password}).encode()
        call = QuadsCall(
            "POST", f"{self.base}/register", {"Content-Type": "application/json"}, data, self.account.timeout
        )
        reply = self._repeat(call, "register")
        if reply.status == 401 and "already exists" in reply.said:
            return False
        if reply.status >= 300:
            raise self._refusal(f"register {self.account.username}", reply)
        return True

    # calls without credentials

    def version(self) -> str:
        """Return the server's version, as it returns it."""
        return str(self.ask("/version").body)

    def available(self, query: list[tuple[str, str]]) -> list[str]:
        """Return the names of free hosts; host_preferences.py makes the query."""
        return [str(name) for name in self._list("/available", *query)]

    def assignments(self, *query: tuple[str, str]) -> list[Assignment]:
        """Assignments by owner, activity, description …"""
        return [Assignment.of(one) for one in self._list("/assignments", *query)]

    def assignment(self, number: int) -> Assignment | None:
        """One assignment, None when the server knows none of this number."""
        reply = self.ask(f"/assignments/{number}", known=(400, 404))
        return Assignment.of(reply.body) if reply.status == 200 else None

    def active_in(self, cloud: str) -> Assignment | None:
        """The active assignment of a cloud."""
        reply = self.ask(f"/assignments/active/{quote(cloud)}", known=(400, 404))
        return Assignment.of(reply.body) if reply.status == 200 and reply.body else None

    def rows_of(self, number: int) -> list[HostSchedule]:
        """All schedules of an assignment, past ones too."""
        return [HostSchedule.of(one) for one in self._list("/schedules", ("assignment_id", str(number)))]

    def current(self, **wanted: str) -> list[HostSchedule]:
        """Schedules that run now, of a ``host`` or a ``cloud``."""
        return [HostSchedule.of(one) for one in self._list("/schedules/current", *wanted.items())]

    def host(self, name: str) -> dict[str, Any] | None:
        """Everything about one host, None when there is none of this name."""
        reply = self.ask(f"/hosts/{quote(name)}", known=(400, 404))
        return dict(reply.body) if reply.status == 200 else None

    def hosts(self, *query: tuple[str, str]) -> list[dict[str, Any]]:
        """Hosts with everything about them."""
        return self._list("/hosts", *query)

    def models(self) -> dict[str, int]:
        """How many hosts of each model the lab has."""
        body = self.ask("/hosts", ("group_by", "model")).body
        return {str(name): int(count) for name, count in body.items()} if isinstance(body, Mapping) else {}

    def free_clouds(self) -> list[str]:
        """Names of clouds that nobody holds."""
        return [str(one["name"]) for one in self._list("/clouds/free")]

    def free_vlans(self) -> list[dict[str, Any]]:
        """Return the free public VLANs."""
        return self._list("/vlans/free")

    def moves(self) -> list[dict[str, Any]]:
        """Return the hosts that have to move: host, current, new."""
        return self._list("/moves")

    def progress(self, cloud: str) -> list[dict[str, Any]]:
        """Return the progress of each host of a cloud; empty on servers without this call."""
        reply = self.ask("/moves/progress", ("cloud", cloud), known=(400, 404))
        return list(reply.body) if reply.status == 200 and isinstance(reply.body, list) else []

    def file(self, url: str) -> QuadsReply | None:
        """Return a file of the web server, None if it does not exist (yet)."""
        reply = self._repeat(QuadsCall("GET", url, timeout=self.account.timeout), f"GET {url}")
        if reply.status in (200, 404):
            return reply if reply.status == 200 else None
        raise self._refusal(f"GET {url}", reply)

    def _list(self, path: str, *query: tuple[str, str]) -> list[Any]:
        body = self.ask(path, *query).body
        if not isinstance(body, list):
            raise AccessError(f"GET {path}: {self.base} does not answer as a QUADS server does: {str(body)[:120]}")
        return body
