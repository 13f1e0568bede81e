# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Share the GPU-seconds of a workload that failures have hit: useful, or lost by one of three causes.

Where no pod of the load holds GPUs, they are pod-seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate, pairwise
from math import inf, isnan, nan

from .pod_lifetimes import midpoint_of_span
from .recovery_stages import BLOCKED, REDONE, WAITING, FailingPod, Recovery


class _GpuLevels:
    """GPUs of one workload over time: of pods that have a node, of those that run, and of those that have succeeded."""

    def __init__(self, lives: list[FailingPod], end: float) -> None:
        changes: dict[float, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for pod in lives:
            run = midpoint_of_span(pod.running, inf)
            stop = min(pod.stop, end)
            for column, begin in enumerate((min(midpoint_of_span(pod.scheduled, inf), run), run)):
                if begin < stop:
                    changes[begin][column] += pod.weight
                    changes[stop][column] -= pod.weight
            if stop < end and not pod.broken:
                changes[stop][2] += pod.weight
                if pod.in_vain < end:
                    changes[pod.in_vain][2] -= pod.weight
        self._moments = sorted(changes)
        columns = zip(*(changes[moment] for moment in self._moments), strict=True)
        self._levels = list(zip(*map(accumulate, columns), strict=True))

    def pieces(self, begin: float, stop: float) -> Iterator[tuple[float, float, float, float]]:
        """Yield (seconds, held, running, succeeded) of each part of an interval."""
        inside = self._moments[bisect_left(self._moments, begin) : bisect_left(self._moments, stop)]
        for first, last in pairwise(sorted({begin, *inside, stop})):
            place = bisect_left(self._moments, last) - 1
            yield last - first, *(self._levels[place] if place >= 0 else (0.0, 0.0, 0.0))

    def most_before(self, moment: float) -> float:
        """Return the most GPUs of pods that ran or had succeeded at any time before a moment."""
        before = self._levels[: bisect_left(self._moments, moment)]
        return max((running + succeeded for _held, running, succeeded in before), default=0.0)


def share_gpu_seconds(
    recoveries: list[Recovery], lives: list[FailingPod], end: float, checkpoint_every: float
) -> tuple[float, float]:
    """Share the lost GPU-seconds of one workload among its recoveries; return those that it held, and useful ones.

    Until the workload is whole again, nothing is useful: what runs is blocked, and what misses to all that it had
    running before is waited for. Where recoveries overlap, the seconds are those of the first one.
    """
    levels = _GpuLevels(lives, end)
    first = min((midpoint_of_span(pod.scheduled, midpoint_of_span(pod.running, inf)) for pod in lives), default=inf)
    spent = list(levels.pieces(min(first, end), end))
    held = sum(seconds * holding for seconds, holding, _running, _succeeded in spent)
    useful = sum(seconds * running for seconds, _holding, running, _succeeded in spent)
    counted: set[int] = set()
    windows: list[tuple[float, float]] = []
    for recovery in recoveries:
        since, until = midpoint_of_span(recovery.injected), min(recovery.idle_until, end)
        if recovery.over:
            until = min(until, max((pod.stop for pod in lives if pod.stop < inf), default=until))
        begin = max(since, windows[-1][1] if windows else -inf)
        windows.append((begin, max(begin, until)))
        needed = levels.most_before(since)
        for seconds, holding, running, succeeded in levels.pieces(*windows[-1]):
            missing = max(0.0, needed - succeeded - holding)
            held += seconds * missing
            recovery.lost[WAITING] += seconds * (missing + holding - running)
            recovery.lost[BLOCKED] += seconds * running
        for pod in lives:
            if id(pod) not in counted and since <= pod.in_vain <= until:
                counted.add(id(pod))
                kept = recovery.resumption.kept if recovery.resumption is not None else nan
                worked = _worked_since_checkpoint(pod, windows, end, checkpoint_every, kept)
                recovery.lost[REDONE] += pod.weight * worked
        useful -= recovery.lost[BLOCKED] + recovery.lost[REDONE]
    return held, useful


def _worked_since_checkpoint(
    pod: FailingPod, windows: list[tuple[float, float]], end: float, checkpoint_every: float, kept: float
) -> float:
    """Return the seconds for which a pod worked in vain; those in which it was blocked are counted as that.

    kept: when its workload did the last work that it did not do again, NaN if it does not say so.
    """
    begin, stop = midpoint_of_span(pod.running, inf), min(pod.stop, end)
    begin = begin if isnan(kept) else max(begin, kept)
    if begin >= stop:
        return 0.0
    worked = stop - begin - sum(max(0.0, min(stop, last) - max(begin, first)) for first, last in windows)
    worked = max(0.0, worked)
    return worked % checkpoint_every if checkpoint_every and isnan(kept) else worked
