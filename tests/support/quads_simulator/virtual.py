"""A client of the simulator in this process, on a clock that jumps, with faults at chosen requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import HttpClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import (
    HttpReply,
    HttpRequest,
    NoAnswer,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_client import QuadsClient
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_connection import QuadsAccount

from quads_simulator import answers
from quads_simulator.answers import Request
from quads_simulator.core import API, Simulator
from quads_simulator.state import Assignment

#: How long (s) one exchange takes.
TRIP = 0.05
RIVAL = "rival"
#: What a request asks for, as faults name it.
WHATS = {("POST", "assignments"): "create", ("POST", "schedules"): "schedule", ("POST", "login"): "login"}


class Killed(BaseException):
    """The client's process was killed: nothing of it runs any more, not even its clean-up."""


@dataclass
class Fault:
    """Something that goes wrong at one request. ``value``: seconds, or a number that chooses a host."""

    kind: str
    value: int = 0


@dataclass
class Wire:
    """Sends calls to a simulator. ``faults``: (request, its count from 0) -> fault."""

    simulator: Simulator
    faults: Mapping[tuple[str, int], Fault] = field(default_factory=dict)
    calls: list[HttpRequest] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    dead: bool = False

    def __call__(self, call: HttpRequest) -> HttpReply:
        """Be an Exchange."""
        if self.dead:
            raise Killed
        what = WHATS.get((call.method, urlsplit(call.url).path.removeprefix(API).split("/")[1]), "read")
        what = "terminate" if "/terminate/" in call.url else what
        fault = self.faults.get((what, self.counts.get(what, 0)), Fault("none"))
        self.counts[what] = self.counts.get(what, 0) + 1
        self.calls.append(call)
        self.simulator.clock.advance(TRIP)
        return getattr(self, f"_{fault.kind}")(call, fault.value)

    def _none(self, call: HttpRequest, value: int) -> HttpReply:
        request = _request(call)
        work = self.simulator.delay_of(request)
        if work >= call.timeout:
            return self._late(call, int(work))
        self.simulator.clock.advance(work)
        answer = self.simulator.handle(request)
        return HttpReply(
            answer.status, answer.text.encode(), {name.lower(): value for name, value in answer.headers.items()}
        )

    # the network and the web server

    def _refused(self, call: HttpRequest, value: int) -> HttpReply:
        raise NoAnswer("connection refused", sent=False)

    def _dropped(self, call: HttpRequest, value: int) -> HttpReply:
        self.simulator.clock.advance(call.timeout)
        raise NoAnswer("no answer in time", sent=True)

    def _reset(self, call: HttpRequest, value: int) -> HttpReply:
        self._none(call, 0)
        raise NoAnswer("connection reset by peer", sent=True)

    def _late(self, call: HttpRequest, value: int) -> HttpReply:
        request = _request(call)
        self.simulator.clock.at(self.simulator.clock.now() + value, lambda: self.simulator.answer_now(request))
        self.simulator.clock.advance(call.timeout)
        raise NoAnswer("no answer in time", sent=True)

    def _gateway(self, call: HttpRequest, value: int) -> HttpReply:
        return self._page(502)

    def _gateway_executed(self, call: HttpRequest, value: int) -> HttpReply:
        self._none(call, 0)
        return self._page(504)

    def _crash(self, call: HttpRequest, value: int) -> HttpReply:
        return self._page(500)

    def _crash_executed(self, call: HttpRequest, value: int) -> HttpReply:
        self._none(call, 0)
        return self._page(500)

    def _page(self, status: int) -> HttpReply:
        answer = answers.crash().answer if status == 500 else answers.broken_gateway(status)
        return HttpReply(status, answer.text.encode(), {"date": self.simulator.date()})

    # the server

    def _expired(self, call: HttpRequest, value: int) -> HttpReply:
        self.simulator.access.expire_all()
        return self._none(call, 0)

    def _outage(self, call: HttpRequest, value: int) -> HttpReply:
        return self._for_a_while(call, value, "database_down")

    def _no_tickets(self, call: HttpRequest, value: int) -> HttpReply:
        return self._for_a_while(call, value, "tickets_down")

    def _for_a_while(self, call: HttpRequest, seconds: int, name: str) -> HttpReply:
        faults, clock = self.simulator.faults, self.simulator.clock
        setattr(faults, name, True)
        clock.at(clock.now() + seconds, lambda: setattr(faults, name, False))
        return self._none(call, 0)

    def _ended(self, call: HttpRequest, value: int) -> HttpReply:
        for one in list(self.simulator.assignments.values()):
            if one.owner != RIVAL:
                self.simulator.end(one)
        return self._none(call, 0)

    # other tenants

    def _rival(self) -> Assignment:
        for one in self.simulator.assignments.values():
            if one.owner == RIVAL and one.active:
                return one
        return self.add_assignment(RIVAL, "cloud11")

    def add_assignment(self, owner: str, cloud: str) -> Assignment:
        """Give somebody a cloud, asking nobody."""
        number = max(self.simulator.assignments, default=0) + 1
        made = Assignment(number, cloud, owner, "[SSM] other work", "1", True, self.simulator.clock.now())
        self.simulator.assignments[number] = made
        return made

    def give(self, owner_assignment: Assignment, host: str, number: int = 0) -> None:
        """Give a host to an assignment, asking nobody."""
        now = self.simulator.clock.now()
        row = self.simulator.insert(owner_assignment, host, now, now + 5 * 86400)
        if number:
            self.simulator.schedules[number] = self.simulator.schedules.pop(row.id)
            self.simulator.schedules[number].id = number

    def _rival_first(self, call: HttpRequest, value: int) -> HttpReply:
        """Between the check and the insert of our request a rival's is inserted."""
        rival = self._rival()
        return self._racing(call, lambda host, cloud: self.give(rival, host) if cloud != rival.cloud else None)

    def _rival_second(self, call: HttpRequest, value: int) -> HttpReply:
        """A rival's request was checked before ours is inserted, and is inserted afterwards."""
        rival = self._rival()
        clock = self.simulator.clock
        return self._racing(call, lambda host, cloud: clock.at(clock.now() + 1, lambda: self.give(rival, host)))

    def _rival_hidden(self, call: HttpRequest, value: int) -> HttpReply:
        """A rival's schedule got a lower number than ours, and becomes visible two seconds later."""
        rival = self._rival()
        simulator = self.simulator

        def between(host: str, cloud: str) -> None:
            number = max(simulator.schedules, default=0) + 1
            simulator.schedules_from = number + 1
            simulator.clock.at(simulator.clock.now() + 2, lambda: self.give(rival, host, number))

        return self._racing(call, between)

    def _racing(self, call: HttpRequest, between: Callable[[str, str], None]) -> HttpReply:
        before = self.simulator.between
        self.simulator.between = between
        try:
            return self._none(call, 0)
        finally:
            self.simulator.between = before

    def _taken(self, call: HttpRequest, value: int) -> HttpReply:
        """A rival takes a host that is free."""
        busy = {row.host for row in self.simulator.current()}
        free = [name for name in self.simulator.hosts if name not in busy]
        if free:
            self.give(self._rival(), free[value % len(free)])
        return self._none(call, 0)

    def _stranger(self, call: HttpRequest, value: int) -> HttpReply:
        """Somebody puts a host into our cloud."""
        busy = {row.host for row in self.simulator.current()}
        free = [name for name in self.simulator.hosts if name not in busy]
        ours = [one for one in self.simulator.assignments.values() if one.active and one.owner != RIVAL]
        if free and ours:
            self.give(ours[0], free[value % len(free)])
        return self._none(call, 0)

    def _same_cloud(self, call: HttpRequest, value: int) -> HttpReply:
        """Somebody gets the cloud that we get, at the same moment."""
        before = set(self.simulator.assignments)
        reply = self._none(call, 0)
        for number in set(self.simulator.assignments) - before:
            self.add_assignment(RIVAL, self.simulator.assignments[number].cloud)
        return reply

    # ourselves

    def _killed(self, call: HttpRequest, value: int) -> HttpReply:
        self.dead = True
        if value % 3:
            self._none(call, 0)
        elif value % 2:
            request = _request(call)
            self.simulator.clock.at(self.simulator.clock.now() + value, lambda: self.simulator.answer_now(request))
        raise Killed


def _request(call: HttpRequest) -> Request:
    parts = urlsplit(call.url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    return Request(call.method, target, {name.lower(): one for name, one in call.headers.items()}, call.body or b"")


def client(
    simulator: Simulator,
    wire: Wire | None = None,
    user: str = "joe@example.com",
    password: str = "made-up",
    skew: float = 0.0,
    **account: Any,
) -> QuadsClient:
    """Return a client on the simulator's clock. ``skew``: error (s) of this machine's wall clock."""
    clock = simulator.clock
    if user not in simulator.access.users:
        simulator.access.add(user, password)
    times = HttpClock(clock.now, lambda: clock.now() + skew, clock.advance, lambda: 0.5)
    known = {"api_url": "https://quads.example.com" + API, "username": user, "password": password}
    return QuadsClient(QuadsAccount(**{**known, **account}), wire or Wire(simulator), times)
