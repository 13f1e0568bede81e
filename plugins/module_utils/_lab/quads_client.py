# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The calls of the API of a QUADS server.

Most calls only read and need no credentials, so that no wait meets an expired token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    require_list_of_json_objects,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import HttpReply

from . import quads_errors, quads_records
from .quads_connection import QuadsConnection, error_from_refused_reply
from .quads_records import CloudAssignment, HostSchedule, checked_host_record


class QuadsClient(QuadsConnection):
    """The calls of one server."""

    # Calls of a tenant

    def create_assignment_once(
        self,
        body: Mapping[str, Any],
        before: Callable[[], None] = lambda: None,
        unsent: Callable[[], None] = lambda: None,
    ) -> CloudAssignment:
        """POST /assignments/self, once. ``before``: called right before; ``unsent``: called if it certainly failed."""
        return self._once("/assignments/self", body, "take a cloud", CloudAssignment.from_json, before, unsent)[0]

    def schedule_host_once(self, cloud: str, host: str) -> HostSchedule:
        """POST /schedules for one host, once. Status 200 or 201 does not prove that the host is ours."""
        asked = {"cloud": cloud, "hostname": host}
        row, reply = self._once("/schedules", asked, f"take {host}", HostSchedule.from_json)
        self.learn_offset(quads_records.server_utc_offset(row.start, reply.date))
        return row

    def terminate_assignment(self, number: int) -> bool:
        """Terminate an assignment (idempotent). Return False if the server has no such assignment."""
        what = f"terminate assignment {number}"
        reply = self._authorised(f"/assignments/terminate/{number}", what, b"", repeat="always")
        if reply.status == 400 and "not found" in reply.explanation:
            return False
        if reply.status >= 300:
            raise error_from_refused_reply(what, reply)
        return True

    def register(self, dry_run: bool = False) -> bool:
        """Register the user unless it can log in; return whether it was, or with ``dry_run`` would be, registered.

        Raises InputError, BadCredentials.
        """
        user = self.account
        if user.api_token:
            raise InputError(
                "quads_lease_api_token belongs to a registered user: set quads_lease_password to register one"
            )
        try:
            self.log_in()
            return False
        except quads_errors.BadCredentials as error:
            if dry_run:
                return True
            document = {"email": user.username, "password": user.password}
            reply = self._call("POST", "/register", "register", document, authorization="", repeat="always")
            if reply.status == 401 and "already exists" in reply.explanation:
                raise quads_errors.BadCredentials(
                    f"{user.username} is registered at {self.url} already, with another password than the one given. "
                    "Give that one, or have the lab reset it: registering again changes nothing",
                    error.status,
                    error.explanation,
                ) from error
            if reply.status >= 300:
                raise error_from_refused_reply(f"register {user.username}", reply) from error
        self.log_in()
        return True

    # Calls without credentials

    def version(self) -> str:
        """Return the server's version, as it returns it."""
        return str(self.get("/version").body)

    def free_host_names(self, query: list[tuple[str, str]]) -> list[str]:
        """Return the names of free hosts; host_search makes the query."""
        return [str(name) for name in self._list("/available", *query)]

    def assignments(self, *query: tuple[str, str]) -> list[CloudAssignment]:
        """Return assignments by owner, activity, description … Those of another owner never count, if one is asked for.

        A server or proxy that ignores the query would list the leases of others, which are then terminated.
        """
        documents = self._objects("/assignments", *query)
        with expect_documented_form("GET /assignments", documents):
            assignments = [CloudAssignment.from_json(document) for document in documents]
        owner = dict(query).get("owner")
        return [entry for entry in assignments if not owner or entry.owner.casefold() == owner.casefold()]

    def assignment(self, number: int) -> CloudAssignment | None:
        """Return one assignment, None if the server has none of this number."""
        reply = self.get(f"/assignments/{number}", known=(400, 404))
        with expect_documented_form(f"GET /assignments/{number}", reply.body):
            return CloudAssignment.from_json(reply.body) if reply.status == 200 else None

    def active_in(self, cloud: str) -> CloudAssignment | None:
        """Return the active assignment of a cloud."""
        path = f"/assignments/active/{quote(cloud)}"
        reply = self.get(path, known=(400, 404))
        with expect_documented_form(f"GET {path}", reply.body):
            return CloudAssignment.from_json(reply.body) if reply.status == 200 and reply.body else None

    def current_schedules(self, **query: str) -> list[HostSchedule]:
        """Return the schedules that run now, of a ``host`` or a ``cloud``."""
        documents = self._objects("/schedules/current", *query.items())
        with expect_documented_form("GET /schedules/current", documents):
            return [HostSchedule.from_json(document) for document in documents]

    def host(self, name: str) -> dict[str, Any] | None:
        """Return the lab's record of a host, None if there is none of this name."""
        path = f"/hosts/{quote(name)}"
        reply = self.get(path, known=(400, 404))
        return checked_host_record(f"GET {path}", reply.body) if reply.status == 200 else None

    def hosts(self, *query: tuple[str, str]) -> list[dict[str, Any]]:
        """Return the lab's records of hosts."""
        return [checked_host_record("GET /hosts", host) for host in self._objects("/hosts", *query, keys=("name",))]

    def host_counts_by_model(self) -> dict[str, int]:
        """Return how many hosts of each model the lab has."""
        body = self.get("/hosts", ("group_by", "model")).body
        with expect_documented_form("GET /hosts", body):
            return {str(name): int(count) for name, count in body.items()} if isinstance(body, Mapping) else {}

    def free_clouds(self) -> list[str]:
        """Return the names of clouds that nobody holds."""
        return [cloud["name"] for cloud in self._objects("/clouds/free", keys=("name",))]

    def free_vlans(self) -> list[dict[str, Any]]:
        """Return the free public VLANs."""
        return self._objects("/vlans/free")

    def moves(self) -> list[dict[str, Any]]:
        """Return the hosts that have to move: host, current, new."""
        return self._objects("/moves", keys=("host", "current"))

    def move_progress(self, cloud: str) -> list[dict[str, Any]]:
        """Return the progress of each host of a cloud; empty on servers without this call."""
        reply = self.get("/moves/progress", ("cloud", cloud), known=(400, 404))
        rows = reply.body if reply.status == 200 and isinstance(reply.body, list) else []
        return [
            row for row in require_list_of_json_objects("GET /moves/progress", rows) if isinstance(row.get("host"), str)
        ]

    def read_web_file(self, url: str) -> HttpReply | None:
        """Return a file of a web server, None if it does not exist (yet)."""
        reply = self.get(url, known=(404,))
        return reply if reply.status == 200 else None
