# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends requests on time and takes their answers: one thread, one epoll loop, connections that never block.

The line ``sent`` of a request is in the file before its first byte is sent, and its other line as soon as it has ended.
So whenever this process is killed, the file says which requests the server may have got.
"""

from __future__ import annotations

import gc
import select
import socket
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.load_generator_health import raise_file_limit
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock

from .event_stream import BrokenAnswer
from .inference_request import FAILED, LOST, REFUSED, SECOND, SUCCEEDED, InferenceRequest
from .request_connection import (
    READ,
    SO_TIMESTAMPNS,
    STAMPS,
    ConnectionLost,
    InferenceServer,
    RequestConnection,
    take_quiet_connection,
)
from .request_schedule import RequestSchedule
from .token_receiver import PRECISE, ConnectionEvents, parse_received_tokens, receive_tokens_unparsed

#: Longest wait for events, in seconds: then signals and timeouts are looked at.
_LONGEST_WAIT = 0.2
#: Seconds, and requests in a row without a success, after which the load ends because the server is of no use.
_HOPELESS_SECONDS, _HOPELESS_REQUESTS = 5.0, 20
#: Pause before a refused request is sent again if the server names none, seconds.
_RETRY_PAUSE = 1.0
#: Requests that are sent before answers are looked at again.
_AT_ONCE = 64
_BROKEN = select.EPOLLHUP | select.EPOLLERR
_NOT_READ = ~READ


@dataclass(frozen=True)
class EngineLimits:
    """Seconds, and numbers of retries of refused requests, open requests, and requests of a connection (0: any)."""

    connect_timeout: float = 10.0
    timeout: float = 120.0
    retries: int = 0
    max_open: int = 10_000
    connection_requests: int = 0


class RequestEngine:
    """Sends the requests of a schedule. ``lags`` and ``lateness`` in nanoseconds."""

    def __init__(
        self,
        servers: Sequence[InferenceServer],
        limits: EngineLimits,
        encode: Callable[[InferenceRequest, InferenceServer], bytes],
        clock: MonotonicWallClock,
        clients: int = 1,
    ) -> None:
        """Make an engine.

        Args:
            servers: Those that the requests go to in turn.
            limits: Limits of the requests.
            encode: Returns the bytes of a request.
            clock: Clock of the file.
            clients: Number of clients of the load: conversation i belongs to client i modulo this number.
        """
        self._servers = servers
        self._limits = limits
        self._encode = encode
        self._clock = clock
        self._clients = clients
        #: Most requests at a time.
        self.most_open = raise_file_limit(limits.max_open)
        if self.most_open < 1:
            raise InputError("the limit of open files of this user (ulimit -n) leaves none for requests")
        self._events = ConnectionEvents()
        # Keeps the kernel's time stamps switched on while there is no other connection.
        self._stamps = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._stamps.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._connections: dict[int, RequestConnection] = {}
        self._idle: list[list[RequestConnection]] = [[] for _server in servers]
        self._opened = 0
        self._timeouts: deque[tuple[int, InferenceRequest, int]] = deque()
        self._connecting: deque[tuple[int, RequestConnection]] = deque()
        self._rows: list[str] = []
        self._encoded: tuple[InferenceRequest, bytes] | None = None
        self._bad = 0  # requests in a row without a success
        self._last_good = 0
        self.open: dict[InferenceRequest, RequestConnection | None] = {}
        self.stopped = ""
        #: Appends lines to requests.jsonl; is called with each request that has ended.
        self.write: Callable[[Sequence[str]], None] = lambda _rows: None
        self.ended: Callable[[InferenceRequest], None] = lambda _request: None
        self.reset_counts()

    def reset_counts(self) -> None:
        """Begin to count, after a warm-up. The connections stay."""
        self.open_max = self.submitted = self.tokens = 0
        self.outcomes: Counter[str] = Counter()
        self.lags: array[int] = array("q")
        self.lateness: array[int] = array("q")

    def run(self, schedule: RequestSchedule, tick: Callable[[], None]) -> None:
        """Send everything; ``tick`` is called several times a second and may raise. Open requests are then lost."""
        self._bad = 0
        self._last_good = time.monotonic_ns()
        collects = gc.isenabled()
        gc.disable()  # a collection would take milliseconds; the objects of requests form no cycles
        try:
            next_tick = 0
            while not self.stopped:
                now = time.monotonic_ns()
                if now >= next_tick:
                    tick()
                    self._parse_all_aside(schedule)
                    STAMPS.measure()
                    self._expire(schedule, now)
                    next_tick = now + int(_LONGEST_WAIT * SECOND)
                moment = schedule.next_moment()
                if moment is not None and moment <= now:
                    self._send_due(schedule)
                    moment = schedule.next_moment()
                if moment is None and not self.open:
                    break
                events = self._wait(schedule, moment, next_tick)
                for connection, mask in receive_tokens_unparsed(self._connections, events):
                    if self._connections.get(connection.fd) is connection:
                        self._handle(connection, mask, schedule)
                self._flush()
        finally:
            if collects:
                gc.enable()
            self._lose_open()
            self._flush()

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._stamps.close()
        self._events.close()

    def _wait(self, schedule: RequestSchedule, moment: int | None, next_tick: int) -> list[tuple[int, int]]:
        until = next_tick if moment is None or len(self.open) >= self.most_open else min(moment, next_tick)
        if until - time.monotonic_ns() > PRECISE:
            following = schedule.peek()
            if following is not None and (self._encoded is None or self._encoded[0] is not following):
                self._encoded = (following, self._encode(following, self._server_of(following)))
        return self._events.wait(until, len(self.open))

    def _server_of(self, request: InferenceRequest) -> InferenceServer:
        # By its number alone, each client would have few of the servers: with as many clients as servers, one.
        round_, client = divmod(request.conversation, self._clients)
        return self._servers[(round_ + client) % len(self._servers)]

    def _send_due(self, schedule: RequestSchedule) -> None:
        due: list[InferenceRequest] = []
        now = time.monotonic_ns()
        while len(due) < _AT_ONCE and len(self.open) + len(due) < self.most_open:
            request = schedule.pop(now)
            if request is None:
                break
            due.append(request)
        if not due:
            return
        zero = self._clock.wall - self._clock.monotonic
        self._rows += [request.sent_row(zero, now) for request in due if not request.attempts]
        self._flush()
        for request in due:
            self._send(request, schedule)

    def _send(self, request: InferenceRequest, schedule: RequestSchedule, fresh: bool = False) -> None:
        server = self._server_of(request)
        if self._encoded is not None and self._encoded[0] is request:
            wire = self._encoded[1]
            self._encoded = None
        else:
            wire = self._encode(request, server)
        now = time.monotonic_ns()
        if not request.attempts:
            self.submitted += 1
            self.lateness.append(now - request.due)
        request.server = server.number
        request.begin_attempt(now)
        self.open[request] = None
        self.open_max = max(self.open_max, len(self.open))
        try:
            kept = None if fresh else take_quiet_connection(self._idle[server.number], self._drop)
            request.reused = kept is not None
            connection = kept or self._connect(server)
            connection.request, request.connection = request, connection.number
            connection.carried += 1
            self.open[request] = connection
            self._timeouts.append((now + int(self._limits.timeout * SECOND), request, request.attempts))
            if connection.ready:
                connection.send(wire)
            else:
                connection.pending = wire
            self._events.register(connection)
        except ConnectionLost as error:
            self._lost(self.open[request], request, error.cause, str(error), schedule)
        except OSError as error:
            self._lost(self.open[request], request, "connect", f"{server.url}: {error.strerror}", schedule)

    def _connect(self, server: InferenceServer) -> RequestConnection:
        self._opened += 1
        connection = RequestConnection(server, self._opened)
        self._connections[connection.fd] = connection
        self._connecting.append((connection.opened + int(self._limits.connect_timeout * SECOND), connection))
        return connection

    def _handle(self, connection: RequestConnection, mask: int, schedule: RequestSchedule) -> None:
        request = connection.request
        try:
            if mask & _NOT_READ and not (connection.ready and mask & _BROKEN):
                connection.on_writable()
            if mask & (READ | _BROKEN) and connection.connected:
                self._read(connection, request, schedule)
            if connection.pending and connection.ready:
                wire, connection.pending = connection.pending, b""
                if request is not None:
                    request.connect = time.monotonic_ns() - connection.opened
                connection.send(wire)
            if connection.registered != connection.wants and self._connections.get(connection.fd) is connection:
                self._events.register(connection)
        except ConnectionLost as error:
            self._lost(connection, request, error.cause, str(error), schedule)
        except BrokenAnswer as error:
            self._lost(connection, request, "not_http", str(error), schedule)

    def _read(self, connection: RequestConnection, request: InferenceRequest | None, schedule: RequestSchedule) -> None:
        if request is not None and connection.aside:
            parse_received_tokens(connection, request, self.lags)
        try:
            data, moment, lag = connection.read()
        except BlockingIOError:
            return
        if not data:
            self._take_end(connection, request, schedule)
            return
        if request is None:  # nobody asked for anything
            self._drop(connection)
            return
        self.lags.append(lag)
        request.take(data, moment, lag)
        if request.http.complete:
            unused = connection.carried != self._limits.connection_requests
            reusable = request.http.reusable and connection.all_sent and unused
            connection.request = None
            if reusable:
                self._idle[connection.server.number].append(connection)
            else:
                self._drop(connection)
            self._finish(request, moment, schedule)

    def _parse_all_aside(self, schedule: RequestSchedule) -> None:
        """Parse what was put aside of all answers, so that one that is broken ends soon."""
        for request, connection in list(self.open.items()):
            if connection is not None and connection.aside:
                try:
                    parse_received_tokens(connection, request, self.lags)
                except BrokenAnswer as error:
                    self._lost(connection, request, "not_http", str(error), schedule)

    def _take_end(
        self, connection: RequestConnection, request: InferenceRequest | None, schedule: RequestSchedule
    ) -> None:
        """Take the end of a connection: the end of an answer, or the loss of a connection that was kept alive."""
        if request is None:
            self._drop(connection)
            return
        moment = time.monotonic_ns()
        if not request.http.status:
            raise ConnectionLost("reset", "the server closed the connection without an answer")
        try:
            if not request.answer.done:
                request.http.on_connection_closed()
        except BrokenAnswer as error:
            self._lost(connection, request, "truncated", str(error), schedule)
            return
        connection.request = None
        self._drop(connection)
        self._finish(request, moment, schedule)

    def _finish(self, request: InferenceRequest, moment: int, schedule: RequestSchedule) -> None:
        request.decide_outcome(moment)
        if request.outcome == REFUSED and request.refusals < self._limits.retries:
            pause = _RETRY_PAUSE if request.retry_after is None else min(request.retry_after, self._limits.timeout)
            request.refusals += 1
            request.outcome = ""
            del self.open[request]
            schedule.send_again(request, moment + int(pause * SECOND))
            return
        self._note(request, schedule)

    def _lost(
        self,
        connection: RequestConnection | None,
        request: InferenceRequest | None,
        cause: str,
        text: str,
        schedule: RequestSchedule,
    ) -> None:
        """Take the loss of a connection with the request that it carried."""
        if connection is not None:
            self._abandon(connection, request)
        if request is None or request not in self.open:
            return
        if cause == "reset" and request.reused and not request.http.status:
            # The server had closed the idle connection while the request was under way, so it did not read it.
            del self.open[request]
            self._send(request, schedule, fresh=True)
            return
        request.fail(FAILED, cause, text, time.monotonic_ns())
        self._note(request, schedule)

    def _note(self, request: InferenceRequest, schedule: RequestSchedule) -> None:
        """Record a request that has ended, and schedule what follows."""
        self._record(request)
        self.ended(request)
        schedule.note_ended(request)
        if request.outcome == SUCCEEDED:
            self._bad, self._last_good = 0, request.ended
            self._events.learn_gap(request.answer.times)
            return
        self._bad += 1
        waited = (request.ended - self._last_good) / SECOND
        if schedule.gives_up and self._bad >= _HOPELESS_REQUESTS and waited >= _HOPELESS_SECONDS:
            self.stopped = (
                f"no request has succeeded for {waited:.0f} s; the last of {self._bad:,} errors: {request.error}"
            )

    def _record(self, request: InferenceRequest) -> None:
        del self.open[request]
        request.count_tokens()
        self.outcomes[request.outcome] += 1
        self.tokens += request.answer.tokens or 0
        self._rows.append(request.row(self._clock))

    def _flush(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self.write(rows)

    def _expire(self, schedule: RequestSchedule, now: int) -> None:
        """End what takes too long. Timeouts are equal, so that the oldest is first."""
        while self._timeouts and (self._timeouts[0][0] <= now or self._timeouts[0][1] not in self.open):
            _moment, request, attempt = self._timeouts.popleft()
            connection = self.open.get(request)
            if request.attempts == attempt and connection is not None and connection.request is request:
                what = "the answer is not complete" if request.headers else "no answer"
                self._lost(connection, request, "timeout", f"{what} after {self._limits.timeout:g} s", schedule)
        while self._connecting and (self._connecting[0][0] <= now or self._connecting[0][1].ready):
            _moment, connection = self._connecting.popleft()
            if not connection.ready and self._connections.get(connection.fd) is connection:
                text = f"{connection.server.url}: no connection after {self._limits.connect_timeout:g} s"
                self._lost(connection, connection.request, "connect", text, schedule)

    def _lose_open(self) -> None:
        """Record the requests whose answers nobody waits for any more."""
        for request, connection in list(self.open.items()):
            if connection is not None:
                self._abandon(connection, request)
            request.fail(LOST, "interrupted", "the load ended before the answer", time.monotonic_ns())
            self._record(request)
            self.ended(request)

    def _abandon(self, connection: RequestConnection, request: InferenceRequest | None) -> None:
        """Close the connection of a request after its last bytes were parsed."""
        if request is not None:
            with suppress(BrokenAnswer):
                parse_received_tokens(connection, request, self.lags)
        connection.request = None
        self._drop(connection)

    def _drop(self, connection: RequestConnection) -> None:
        if self._connections.get(connection.fd) is connection:
            del self._connections[connection.fd]
            idle = self._idle[connection.server.number]
            if connection in idle:
                idle.remove(connection)
            if connection.registered:
                self._events.unregister(connection)
            connection.close()
