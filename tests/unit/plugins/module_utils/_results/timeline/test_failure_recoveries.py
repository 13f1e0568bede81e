# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures and pods joined: stages of a recovery, what never recovered, and where the GPU-seconds went."""

from __future__ import annotations

from math import isnan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.failure_recoveries import (
    CAUSES,
    FailingPod,
    PointFailures,
    join_failures,
)
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx


def at(moment: float) -> tuple[float, float]:
    return moment, moment


def pod(running: float, ended: float | None = None, end: str = "", index: int = 0, gpus: float = 1.0) -> FailingPod:
    """A pod that was created and scheduled a second before it ran."""
    return FailingPod(
        index,
        gpus,
        created=at(running - 1),
        scheduled=at(running - 1),
        running=at(running),
        ended=at(ended) if ended is not None else (float("nan"), float("nan")),
        end=end,
    )


def inject(number: int, moment: float, uids: list[str], kind: str = "node_lost", target: str = "n") -> list[Any]:
    row = {"number": number, "target": target}
    pods = [{"uid": uid} for uid in uids]
    return [
        {"type": "inject", "kind": kind, "pods": pods, **row},
        {"type": "injected", "sent": moment, "answered": moment, **row},
    ]


def node(received: float, ready: str = "Unknown", taints: tuple[str, ...] = (), name: str = "n") -> dict[str, Any]:
    return {"type": "node", "received": received, "name": name, "ready": ready, "taints": list(taints)}


def join(rows: list[Any], pods: dict[str, FailingPod], sizes: dict[int, int], **more: Any) -> PointFailures:
    ended = more.get("ended", {})
    return join_failures(
        rows, pods, sizes, ended, more.get("end", 200.0), more.get("every", 0.0), lambda row: at(row["received"])
    )


def test_each_stage_of_a_lost_node_and_its_costs() -> None:
    pods = {"a": pod(1, 66, "deleted"), "b": pod(1, 161, "succeeded"), "a2": pod(75, 175, "succeeded")}
    pods["a"].disrupted = at(65)
    rows = [
        *inject(0, 11, ["a"]),
        node(5, name="other"),
        node(60),
        node(62, taints=("node.kubernetes.io/unreachable:NoExecute",)),
    ]
    found = join(rows, pods, {0: 2}, ended={0: "succeeded"})
    (recovery,) = found.recoveries
    assert {stage: span[0] for stage, span in recovery.stages.items()} == {
        "detected": 60,
        "tainted": 62,
        "disrupted": 65,
        "replaced": 74,
        "scheduled": 74,
        "whole": 75,
    }
    assert recovery.lost == {"waiting": 64, "blocked": 64, "redone": 10}
    # a: 0 to 11, b: 0 to 161, a2: 74 to 175; and a GPU that was missed from 11 to 75.
    assert found.held == approx(11 + 161 + 101 + 64)
    # b without the time in which it was blocked, a2; the work of a was in vain.
    assert found.useful == approx(160 - 64 + 100)


def test_a_set_that_restarts_as_a_whole_does_the_work_of_all_its_pods_again() -> None:
    pods = {"a": pod(1, 20, "deleted"), "b": pod(1, 22, "deleted"), "a2": pod(30), "b2": pod(32)}
    found = join(inject(0, 11, ["a"], "pod_killed"), pods, {0: 2})
    (recovery,) = found.recoveries
    assert recovery.stages["whole"] == (32, 32) and recovery.pods == 1
    assert recovery.lost["redone"] == 20, "ten seconds of each"
    assert isnan(recovery.stages["detected"][0])


def test_work_is_done_again_from_the_last_checkpoint() -> None:
    pods = {"a": pod(1, 40, "deleted"), "a2": pod(50, 90, "succeeded")}
    found = join(inject(0, 34, ["a"]), pods, {0: 1}, every=10.0)
    assert found.recoveries[0].lost["redone"] == 3


def test_a_recovery_that_never_came_costs_until_the_end() -> None:
    found = join(inject(0, 10, ["a"]), {"a": pod(1, 30, "deleted")}, {0: 1}, end=100.0)
    (recovery,) = found.recoveries
    assert isnan(recovery.stages["whole"][0]) and not recovery.over
    assert recovery.lost["waiting"] == 90
    failed = join(inject(0, 10, ["a"]), {"a": pod(1, 30, "deleted")}, {0: 1}, end=100.0, ended={0: "failed"})
    assert failed.recoveries[0].over and failed.recoveries[0].lost["waiting"] == 0


def test_a_pod_that_had_succeeded_is_not_hit_and_a_lost_gpu_hits_no_pod() -> None:
    pods = {"a": pod(1, 9, "succeeded"), "b": pod(1)}
    assert join(inject(0, 10, ["a"]), pods, {0: 2}).recoveries == []
    lost = join(inject(0, 10, ["b"], "gpu_lost"), pods, {0: 2})
    assert lost.recoveries == [] and lost.injected == {"gpu_lost": 1}


SPANS = st.tuples(st.integers(1, 50), st.integers(1, 60), st.sampled_from(["", "succeeded", "failed", "deleted"]))


@given(st.lists(SPANS, min_size=1, max_size=6), st.lists(st.tuples(st.integers(2, 90), st.sets(st.integers(0, 5)))))
def test_what_is_held_is_useful_or_starting_or_lost_by_a_cause(
    lives: list[tuple[int, int, str]], failures: list[tuple[int, set[int]]]
) -> None:
    pods = {
        str(number): pod(begin, begin + lasts if end else None, end) for number, (begin, lasts, end) in enumerate(lives)
    }
    rows: list[Any] = []
    for number, (moment, hit) in enumerate(failures):
        uids = [str(one) for one in hit if str(one) in pods and pods[str(one)].running[0] < moment]
        rows += inject(number, moment, uids)
    found = join(rows, pods, {0: len(lives)}, end=120.0)
    assert found.useful >= -1e-6
    lost = {cause: sum(recovery.lost[cause] for recovery in found.recoveries) for cause in CAUSES}
    assert all(seconds >= 0 for seconds in lost.values())
    starting = sum(1.0 for _one in pods)  # each a second
    assert found.held == approx(found.useful + starting + sum(lost.values()))
