"""Outcomes of workloads, and contradictions of the order of their stages."""

from __future__ import annotations

from array import array
from math import nan

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.stage_order_and_reduction import (
    ALL,
    OWN,
    TimelineStage,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.timeline_builder import (
    note_contradicted_order,
    workload_outcome,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import SentWorkload
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

CREATED = SentWorkload(outcome="created")


@pytest.mark.parametrize(
    ("succeeded", "failed", "deleted", "seen", "sent", "expected"),
    [
        (5.0, nan, False, True, CREATED, "succeeded"),
        (5.0, 4.0, False, True, CREATED, "failed"),
        (5.0, nan, True, True, CREATED, "succeeded"),
        (nan, nan, True, True, CREATED, "deleted"),
        (nan, nan, False, True, SentWorkload(outcome="no_answer"), "unfinished"),
        (nan, nan, False, False, CREATED, "unfinished"),
        (nan, nan, False, False, SentWorkload(outcome="already_mine"), "unfinished"),
        (nan, nan, False, False, SentWorkload(outcome="refused"), "refused"),
        (nan, nan, False, False, SentWorkload(outcome="no_answer"), "lost"),
        (nan, nan, False, False, None, "unsent"),
    ],
)
def test_the_first_ending_decides_and_else_what_is_known_of_sending(succeeded, failed, deleted, seen, sent, expected):
    endings = [(array("d", [succeeded]), "succeeded"), (array("d", [failed]), "failed")]
    assert workload_outcome(0, endings, deleted, seen, sent) == expected


def table_of(**stages: tuple[float, float]) -> TimelineTable:
    table = TimelineTable({"start": 100.0}, index=[0])
    table.earliest = {name: array("d", [span[0]]) for name, span in stages.items()}
    table.latest = {name: array("d", [span[1]]) for name, span in stages.items()}
    return table


STAGES = [
    TimelineStage("created", "Job", "created", OWN, "api-server", False),
    TimelineStage("pods_running", "Pod", "running", ALL, "node", True, needs=("created", "scheduler")),
]


@pytest.mark.parametrize(
    ("created", "running", "expected"),
    [
        ((101.0, 102.0), (101.5, 103.0), []),
        ((101.0, 102.0), (nan, nan), []),
        ((101.0, 102.0), (100.0, 100.5), ["pods_running ended 0.500000 s before created began"]),
        ((102.0, 101.0), (103.0, 104.0), ["created: after 2.000000 s and before 1.000000 s"]),
    ],
)
def test_reversed_bounds_and_stages_before_their_needs_are_noted_once(created, running, expected):
    table = table_of(created=created, pods_running=running)
    for _again in range(2):
        note_contradicted_order(table, STAGES)
    assert table.contradictions.get(0, []) == expected
