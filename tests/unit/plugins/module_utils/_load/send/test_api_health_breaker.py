"""The circuit breaker judges several answers in a row, and what it looks at is what users would feel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.early_load_end import (
    MAX_BAD_PROBES,
    ApiServerProbe,
    LatencyJudge,
    probe_api_server,
)
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import RESET, ScriptedServer


@given(st.lists(st.booleans(), max_size=30))
def test_it_opens_at_the_first_run_of_bad_probes_and_never_before(bad: list[bool]) -> None:
    judge = LatencyJudge(limit=1.0)
    opened = [bool(judge.take(ApiServerProbe(2.0 if one else 0.5))) for one in bad]
    runs = [all(bad[end - MAX_BAD_PROBES : end]) for end in range(MAX_BAD_PROBES, len(bad) + 1)]
    assert any(opened) is any(runs)
    if any(runs):
        assert opened.index(True) == runs.index(True) + MAX_BAD_PROBES - 1


def test_it_says_how_long_the_probes_took_and_what_was_allowed() -> None:
    judge = LatencyJudge(limit=1.0)
    told = [judge.take(ApiServerProbe(one)) for one in (1.5, 2.0, 3.25)]
    assert told[:2] == ["", ""]
    assert told[2] == "3 probe requests in a row took 1.50, 2.00, 3.25 s, and 1 s are allowed"


def test_trouble_counts_as_bad_however_fast_it_was_answered() -> None:
    judge = LatencyJudge(limit=1.0)
    told = [judge.take(ApiServerProbe(0.01, "/readyz answered 500")) for _each in range(3)]
    assert told[2].endswith("the last one: /readyz answered 500")


@pytest.mark.parametrize(
    ("ready", "pods", "trouble"),
    [
        (200, 200, ""),
        (403, 200, ""),
        (500, 200, "/readyz answered 500"),
        (200, 429, "a list of one pod was answered with 429"),
        (200, 403, ""),
        (200, None, "no answer"),
    ],
)
def test_a_look_is_bad_when_the_server_is_not_ready_busy_or_silent(
    ready: int, pods: int | None, trouble: str, tmp_path: Path
) -> None:
    def answer(asked: Any) -> Any:
        status = ready if asked.path == "/readyz" else pods
        return RESET if status is None else (status, {})

    with ScriptedServer(answer) as server, Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig")) as client:
        probe = probe_api_server(client, "mine")
    assert probe.trouble.startswith(trouble) and bool(probe.trouble) is bool(trouble)
