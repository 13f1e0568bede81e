"""The simulator answers as a real server was recorded to: status, content type and shape of the body."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from quads_simulator.answers import Request
from quads_simulator.clock import Clock
from quads_simulator.core import Simulator
from quads_simulator.lab import Config
from quads_simulator.state import Assignment
from quads_transcripts import Exchange, read, shape

FOLDER = Path(__file__).parent / "transcripts"

#: What holds no single request and answer, and what is tested in its place.
NOT_REPLAYED = {
    "94-deadline-day-notes": "a note of the time",
    "93-race-two-tenants-same-host": "36 parallel requests; test_two_tenants_get_the_same_host plays the race",
    "A0-quads-lib-0.1.18-against-server": "a session of another client library",
    "C0-client-timeout-on-create": "it has no answer; its request is replayed before C1 and its answer thrown away",
}

#: Who holds the token of a request; joe where nothing is said.
USERS = {
    "47": "ann",
    "60": "ann",
    "61": "ann",
    "62": "ann",
    "63": "ann",
    "70": "ann",
    "80": "ann",
    "94": "ann",
    "95": "ann",
    "96": "ann",
    "97c": "ann",
    "97d": "ann",
    "99a": "ann",
    "99c": "ann",
    "B2": "admin",
}


@dataclass
class Replay:
    """A server that is taken through the recorded session."""

    simulator: Simulator

    def token(self, name: str, exchange: Exchange) -> str:
        """Return the token with which a recorded request goes along."""
        number = name.split("-")[0]
        if exchange.token != "JWT" or number in ("84",):
            return self.old if number == "84" else exchange.token
        if number in ("90", "91", "92"):
            return self.expired
        token = self.simulator.access.token(f"{USERS.get(number, 'joe')}@example.com")
        if number == "83":
            self.old = token
        return token

    def send(self, name: str, exchange: Exchange) -> tuple[int, str, str]:
        """Send the recorded request at the recorded moment."""
        request = exchange.request
        headers = dict(request.headers)
        if exchange.user:
            headers["authorization"] = "Basic " + base64.b64encode(exchange.user.encode()).decode()
        elif exchange.token:
            headers["authorization"] = f"Bearer {self.token(name, exchange)}"
        answer = self.simulator.handle(Request(request.method, request.target, headers, request.body))
        return answer.status, answer.content_type, answer.text

    def before(self, name: str) -> None:
        """Do what was done between two recorded requests: the administrator's and other tenants' part."""
        steps = STEPS.get(name.split("-")[0])
        if steps:
            steps(self)

    def post(self, user: str, target: str, **body: str) -> int:
        """Send a request that was made but not recorded."""
        token = self.simulator.access.token(f"{user}@example.com")
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        request = Request("POST", f"/api/v3{target}", headers, json.dumps(body).encode())
        return self.simulator.handle(request).status


def _set(**values: object) -> Callable[[Replay], None]:
    def do(replay: Replay) -> None:
        for name, value in values.items():
            where = replay.simulator.faults if hasattr(replay.simulator.faults, name) else replay.simulator.config
            setattr(where, name, value)

    return do


def _fill_the_cloud(replay: Replay) -> None:
    for number, model in ((4, "r640"), (5, "r640"), (6, "r640"), (7, "r650"), (8, "r650"), (9, "r650"), (10, "r650")):
        name = f"s01-h{number:02d}-000-{model}.lab.example.com"
        assert replay.post("joe", "/schedules", cloud="cloud02", hostname=name) == 200


def _let_a_token_expire(replay: Replay) -> None:
    replay.expired = replay.simulator.access.token("joe@example.com")
    replay.simulator.access.tokens[replay.expired] = ("joe@example.com", replay.simulator.clock.now() - 1)


def _plan_for_the_administrator(replay: Replay) -> None:
    _set(enabled=True)(replay)
    simulator = replay.simulator
    now = simulator.clock.now()
    planned = Assignment(6, "cloud10", "boss", "planned", "77", True, now, self_schedule=False)
    simulator.assignments[6] = planned
    simulator.insert(planned, "s01-h12-000-r650.lab.example.com", now + 86400, now + 5 * 86400)


def _leave_only_the_spoof(replay: Replay) -> None:
    """Before the second part of the session joe's assignments were given back; one of the library's came and went."""
    simulator = replay.simulator
    for one in simulator.assignments.values():
        if one.owner in ("joe", "ann"):
            simulator.end(one)
    made = Assignment(7, "cloud02", "joe", "[SSM] lib", "4005", False, simulator.clock.now(), active=False)
    simulator.assignments[7] = made
    simulator.ticket = 4006


def _move_the_host(replay: Replay) -> None:
    simulator = replay.simulator
    assert replay.post("joe", "/schedules", cloud="cloud02", hostname="s01-h06-000-r640.lab.example.com") == 200
    simulator.hosts["s01-h06-000-r640.lab.example.com"].update(
        cloud=simulator.clouds["cloud02"], cloud_id=2, build=True, switch_config_applied=True
    )


def _time_out(replay: Replay) -> None:
    replay.simulator.ticket = 4000  # the ticket system had been started anew
    assert replay.post("joe", "/assignments/self", description="slow-jira run-id=abc123", owner="joe") == 201


STEPS: dict[str, Callable[[Replay], None]] = {
    "32": _set(tickets=False),
    "40": _set(tickets=True),
    "48": _fill_the_cloud,
    "80": _set(tickets_down=True),
    "81": _set(tickets_down=False),
    "90": _let_a_token_expire,
    "94": _set(deadline_day="friday"),
    "95": _set(deadline_day="sunday", deadline_hour=None),
    "96": _set(deadline_hour=21, enabled=False),
    "97a": _plan_for_the_administrator,
    "99b": _set(database_down=True),
    "B0": lambda replay: (_set(database_down=False)(replay), _leave_only_the_spoof(replay)),
    "B1": _move_the_host,
    "B5": lambda replay: _set_validated(replay),
    "C1": _time_out,
}


def _set_validated(replay: Replay) -> None:
    replay.simulator.assignments[8].validated = True


def _transcripts(dev: bool) -> list[Path]:
    return [path for path in sorted(FOLDER.glob("*.txt")) if path.stem.startswith("E") == dev]


def _server(config: Config, first: Exchange) -> Replay:
    config.cron = False  # an administrator's PATCH stood in for it when the transcripts were made
    simulator = Simulator(config, Clock(first.date.timestamp()))
    for name in ("joe", "ann", "admin"):
        simulator.access.add(f"{name}@example.com", "PASSWORD", "admin" if name == "admin" else "user")
    return Replay(simulator)


def _replayed(dev: bool) -> list[tuple[Exchange, tuple[int, str, str]]]:
    exchanges = [(path.stem, read(path)) for path in _transcripts(dev)]
    known = [(name, one) for name, one in exchanges if one is not None]
    config = Config(version="dev", tickets=False) if dev else Config()
    replay = _server(config, known[0][1])
    if not dev:
        del replay.simulator.access.users["joe@example.com"]  # he registers himself
    found = []
    for name, one in known:
        replay.simulator.clock.set(max(one.date.timestamp(), replay.simulator.clock.now()))
        replay.before(name)
        found.append((one, replay.send(name, one)))
    return found


RELEASED = {one.name: (one, got) for one, got in _replayed(dev=False)}
NEWER = {one.name: (one, got) for one, got in _replayed(dev=True)}


@pytest.mark.parametrize("name", [*RELEASED, *NEWER])
def test_the_simulator_answers_as_the_recorded_server_did(name):
    recorded, (status, content_type, text) = {**RELEASED, **NEWER}[name]
    assert (status, content_type) == (recorded.status, recorded.content_type), text
    try:
        body = json.loads(text)
    except ValueError:
        assert text.rstrip("\n") == recorded.text
        return
    assert shape(body) == shape(recorded.body)


@pytest.mark.parametrize("name", [*RELEASED, *NEWER])
def test_what_the_simulator_says_is_what_the_recorded_server_said(name):
    """Everything but tokens and the moments of creation: names, numbers, messages, availability."""
    recorded, (_, _, text) = {**RELEASED, **NEWER}[name]
    body = json.loads(text) if not isinstance(recorded.body, str) else text.rstrip("\n")
    assert _steady(body) == _steady(recorded.body)


def _steady(value: object) -> object:
    """Return a body without what depends on the second in which something was made."""
    if isinstance(value, dict):
        moving = {"auth_token", "created_at", "last_redefined", "start", "ip_free"}
        kept = {key: _steady(one) for key, one in value.items() if key not in moving}
        return {**kept, "end": "" if kept.get("end") else None} if "end" in kept else kept
    if isinstance(value, list):
        parts = [_steady(one) for one in value]
        # A database lists rows in the order in which they were last changed.
        return sorted(parts, key=str) if value and isinstance(value[0], dict) else parts
    return value


def test_every_transcript_is_replayed_or_says_why_not():
    missing = {path.stem for path in FOLDER.glob("*.txt")} - set(RELEASED) - set(NEWER)
    assert missing == set(NOT_REPLAYED)


def test_two_tenants_get_the_same_host(tmp_path):
    """The race of transcript 93: between the check and the insert of one request the other's goes through."""
    replay = _server(Config(), read(FOLDER / "01-register.txt"))
    simulator = replay.simulator
    assert replay.post("joe", "/assignments/self", description="a", owner="joe") == 201
    assert replay.post("ann", "/assignments/self", description="b", owner="ann") == 201
    host = "s01-h02-000-r640.lab.example.com"
    rows = []

    def between(name: str, cloud: str) -> None:
        simulator.between = lambda *_: None
        one = next(one for one in simulator.assignments.values() if one.owner == "ann")
        rows.append(simulator.insert(one, name, simulator.clock.now(), simulator.clock.now() + 3600))

    simulator.between = between
    assert replay.post("joe", "/schedules", cloud="cloud02", hostname=host) == 200
    assert len(simulator.current(host=host)) == 2
