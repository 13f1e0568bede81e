# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a training went on after a failure, from what it says of its steps and checkpoints itself.

Moments are seconds after the start of the load, by the clock of the node on which the training writes its progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import nan
from typing import Any

#: Seconds by which the clock of a node may differ from ours before what the training says of its times is left out.
_TOLERANCE = 1.0


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of one training. steps: (moment, step) by their moments. checkpoints: their steps."""

    steps: tuple[tuple[float, int], ...]
    checkpoints: tuple[int, ...] = ()


@dataclass(frozen=True)
class Resumption:
    """How a training went on after a failure.

    resumed: it did a step again. useful: it did one that it had not done before. kept: when the work was done from
    which it went on. steps, seconds: what it does again. NaN where it did not come so far. succeeded: it succeeded
    without a further step.
    """

    resumed: float = nan
    useful: float = nan
    kept: float = nan
    steps: int = 0
    seconds: float = nan
    succeeded: bool = False


def training_progress_by_workload(
    rows: Iterable[Mapping[str, Any]], start: float, end: float, notes: list[str]
) -> dict[int, TrainingProgress]:
    """Return index -> progress from the rows of training.jsonl.

    What does not fit our clock, and trainings that do not log each step, are left out, with a note.
    start, end: of the observation, in seconds since 1970.
    """
    found: dict[int, TrainingProgress] = {}
    for row in rows:
        progress, index = row.get("progress"), row.get("index")
        if not progress or not progress["steps"] or index is None or index in found:
            continue
        steps = sorted((float(moment) - start, int(step)) for step, moment in progress["steps"])
        if steps[0][0] < -_TOLERANCE or steps[-1][0] > end - start + _TOLERANCE:
            notes.append(
                f"steps of workload {index} are left out: by the clock of its node, it did them"
                f" {steps[0][0]:.0f} to {steps[-1][0]:.0f} s after the start of the load, of {end - start:.0f} s"
            )
            continue
        if max(_steps_between_logged(steps), steps[0][1]) > 1:
            notes.append(
                f"steps of workload {index} are left out: it does not log each step, so it is unknown what it did again"
                " and when; its hyper-parameters need logging_steps: 1"
            )
            continue
        found[index] = TrainingProgress(tuple(steps), tuple(progress["checkpoints"]))
    return found


def how_training_resumed(
    progress: TrainingProgress, injected: float, begun: float, again: float, succeeded: bool = False
) -> Resumption:
    """Return how a training went on after a failure.

    begun: when its pods ran first. again: when the first pod ran that was made after the failure. succeeded: whether
    the training succeeded in the end.
    """
    before = [entry for entry in progress.steps if entry[0] < again]
    after = [entry for entry in progress.steps if entry[0] >= again]
    if not after:
        kept = max((moment for moment, _step in before), default=begun) if succeeded else nan
        return Resumption(kept=kept, succeeded=succeeded)
    last = max((step for _moment, step in before), default=0)
    resumed, first = after[0]
    useful = next((moment for moment, step in after if step > last), nan)
    from_step = min(_step_before(progress, first), last)
    kept = max((moment for moment, step in before if step <= from_step), default=begun)
    # Peers may do a step after the failure, before they notice it.
    stopped = max([injected, *(moment for moment, _step in before)])
    return Resumption(resumed, useful, kept, last - from_step, max(0.0, stopped - kept))


def _step_before(progress: TrainingProgress, first: int) -> int:
    """Return the step from which a training went on whose first step that it logged is ``first``."""
    every = _steps_between_logged(progress.steps)
    fitting = [step for step in progress.checkpoints if first - every <= step < first]
    return max(fitting, default=max(0, first - every))


def _steps_between_logged(steps: Sequence[tuple[float, int]]) -> int:
    """Return the number of steps from one that was logged to the next, 1 if it is unknown."""
    return min((later - step for (_a, step), (_b, later) in pairwise(steps) if later > step), default=1)
