# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions over training figures from logs, failed attempts and captured metrics.

Ratios compare the trainings of a point with those of another point of the matrix. Their intervals are of the ratio of
the means over the jobs of both points, by Student's t on logarithms; a job is one observation. They need three jobs at
both points together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..statistics import comparison_scale, group_comparison_intervals
from .censored_quantiles import LEVEL, ConfidenceInterval, DurationSample
from .point_data import KpiValue, MeasuredPoint, PointData, kpi_function

STATISTICS = ("median", "mean", "sum", "min", "max")
METHOD = "Student's t on logarithms, over the jobs of both points"
MODELS = "fine_tuning_models"


@kpi_function
def errors(data: PointData, reason: str = "") -> KpiValue:
    """Count the failed attempts (refused, to be retried, never answered), of ``reason`` if given."""
    if data.extras.requests is not None and not reason:
        # Requests to servers have no line for each attempt. Only the last one of those that succeeded did not fail.
        sent = sum(data.table.attempts)
        failed = sent - data.table.outcome.count("succeeded")
        return KpiValue(float(failed), sent, sent, **data.provenance("ended"))
    reasons = data.extras.errors
    count = reasons.get(reason, 0) if reason else sum(reasons.values())
    labels: dict[str, Any] = {"reason": reason} if reason else {"by_reason": dict(reasons)}
    of = data.extras.attempts
    return KpiValue(float(count), of, of, labels=labels, writers=("api-server",))


@kpi_function
def training(
    data: PointData, figure: str | Sequence[str], statistic: str = "median", per: str = "", template: str = ""
) -> KpiValue:
    """A statistic of a figure that trainings printed; N is the number of planned workloads.

    figure: its name in the logs; of several names the first that a log contains. per: ``gpu`` divides by the GPUs of
    the job. template: name of the template whose workloads count; all of them without it.
    """
    if statistic not in STATISTICS:
        raise formats.unknown_value_error("statistic", statistic, STATISTICS)
    if per not in ("", "gpu"):
        raise formats.unknown_value_error("per", per, ["gpu"])
    names = [figure] if isinstance(figure, str) else list(figure)
    rows, values = rows_with_printed_figure(data, names, template)
    labels: dict[str, Any] = {"figure": names[0], "statistic": statistic}
    if template:
        labels["template"] = template
    note = _note_of_left_out_figures(data.extras.training, names)
    if per:
        labels["per"] = per
        gpus = _gpus_by_workload(data)
        kept = [
            (row, value / gpus[row["index"]])
            for row, value in zip(rows, values, strict=True)
            if _has_row_gpus(gpus, row)
        ]
        without = "" if len(kept) == len(rows) else f"{len(rows) - len(kept):,} of {len(rows):,} used no GPU"
        note = "; ".join(filter(None, (without, note)))
        rows, values = [row for row, _value in kept], [value for _row, value in kept]
    return _statistic_over_training_rows(data, rows, values, statistic, labels, note)


def rows_with_printed_figure(
    data: PointData, names: Sequence[str], template: str = ""
) -> tuple[list[Mapping[str, Any]], list[float]]:
    """Return the rows that have one of these figures, in submission order, and the figure of each.

    template: name of the template whose workloads count; all of them without it.
    """
    of = dict(zip(data.table.index, data.table.template, strict=True)) if template else {}
    pairs = []
    for row in data.extras.training:
        if template and of.get(row["index"]) != template:
            continue
        name = next((name for name in names if name in row["figures"]), None)
        if name is not None:
            pairs.append((row, float(row["figures"][name])))
    pairs.sort(key=lambda pair: (pair[0]["index"] is None, pair[0]["index"] or 0))
    return [row for row, _value in pairs], [value for _row, value in pairs]


def _note_of_left_out_figures(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Return for how many logs none of these figures counts although it was printed, and why."""
    reasons = [next((row["left_out"][name] for name in names if name in row.get("left_out", {})), "") for row in rows]
    left = [reason for reason in reasons if reason]
    return f"{formats.format_count(len(left), 'log')} left out: {left[0]}" if left else ""


def _gpus_by_workload(data: PointData) -> dict[Any, float]:
    return dict(zip(data.table.index, data.table.gpus, strict=True))


def _has_row_gpus(gpus: Mapping[Any, float], row: Mapping[str, Any]) -> bool:
    return gpus.get(row["index"], 0.0) > 0


def _statistic_over_training_rows(
    data: PointData, rows: Sequence[Mapping[str, Any]], values: Sequence[float], statistic: str, labels: Any, note: str
) -> KpiValue:
    np = data.np
    simulated = any(row["simulated"] for row in rows)
    n = len({row["index"] if row["index"] is not None else row["pod"] for row in rows})
    planned = data.table.template.count(labels["template"]) if "template" in labels else data.of
    of = max(planned, n)
    if not values:
        return KpiValue(None, 0, planned, simulated, note=note or "no log contains this figure", labels=labels)
    array = np.array(values)
    value = float(getattr(np, statistic)(array))
    bootstrap: dict[str, Any] = {}
    if statistic == "median":
        sample = DurationSample(array, array, array, np.zeros(len(values)))
        bootstrap = data.bootstrap_quantile(sample, 0.5, value)
    elif statistic in ("mean", "sum"):
        factor = len(values) if statistic == "sum" else 1
        bootstrap = data.bootstrap(len(values), value, lambda drawing: drawing.means(array) * factor)
    return KpiValue(value, n, of, simulated, note=note, labels=labels, writers=("training",), **bootstrap)


@kpi_function
def gpu_hours_per_million_tokens(data: PointData) -> KpiValue:
    """GPU-hours of all trainings per million trained tokens.

    Per job: GPUs x train_runtime and train_tokens_per_second x train_runtime, from its log.
    """
    gpus = _gpus_by_workload(data)
    labels = {"figure": "gpu_hours_per_million_tokens"}
    rows, spent, tokens = [], [], []
    for row in data.extras.training:
        runtime, speed = (row["figures"].get(name) for name in ("train_runtime", "train_tokens_per_second"))
        if runtime and speed and _has_row_gpus(gpus, row):
            rows.append(row)
            spent.append(gpus[row["index"]] * runtime / 3600)
            tokens.append(speed * runtime / 1e6)
    simulated = any(row["simulated"] for row in rows)
    if not rows:
        note = "no log of a job with GPUs contains both run time and tokens per second"
        return KpiValue(None, 0, data.of, simulated, note=note, labels=labels)
    value = sum(spent) / sum(tokens)
    bootstrap = data.bootstrap(
        len(rows), value, lambda drawing: drawing.means(data.np.array(spent)) / drawing.means(data.np.array(tokens))
    )
    of = max(data.of, len(rows))
    return KpiValue(value, len(rows), of, simulated, labels=labels, writers=("training",), **bootstrap)


@kpi_function
def metric(data: PointData, name: str, statistic: str = "mean", across: str = "sum") -> KpiValue:
    """A statistic over time of a metric that role metrics captured: mean, median, min, max, last or increase.

    across: aggregation of the series at each moment, ``sum``, ``mean``, ``max`` or ``min``. n of N: moments with a
    value, of those requested.
    """
    statistics = ("mean", "median", "min", "max", "last", "increase")
    if statistic not in statistics:
        raise formats.unknown_value_error("statistic", statistic, statistics)
    if across not in ("sum", "mean", "max", "min"):
        raise formats.unknown_value_error("across", across, ["sum", "mean", "max", "min"])
    labels = {"metric": name, "statistic": statistic, "across": across}
    captured = data.extras.metrics.get(name)
    if not captured:
        return KpiValue(None, 0, 0, note="no metric with this name was captured", labels=labels)
    moments, values = captured.together(across)
    of = captured.expected
    if not len(values):
        return KpiValue(None, 0, of, note=captured.error or "the query returned no series", labels=labels)
    np = data.np
    figure = {
        "last": lambda: values[-1],
        "increase": lambda: np.maximum(np.diff(values), 0.0).sum(),  # a counter reset is not a decrease
    }.get(statistic, lambda: getattr(np, statistic)(values))()
    return KpiValue(float(figure), len(values), max(of, len(values)), captured.simulated, labels=labels)


def does_matrix_vary_scale(data: PointData, over: Sequence[str] = (), **_others: Any) -> bool:
    """Return whether the matrix of the run varies one of these settings."""
    return data.extras.matrix is not None and any(name in data.extras.matrix.values for name in over)


@kpi_function
def scaling_efficiency(data: PointData, figure: str, over: Sequence[str]) -> KpiValue:
    """Throughput per accelerator in percent of that of the point with the fewest accelerators, all else being equal.

    figure: the throughput, as trainings print it; the median over the jobs counts. over: settings whose product is the
    number of accelerators of a job; 0 counts as 1, a pod without GPUs.
    """
    labels: dict[str, Any] = {"figure": figure, "over": list(over)}
    rows, values = rows_with_printed_figure(data, [figure])
    mine = data.extras.matrix
    if not values or mine is None or data.extras.others is None:
        return KpiValue(None, 0, data.of, note="no log contains this figure", labels=labels)
    simulated = any(row["simulated"] for row in rows)
    candidates = [(_accelerator_count_of_point(mine, over), values, mine)]
    for other in data.extras.others():
        if _settings_not_varied(other, over) == _settings_not_varied(mine, over) and (
            theirs := _training_figure_values(other.training, figure, simulated)
        ):
            candidates.append((_accelerator_count_of_point(other, over), theirs, other))
    least, theirs, reference = min(
        candidates, key=lambda candidate: (candidate[0], float(data.np.median(candidate[1])) / candidate[0])
    )
    count = _accelerator_count_of_point(mine, over)
    labels |= {"accelerators": count, "reference": least}
    own = [value / count for value in values]
    return _percent_of_reference_median(
        data, own, [value / least for value in theirs], data.of, simulated, labels, reference is mine
    )


@kpi_function
def speed_beside_others(data: PointData, figure: str, template: str, apart: str = MODELS) -> KpiValue:
    """Throughput of the workloads of a template in percent of that at the point that has only this template.

    figure: the throughput, as trainings print it; the median over the jobs counts. template: its name. apart: the
    setting by which the points differ; all else is equal. Of several such points, that with the fewest jobs counts.
    """
    labels: dict[str, Any] = {"figure": figure, "template": template}
    rows, own = rows_with_printed_figure(data, [figure], template)
    planned = data.table.template.count(template)
    mine = data.extras.matrix
    if not own or mine is None or data.extras.others is None:
        return KpiValue(None, 0, planned, note="no log contains this figure", labels=labels)
    simulated = any(row["simulated"] for row in rows)
    alone = [
        theirs
        for other in data.extras.others()
        if tuple(other.templates) == (template,)
        and _settings_not_varied(other, [apart]) == _settings_not_varied(mine, [apart])
        if (theirs := _training_figure_values(other.training, figure, simulated))
    ]
    if not alone:
        note = "no point of the matrix trains this model only"
        return KpiValue(None, 0, planned, simulated, note=note, labels=labels)
    return _percent_of_reference_median(data, own, min(alone, key=len), planned, simulated, labels)


def workload_template_names(data: PointData) -> list[str]:
    """Return the names of the templates of a load, if it has several."""
    names = sorted(set(data.table.template))
    return names if len(names) > 1 else []


def _percent_of_reference_median(
    data: PointData,
    own: Sequence[float],
    reference: Sequence[float],
    planned: int,
    simulated: bool,
    labels: Mapping[str, Any],
    itself: bool = False,
) -> KpiValue:
    """Return the median of ``own`` in percent of that of ``reference``. itself: whether both are the same."""
    n, of = len(own), max(planned, len(own))
    base = float(data.np.median(reference))
    if not base:
        return KpiValue(None, 0, of, simulated, note="the reference has no throughput", labels=labels)
    value = 100 * float(data.np.median(own)) / base
    interval = None if itself else _interval_of_percent_ratio(own, reference, value)
    return KpiValue(value, n, of, simulated, labels=labels, confidence=interval, writers=("training",))


def _interval_of_percent_ratio(
    own: Iterable[float], reference: Iterable[float], value: float
) -> ConfidenceInterval | None:
    comparison = group_comparison_intervals.compare_groups(reference, own, level=LEVEL)
    if not comparison.logarithmic or not math.isfinite(comparison.low) or not math.isfinite(comparison.high):
        return None
    low, high = (
        100 + 100 * comparison_scale.difference_as_share(end, True, 0.0) for end in (comparison.low, comparison.high)
    )
    return ConfidenceInterval(min(low, value), max(high, value), METHOD)


def _training_figure_values(rows: Sequence[Mapping[str, Any]], figure: str, simulated: bool) -> list[float]:
    return [float(row["figures"][figure]) for row in rows if figure in row["figures"] and row["simulated"] is simulated]


def _settings_not_varied(point: MeasuredPoint, over: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in point.values.items() if name not in over}


def _accelerator_count_of_point(point: MeasuredPoint, over: Sequence[str]) -> int:
    return math.prod(max(int(point.settings.get(name) or 1), 1) for name in over)
