# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a training went on, from its steps and checkpoints."""

from __future__ import annotations

import json
from math import inf, isnan
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.failure_recoveries import (
    read_point_failures,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.recovery_stages import (
    QueueCollector,
    TrainingProgress,
    find_queue_stages,
    find_topology_stages,
    how_training_resumed,
    training_progress_by_workload,
)
from run_directory import RUN, World, write_point


def steps(*groups: tuple[float, range]) -> tuple[tuple[float, int], ...]:
    """One step a second; each group begins at its moment."""
    return tuple((begin + place, step) for begin, group in groups for place, step in enumerate(group))


@pytest.mark.parametrize(
    ("every", "checkpoints", "first", "expected"),
    [
        (1, (), 21, 20),  # each step is logged, so the first one says it
        (1, (10, 20, 30), 21, 20),
        (5, (12, 24), 15, 12),  # a checkpoint between two steps that were logged
        (5, (), 15, 10),  # which one is unknown: the earliest possible
    ],
)
def test_the_checkpoint_is_the_one_before_the_first_step(
    every: int, checkpoints: tuple[int, ...], first: int, expected: int
) -> None:
    before, again = range(every, 35 + 1, every), range(first, 60, every)
    progress = TrainingProgress(steps((10.0, before), (100.0, again)), checkpoints)
    found = how_training_resumed(progress, 50.0, 5.0, 90.0)
    assert found.resumed == 100.0 and found.steps == 35 - expected
    useful = next(moment for moment, step in progress.steps if moment >= 90 and step > 35)
    assert found.useful == useful


def test_without_a_checkpoint_all_work_is_done_again() -> None:
    progress = TrainingProgress(steps((10.0, range(1, 9)), (100.0, range(1, 20))))
    found = how_training_resumed(progress, 30.0, 5.0, 90.0)
    assert (found.steps, found.kept, found.seconds) == (8, 5.0, 25.0)


def test_one_that_was_hit_before_its_first_step_does_nothing_again_and_one_that_is_gone_never_goes_on() -> None:
    found = how_training_resumed(TrainingProgress(steps((100.0, range(1, 20)))), 30.0, 5.0, 90.0)
    assert (found.steps, found.resumed, found.useful) == (0, 100.0, 100.0)
    gone = how_training_resumed(TrainingProgress(steps((10.0, range(1, 9)))), 30.0, 5.0, float("inf"))
    assert isnan(gone.resumed) and isnan(gone.useful) and gone.steps == 0


def row(index: int, *moments: float) -> dict[str, Any]:
    return {
        "index": index,
        "progress": {"steps": [[number, at] for number, at in enumerate(moments)], "checkpoints": []},
    }


def test_steps_that_do_not_fit_the_clock_of_the_load_are_left_out_with_a_note() -> None:
    notes: list[str] = []
    rows = [row(0, 1010.0, 1020.0), row(1, 4610.0, 4620.0), {"index": 2}, row(0, 1030.0)]
    found = training_progress_by_workload(rows, 1000.0, 1100.0, notes)
    assert found == {0: TrainingProgress(((10.0, 0), (20.0, 1)))}
    assert len(notes) == 1 and "workload 1" in notes[0] and "3610 to 3620 s" in notes[0]


@pytest.mark.parametrize("logged", [(500, 1000, 1500), (1, 500, 1000), (500,)])
def test_a_training_that_does_not_log_each_step_is_left_out_with_a_note(logged: tuple[int, ...]) -> None:
    coarse = {"steps": [[step, 1010.0 + place] for place, step in enumerate(logged)], "checkpoints": [500]}
    notes: list[str] = []
    found = training_progress_by_workload(
        [{"index": 0, "progress": coarse}, row(1, 1010.0, 1020.0)], 1000.0, 1100.0, notes
    )
    assert list(found) == [1]
    assert len(notes) == 1 and "workload 0" in notes[0] and "logging_steps: 1" in notes[0]


#: Moments and the conditions that are true then: admitted, evicted at 30 s, back in the queue at 35 s, admitted again.
LIFE = (
    (1.0, {"admitted"}),
    (30.0, {"admitted", "evicted"}),
    (31.0, {"evicted"}),
    (35.0, {"evicted", "requeued"}),
    (36.0, {"admitted", "requeued"}),
    (80.0, {"admitted", "evicted", "requeued"}),
)


def collected(*life: tuple[float, set[str]]) -> QueueCollector:
    collector = QueueCollector()
    for moment, names in life:
        values = {name: name in names for name in ("created", "admitted", "evicted", "requeued")}
        collector.see(0, {"kind": "Workload", "values": values}, (moment, moment + 0.1))
    return collector


def test_each_stage_is_the_first_change_after_the_failure() -> None:
    collector = collected(*LIFE)
    collector.see(0, {"kind": "Pod", "values": {"evicted": True}}, (2.0, 2.0))
    stages = find_queue_stages(collector.changes[0], (20.0, 20.0), 40.0)
    assert {name: span[0] for name, span in stages.items()} == {"evicted": 30.0, "requeued": 35.0, "readmitted": 36.0}


def test_an_eviction_after_the_workload_was_whole_is_not_of_this_failure() -> None:
    stages = find_queue_stages(collected(*LIFE).changes[0], (40.0, 40.0), 60.0)
    assert all(isnan(first) for first, _last in stages.values())


def test_one_that_was_evicted_and_never_admitted_again_has_only_this_stage() -> None:
    stages = find_queue_stages(collected(*LIFE[:3]).changes[0], (20.0, 20.0), inf)
    assert stages["evicted"] == (30.0, 30.1)
    assert isnan(stages["requeued"][0]) and isnan(stages["readmitted"][0])


def marked(*life: tuple[float, set[str]]) -> QueueCollector:
    collector = QueueCollector()
    for moment, names in life:
        values = {name: name in names for name in ("admitted", "evicted", "node_unhealthy")}
        collector.see(0, {"kind": "Workload", "values": values}, (moment, moment + 0.1))
    return collector


def test_a_node_is_marked_after_the_failure_and_another_one_assigned_when_the_mark_is_gone() -> None:
    life = marked((1.0, {"admitted"}), (30.0, {"admitted", "node_unhealthy"}), (31.0, {"admitted"}))
    stages = find_topology_stages(life.changes[0], (20.0, 20.0), 40.0)
    assert stages == {"marked": (30.0, 30.1), "reassigned": (31.0, 31.1)}
    before = find_topology_stages(life.changes[0], (35.0, 35.0), 40.0)
    assert all(isnan(first) for first, _last in before.values()), "the mark is of an earlier failure"


@pytest.mark.parametrize(("back", "assigned"), [(30.5, False), (31.05, False), (40.0, True)])
def test_a_mark_that_ends_when_the_node_is_back_is_no_new_node(back: float, assigned: bool) -> None:
    life = marked((1.0, {"admitted"}), (30.0, {"admitted", "node_unhealthy"}), (31.0, {"admitted"}))
    stages = find_topology_stages(life.changes[0], (20.0, 20.0), 50.0, (back, back))
    assert stages["marked"] == (30.0, 30.1) and isnan(stages["reassigned"][0]) is not assigned


@pytest.mark.parametrize("returns", [False, True])
def test_the_failures_of_a_point_say_when_its_node_was_back(tmp_path: Path, returns: bool) -> None:
    folder = write_point(tmp_path / "000", World(count=2, workers=0))
    path = folder / "observations.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    pod = next(one for one in records if one["type"] == "event" and one["kind"] == "Pod" and one["index"] == 1)
    seen = {**pod, "kind": "Workload", "name": "w", "uid": "w", "owners": [], "how": "list", "resource_version": "0"}
    begin = pod["received"]
    for one in records:
        one.get("values", {}).pop("succeeded", None)
    marks = [{**seen, "received": begin + at, "values": {"node_unhealthy": at == 2}} for at in (0, 2, 4)]
    written = [json.dumps(one, separators=(",", ":")) + "\n" for one in [*records, *marks]]
    path.write_text("".join(written))
    failure = {"number": 0, "target": "n"}
    node = {"type": "node", "name": "n", "taints": [], "resource_version": "0"}
    rows = [
        {"type": "session", "anchor": next(one for one in records if "anchor" in one)["anchor"]},
        {"type": "inject", "kind": "node_lost", "pods": [{"uid": pod["uid"]}], **failure},
        {"type": "injected", "sent": begin + 1, "answered": begin + 1, **failure},
        {**node, "received": begin + 1.5, "ready": "Unknown"},
        *([{**node, "received": begin + 3, "ready": "True"}] if returns else []),
    ]
    (folder / "failures.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = read_point_failures(folder, RUN, "000").recoveries
    assert not isnan(found.stages["marked"][0]) and isnan(found.stages["reassigned"][0]) is returns


def test_a_mark_that_an_eviction_ends_is_no_new_node() -> None:
    life = marked((1.0, {"admitted"}), (30.0, {"admitted", "node_unhealthy"}), (31.0, {"evicted", "node_unhealthy"}))
    life.see(0, {"kind": "Workload", "values": {"node_unhealthy": None}}, (32.0, 32.1))
    stages = find_topology_stages(life.changes[0], (20.0, 20.0), 40.0)
    assert stages["marked"] == (30.0, 30.1) and isnan(stages["reassigned"][0])
