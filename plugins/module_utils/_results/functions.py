# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The named functions that KPI definitions use. Each takes the data of a point and arguments and returns a Figure.

Times come as [earliest, latest]: a figure is computed from their middles, and its own interval from their bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results import words
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.quantile import Sample
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.stages import between
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.table import Table

#: Stage names that every timeline has: when it was to be sent, when it was sent, when the workload ended either way.
INTENDED, SENT, ENDED = "intended", "sent", "ended"
NEEDED = "needed"  # as ``since``: the last of the stages that the stage waits for


@dataclass(frozen=True)
class Figure:
    """What a function found; n of N rows; simulated when a played writer decides it; note says what must be said."""

    value: float | None
    n: int
    of: int
    simulated: bool = False
    interval: tuple[float, float] | None = None
    note: str = ""
    labels: Mapping[str, Any] = field(default_factory=dict)


class Data:
    """A point as the functions see it: numpy views of a table, and the rows of training.jsonl."""

    def __init__(self, table: Table, training: Sequence[Mapping[str, Any]] = ()) -> None:
        import numpy

        self.np = numpy
        self.table = table
        self.training = list(training)
        self.of = len(table)
        self.start = float(table.header["start"])
        self.end = float(table.header["end"])
        self.needs = table.needs
        self.played = {text for one in table.stages if one["simulated"] for text in (one["name"], one["writer"])}
        self.writers = {one["name"]: one["writer"] for one in table.stages}
        self._spans: dict[str, tuple[Any, Any]] = {}
        self._samples: dict[tuple[str, str], Sample] = {}

    def knows(self, stage: str) -> bool:
        """Return whether the timeline has such a stage."""
        return stage in self.table.earliest or stage in (INTENDED, SENT) or (stage == ENDED and bool(self.ends()))

    def pick(self, stages: str | Sequence[str]) -> str | None:
        """Return the first of ``stages`` that this timeline has."""
        return next((one for one in ([stages] if isinstance(stages, str) else stages) if self.knows(one)), None)

    def ends(self) -> list[str]:
        """Return the stages that end a workload."""
        return [one["name"] for one in self.table.stages if one["ends"]]

    def span(self, stage: str) -> tuple[Any, Any]:
        """Return the arrays earliest and latest of a stage, in seconds after the start of the load."""
        if stage not in self._spans:
            self._spans[stage] = self._span(stage)
        return self._spans[stage]

    def _span(self, stage: str) -> tuple[Any, Any]:
        view = self.np.frombuffer
        if stage in (INTENDED, SENT):
            column = view(self.table.moments[stage]) - self.start if self.of else self.np.empty(0)
            return column, column
        if stage == ENDED:
            spans = [self.span(one) for one in self.ends()]
            least = self.np.fmin.reduce
            return least([one[0] for one in spans]), least([one[1] for one in spans])
        if not self.of:
            return self.np.empty(0), self.np.empty(0)
        return view(self.table.earliest[stage]) - self.start, view(self.table.latest[stage]) - self.start

    def needed(self, stage: str) -> tuple[Any, Any]:
        """Return the span of the last of the stages that ``stage`` waits for; of sending when it waits for none."""
        needs = [one for one in self.needs.get(stage, []) if self.knows(one)]
        if not needs:
            return self.span(SENT)
        spans = [self.span(one) for one in needs]
        # maximum, not fmax: as long as one of them has not come, the last one has not come.
        return self.np.maximum.reduce([one[0] for one in spans]), self.np.maximum.reduce([one[1] for one in spans])

    def middle(self, stage: str) -> Any:
        """Return the middles of a stage's intervals, in seconds after the start of the load."""
        earliest, latest = self.span(stage)
        return (earliest + latest) / 2

    def simulated(self, stage: str, since: str = SENT) -> bool:
        """Return whether a played writer has a part in how long ``stage`` takes after ``since``."""
        if since == NEEDED:
            return bool(self.played & {stage, *self.needs.get(stage, ())} - (set(self.needs) - {stage}))
        return any(
            self.played & between(since, one, self.needs) for one in (self.ends() if stage == ENDED else [stage])
        )

    def sample(self, stage: str, since: str) -> Sample:
        """Return the durations of ``stage`` since ``since``, over all planned rows."""
        key = (stage, since)
        if key not in self._samples:
            first, last = self.span(stage)
            begin_first, begin_last = self.needed(stage) if since == NEEDED else self.span(since)
            waited = self.np.nan_to_num(self.np.maximum(self.end - self.start - begin_last, 0.0), nan=0.0)
            middle = (first + last) / 2 - (begin_first + begin_last) / 2
            self._samples[key] = Sample(middle, first - begin_last, last - begin_first, waited)
        return self._samples[key]


def _missing(data: Data, stages: Any) -> Figure:
    names = stages if isinstance(stages, str) else " or ".join(stages)
    return Figure(None, 0, data.of, note=f"this timeline has no stage {names}")


def _q(text: Any) -> float:
    """Read a quantile: p95, p99.9, max, min, or a number from 0 to 1."""
    if text in ("max", "min"):
        return 1.0 if text == "max" else 0.0
    try:
        found = float(str(text)[1:]) / 100 if str(text).startswith("p") else float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise InputError(f"quantile '{text}' is none of p50, p95, …, max, min or a number from 0 to 1")
    return found


def workloads(data: Data, outcome: str | Sequence[str] = "") -> Figure:
    """Count the workloads that ended so; all planned ones without ``outcome``."""
    wanted = {outcome} if isinstance(outcome, str) else set(outcome)
    if not any(wanted):
        return Figure(float(data.of), data.of, data.of)
    found = sum(1 for one in data.table.outcome if one in wanted)
    ends = [one["name"] for one in data.table.stages if one["ends"] in wanted]
    return Figure(float(found), data.of, data.of, any(data.simulated(one) for one in ends))


def reached(data: Data, stage: str | Sequence[str]) -> Figure:
    """Count the workloads that were seen to reach a stage."""
    name = data.pick(stage)
    if name is None:
        return _missing(data, stage)
    found = int((~data.np.isnan(data.span(name)[1])).sum())
    return Figure(float(found), data.of, data.of, data.simulated(name), labels={"stage": name})


def rate(data: Data, stage: str | Sequence[str]) -> Figure:
    """Workloads a second that reached a stage: their number over the time from the start of the load to the last."""
    name = data.pick(stage)
    if name is None:
        return _missing(data, stage)
    first, last = data.span(name)
    n = int((~data.np.isnan(last)).sum())
    played = data.simulated(name)
    if not n:
        return Figure(None, 0, data.of, played, note="none got there", labels={"stage": name})
    early, late = float(data.np.nanmax(first)), float(data.np.nanmax(last))
    middle = (early + late) / 2
    if middle <= 0:
        return Figure(None, n, data.of, played, note="no time passed", labels={"stage": name})
    interval = (n / late, n / early) if early > 0 else None
    return Figure(n / middle, n, data.of, played, interval, labels={"stage": name})


def makespan(data: Data, stage: str | Sequence[str] = ENDED) -> Figure:
    """Seconds from the start of the load until the last planned workload reached ``stage``."""
    name = data.pick(stage)
    if name is None:
        return _missing(data, stage)
    first, last = data.span(name)
    n = int((~data.np.isnan(last)).sum())
    played = data.simulated(name)
    if n < data.of:
        bound = words.seconds(max(data.end - data.start, 0.0))
        note = f"≥ {bound}: {data.of - n:,} of {data.of:,} were not seen to get there"
        return Figure(None, n, data.of, played, note=note)
    if not n:
        return Figure(None, 0, 0, played, note="nothing was planned")
    early, late = float(first.max()), float(last.max())
    return Figure((early + late) / 2, n, data.of, played, (early, late))


def duration(data: Data, stage: str | Sequence[str], quantile: Any, since: str | Sequence[str] = NEEDED) -> Figure:
    """A quantile of the seconds that ``stage`` took after ``since``, over all planned workloads.

    since: ``needed`` (the last of the stages that it waits for), ``sent``, ``intended``, or a stage.
    """
    name = data.pick(stage)
    begin = NEEDED if since == NEEDED else data.pick(since)
    if name is None or begin is None:
        return _missing(data, stage if name is None else since)
    labels = {"stage": name, "since": begin, "quantile": str(quantile)}
    found = data.sample(name, begin).quantile(_q(quantile))
    note = _note(found.n, found.of, found.at_least, _q(quantile))
    return Figure(found.value, found.n, found.of, data.simulated(name, begin), found.interval, note, labels)


def _note(n: int, of: int, at_least: float | None, q: float) -> str:
    if at_least is not None:
        return f"≥ {words.seconds(at_least)}: {of - n:,} of {of:,} were not seen to get there"
    if 0.5 < q < 1 and of * (1 - q) < 1:
        return f"close to the maximum: {of:,} rows are few for this quantile"
    return ""


def lateness(data: Data, quantile: Any) -> Figure:
    """A quantile of the seconds by which the first attempt was sent after it was meant to be."""
    intended = data.span(INTENDED)[0]
    due = ~data.np.isnan(intended)
    of = int(due.sum())
    if not of:
        return Figure(None, 0, 0, note="closed loop: nothing had a moment at which it was due")
    late = (data.span(SENT)[0] - intended)[due]
    waited = data.np.maximum(data.end - data.start - intended[due], 0.0)
    found = Sample(late, late, late, waited).quantile(_q(quantile))
    note = _note(found.n, of, found.at_least, _q(quantile)).replace("were not seen to get there", "were never sent")
    return Figure(found.value, found.n, of, False, found.interval, note, {"quantile": str(quantile)})


def concurrency(data: Data, begin: str | Sequence[str], until: str | Sequence[str] = ENDED) -> Figure:
    """The largest number of workloads that were between two stages at one moment."""
    name, last = data.pick(begin), data.pick(until)
    if name is None or last is None:
        return _missing(data, begin if name is None else until)
    first, second = data.span(name), data.span(last)
    n = int((~data.np.isnan(first[1])).sum())
    most = _most(data, (first[0] + first[1]) / 2, (second[0] + second[1]) / 2)
    interval = (float(_most(data, first[1], second[0])), float(_most(data, first[0], second[1])))
    return Figure(float(most), n, data.of, data.simulated(last), interval, labels={"stage": name, "until": last})


def level(data: Data, begin: Any, until: Any) -> tuple[Any, Any]:
    """Return the moments at which one more or one fewer is between ``begin`` and ``until``, and how many then are.

    begin, until: arrays, NaN where it never came; who never left stays.
    """
    np = data.np
    on = begin[~np.isnan(begin)]
    off = until[~np.isnan(begin) & ~np.isnan(until)]
    times = np.concatenate([on, off])
    steps = np.concatenate([np.ones(len(on)), -np.ones(len(off))])
    order = np.lexsort((steps, times))  # at one moment: first who leaves
    return times[order], np.cumsum(steps[order])


def _most(data: Data, begin: Any, until: Any) -> int:
    return int(level(data, begin, until)[1].max(initial=0))


def gpu_hours(data: Data, begin: str | Sequence[str], until: str | Sequence[str] = ENDED) -> Figure:
    """GPUs times hours between two stages, over all workloads; who did not end counts until the observation did."""
    name, last = data.pick(begin), data.pick(until)
    if name is None or last is None:
        return _missing(data, begin if name is None else until)
    np = data.np
    gpus = np.asarray(data.table.gpus, dtype=float)
    first, second = data.span(name), data.span(last)
    began = ~np.isnan(first[1])
    running = began & np.isnan(second[1])
    stop = max(data.end - data.start, 0.0)

    def hours(start: Any, end: Any) -> float:
        spent = np.where(began, np.where(running, stop, end) - start, 0.0)
        return float((gpus * np.maximum(spent, 0.0)).sum() / 3600)

    value = hours((first[0] + first[1]) / 2, (second[0] + second[1]) / 2)
    note = f"{int(running.sum()):,} counted until the observation ended" if running.any() else ""
    interval = (hours(first[1], second[0]), hours(first[0], second[1]))
    labels = {"stage": name, "until": last}
    return Figure(value, int(began.sum()), data.of, data.simulated(last), interval, note, labels)


def training(data: Data, figure: str, statistic: str = "median") -> Figure:
    """A statistic over what the trainings printed; N is the number of planned workloads."""
    rows = [one for one in data.training if figure in one["figures"]]
    values = [float(one["figures"][figure]) for one in rows]
    played = any(one["simulated"] for one in rows)
    n = len({one["index"] if one["index"] is not None else one["pod"] for one in rows})
    statistics: dict[str, Callable[[Any], Any]] = {
        "median": data.np.median,
        "mean": data.np.mean,
        "sum": data.np.sum,
        "min": data.np.min,
        "max": data.np.max,
    }
    if statistic not in statistics:
        raise InputError(f"statistic '{statistic}' is none of {', '.join(statistics)}")
    labels = {"figure": figure, "statistic": statistic}
    if not values:
        return Figure(None, 0, data.of, played, note="no log had this figure", labels=labels)
    return Figure(float(statistics[statistic](values)), n, max(data.of, n), played, labels=labels)


FUNCTIONS: dict[str, Callable[..., Figure]] = {
    one.__name__: one
    for one in (workloads, reached, rate, makespan, duration, lateness, concurrency, gpu_hours, training)
}
