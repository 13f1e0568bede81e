"""What the sampler finds out about the cluster: which kinds are kept in the etcd of our own writes, which versions."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds.sampling_spec import SamplingSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample import kind_follower, sampler
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.sampler import Sampler
from scripted_server import Asked, ScriptedServer, reply

OPEN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Cluster:
    """Jobs and leases in one etcd, events in another one whose resourceVersions are much higher."""

    def __init__(self) -> None:
        self.version = 1000
        self.lock = threading.Lock()
        self.server = ScriptedServer(self.answer)

    def answer(self, asked: Asked) -> Any:
        with self.lock:
            return self._answer(asked)

    def _answer(self, asked: Asked) -> Any:
        path = asked.path.partition("?")[0]
        if path == "/apis/batch/v1":
            return 200, {"resources": [{"name": "jobs", "kind": "Job", "namespaced": True}]}
        if path == "/api/v1":
            return 200, {"resources": [{"name": "events", "kind": "Event", "namespaced": True}]}
        if "watch=1" in asked.path:
            return OPEN
        if asked.method in ("POST", "PATCH"):
            self.version += 1
            labels = (json.loads(asked.body).get("metadata") or {}).get("labels")
            metadata = {"name": "x", "uid": "u", "labels": labels, "resourceVersion": str(self.version)}
            return reply(201 if asked.method == "POST" else 200, {"metadata": metadata})
        if asked.method == "GET":
            return 200, {"metadata": {"resourceVersion": str(9_000_000 if "/events" in path else self.version)}}
        return 200, {}


def definition(kind: str, versions: Any) -> stage_definitions.KindStages:
    return stage_definitions.compile_stages_of_kind(
        {"api_version": versions, "kind": kind, "stages": [{"name": "s", "field": "status.s", "writer": "node"}]}
    )


def sampled(folder: Path, cluster: Cluster, task: SamplingSpec, enough: Callable[[], bool]) -> list[str]:
    """Sample until there is enough, or ten seconds have passed; return what the sampler notes."""
    with cluster.server as server, Client.from_kubeconfig(server.kubeconfig(folder / "k"), timeout=5) as client:
        sampler = Sampler(client, task, MonotonicWallClock.start())
        sampler.start()
        sampler.watching()
        deadline = time.monotonic() + 120
        while not enough() and time.monotonic() < deadline:
            sampler.process_events(0.01)
        sampler.close("done", patience=1.0)
        return sampler.notes()


def test_kinds_of_another_etcd_are_told_apart(tmp_path: Path) -> None:
    kinds = (definition("Job", ["batch/v9", "batch/v1"]), definition("Event", "v1"))
    task = SamplingSpec("test-run", "001", tmp_path / "o.jsonl", "n", "n", kinds, frozenset(("Job",)), (), 100.0)

    def stores() -> dict[str, bool]:
        return {row["kind"]: row["ruler"] for row in files.read_json_lines(task.path) if row["type"] == "store"}

    cluster = Cluster()
    original = cluster._answer

    def answer(asked: Asked) -> Any:
        return (404, {}) if asked.path == "/apis/batch/v9" else original(asked)

    cluster._answer = answer  # type: ignore[method-assign]
    sampled(tmp_path, cluster, task, lambda: len(stores()) >= 2)
    assert stores() == {"Job": True, "Event": False}
    end = [row for row in files.read_json_lines(task.path) if row["type"] == "end"][0]
    assert end["canary"]["writes"] > 0 and end["canary"]["took"]["p50"] > 0 and end["cpu"] > 0


@pytest.mark.parametrize(
    ("status", "away", "told", "notes"),
    [
        (200, 0, True, []),
        (200, 9_000_000, False, []),
        (403, 0, False, ["stages are dated less precisely: no permission to list events in n"]),
    ],
)
def test_etcd_is_sounded_where_it_is_ours_and_we_may(
    tmp_path: Path, status: int, away: int, told: bool, notes: list[str]
) -> None:
    kinds = (definition("Job", "batch/v1"),)
    task = SamplingSpec("test-run", "001", tmp_path / "o.jsonl", "n", "n", kinds, frozenset(("Job",)), (), 100.0)
    cluster = Cluster()
    original, asked_for = cluster._answer, set()

    def answer(asked: Asked) -> Any:
        if "/events?" not in asked.path:
            return original(asked)
        asked_for.add(asked.path)
        at = cluster.version + away
        head = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"%d"}'
        return reply(status, head % at + b',"items":null}')

    def rows(what: str) -> list[dict[str, Any]]:
        return [row for row in files.read_json_lines(task.path) if row["type"] == what]

    cluster._answer = answer  # type: ignore[method-assign]

    def enough() -> bool:
        return len(rows("canary")) >= 40 and (not told or len(rows("sounding")) >= 15)

    assert sampled(tmp_path, cluster, task, enough) == notes
    assert asked_for == {"/api/v1/namespaces/n/events?fieldSelector=metadata.name%3Dtest-run-001-canary&limit=1"}
    assert bool(rows("sounding")) == told
    assert ("revision_probes" in rows("end")[0]) == (status == 200)
    writes = [int(row["resource_version"]) for row in rows("canary")]
    for row in rows("sounding"):
        assert row["sent"] < row["answered"] and min(writes) <= int(row["resource_version"]) <= max(writes)


def test_what_came_beside_the_end_of_a_watch_is_recorded_before_the_error_is_raised(tmp_path: Path) -> None:
    kinds = (definition("Job", "batch/v1"),)
    task = SamplingSpec("test-run", "001", tmp_path / "o.jsonl", "n", "n", kinds, frozenset(("Job",)), (), 0.0)
    thing = {"metadata": {"uid": "u", "name": "x", "resourceVersion": "1"}, "status": {"s": "t-1"}}
    with Cluster().server as server, Client.from_kubeconfig(server.kubeconfig(tmp_path / "k"), timeout=5) as client:
        sampler = Sampler(client, task, MonotonicWallClock.start())
        sampler._reader.put(
            (0, kind_follower.FAILED, time.monotonic(), ApiError("no longer allowed", 403, "Forbidden"))
        )
        sampler._reader.put((0, kind_follower.LIST, time.monotonic(), [thing]))
        with pytest.raises(ApiError, match="no longer allowed"):
            sampler.process_events(0.1)
        assert [row["uid"] for row in files.read_json_lines(task.path)] == ["u"]
        sampler.close("failed", patience=1.0)


@pytest.mark.parametrize(
    ("date", "stated"),
    [
        ("Sat, 28 Nov 2026 12:00:00 GMT", "2026-11-28T12:00:00+00:00"),
        ("Sat, 28 Nov 2026 21:00:00 +0900", "2026-11-28T12:00:00+00:00"),
        *[
            (text, None)
            for text in ("", None, "yesterday", "Sat, 99 Nov 2026 12:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359")
        ],
    ],
)
def test_the_time_that_a_server_states_is_in_utc_and_any_other_text_is_none(
    date: str | None, stated: str | None
) -> None:
    moment = sampler._parse_http_date(date)
    assert (moment and moment.isoformat()) == stated
