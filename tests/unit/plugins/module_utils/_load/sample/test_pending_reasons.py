"""Why workloads wait: in the words of who knows, once for all that wait for the same."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample import (
    workload_progress_and_waits,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds

FULL = (
    "0/{0} nodes are available: {0} Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: "
    "0/{0} nodes are available: "
    "{0} No preemption victims found for incoming pod."
)


def hindrance(kind: str, *conditions: dict[str, Any]) -> str:
    compiled = stage_definitions.compile_stages_of_kind(workload_kinds.load_kind_by_name_or_path(kind).definition)
    return stage_definitions.why_object_waits({one["type"]: one for one in conditions}, compiled.awaited)


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        ("pod", {"type": "PodScheduled", "message": FULL.format(2), "reason": "Unschedulable"}),
        (
            "workload",
            {"type": "QuotaReserved", "message": "couldn't assign flavors to pod set main", "reason": "Pending"},
        ),
    ],
)
def test_a_condition_that_is_false_says_why(kind: str, condition: dict[str, Any]) -> None:
    other = {"type": "Other", "status": "False", "message": "something else"}
    assert hindrance(kind, other, {**condition, "status": "False"}) == condition["message"]
    assert hindrance(kind, other, {**condition, "status": "True"}) == ""


def test_what_differs_in_numbers_and_names_only_is_one_reason_and_the_most_frequent_comes_first() -> None:
    said = [
        FULL.format(2),
        FULL.format(3),
        'pods "a-1" is forbidden',
        FULL.format(2),
        'pods "b-7" is forbidden',
        "rare",
    ]
    assert workload_progress_and_waits.group_messages(said) == [
        (3, "0/2 nodes available: 2 Insufficient nvidia.com/gpu"),
        (2, 'pods "a-1" is forbidden'),
    ]


def test_a_reason_is_no_longer_than_a_line_can_hold() -> None:
    assert (
        len(workload_progress_and_waits.shorten_pending_reason("word " * 100)) <= workload_progress_and_waits.MAX_LENGTH
    )


def test_workloads_are_counted_and_what_a_pod_says_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(workload_progress_and_waits.time, "monotonic", lambda: now[0])
    held = workload_progress_and_waits.PendingReasons()
    held.note("queued", 1, "no quota", False)
    for uid, index in (("a", 0), ("b", 0), ("c", 1), ("d", 2)):
        held.note(uid, index, "no nodes", True)
    assert held.reasons(lambda index: index == 2) == [(2, "no nodes")]
    held.note("c", 1, "", True)
    held.note("a", None, "", True)
    assert held.reasons(lambda _index: False) == [(2, "no nodes")], "counted again within a second"
    now[0] += 1.0
    assert held.reasons(lambda index: index == 2) == [(1, "no quota"), (1, "no nodes")]


def test_a_line_says_how_many_wait_for_what() -> None:
    assert workload_progress_and_waits.format_pending_reasons([(12, "0/0 nodes available"), (1, "no quota")]) == [
        "12 pending: 0/0 nodes available",
        "1 pending: no quota",
    ]


def test_equal_messages_are_searched_for_names_and_numbers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    class Pattern:
        def sub(self, _by: str, text: str) -> str:
            searched.append(text)
            return text.rstrip("0123456789")

    monkeypatch.setattr(workload_progress_and_waits, "_OWN", Pattern())
    assert workload_progress_and_waits.group_messages(["needs 1"] * 1000 + ["needs 2"]) == [(1001, "needs 1")]
    assert searched == ["needs 1", "needs 2"]


def test_the_reason_of_a_refused_pod_is_not_cut_before_its_limit() -> None:
    reason = "maximum cpu usage per Container is 1, but limit is 2"
    message = f'Error creating: pods "t1125-abcdef-001-12-xk2p9" is forbidden: {reason}'
    assert workload_progress_and_waits.shorten_pending_reason(message) == reason
