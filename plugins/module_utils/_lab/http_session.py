# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The session with one QUADS server: retries, credentials, clocks. quads_client.py has the calls.

GET requests are sent without credentials, which the server does not require, and are repeated freely. A request that
acquires something is sent once; if its outcome is unknown, Unsure is raised and the caller has to check. There is no
logout: two logins within one second share a token, and a logout would end that of a parallel job.
"""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError

from . import server_errors, times
from .http_request import NoAnswer, QuadsCall, QuadsReply, Send

API = "/api/v3"

#: Seconds for which a server is tried that has never answered: a wrong address should be reported soon.
FIRST_CONTACT = 10.0
BACKOFF = (1.0, 2.0, 4.0, 8.0, 15.0)


@dataclass(frozen=True)
class RetryTiming:
    """The clocks of a client, replaceable in tests."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    #: A random number from 0 to 1, so that runs that were started together do not stay synchronised.
    jitter: Callable[[], float] = random.random


@dataclass(frozen=True)
class QuadsAccount:
    """The server's URL and the user. ``username`` is the full e-mail address; times in seconds."""

    api_url: str
    username: str = ""
    password: str = field(default="", repr=False)
    api_token: str = field(default="", repr=False)
    timeout: float = 60.0
    retry_time: float = 300.0

    @property
    def owner(self) -> str:
        """The owner of this user's assignments: the part before the @."""
        return self.username.split("@", maxsplit=1)[0]


def base_url(api_url: str) -> str:
    """Return the URL of the API, from a server's URL with or without its path. Raises InputError."""
    parts = urlsplit(api_url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"api_url: '{api_url}' is not the URL of a QUADS server, such as https://quads.example.com")
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith(API) else path + API}"


class QuadsSession:
    """The session with one server. ``say``: called with a line for people before a wait."""

    def __init__(
        self,
        account: QuadsAccount,
        send: Send,
        timing: RetryTiming | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.account = account
        self.base = base_url(account.api_url)
        self.timing = timing or RetryTiming()
        #: Clocks that no signal interrupts, for the release.
        self._calm: RetryTiming | None = None
        self._check: Callable[[], None] = lambda: None
        self.say = say or (lambda _text: None)
        self._send = send
        self._token = account.api_token
        self._skew: float | None = None
        #: Offset (s) of the server's times from UTC; None until it is known.
        self.ahead: float | None = None

    # time

    def server_now(self) -> float:
        """Return the server's time in epoch seconds, UTC, from the Date of its last reply; request one if necessary."""
        if self._skew is None:
            self.ask("/version")
        return self.timing.wall() + (self._skew or 0.0)

    def learn_offset(self, found: float | None) -> None:
        """Use this offset (s) of the server's times from UTC; None: keep the present one."""
        if found is not None:
            self.ahead = found

    def remember_offset(self, minutes: int | None) -> None:
        """Use the offset in a lease file, unless one is known already."""
        if self.ahead is None and minutes is not None:
            self.ahead = minutes * 60.0

    # sending

    def _exchange(self, call: QuadsCall) -> QuadsReply:
        self._check()
        return self._sent(call)

    def _sent(self, call: QuadsCall) -> QuadsReply:
        reply = self._send(call)
        if reply.date is not None:
            self._skew = reply.date - self.timing.wall()
        elif self._skew is None:
            self._skew = 0.0
        return reply

    def _repeat(self, call: QuadsCall, what: str, give_up: float | None = None) -> QuadsReply:
        """Send an idempotent request until the server returns a status below 500."""
        began = self.timing.monotonic()
        tries = 0
        while True:
            try:
                reply = self._exchange(call)
                if reply.status < 500:
                    return reply
                trouble = f"the server returned {reply.status}: {reply.said}"
            except NoAnswer as error:
                reply, trouble = None, str(error)
            limit = self.account.retry_time if give_up is None else give_up
            if self._skew is None:
                limit = min(limit, FIRST_CONTACT)
            pause = self._pause(tries)
            tries += 1
            if self.timing.monotonic() - began + pause > limit:
                self._give_up(call, what, trouble, reply, self.timing.monotonic() - began)
            if tries == 1:
                self.say(f"{what}: {trouble}; retrying for up to {times.about(limit)}")
            self.timing.sleep(pause)

    def _give_up(self, call: QuadsCall, what: str, trouble: str, reply: QuadsReply | None, spent: float) -> None:
        text = f"{what}: {trouble}. {call.method} {call.url} was tried for {times.about(spent)}"
        if reply is None:
            raise AccessError(text)
        raise server_errors.QuadsRefused(text, reply.status, reply.said)

    def _pause(self, tries: int) -> float:
        return BACKOFF[min(tries, len(BACKOFF) - 1)] * (0.75 + 0.5 * self.timing.jitter())

    def pause(self, seconds: float) -> None:
        """Wait for ``seconds``, with a jitter of 25 %."""
        self.timing.sleep(seconds * (0.75 + 0.5 * self.timing.jitter()))

    def ask(self, path: str, *query: tuple[str, str], known: tuple[int, ...] = ()) -> QuadsReply:
        """Send a GET request. Return a reply with status 200 or one in ``known``; raise others by their meaning."""
        url = f"{self.base}{path}" + (f"?{urlencode(query)}" if query else "")
        reply = self._repeat(QuadsCall("GET", url, timeout=self.account.timeout), f"GET {path}")
        if reply.status == 200 or reply.status in known:
            return reply
        raise self._refusal(f"GET {path}", reply)

    def _refusal(self, what: str, reply: QuadsReply) -> server_errors.QuadsRefused:
        kind = server_errors.meaning(reply.status, reply.said)
        return kind(f"{what}: the server returned {reply.status}: {reply.said}", reply.status, reply.said)

    # credentials

    def log_in(self) -> None:
        """Get a token for user and password. Raises BadCredentials."""
        self._token = ""
        user = self.account
        word = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        call = QuadsCall("POST", f"{self.base}/login", {"Authorization": f"Basic {word}"}, b"", user.timeout)
        reply = self._repeat(call, "log in")
        body = reply.body
        if reply.status != 200 or not isinstance(body, Mapping) or not body.get("auth_token"):
            raise server_errors.BadCredentials(
                f"{user.username} can't log in to {self.base}: the server returned {reply.status}: {reply.said}. The "
                "password is wrong, or the user is not registered: module quads_user registers one",
                reply.status,
                reply.said,
            )
        self._token = str(body["auth_token"])

    def _authorised(self, call: QuadsCall, exchange: Callable[[QuadsCall], QuadsReply]) -> QuadsReply:
        """Send with a token; log in again once if it is refused, as happens after 4 h 20 min."""
        user = self.account
        if not self._token and not user.password:
            raise InputError("this requires credentials: set password, or api_token if the server supports API tokens")
        for renewed in (False, True):
            if not self._token:
                self.log_in()
            reply = exchange(QuadsCall(call.method, call.url, self._headers(call), call.data, call.timeout))
            if reply.status != 401:
                return reply
            if user.api_token:
                raise server_errors.BadCredentials(f"{self.base} refuses the API token: {reply.said}", 401, reply.said)
            if not renewed:
                self._token = ""
        raise server_errors.BadCredentials(f"{self.base} refuses the token that it has just issued: {reply.said}", 401)

    def _headers(self, call: QuadsCall) -> dict[str, str]:
        return {**call.headers, "Authorization": f"Bearer {self._token}"}

    def _once(
        self,
        path: str,
        body: Mapping[str, Any],
        what: str,
        before: Callable[[], None] = lambda: None,
        unsent: Callable[[], None] = lambda: None,
    ) -> QuadsReply:
        """Send a POST request that must not be sent twice. Raises Unsure if its outcome is unknown.

        before: called each time right before it is sent, which may be long after this call if the login takes long.
        unsent: called if it certainly failed: an interrupt, an unreachable server, a refused token.
        """

        def exchange(one: QuadsCall) -> QuadsReply:
            self._check()
            before()
            try:
                self._check()  # a signal may have come while the record was written
            except Exception:
                unsent()
                raise
            try:
                reply = self._sent(one)
            except (NoAnswer, AccessError) as error:
                if not getattr(error, "sent", False):
                    unsent()
                raise
            if reply.status == 401:  # it is sent again with a new token, unless interrupted
                unsent()
            return reply

        data = json.dumps(body).encode()
        call = QuadsCall("POST", f"{self.base}{path}", {"Content-Type": "application/json"}, data, self.account.timeout)
        began = self.timing.monotonic()
        tries = 0
        while True:
            try:
                reply = self._authorised(call, exchange)
                break
            except NoAnswer as error:
                spent = self.timing.monotonic() - began
                if error.sent:
                    raise server_errors.Unsure(f"{what}: {error}") from error
                if spent > self.account.retry_time:
                    raise AccessError(f"{what}: {error}. {call.url} was tried for {times.about(spent)}") from error
            self.timing.sleep(self._pause(tries))
            tries += 1
        if reply.status >= 500:
            text = f"{what}: the server returned {reply.status}: {reply.said}"
            # 500 comes from the application, which has ended its work; others come from the web server in front of it.
            raise server_errors.Unsure(text, reply.status, reply.said, over=reply.status == 500)
        if reply.status >= 300:
            raise self._refusal(what, reply)
        if not isinstance(reply.body, Mapping) or "id" not in reply.body:
            raise server_errors.Unsure(f"{what}: invalid answer: {reply.said}", reply.status, reply.said)
        return reply

    def heed(self, timing: RetryTiming, check: Callable[[], None]) -> None:
        """Use clocks that a signal interrupts; ``check`` is called before each request and raises after a signal."""
        self._calm, self.timing, self._check = self.timing, timing, check

    def undisturbed(self) -> None:
        """Ignore signals from now on, while acquired machines are released."""
        self.timing, self._check = self._calm or self.timing, lambda: None
