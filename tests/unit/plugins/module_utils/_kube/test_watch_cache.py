"""The cache of watched objects on a server that ends its watches at once, or sends objects without a name."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import watch
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from scripted_server import Asked, ScriptedServer, status_object

PODS = {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list", "watch"]}]}
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def stream(*objects: dict[str, Any]) -> bytes:
    """A watch's answer that ends after these objects."""
    lines = [json.dumps({"type": "ADDED", "object": item}).encode() + b"\n" for item in objects]
    return HEAD + b"".join(b"%x\r\n%b\r\n" % (len(line), line) for line in lines) + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "said",
    [
        stream(),
        (410, status_object(410, "Expired", "too old")),
        stream({"metadata": {"resourceVersion": "6"}}),
        stream({"metadata": {"resourceVersion": "6", "name": ["a"], "namespace": {}}}),
    ],
)
def test_a_cache_goes_on_with_pauses_between_watches_that_end_at_once(
    said: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = time.sleep
    watches = 0

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        sleep(0.01)

    def answer(asked: Asked) -> Any:
        nonlocal watches
        if "watch=1" in asked.path:
            watches += 1
            item = {"metadata": {"resourceVersion": "7", "name": "late", "namespace": "n"}}
            return said if watches < 5 else stream(item)
        return 200, PODS if asked.path == "/api/v1" else {"metadata": {"resourceVersion": "5"}, "items": []}

    monkeypatch.setattr(time, "sleep", pause)
    with (
        ScriptedServer(answer) as server,
        Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"), timeout=5) as client,
        watch.WatchCache(client) as cache,
    ):
        cache.follow("v1", "Pod")
        deadline = time.monotonic() + 60
        while cache.get("Pod", "n", "late") is None and time.monotonic() < deadline:
            cache.wait(cache.generation, 0.1)
        assert cache.get("Pod", "n", "late") is not None
    assert pauses[:4] == [watch._PAUSE] * 4


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"[]",
        b"5",
        b"{}",
        b"\xff",
        b"[" * 5000,
        b'{"type": "ADDED", "object": 5}',
        b'{"type": "MODIFIED", "object": {"metadata": {"resourceVersion": "1"}}}',
    ],
)
def test_a_line_of_a_watch_that_is_no_event_is_the_error_of_the_server(line: bytes) -> None:
    lines: Any = SimpleNamespace(lines=lambda: iter([(0.0, line)]))
    with pytest.raises(AccessError, match="a line of a watch: the answer has an unexpected form"):
        list(watch.events_of_watch_connection(lines))


def test_a_bookmark_has_no_name() -> None:
    line = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}'
    assert watch.parse_watch_line(line)["type"] == "BOOKMARK"
