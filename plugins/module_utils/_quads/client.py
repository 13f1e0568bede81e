# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of one QUADS server: retries, credentials, and the calls that a tenant may make.

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
from urllib.parse import quote, urlencode, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads import refusals, times
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.http import Call, NoAnswer, Reply, Send
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.records import Assignment, Row

API = "/api/v3"

#: How long (s) a server that never answered yet is tried: a wrong address is to be told soon.
FIRST_CONTACT = 10.0
BACKOFF = (1.0, 2.0, 4.0, 8.0, 15.0)


@dataclass(frozen=True)
class Timing:
    """The clocks that a client goes by; a test gives its own."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    #: A number from 0 to 1, so that runs that were started together don't stay in step.
    jitter: Callable[[], float] = random.random


@dataclass(frozen=True)
class Account:
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


class Client:
    """Speaks to one server. ``say`` gets a line for people when something has to be waited for."""

    def __init__(
        self, account: Account, send: Send, timing: Timing | None = None, say: Callable[[str], None] | None = None
    ) -> None:
        self.account = account
        self.base = base_url(account.api_url)
        self.timing = timing or Timing()
        #: Clocks that no signal cuts short, for giving back.
        self._calm: Timing | None = None
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
            self.version()
        return self.timing.wall() + (self._skew or 0.0)

    def learn_offset(self, written: str, date: float | None) -> None:
        """Learn the server's offset from UTC from a time that it wrote at ``date``."""
        found = times.offset(written, date)
        if found is not None:
            self.ahead = found

    # sending

    def _exchange(self, call: Call) -> Reply:
        self._check()
        reply = self._send(call)
        if reply.date is not None:
            self._skew = reply.date - self.timing.wall()
        elif self._skew is None:
            self._skew = 0.0
        return reply

    def _repeat(self, call: Call, what: str, give_up: float | None = None) -> Reply:
        """Send what may be sent twice until the server gives an answer below 500."""
        began = self.timing.monotonic()
        tries = 0
        while True:
            try:
                reply = self._exchange(call)
                if reply.status < 500:
                    return reply
                trouble = f"the server answers {reply.status} {reply.said}"
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

    def _give_up(self, call: Call, what: str, trouble: str, reply: Reply | None, spent: float) -> None:
        text = f"{what}: {trouble}. {call.method} {call.url} was tried for {times.about(spent)}"
        if reply is None:
            raise AccessError(text)
        raise refusals.Refused(text, reply.status, reply.said)

    def _pause(self, tries: int) -> float:
        return BACKOFF[min(tries, len(BACKOFF) - 1)] * (0.75 + 0.5 * self.timing.jitter())

    def pause(self, seconds: float) -> None:
        """Wait about so long: a quarter more or less."""
        self.timing.sleep(seconds * (0.75 + 0.5 * self.timing.jitter()))

    def ask(self, path: str, *query: tuple[str, str], known: tuple[int, ...] = ()) -> Reply:
        """GET. Answers with a status in ``known`` are returned, others than 200 raised as what they mean."""
        url = f"{self.base}{path}" + (f"?{urlencode(query)}" if query else "")
        reply = self._repeat(Call("GET", url, timeout=self.account.timeout), f"GET {path}")
        if reply.status == 200 or reply.status in known:
            return reply
        raise self._refusal(f"GET {path}", reply)

    def _refusal(self, what: str, reply: Reply) -> refusals.Refused:
        kind = refusals.meaning(reply.status, reply.said)
        return kind(f"{what}: the server answers {reply.status}: {reply.said}", reply.status, reply.said)

    def _list(self, path: str, *query: tuple[str, str]) -> list[Any]:
        body = self.ask(path, *query).body
        if not isinstance(body, list):
            raise AccessError(f"GET {path}: {self.base} does not answer as a QUADS server does: {str(body)[:120]}")
        return body

    # credentials

    def log_in(self) -> None:
        """Get a token for user and password. Raises BadCredentials."""
        self._token = ""
        user = self.account
        word = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        call = Call("POST", f"{self.base}/login", {"Authorization": f"Basic {word}"}, b"", user.timeout)
        reply = self._repeat(call, "log in")
        body = reply.body
        if reply.status != 200 or not isinstance(body, Mapping) or not body.get("auth_token"):
            raise refusals.BadCredentials(
                f"{user.username} can't log in to {self.base}: the server answers {reply.status}: {reply.said}",
                reply.status,
                reply.said,
            )
        self._token = str(body["auth_token"])

    def _authorised(self, call: Call, exchange: Callable[[Call], Reply]) -> Reply:
        """Send with a token; log in again once when it is refused, as it is after 4 h 20 min."""
        user = self.account
        if not self._token and not user.password:
            raise InputError("this needs credentials: give password, or api_token where the server knows such tokens")
        for renewed in (False, True):
            if not self._token:
                self.log_in()
            reply = exchange(Call(call.method, call.url, self._headers(call), call.data, call.timeout))
            if reply.status != 401:
                return reply
            if user.api_token:
                raise refusals.BadCredentials(f"{self.base} refuses the API token: {reply.said}", 401, reply.said)
            if not renewed:
                self._token = ""
        raise refusals.BadCredentials(f"{self.base} refuses the token that it has just given: {reply.said}", 401)

    def _headers(self, call: Call) -> dict[str, str]:
        return {**call.headers, "Authorization": f"Bearer {self._token}"}

    def _once(self, path: str, body: Mapping[str, Any], what: str, before: Callable[[], None] = lambda: None) -> Reply:
        """POST what must not be sent twice. Raises Unsure when nobody knows what came of it.

        before: called each time right before it is sent, which may be long after this call when a log-in takes long.
        """

        def exchange(one: Call) -> Reply:
            before()
            return self._exchange(one)

        data = json.dumps(body).encode()
        call = Call("POST", f"{self.base}{path}", {"Content-Type": "application/json"}, data, self.account.timeout)
        began = self.timing.monotonic()
        tries = 0
        while True:
            try:
                reply = self._authorised(call, exchange)
                break
            except NoAnswer as error:
                spent = self.timing.monotonic() - began
                if error.sent:
                    raise refusals.Unsure(f"{what}: {error}") from error
                if spent > self.account.retry_time:
                    raise AccessError(f"{what}: {error}. {call.url} was tried for {times.about(spent)}") from error
            self.timing.sleep(self._pause(tries))
            tries += 1
        if reply.status >= 500:
            text = f"{what}: the server answers {reply.status}: {reply.said}"
            # 500 comes from the application, whose work is over then; others come from the web server in front of it.
            raise refusals.Unsure(text, reply.status, reply.said, over=reply.status == 500)
        if reply.status >= 300:
            raise self._refusal(what, reply)
        if not isinstance(reply.body, Mapping) or "id" not in reply.body:
            raise refusals.Unsure(f"{what}: the answer can't be read: {reply.said}", reply.status, reply.said)
        return reply

    # what a tenant may do

    def create(self, body: Mapping[str, Any], before: Callable[[], None] = lambda: None) -> Assignment:
        """POST /assignments/self, once; ``before`` is called right before."""
        reply = self._once("/assignments/self", body, "take a cloud", before)
        made = Assignment.of(reply.body)
        self.learn_offset(made.created_at, reply.date)
        return made

    def schedule(self, cloud: str, host: str) -> Row:
        """POST /schedules for one host, once. An answer of 200 or 201 is no proof that the host is ours."""
        reply = self._once("/schedules", {"cloud": cloud, "hostname": host}, f"take {host}")
        row = Row.of(reply.body)
        self.learn_offset(row.start, reply.date)
        return row

    def terminate(self, number: int, give_up: float | None = None) -> bool:
        """Terminate an assignment; the server does it any number of times. Return False when it knows none."""
        call = Call("POST", f"{self.base}/assignments/terminate/{number}", {}, b"", self.account.timeout)
        what = f"terminate assignment {number}"
        reply = self._authorised(call, lambda one: self._repeat(one, what, give_up))
        if reply.status == 400 and "not found" in reply.said:
            return False
        if reply.status >= 300:
            raise self._refusal(what, reply)
        return True

    def register(self) -> bool:
        """Register the user. Return False when the server knows it already."""
        data = json.dumps({"email": self.account.username, "password": self.account.password}).encode()
        call = Call("POST", f"{self.base}/register", {"Content-Type": "application/json"}, data, self.account.timeout)
        reply = self._repeat(call, "register")
        if reply.status == 401 and "already exists" in reply.said:
            return False
        if reply.status >= 300:
            raise self._refusal(f"register {self.account.username}", reply)
        return True

    # what everybody may read

    def version(self) -> str:
        """The server's version, in its own words."""
        return str(self.ask("/version").body)

    def available(self, query: list[tuple[str, str]]) -> list[str]:
        """Names of hosts that are free; see choose.py for the query."""
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

    def rows_of(self, number: int) -> list[Row]:
        """All schedules of an assignment, past ones too."""
        return [Row.of(one) for one in self._list("/schedules", ("assignment_id", str(number)))]

    def current(self, **wanted: str) -> list[Row]:
        """Schedules that run now, of a ``host`` or a ``cloud``."""
        return [Row.of(one) for one in self._list("/schedules/current", *wanted.items())]

    def host(self, name: str) -> dict[str, Any] | None:
        """Everything about one host, None when there is none of this name."""
        reply = self.ask(f"/hosts/{quote(name)}", known=(400, 404))
        return dict(reply.body) if reply.status == 200 else None

    def hosts(self, *query: tuple[str, str]) -> list[dict[str, Any]]:
        """Hosts with everything about them."""
        return self._list("/hosts", *query)

    def free_clouds(self) -> list[str]:
        """Names of clouds that nobody holds."""
        return [str(one["name"]) for one in self._list("/clouds/free")]

    def free_vlans(self) -> list[dict[str, Any]]:
        """Public VLANs that nobody uses."""
        return self._list("/vlans/free")

    def moves(self) -> list[dict[str, Any]]:
        """Hosts that still have to move: host, current, new."""
        return self._list("/moves")

    def progress(self, cloud: str) -> list[dict[str, Any]]:
        """How far each host of a cloud is; empty on servers that don't tell."""
        reply = self.ask("/moves/progress", ("cloud", cloud), known=(400, 404))
        return list(reply.body) if reply.status == 200 and isinstance(reply.body, list) else []

    def file(self, url: str) -> Reply | None:
        """A file beside the API, None when there is none (yet)."""
        reply = self._repeat(Call("GET", url, timeout=self.account.timeout), f"GET {url}")
        if reply.status in (200, 404):
            return reply if reply.status == 200 else None
        raise self._refusal(f"GET {url}", reply)

    def heed(self, timing: Timing, check: Callable[[], None]) -> None:
        """Go by clocks that a signal cuts short; ``check`` raises when one came, and is asked before each request."""
        self._calm, self.timing, self._check = self.timing, timing, check

    def undisturbed(self) -> None:
        """Go on without heeding signals: what was taken is being given back."""
        self.timing, self._check = self._calm or self.timing, lambda: None
