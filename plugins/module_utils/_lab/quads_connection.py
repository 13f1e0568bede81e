# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to a QUADS server: the user's token, the server's clock, and requests that must not be sent twice.

A token is never revoked, because parallel jobs of one user may share it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    require_list_of_json_objects,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import (
    Exchange,
    HttpClient,
    HttpClock,
    HttpPolicy,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import (
    HttpRefused,
    HttpReply,
    HttpRequest,
    NoAnswer,
    basic_authorization_header,
)

from . import quads_errors
from .quads_records import CloudAssignment, HostSchedule

API = "/api/v3"
Record = TypeVar("Record", CloudAssignment, HostSchedule)
#: Statuses of refusals whose meaning this client decides. 429 is not one of them: the request is sent again.
REFUSALS = frozenset(range(300, 500)) - {429}


@dataclass(frozen=True)
class QuadsAccount:
    """The server and the user. ``username`` is the full e-mail address; times in seconds."""

    api_url: str
    username: str = ""
    password: str = field(default="", repr=False)
    api_token: str = field(default="", repr=False)
    validate_certs: bool = True
    ca_path: str = ""
    timeout: float = 60.0
    retry_time: float = 300.0

    @property
    def owner(self) -> str:
        """The owner of this user's assignments: the part before the @."""
        return self.username.split("@", maxsplit=1)[0]


def quads_api_url(api_url: str) -> str:
    """Return the URL of the API, from a server's URL with or without its path. Raises InputError."""
    parts = urlsplit(api_url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(
            f"'{api_url}' is not the URL of a QUADS server, such as https://quads.example.com: set "
            "quads_lease_api_url, in an inventory file api_url"
        )
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith(API) else path + API}"


class QuadsConnection(HttpClient):
    """Requests to one server; times in seconds. report: called with a line before a pause."""

    def __init__(
        self,
        account: QuadsAccount,
        exchange: Exchange | None = None,
        clock: HttpClock | None = None,
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        super().__init__(
            "QUADS",
            quads_api_url(account.api_url),
            authority=account.ca_path,
            insecure=not account.validate_certs,
            policy=HttpPolicy.of_query(account.timeout, account.retry_time),
            clock=clock,
            report=report,
        )
        self.account = account
        self._wire = exchange or self.exchange
        self.exchange = self._checked
        #: Clocks that no signal interrupts, for the release.
        self._calm: HttpClock | None = None
        self._check: Callable[[], None] = lambda: None
        self._token = account.api_token
        self._skew: float | None = None
        #: Offset (s) of the server's times from UTC; None until it is known.
        self.ahead: float | None = None

    # Time

    def server_now(self) -> float:
        """Return the server's time in epoch seconds, UTC, from the Date of its last reply; request one if necessary."""
        if self._skew is None:
            self.get("/version")
        return self.clock.wall() + (self._skew or 0.0)

    def learn_offset(self, offset: float | None) -> None:
        """Use this offset (s) of the server's times from UTC; None: keep the present one."""
        if offset is not None:
            self.ahead = offset

    def remember_offset(self, minutes: int | None) -> None:
        """Use the offset in a lease file, unless one is known already."""
        if self.ahead is None and minutes is not None:
            self.ahead = minutes * 60.0

    def pause(self, seconds: float) -> None:
        """Wait for ``seconds``, with a jitter of 25 %."""
        self.clock.sleep(seconds * (0.75 + 0.5 * self.clock.jitter()))

    def use_interruptible_clock(self, clock: HttpClock, check: Callable[[], None]) -> None:
        """Use clocks that a signal interrupts; ``check`` is called before each request and raises after a signal."""
        self._calm, self.clock, self._check = self.clock, clock, check

    def raise_if_interrupted(self) -> None:
        """Raise Interrupted if a signal has come."""
        self._check()

    def ignore_signals(self) -> None:
        """Ignore signals from now on, while acquired machines are released."""
        self.clock, self._check = self._calm or self.clock, lambda: None

    # Requests

    def _checked(self, request: HttpRequest) -> HttpReply:
        self._check()
        return self._timed(request)

    def _timed(self, request: HttpRequest) -> HttpReply:
        reply = self._wire(request)
        if reply.date is not None:
            self._skew = reply.date - self.clock.wall()
        elif self._skew is None:
            self._skew = 0.0
        return reply

    def _call(self, method: str, path: str, what: str, body: Any = None, **more: Any) -> HttpReply:
        """Send a request and return its answer or a refusal below 500. Raises NoAnswer, QuadsRefused."""
        try:
            return self.send(method, path, body, what=what, accept=REFUSALS, **more)
        except HttpRefused as error:
            raise quads_errors.QuadsRefused(str(error), error.status, error.reply.explanation) from error

    def get(self, path: str, *query: tuple[str, str], known: Container[int] = ()) -> HttpReply:
        """Return the reply to a GET request with status 200 or one in ``known``; raise others by their meaning."""
        reply = self._call("GET", f"{path}{f'?{urlencode(query)}' if query else ''}", f"GET {path}", authorization="")
        if reply.status == 200 or reply.status in known:
            return reply
        raise error_from_refused_reply(f"GET {path}", reply)

    def _list(self, path: str, *query: tuple[str, str]) -> list[Any]:
        body = self.get(path, *query).body
        if not isinstance(body, list):
            raise AccessError(f"GET {path}: {self.url} does not answer as a QUADS server does: {str(body)[:120]}")
        return body

    def _objects(self, path: str, *query: tuple[str, str], keys: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """Return a list of objects that have ``keys``."""
        documents = require_list_of_json_objects(f"GET {path}", self._list(path, *query))
        with expect_documented_form(f"GET {path}", documents):
            for document in documents:
                for key in keys:
                    document[key] = str(document[key])
        return documents

    def log_in(self) -> None:
        """Get a token for user and password. Raises BadCredentials."""
        self._token = ""
        user = self.account
        authorization = basic_authorization_header(user.username, user.password)
        reply = self._call("POST", "/login", "log in", b"", authorization=authorization, repeat="always")
        body = reply.body
        if reply.status != 200 or not isinstance(body, Mapping) or not body.get("auth_token"):
            raise quads_errors.BadCredentials(
                f"{user.username} can't log in to {self.url}: the server returned {reply.status}: {reply.explanation}. "
                "The password is wrong, or the user is not registered: state=registered of module quads_lease "
                "registers one",
                reply.status,
                reply.explanation,
            )
        self._token = str(body["auth_token"])

    def _authorised(self, path: str, what: str, body: Any, **more: Any) -> HttpReply:
        """POST with a token; log in again once if it is refused, as happens after 4 h 20 min."""
        user = self.account
        if not self._token and not user.password:
            raise InputError(
                "this requires credentials: set quads_lease_password, or quads_lease_api_token if the server supports "
                "API tokens"
            )
        for renewed in (False, True):
            if not self._token:
                self.log_in()
            reply = self._call("POST", path, what, body, authorization=f"Bearer {self._token}", **more)
            if reply.status != 401:
                return reply
            if user.api_token:
                raise quads_errors.BadCredentials(f"{self.url} refuses the API token: {reply.explanation}", 401)
            if not renewed:
                self._token = ""
        raise quads_errors.BadCredentials(
            f"{self.url} refuses the token that it has just issued: {reply.explanation}", 401
        )

    def _once(
        self,
        path: str,
        body: Mapping[str, Any],
        what: str,
        read: Callable[[Any], Record],
        before: Callable[[], None] = lambda: None,
        unsent: Callable[[], None] = lambda: None,
    ) -> tuple[Record, HttpReply]:
        """Send a POST request that must not be sent twice; return what it made, and the answer.

        Raises Unsure if its outcome is unknown.

        Args:
            path: The path.
            body: The document.
            what: The request in messages.
            read: Reads the document of the answer.
            before: Called each time right before it is sent, which may be long after this call if the login takes long.
            unsent: Called if it certainly failed: an interrupt, an unreachable server, a refused token.
        """

        def exchange(request: HttpRequest) -> HttpReply:
            self._check()
            before()
            try:
                self._check()  # a signal may have come while the record was written
            except Exception:
                unsent()
                raise
            try:
                reply = self._timed(request)
            except AccessError as error:
                if not getattr(error, "sent", False):
                    unsent()
                raise
            if reply.status == 401:  # it is sent again with a new token, unless interrupted
                unsent()
            return reply

        try:
            reply = self._authorised(path, what, body, repeat="unsent", exchange=exchange)
        except NoAnswer as error:
            if not error.sent:
                raise
            raise quads_errors.Unsure(str(error)) from error
        except quads_errors.QuadsRefused as error:
            if error.status < 500:
                raise
            # 500 comes from the application, which has ended its work; others come from the web server in front of it.
            raise quads_errors.Unsure(str(error), error.status, error.explanation, over=error.status == 500) from error
        if reply.status >= 300:
            raise error_from_refused_reply(what, reply)
        try:
            with expect_documented_form(what, reply.body):
                return read(reply.body), reply
        except AccessError as error:
            raise quads_errors.Unsure(f"{error}: {reply.explanation}", reply.status, reply.explanation) from error


def error_from_refused_reply(what: str, reply: HttpReply) -> quads_errors.QuadsRefused:
    """Return the error for an answer that refuses a request. what: the request."""
    told = reply.explanation
    refused = quads_errors.exception_type_for_answer(reply.status, told)
    return refused(f"{what}: the server returned {reply.status}: {told}", reply.status, told)
