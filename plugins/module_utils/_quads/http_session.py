# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speaking to one QUADS server: retries, credentials, clocks; what the calls are is in quads_client.py.

GET requests go without credentials, which the server doesn't ask for, and may be repeated freely. A request that takes
something is sent once; when its fate is unknown the caller gets Unsure and has to look. We never log out: two logins
within one second share a token, and a log-out would end that of a parallel job.
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

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads import server_errors, times
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.http_request import (
    NoAnswer,
    QuadsCall,
    QuadsReply,
    Send,
)

API = "/api/v3"

#: How long (s) a server that never answered yet is tried: a wrong address is to be told soon.
FIRST_CONTACT = 10.0
BACKOFF = (1.0, 2.0, 4.0, 8.0, 15.0)


@dataclass(frozen=True)
class RetryTiming:
    """The clocks that a client goes by; a test gives its own."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    #: A number from 0 to 1, so that runs that were started together don't stay in step.
    jitter: Callable[[], float] = random.random


@dataclass(frozen=True)
class QuadsAccount:
    """Where the server is and who asks. ``username`` is the full e-mail address; times in seconds."""

    api_url: str
    username: str = ""
    password: str = field(default="", repr=False)
    api_token: str = field(default="", repr=False)
    timeout: float = 60.0
    retry_time: float = 300.0

    @property
    def owner(self) -> str:
        """The owner of assignments that this user makes: the part before the @."""
        return self.username.split("@", maxsplit=1)[0]


def base_url(api_url: str) -> str:
    """Return the address with the API's path, from a server's address with or without it. Raises InputError."""
    parts = urlsplit(api_url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"api_url: '{api_url}' is no address of a QUADS server, such as https://quads.example.com")
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith(API) else path + API}"


class QuadsSession:
    """Speaks to one server. ``say`` gets a line for people when something has to be waited for."""

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
        #: Clocks that no signal cuts short, for giving back.
        self._calm: RetryTiming | None = None
        self._check: Callable[[], None] = lambda: None
        self.say = say or (lambda _text: None)
        self._send = send
        self._token = account.api_token
        self._skew: float | None = None
        #: How far (s) the times that the server writes are ahead of UTC; None until it is known.
        self.ahead: float | None = None

    # time

    def server_now(self) -> float:
        """Return the server's time in epoch seconds, UTC, from the Date of its last answer; ask when there is none."""
        if self._skew is None:
            self.ask("/version")
        return self.timing.wall() + (self._skew or 0.0)

    def learn_offset(self, found: float | None) -> None:
        """Go by this offset (s) of the server's times from UTC; None: by what is known already."""
        if found is not None:
            self.ahead = found

    def remember_offset(self, minutes: int | None) -> None:
        """Go by the offset that a lease file holds, unless one is known already."""
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
        """Send what may be sent twice until the server gives an answer below 500."""
        began = self.timing.monotonic()
        tries = 0
        while True:
            try:
                reply = self._exchange(call)
                if reply.status < 500:
                    return reply
                trouble = f"the server answers {reply.status}: {reply.said}"
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
                self.say(f"{what}: {trouble}; trying again for up to {times.about(limit)}")
            self.timing.sleep(pause)

    def _give_up(self, call: QuadsCall, what: str, trouble: str, reply: QuadsReply | None, spent: float) -> None:
        text = f"{what}: {trouble}. {call.method} {call.url} was tried for {times.about(spent)}"
        if reply is None:
            raise AccessError(text)
        raise server_errors.QuadsRefused(text, reply.status, reply.said)

    def _pause(self, tries: int) -> float:
        return BACKOFF[min(tries, len(BACKOFF) - 1)] * (0.75 + 0.5 * self.timing.jitter())

    def pause(self, seconds: float) -> None:
        """Wait about so long: a quarter more or less."""
        self.timing.sleep(seconds * (0.75 + 0.5 * self.timing.jitter()))

    def ask(self, path: str, *query: tuple[str, str], known: tuple[int, ...] = ()) -> QuadsReply:
        """GET. Answers with a status in ``known`` are returned, others than 200 raised as what they mean."""
        url = f"{self.base}{path}" + (f"?{urlencode(query)}" if query else "")
        reply = self._repeat(QuadsCall("GET", url, timeout=self.account.timeout), f"GET {path}")
        if reply.status == 200 or reply.status in known:
            return reply
        raise self._refusal(f"GET {path}", reply)

    def _refusal(self, what: str, reply: QuadsReply) -> server_errors.QuadsRefused:
        kind = server_errors.meaning(reply.status, reply.said)
        return kind(f"{what}: the server answers {reply.status}: {reply.said}", reply.status, reply.said)

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
                f"{user.username} can't log in to {self.base}: the server answers {reply.status}: {reply.said}. The "
                "password is wrong, or nobody is registered by this address: module quads_user registers a user",
                reply.status,
                reply.said,
            )
        self._token = str(body["auth_token"])

    def _authorised(self, call: QuadsCall, exchange: Callable[[QuadsCall], QuadsReply]) -> QuadsReply:
        """Send with a token; log in again once when it is refused, as it is after 4 h 20 min."""
        user = self.account
        if not self._token and not user.password:
            raise InputError("this needs credentials: give password, or api_token where the server knows such tokens")
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
        raise server_errors.BadCredentials(f"{self.base} refuses the token that it has just given: {reply.said}", 401)

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
        """POST what must not be sent twice. Raises Unsure when nobody knows what came of it.

        before: called each time right before it is sent, which may be long after this call when a log-in takes long.
        unsent: called when it came to nothing: an interrupt, nobody who could be reached, a token that was refused.
        """

        def exchange(one: QuadsCall) -> QuadsReply:
            self._check()
            before()
            try:
                self._check()  # writing the note takes time, in which a signal may come
            except Exception:
                unsent()
                raise
            try:
                reply = self._sent(one)
            except (NoAnswer, AccessError) as error:
                if not getattr(error, "sent", False):
                    unsent()
                raise
            if reply.status == 401:  # with a new token it is sent once more, unless somebody interrupts
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
            text = f"{what}: the server answers {reply.status}: {reply.said}"
            # 500 comes from the application, whose work is over then; others come from the web server in front of it.
            raise server_errors.Unsure(text, reply.status, reply.said, over=reply.status == 500)
        if reply.status >= 300:
            raise self._refusal(what, reply)
        if not isinstance(reply.body, Mapping) or "id" not in reply.body:
            raise server_errors.Unsure(f"{what}: the answer can't be read: {reply.said}", reply.status, reply.said)
        return reply

    def heed(self, timing: RetryTiming, check: Callable[[], None]) -> None:
        """Go by clocks that a signal cuts short; ``check`` raises when one came, and is asked before each request."""
        self._calm, self.timing, self._check = self.timing, timing, check

    def undisturbed(self) -> None:
        """Go on without heeding signals: what was taken is being given back."""
        self.timing, self._check = self._calm or self.timing, lambda: None
