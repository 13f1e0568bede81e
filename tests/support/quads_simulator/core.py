"""The server: its state, and where each request goes."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any

from quads_simulator import answers, cron, lab, reads, writes
from quads_simulator.access import Access
from quads_simulator.answers import Answer, Refusal, Request
from quads_simulator.clock import Clock
from quads_simulator.state import Assignment, Schedule, rfc1123

API = "/api/v3"
DATABASE = (
    '(psycopg2.OperationalError) connection to server at "127.0.0.1", port 54329 failed: Connection refused\n\t'
    "Is the server running on that host and accepting TCP/IP connections?\n\n"
    "(Background on this error at: https://sqlalche.me/e/20/e3q8)"
)


class Simulator:
    """One QUADS server. ``handle`` is safe to call from many threads."""

    def __init__(self, config: lab.Config | None = None, clock: Clock | None = None) -> None:
        self.config = config or lab.Config()
        self.clock = clock or Clock(1_795_219_182.0)  # Fri, 20 Nov 2026 23:59:42 GMT
        self.faults = lab.Faults()
        self.access = Access(self)
        began = self.written(self.clock.now() - 27)
        self.clouds = {
            f"cloud{number:02d}": {"id": number, "last_redefined": began, "name": f"cloud{number:02d}"}
            for number in range(1, 12)
        }
        self.hosts = {one["name"]: one for one in lab.hosts(began, self.clouds[lab.SPARE])}
        self.vlans = lab.vlans()
        self.assignments: dict[int, Assignment] = {}
        self.schedules: dict[int, Schedule] = {}
        self.released_at: dict[str, float] = {}
        self.inventories: dict[str, str] = {}
        self.inventory_at = self.clock.now()
        self.ticket = self.config.next_ticket
        #: The lowest number that the next schedule may get: a number that was drawn is never given out again.
        self.schedules_from = 1
        #: What was answered, and what has come in, whether it was answered yet or not.
        self.log: list[tuple[str, str, int]] = []
        self.received: list[tuple[str, str]] = []
        self.lock = threading.Lock()
        #: What happens between the check and the insert of a schedule; by default others are served for a while.
        self.between: Callable[[str, str], None] = self._let_others
        self.access.add("admin@example.com", "simulator-admin", "admin")

    def stamp(self, moment: float) -> str:
        """Print a moment that the web server wrote: up to 2.2.6 its local time, called GMT."""
        return rfc1123(moment if self.config.dev else moment + self.config.utc_offset * 60)

    def written(self, moment: float) -> str:
        """Print a moment that the database wrote: in the zone of its session, and called GMT."""
        return rfc1123(moment + self.config.database_offset * 60)

    def local(self, text: str) -> float:
        """Read YYYY-MM-DDTHH:MM, in the server's local time, as epoch seconds."""
        from datetime import datetime, timezone

        naive = datetime.strptime(text, "%Y-%m-%dT%H:%M").replace(tzinfo=timezone.utc)
        return naive.timestamp() - self.config.utc_offset * 60

    def delay_of(self, request: Request) -> float:
        """Return how long the server works on a request before it has an effect, in seconds."""
        making = request.method == "POST" and request.path == f"{API}/assignments/self"
        return self.faults.ticket_delay if making and self.config.tickets else 0.0

    def handle(self, request: Request) -> Answer:
        """Answer one request; every answer carries the date."""
        with self.lock:
            self.clock.advance(0.001)  # no two requests come at the same moment
            if self.config.cron:
                cron.run(self)
            answer = self._injected(request) or self._answer(request)
            answer.headers["Date"] = rfc1123(self.clock.now())
            self.log.append((request.method, request.target, answer.status))
            return answer

    def date(self) -> str:
        """The header Date of an answer that is sent now."""
        return rfc1123(self.clock.now())

    def answer_now(self, request: Request) -> None:
        """Carry out a request whose answer nobody waits for."""
        self._answer(request)

    def _injected(self, request: Request) -> Answer | None:
        for rule in self.faults.answers:
            if rule["method"] in ("*", request.method) and rule["path"] in request.target:
                rule["times"] = rule.get("times", 1) - 1
                if rule["times"] <= 0:
                    self.faults.answers.remove(rule)
                if rule.get("executed"):
                    self._answer(request)
                if rule["status"] == 500:
                    return answers.crash().answer
                return answers.broken_gateway(rule["status"])
        return None

    def _answer(self, request: Request) -> Answer:
        try:
            if request.path.startswith("/instack/"):
                return self._file(request.path.removeprefix("/instack/"))
            handler, words = self._route(request)
            if self.faults.database_down:
                return self._without_database(request)
            return handler(self, request, *words)
        except Refusal as refusal:
            return refusal.answer

    def _without_database(self, request: Request) -> Answer:
        """Where a token has to be checked first, the error itself gets out."""
        if request.method == "GET" or request.path.endswith("/login"):
            return answers.crash().answer
        return answers.bare({"message": "Something went wrong", "error": DATABASE}, 500).answer

    def _file(self, name: str) -> Answer:
        text = self.inventories.get(name.removesuffix("_ocpinventory.json")) if name.endswith(".json") else None
        return answers.missing() if text is None else Answer(200, "application/json", text)

    def _route(self, request: Request) -> tuple[Callable[..., Answer], tuple[str, ...]]:
        for method, pattern, handler in ROUTES:
            found = re.fullmatch(API + pattern, request.path)
            if found and method == request.method:
                return handler, found.groups()
        raise Refusal(answers.missing())

    def json_of(self, request: Request) -> dict[str, Any]:
        """Return the body. Raises 415 unless it is declared as JSON."""
        if not request.headers.get("content-type", "").startswith("application/json"):
            text = (
                "Did not attempt to load JSON data because the request Content-Type was not &#39;application/json&#39;."
            )
            raise Refusal(answers.page(415, "Unsupported Media Type", text))
        return json.loads(request.body or b"{}")

    def _let_others(self, host: str, cloud: str) -> None:
        if self.faults.race_window:
            import time

            self.lock.release()
            time.sleep(self.faults.race_window)
            self.lock.acquire()

    def active_of(self, owner: str) -> list[Assignment]:
        """Return the active self-scheduled assignments of a user."""
        return [one for one in self.assignments.values() if one.active and one.owner == owner and one.self_schedule]

    def current(self, **wanted: str) -> list[Schedule]:
        """Return the current schedules of a cloud or a host."""
        now = self.clock.now()
        rows = [row for row in self.schedules.values() if row.current(now)]
        rows = [row for row in rows if wanted.get("cloud", row.assignment.cloud) == row.assignment.cloud]
        return [row for row in rows if wanted.get("host", row.host) == row.host]

    def is_free(self, host: str, start: float, end: float) -> bool:
        """Return whether a host could be scheduled: not broken, not retired, and no schedule in the window."""
        if self.hosts[host]["broken"] or self.hosts[host]["retired"]:
            return False
        rows = [row for row in self.schedules.values() if row.host == host]
        return not any(
            row.start <= start < row.end or row.start < end <= row.end or (start < row.start and end > row.end)
            for row in rows
        )

    def insert(self, assignment: Assignment, host: str, start: float, end: float) -> Schedule:
        """Add a schedule, asking nobody."""
        now = self.clock.now()
        number = max(max(self.schedules, default=0) + 1, self.schedules_from)
        row = Schedule(number, assignment, host, start, end, now)
        self.schedules[row.id] = row
        return row

    def end(self, assignment: Assignment) -> None:
        """Deactivate an assignment and end its schedules now."""
        now = self.clock.now()
        assignment.active = False
        for row in self.schedules.values():
            if row.assignment is assignment and row.end > now:
                row.end = now
                self.released_at[row.host] = now


def _access(name: str) -> Callable[..., Answer]:
    return lambda simulator, request: getattr(simulator.access, name)(request)


ROUTES: list[tuple[str, str, Callable[..., Answer]]] = [
    ("POST", "/register", _access("register")),
    ("POST", "/login", _access("login")),
    ("POST", "/logout", _access("logout")),
    ("GET", "/version", reads.version),
    ("GET", "/available", reads.available),
    ("GET", "/available/([^/]+)", reads.available_host),
    ("GET", "/hosts", reads.hosts),
    ("GET", "/hosts/([^/]+)", reads.host),
    ("GET", "/clouds", reads.clouds),
    ("GET", "/clouds/free", reads.free_clouds),
    ("GET", "/clouds/summary", reads.summary),
    ("GET", "/vlans", reads.vlans),
    ("GET", "/vlans/free", reads.free_vlans),
    ("GET", "/moves", reads.moves),
    ("GET", "/moves/progress", reads.progress),
    ("GET", "/assignments", reads.assignments),
    ("GET", "/assignments/active/([^/]+)", reads.active),
    ("GET", "/assignments/([^/]+)", reads.assignment),
    ("GET", "/schedules", reads.schedules),
    ("GET", "/schedules/current", reads.current),
    ("POST", "/assignments/self", writes.create),
    ("POST", "/assignments/terminate/([^/]+)", writes.terminate),
    ("PATCH", "/assignments/([^/]+)", writes.change),
    ("POST", "/schedules", writes.schedule),
    ("DELETE", "/schedules/([^/]+)", writes.administer),
    ("PATCH", "/schedules/([^/]+)", writes.administer),
    ("POST", "/tokens/([^/]+)", writes.make_token),
]
