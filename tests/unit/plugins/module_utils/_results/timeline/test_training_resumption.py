# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a training went on, from its steps and checkpoints."""

from __future__ import annotations

from math import isnan
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.training_resumption import (
    TrainingProgress,
    how_training_resumed,
    training_progress_by_workload,
)


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
