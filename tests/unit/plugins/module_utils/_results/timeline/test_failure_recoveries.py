# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures and pods joined: stages of a recovery, what never recovered, and where the GPU-seconds went."""

from __future__ import annotations

from math import inf, isnan
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.failure_recoveries import (
    PointFailures,
    join_failures,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.recovery_stages import (
    CAUSES,
    FailingPod,
    TrainingProgress,
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
        rows,
        pods,
        sizes,
        ended,
        more.get("end", 200.0),
        more.get("every", 0.0),
        lambda row: at(row["received"]),
        more.get("progress", {}),
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
    # a: 0 to 11, b: 0 to 161, a2: 74 to 175; and a GPU that was missed from 11 to 74.
    assert found.held == approx(11 + 161 + 101 + 63)
    # b without the time in which it was blocked, a2; the work of a was in vain.
    assert found.useful == approx(160 - 64 + 100)


def test_the_seconds_of_pods_count_where_no_pod_of_the_load_holds_gpus() -> None:
    def held_and_useful(gpus: float, other: float) -> tuple[bool, float, float]:
        pods = {"a": pod(1, 66, "deleted", gpus=gpus), "b": pod(1, 161, "succeeded", gpus=gpus)}
        pods |= {"a2": pod(75, 175, "succeeded", gpus=gpus), "other": pod(1, 101, "succeeded", index=1, gpus=other)}
        found = join(inject(0, 11, ["a"]), pods, {0: 2, 1: 1}, ended={0: "succeeded", 1: "succeeded"})
        (recovery,) = found.recoveries
        assert recovery.gpus == gpus
        return found.holds_gpus, found.held, found.useful

    assert held_and_useful(0, 0) == (False, approx(336 + 101), approx(196 + 100)), "as with one GPU for each pod"
    assert held_and_useful(1, 1) == (True, approx(336 + 101), approx(196 + 100))
    assert held_and_useful(0, 2) == (True, approx(202), approx(200)), "beside pods with GPUs, others hold nothing"


def test_a_workload_that_no_failure_was_aimed_at_is_wrongly_hit_if_its_pods_fail_or_are_evicted_later() -> None:
    evicted = pod(1, 66, "deleted", index=2)
    evicted.disrupted = at(65)
    before = pod(1, 9, "failed", index=3)
    removed = pod(1, 66, "deleted", index=4)
    pods = {"a": pod(1, 66, "deleted"), "b": pod(1, 60, "failed", index=1), "c": evicted, "d": before, "e": removed}
    assert join(inject(0, 11, ["a"]), pods, dict.fromkeys(range(5), 1)).wrongly_hit == 2
    assert join([], pods, dict.fromkeys(range(5), 1)).wrongly_hit == 0


@pytest.mark.parametrize(("outcome", "succeeded"), [("succeeded", 60), ("failed", inf), ("", inf)])
def test_it_is_known_when_a_workload_succeeded_without_being_whole_again(outcome: str, succeeded: float) -> None:
    pods = {"a": pod(1, 20, "failed"), "b": pod(1, 60, "succeeded")}
    (recovery,) = join(inject(0, 11, ["a"], "gpu_lost"), pods, {0: 2}, ended={0: outcome}).recoveries
    assert isnan(recovery.stages["whole"][0])
    assert (recovery.over, recovery.succeeded) == (bool(outcome), succeeded)


def test_a_redeployed_workload_does_not_need_the_pods_that_had_succeeded_before() -> None:
    pods = {"a": pod(1, 10, "failed"), "b": pod(1, 60, "succeeded"), "a2": pod(22, 65, "failed")}
    pods |= {name: pod(100, 190, "succeeded") for name in ("a3", "b3")}
    found = join(inject(0, 10, ["a"], "pod_killed"), pods, {0: 3}, ended={0: "succeeded"})
    assert found.recoveries[0].stages["whole"] == (22, 22)


def test_pods_that_had_succeeded_do_not_count_when_their_job_was_removed_and_their_work_is_lost() -> None:
    pods = {"a": pod(1, 60, "succeeded"), "b": pod(1, 70, "failed"), "a2": pod(100), "b2": pod(104)}
    pods["a"].disowned = at(80)
    (recovery,) = join(inject(0, 65, ["b"]), pods, {0: 2}).recoveries
    assert recovery.stages["whole"] == (104, 104), "not when the first pod of the new Job runs"
    assert recovery.lost["redone"] == (60 - 1) + (65 - 1)
    # b from 65 s on, and a too from 80 s on, when its work was lost; the new pods are whole together.
    assert recovery.lost["waiting"] == (80 - 65) + 2 * (99 - 80) + (1 + 1) + (103 - 100) + 1
    pods["a"].disowned = (float("nan"), float("nan"))
    assert join(inject(0, 65, ["b"]), pods, {0: 2}).recoveries[0].stages["whole"] == (100, 100)


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


def test_a_training_that_says_its_steps_is_idle_until_the_first_one_and_does_those_since_its_checkpoint_again() -> None:
    pods = {"a": pod(1, 20, "deleted"), "b": pod(1, 22, "failed"), "a2": pod(30), "b2": pod(32)}
    steps = [(float(3 + number), number) for number in range(1, 17)]  # the last one at 19 s
    steps += [(float(26 + number), number) for number in range(11, 25)]  # 11 at 37 s, 17 at 43 s
    progress = {0: TrainingProgress(tuple(steps), (5, 10, 15, 20))}
    found = join(inject(0, 19.5, ["a"], "pod_killed"), pods, {0: 2}, progress=progress, every=2.0)
    (recovery,) = found.recoveries
    assert recovery.stages["whole"] == (32, 32)
    assert recovery.stages["resumed"] == (37, 37) and recovery.stages["useful"] == (43, 43)
    assert recovery.resumption is not None and recovery.resumption.steps == 6
    assert recovery.resumption.kept == 13 and recovery.resumption.seconds == 6.5
    # b until 22 s, and a2 and b2 until their first step; a and b since the checkpoint.
    assert recovery.lost["blocked"] == approx(2.5 + 7 + 5) and recovery.lost["redone"] == approx(6.5 + 6.5)


def test_a_network_that_is_cut_costs_until_it_is_back_and_a_training_until_its_next_step() -> None:
    pods = {"a": pod(1, 60, "succeeded"), "b": pod(1, 60, "succeeded"), "c": pod(1, 60, "succeeded")}
    back = {"type": "undone", "number": 0, "target": "n", "sent": 30.0, "answered": 31.0, "changed": True}
    rows = [*inject(0, 20, ["a", "b"], "network_cut"), back]
    (recovery,) = join(rows, pods, {0: 3}).recoveries
    assert recovery.pods == 2 and recovery.stages["whole"] == (30, 31) and isnan(recovery.stages["replaced"][0])
    assert recovery.lost["blocked"] == approx(3 * 10.5) and recovery.lost["waiting"] == recovery.lost["redone"] == 0
    steps = [(float(5 + number), number) for number in range(1, 17)] + [(36.0, 17), (37.0, 18)]
    found = join(rows, pods, {0: 3}, progress={0: TrainingProgress(tuple(steps))})
    (recovery,) = found.recoveries
    assert recovery.stages["resumed"] == recovery.stages["useful"] == (36, 36)
    assert recovery.resumption is not None and recovery.resumption.steps == 0
    assert recovery.lost["blocked"] == approx(3 * 16) and found.outages == []


def test_a_pod_that_fails_because_of_a_network_that_is_cut_is_replaced() -> None:
    pods = {"a": pod(1, 25, "failed"), "b": pod(1, 90, "succeeded"), "a2": pod(40, 90, "succeeded")}
    back = {"type": "undone", "number": 0, "target": "n", "sent": 30.0, "answered": 30.0, "changed": True}
    (recovery,) = join([*inject(0, 20, ["a", "b"], "network_cut"), back], pods, {0: 2}).recoveries
    assert recovery.stages["whole"] == (40, 40) and recovery.stages["disrupted"] == (25, 25)


def test_a_training_that_never_goes_on_is_idle_until_the_end_although_its_pods_run() -> None:
    pods = {"a": pod(1, 20, "deleted"), "a2": pod(30)}
    progress = {0: TrainingProgress(((5.0, 1), (6.0, 2)))}
    found = join(inject(0, 19.5, ["a"], "pod_killed"), pods, {0: 1}, progress=progress, end=100.0)
    (recovery,) = found.recoveries
    assert recovery.stages["whole"] == (30, 30) and isnan(recovery.stages["useful"][0])
    assert recovery.lost["blocked"] == 70


def test_a_training_that_succeeds_without_a_further_step_is_idle_only_until_it_is_whole() -> None:
    pods = {"a": pod(1, 20, "deleted"), "a2": pod(30, 60, "succeeded")}
    progress = {0: TrainingProgress(((5.0, 1), (19.0, 2)))}
    rows = inject(0, 19.5, ["a"], "pod_killed")
    found = join(rows, pods, {0: 1}, progress=progress, end=1000.0, ended={0: "succeeded"})
    (recovery,) = found.recoveries
    assert recovery.idle_until == 30 and recovery.resumption is not None and recovery.resumption.succeeded
    assert recovery.lost == {"waiting": approx(10.5), "blocked": 0, "redone": approx(0.5)}


def test_what_a_training_does_again_counts_for_the_first_failure_that_hit_it_before_it_resumed() -> None:
    pods = {"a": pod(1, 20, "deleted"), "a2": pod(30, 41, "deleted"), "a3": pod(50, 90, "deleted"), "a4": pod(100)}
    steps = [(10.0 + number, number) for number in range(1, 9)]  # until 18 s
    steps += [(54.0 + number, number) for number in range(5, 11)]  # 5 at 59 s, 10 at 64 s
    steps += [(100.0 + number, number) for number in range(7, 20)]
    progress = {0: TrainingProgress(tuple(steps), (4, 6))}
    kills = [(19.5, "a"), (40.0, "a2"), (89.0, "a3")]
    rows = [row for number, (at, uid) in enumerate(kills) for row in inject(number, at, [uid], "pod_killed", uid)]
    redone = [recovery.resumption for recovery in join(rows, pods, {0: 1}, progress=progress).recoveries]
    assert [resumption.steps for resumption in redone if resumption is not None] == [4, 0, 4]
    assert [resumption.seconds for resumption in redone if resumption is not None] == [5.5, 0, 29]


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


def test_a_pod_may_be_replaced_before_the_request_that_kills_it_is_answered() -> None:
    rows = inject(0, 10, ["a"], "pod_killed")
    rows[1]["answered"] = 10.6
    pods = {"a": pod(1, 10.1, "deleted"), "a2": pod(11.1)}
    (recovery,) = join(rows, pods, {0: 1}).recoveries
    assert recovery.stages["replaced"] == approx((10.1, 10.1)) and recovery.stages["whole"] == (11.1, 11.1)


def test_a_failure_that_ended_no_pod_is_no_recovery() -> None:
    back = {"a": pod(1, 60, "succeeded")}
    assert join(inject(0, 10, ["a"]), back, {0: 1}).recoveries == [], "the node came back before it was missed"
    refused = {"a": pod(1)}
    assert join(inject(0, 10, ["a"], "node_drained"), refused, {0: 1}).recoveries == []
    rows = inject(0, 10, ["a"], "node_drained")
    rows[0]["pods"][0] |= {"namespace": "ns", "name": "p"}
    rows[1]["left"] = ["ns/p"]
    killed_later = {"a": pod(1, 50, "deleted")}
    assert join(rows, killed_later, {0: 1}).recoveries == [], "its budget refused, and it ended for another reason"
    evicted = {"a": pod(1)}
    evicted["a"].disrupted = at(12)
    assert len(join(inject(0, 10, ["a"], "node_drained"), evicted, {0: 1}).recoveries) == 1
    assert len(join(inject(0, 10, ["a"]), {"a": pod(1)}, {0: 1}).recoveries) == 1, "its node was lost until the end"


def test_a_workload_is_not_whole_with_fewer_pods_than_ran_before() -> None:
    pods = {f"a{number}": pod(1, 12, "deleted") for number in range(4)} | {f"b{number}": pod(1) for number in range(4)}
    pods |= {f"c{number}": pod(30) for number in range(2)}
    (recovery,) = join(inject(0, 10, [f"a{number}" for number in range(4)]), pods, {0: 6}).recoveries
    assert isnan(recovery.stages["whole"][0])


def test_a_second_pod_that_is_lost_is_waited_for_until_both_are_replaced() -> None:
    pods = {"a": pod(1, 12, "deleted"), "b": pod(1, 17, "deleted"), "a2": pod(30), "b2": pod(30)}
    found = join([*inject(0, 10, ["a"]), *inject(1, 15, ["b"], target="m")], pods, {0: 2}, end=100.0)
    first, second = found.recoveries
    assert first.lost == {"waiting": 5 + 2 * 15, "blocked": 5, "redone": 9 + 9}
    assert second.lost == {"waiting": 0, "blocked": 0, "redone": 0}, "the same seconds count once"
    assert found.useful == approx(2 * 70)


def test_what_was_blocked_is_not_done_again_as_well() -> None:
    pods = {"a": pod(1, 12, "deleted"), "b": pod(1, 42, "deleted"), "a2": pod(30), "b2": pod(50)}
    found = join([*inject(0, 10, ["a"]), *inject(1, 40, ["b"], target="m")], pods, {0: 2}, end=100.0)
    assert found.recoveries[0].lost == {"waiting": 20, "blocked": 20, "redone": 9}
    assert found.recoveries[1].lost == {"waiting": 10, "blocked": 10, "redone": 9 + 10}
    assert found.useful == approx(10 + 2 * 50)


def test_a_replacement_that_waits_for_another_one_is_blocked() -> None:
    pods = {"a": pod(1, 12, "deleted"), "b": pod(1, 12, "deleted"), "c": pod(1), "a2": pod(20), "b2": pod(30)}
    (recovery,) = join(inject(0, 10, ["a", "b"]), pods, {0: 3}).recoveries
    assert recovery.lost == {"waiting": 10 * 2 + 10, "blocked": 10 + 10 * 2, "redone": 18}


def test_changes_of_a_node_belong_to_the_failure_before_them() -> None:
    pods = {"a": pod(1, 12, "deleted"), "a2": pod(20, 52, "deleted"), "a3": pod(60)}
    rows = [*inject(0, 10, ["a"]), *inject(1, 50, ["a2"]), node(55)]
    first, second = join(rows, pods, {0: 1}).recoveries
    assert isnan(first.stages["detected"][0]) and second.stages["detected"] == (55, 55)


def test_a_node_is_back_when_it_is_ready_after_it_was_missed() -> None:
    rows = [*inject(0, 11, ["a"]), node(12, ready="True"), node(60), node(80, ready="True"), node(90, ready="True")]
    (found,) = join(rows, {"a": pod(1, 66, "deleted")}, {0: 1}).recoveries
    assert (found.stages["detected"], found.node_back) == (at(60), at(80))
    (never,) = join(rows[:-2], {"a": pod(1, 66, "deleted")}, {0: 1}).recoveries
    assert isnan(never.node_back[0])


def test_a_change_that_a_list_found_lies_between_the_failure_and_the_list() -> None:
    rows = [*inject(0, 10, ["a"]), node(55)]
    pods = {"a": pod(1, 12, "deleted")}
    found = join_failures(rows, pods, {0: 1}, {}, 200.0, 0.0, lambda row: (-inf, row["received"]))
    assert found.recoveries[0].stages["detected"] == (10, 55)


def test_a_failure_whose_row_is_damaged_is_left_out_and_noted() -> None:
    rows = [inject(0, 10, ["a"])[1], *inject(1, 20, ["a"])]
    found = join(rows, {"a": pod(1, 22, "deleted")}, {0: 1})
    assert [recovery.number for recovery in found.recoveries] == [1]
    assert found.notes == ["failure 0 of n is left out: its row inject is missing in failures.jsonl"]


SPANS = st.tuples(st.integers(1, 50), st.integers(1, 60), st.sampled_from(["", "succeeded", "failed", "deleted"]))


FAILURES = st.lists(st.tuples(st.integers(2, 90), st.sets(st.integers(0, 5))), max_size=5)


@given(st.lists(SPANS, min_size=1, max_size=6), FAILURES, st.integers(1, 6), st.sampled_from([0.0, 4.0]))
def test_each_second_of_a_gpu_is_useful_or_starting_or_lost_by_one_cause(
    lives: list[tuple[int, int, str]], failures: list[tuple[int, set[int]]], size: int, every: float
) -> None:
    pods = {
        str(number): pod(begin, begin + lasts if end else None, end) for number, (begin, lasts, end) in enumerate(lives)
    }
    rows: list[Any] = []
    for number, (moment, hit) in enumerate(failures):
        known = (str(place) for place in hit if place < len(lives))
        alive = [uid for uid in known if pods[uid].running[0] < moment < pods[uid].stop]
        rows += inject(number, moment, alive)
    found = join(rows, pods, {0: size}, end=120.0, every=every)
    lost = {cause: sum(recovery.lost[cause] for recovery in found.recoveries) for cause in CAUSES}
    assert all(seconds >= -1e-6 for seconds in lost.values()) and found.useful >= -1e-6
    windows = [
        (recovery.injected[0], 120.0 if isnan(whole := recovery.stages["whole"][0]) else whole)
        for recovery in found.recoveries
    ]
    starting = working = most = 0.0
    for second in range(120):
        at_work = sum(life.running[0] <= second < life.stop for life in pods.values())
        held = sum(life.scheduled[0] <= second < life.stop for life in pods.values())
        most += max(held, len(lives))
        if not any(first <= second < last for first, last in windows):
            starting += held - at_work
            working += at_work
    assert found.held == approx(found.useful + starting + sum(lost.values()))
    assert found.useful + lost["redone"] == approx(working)
    assert found.held <= most + 1e-6, "no more GPUs than there are"


@pytest.mark.parametrize(
    ("kind", "changed", "back"),
    [
        ("api_away", True, (2000.0, 2000.1)),
        ("api_away", False, (10.0, 35.0)),  # its guard let it go on when the load was killed
        ("controller_restarted", False, (2000.0, 2000.1)),
    ],
)
def test_an_outage_of_a_killed_load_does_not_last_until_the_cleanup(
    kind: str, changed: bool, back: tuple[float, float]
) -> None:
    rows = [*inject(1, 10, [], kind, "server"), undone(1, changed)]
    rows[0]["duration"] = 20
    [outage] = join(rows, {}, {}, end=3000.0).outages
    assert outage.undone == pytest.approx(back)


def undone(number: int, changed: bool) -> dict[str, Any]:
    return {
        "type": "undone",
        "number": number,
        "target": "server",
        "sent": 2000.0,
        "answered": 2000.1,
        "changed": changed,
    }
