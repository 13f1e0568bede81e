# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that was measured at one point: its timeline as numpy arrays, attempts, training figures, metrics, pods.

Times are [earliest, latest], narrowed by the order of stages. A figure is computed from the midpoints, its measurement
interval from the bounds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec

from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_views
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.request_reader import RequestFigures
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

from ..timeline import failure_recoveries
from ..timeline.stage_order_and_reduction import stages_between
from .censored_quantiles import (
    LEAST_ROWS,
    BootstrapResampling,
    ConfidenceInterval,
    DurationSample,
    QuantileEstimate,
    percentile_interval,
)

#: Stage names of every timeline: when sending was due, when it was sent, when the workload ended with any outcome.
INTENDED, SENT, ENDED = "intended", "sent", "ended"
#: Parameter of the templates of a plan that states what scheduler_functions need.
SCHEDULING = "scheduling"
NEEDED = "needed"  # as ``since``: the last of the stages that the stage waits for
#: Outcome of workloads that were still waiting when the observation ended.
WAITING = "unfinished"
#: Samples that are kept: definitions ask for all quantiles of one before they ask for the next.
KEPT = 4


@dataclass(frozen=True)
class KpiValue:
    """The result of a function, from n of N rows; simulated: whether a simulated writer has a part in it.

    interval: bounds from the measurement errors of single times. confidence: bootstrap interval. writers: of the stages
    behind the figure. replicates: array (samples,) of the value in each bootstrap sample, for comparing runs. note: an
    explanation to show. at_least: the lower bound of an unknown value. inapplicable: the point can't have it.
    """

    value: float | None
    n: int
    of: int
    simulated: bool = False
    interval: tuple[float, float] | None = None
    note: str = ""
    labels: Mapping[str, Any] = field(default_factory=dict)
    confidence: ConfidenceInterval | None = None
    writers: tuple[str, ...] = ()
    replicates: Any = None
    at_least: float | None = None
    inapplicable: bool = False

    @classmethod
    def of_estimate(cls, estimate: QuantileEstimate, of: int | None = None, **more: Any) -> KpiValue:
        """Return a quantile with its bounds as the result of a function. of: instead of the rows of the estimate."""
        return cls(
            estimate.value,
            estimate.n,
            estimate.of if of is None else of,
            interval=estimate.interval,
            at_least=estimate.at_least,
            **more,
        )


def bootstrap_replicates_and_interval(
    drawing: BootstrapResampling,
    value: float | None,
    replicate: Callable[[BootstrapResampling], Any],
    order: str = "submission order",
) -> dict[str, Any]:
    """Return replicates and confidence interval of a figure, as arguments of KpiValue; as PointData.bootstrap()."""
    replicates = replicate(drawing)
    method = drawing.method.replace("submission order", order)
    return {"replicates": replicates, "confidence": percentile_interval(replicates, value, method)}


class NoFigure(Exception):
    """Ends a KPI function that has no value. ``figure`` says why."""

    def __init__(self, figure: KpiValue) -> None:
        super().__init__(figure.note)
        self.figure = figure


Arguments = ParamSpec("Arguments")
#: KPI functions by name: each takes a PointData and the arguments of a definition.
FUNCTIONS: dict[str, Callable[..., KpiValue]] = {}


def kpi_function(function: Callable[Arguments, KpiValue]) -> Callable[Arguments, KpiValue]:
    """Make a function one that definitions may name; if it raises NoFigure, it returns that figure."""

    @functools.wraps(function)
    def figure(*args: Arguments.args, **kwargs: Arguments.kwargs) -> KpiValue:
        try:
            return function(*args, **kwargs)
        except NoFigure as reason:
            return reason.figure

    FUNCTIONS[function.__name__] = figure
    return figure


@dataclass(frozen=True)
class MeasuredPoint:
    """A point of a matrix: its values of the matrix, all its settings, its rows of training.jsonl, its templates."""

    values: Mapping[str, Any]
    settings: Mapping[str, Any]
    training: Sequence[Mapping[str, Any]]
    templates: Sequence[str] = ()


@dataclass(frozen=True)
class PointExtras:
    """Measurements of a point besides its timeline.

    training: rows of training.jsonl. errors: reason -> failed attempts. metrics: name -> series, as written by role
    metrics. lives: reads the PodLifetimes of the point; called only by functions that need them. steps: (workloads per
    second, seconds) of a load in steps. matrix: this point in its matrix; others: reads the other points.
    users: users.json of users in pods. requests: reads the figures of requests to inference servers; None for others.
    failures: reads the failures that were injected; None if there were none.
    simulated_gpus: whether nodes have GPUs that role fake_gpu wrote into their status.
    """

    training: Sequence[Mapping[str, Any]] = ()
    errors: Mapping[str, int] = field(default_factory=dict)
    attempts: int = 0
    metrics: Mapping[str, Any] = field(default_factory=dict)
    lives: Callable[[], Any] | None = None
    steps: Sequence[tuple[float, float]] = ()
    users: Mapping[str, Any] = field(default_factory=dict)
    simulated_gpus: bool = False
    requests: Callable[[], RequestFigures] | None = None
    failures: Callable[[], failure_recoveries.PointFailures] | None = None
    matrix: MeasuredPoint | None = None
    others: Callable[[], Sequence[MeasuredPoint]] | None = None


class PointData:
    """Numpy views of a timeline: arrays (rows,) of times in seconds after the start of the load."""

    def __init__(self, table: TimelineTable, extras: PointExtras | None = None, resample: bool = True) -> None:
        import numpy

        self.np = numpy
        self.table = table
        self.extras = extras or PointExtras()
        self.of = len(table)
        self.start = float(table.header["start"])
        self.end = float(table.header["end"])
        self.needs = table.needs
        #: Of a load that others submitted, the stage that shows when a workload was sent; empty for ours.
        self.sent_is = str(table.header.get("sent_is") or "")
        self.simulated_stages = {stage["name"] for stage in table.stages if stage["simulated"]}
        self.writers = {stage["name"]: stage["writer"] for stage in table.stages}
        self.resampling = BootstrapResampling(self.of) if resample and self.of >= LEAST_ROWS else None
        self._narrowed: timeline_views.Spans | None = None
        self._spans: dict[str, tuple[Any, Any]] = {}
        self._samples: dict[tuple[str, str], DurationSample] = {}
        self._replicates: dict[tuple[str, str], dict[float, Any]] = {}
        #: The workloads on real nodes and the others, of a cluster with real and simulated nodes that both ran some.
        self.parts: tuple[PointData, PointData] | None = None
        self.gangs: Any = None  # computed by scheduler_functions when needed
        self.waiting = numpy.array([outcome == WAITING for outcome in table.outcome], dtype=bool)

    def knows(self, stage: str) -> bool:
        """Return whether the timeline has such a stage."""
        return stage in self.table.earliest or stage in (INTENDED, SENT) or (stage == ENDED and bool(self.end_stages()))

    @property
    def has_definitions(self) -> bool:
        """Return whether the stages of the kinds are known. If they are lost, figures may miss what there was."""
        return all(stage["kind"] or stage["name"] != "created" for stage in self.table.stages)

    def first_known_stage(self, stages: str | Sequence[str]) -> str | None:
        """Return the first of ``stages`` that this timeline has."""
        return next((stage for stage in ([stages] if isinstance(stages, str) else stages) if self.knows(stage)), None)

    def require_stage(self, stages: str | Sequence[str]) -> str:
        """Return the first of ``stages`` that this timeline has. Raises NoFigure if it has none."""
        name = self.first_known_stage(stages)
        if name is None:
            names = stages if isinstance(stages, str) else " or ".join(stages)
            raise NoFigure(KpiValue(None, 0, self.of, note=f"this timeline has no stage {names}", inapplicable=True))
        return name

    def end_stages(self) -> list[str]:
        """Return the stages that end a workload."""
        return [stage["name"] for stage in self.table.stages if stage["ends"]]

    def stage_bounds(self, stage: str) -> tuple[Any, Any]:
        """Return two arrays (rows,): earliest and latest times of a stage, in seconds after the start of the load."""
        if stage not in self._spans:
            self._spans[stage] = self._stage_bounds(stage)
        return self._spans[stage]

    def _stage_bounds(self, stage: str) -> tuple[Any, Any]:
        view = self.np.frombuffer
        if stage == SENT and self.sent_is:
            return self.stage_bounds(self.sent_is)
        if stage in (INTENDED, SENT):
            column = view(self.table.moments[stage]) - self.start if self.of else self.np.empty(0)
            return column, column
        if stage == ENDED:
            spans = [self.stage_bounds(end) for end in self.end_stages()]
            least = self.np.fmin.reduce
            return least([span[0] for span in spans]), least([span[1] for span in spans])
        if self._narrowed is None:
            self._narrowed = timeline_views.narrowed_spans(self.table)
        first, last = self._narrowed[stage]
        return first - self.start, last - self.start

    def needed_stage_bounds(self, stage: str) -> tuple[Any, Any]:
        """Return the span of the last of the stages that ``stage`` waits for, or of sending if it waits for none."""
        needs = [need for need in self.needs.get(stage, []) if self.knows(need)]
        if not needs:
            return self.stage_bounds(SENT)
        spans = [self.stage_bounds(need) for need in needs]
        # maximum, not fmax: as long as one of them is missing, the last one is missing.
        return self.np.maximum.reduce([span[0] for span in spans]), self.np.maximum.reduce([span[1] for span in spans])

    def stage_midpoints(self, stage: str) -> Any:
        """Return an array (rows,) of the midpoints of a stage's intervals, in seconds after the start of the load."""
        earliest, latest = self.stage_bounds(stage)
        return (earliest + latest) / 2

    def contributing_stages(self, stage: str, since: str = SENT) -> set[str]:
        """Return the stages and writers that determine how long ``stage`` takes after ``since``."""
        if since == NEEDED:
            return {stage, *self.needs.get(stage, ())} - (set(self.needs) - {stage})
        since = self.sent_is if since == SENT and self.sent_is else since
        stages: set[str] = set()
        for end in self.end_stages() if stage == ENDED else [stage]:
            stages |= stages_between(since, end, self.needs)
        return stages

    def is_simulated(self, stage: str, since: str = SENT) -> bool:
        """Return whether a simulated writer has a part in how long ``stage`` takes after ``since``."""
        return bool(self.simulated_stages & self.contributing_stages(stage, since))

    def provenance(self, stage: str, since: str = SENT) -> dict[str, Any]:
        """Return the writers of the stages behind a figure, and whether any is simulated, as arguments of KpiValue."""
        behind = self.contributing_stages(stage, since)
        writers = {self.writers.get(cause, cause) for cause in behind} - {""}
        return {"simulated": bool(self.simulated_stages & behind), "writers": tuple(sorted(writers))}

    def sample(self, stage: str, since: str) -> DurationSample:
        """Return the durations of ``stage`` after ``since``, in seconds, over all planned rows."""
        key = (stage, since)
        if key not in self._samples:
            first, last = self.stage_bounds(stage)
            begin_first, begin_last = self.needed_stage_bounds(stage) if since == NEEDED else self.stage_bounds(since)
            waited = self.np.nan_to_num(self.np.maximum(self.end - self.start - begin_last, 0.0), nan=0.0)
            middle = (first + last) / 2 - (begin_first + begin_last) / 2
            while len(self._samples) >= KEPT:  # of a million workloads each takes some 60 MB
                del self._samples[next(iter(self._samples))]
            self._samples[key] = DurationSample(middle, first - begin_last, last - begin_first, waited, self.waiting)
        return self._samples[key]

    def resampling_of(self, rows: int) -> BootstrapResampling | None:
        """Return the resampling of ``rows`` rows; None for too few rows or a point without resampling."""
        if self.resampling is None or rows < LEAST_ROWS:
            return None
        return self.resampling if rows == self.of else BootstrapResampling(rows)

    def bootstrap(
        self,
        rows: int,
        value: float | None,
        replicate: Callable[[BootstrapResampling], Any],
        order: str = "submission order",
    ) -> dict[str, Any]:
        """Return replicates and confidence interval of a figure over ``rows`` rows, as arguments of KpiValue.

        Args:
            rows: Number of rows; with too few of them there is no interval.
            value: The figure.
            replicate: Returns an array (samples,) of the figure in each bootstrap sample.
            order: Order of the rows, for the description of the method.
        """
        drawing = self.resampling_of(rows)
        return {} if drawing is None else bootstrap_replicates_and_interval(drawing, value, replicate, order)

    def bootstrap_quantile(self, sample: DurationSample, q: float, value: float | None) -> dict[str, Any]:
        """Return the same of a quantile; nothing for extremes, which have no bootstrap."""
        if not 0 < q < 1:
            return {}
        return self.bootstrap(sample.of, value, lambda drawing: drawing.quantiles(sample, [q])[:, 0])

    def replicates(self, stage: str, since: str, wanted: float) -> Any:
        """Return an array (samples,) of a quantile of these durations per bootstrap sample; None with too few rows.

        The usual quantiles of a stage are computed together, which takes no longer than one.
        """
        if self.resampling is None:
            return None
        known = self._replicates.setdefault((stage, since), {})
        if wanted not in known:
            asked = sorted({wanted, 0.5, 0.95, 0.99} - set(known))
            columns = self.resampling.quantiles(self.sample(stage, since), asked)
            known.update({q: columns[:, place] for place, q in enumerate(asked)})
        return known[wanted]
