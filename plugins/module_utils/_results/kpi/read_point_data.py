# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the files of a point into its PointData: what KPI functions need, or only what plots show."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import (
    point_reader,
    request_reader,
    timeline_table,
    timeline_views,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.request_reader import (
    RequestFigures,
    read_request_figures,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

from ..metrics import metrics_file
from ..timeline import failure_recoveries, pod_lifetimes
from .point_data import SCHEDULING, MeasuredPoint, PointData, PointExtras


def read_point_data(run: Run, point: Point, warnings: list[str]) -> PointData:
    """Return the data of a point. Raises DataError when there is no timeline."""
    table = timeline_table.read_timeline_jsonl(point.folder / "timeline.jsonl")
    chosen = set(table.index) if "selection" in table.header else None
    errors, attempts = _count_errors_by_reason(point, warnings, chosen)
    seen = _pod_lifetimes_reader(run, point, chosen)
    training = _read_training_rows(point, warnings, chosen)
    captured = read_captured_metrics(run, point, table, warnings)
    beside = functools.cache(functools.partial(_other_measured_points, run, point))
    mine = _measured_matrix_point(point, training)
    products = run.clusters.get("sutest", {}).get("gpu_products") or {}
    simulated = any(product.startswith(run_labels.SIMULATED_PRODUCT) for product in products)
    notes: list[str] = []
    users = point_reader.read_simulated_user_summary(point.folder, notes)
    warnings += [f"point {point.number}: {note}" for note in notes]
    requests = _request_figures_reader(point, table)
    extras = PointExtras(
        training,
        errors,
        attempts,
        captured,
        seen,
        _steps_of_load(point, requests),
        users,
        simulated,
        requests,
        _failures_reader(run, point, warnings),
        mine,
        beside,
    )
    data = PointData(table, extras)
    parts = timeline_views.split_real_simulated(table)
    if parts is not None:
        real, others = (PointData(part, _extras_with_pod_lifetimes(run, point, extras, part)) for part in parts)
        data.parts = real, others
    return data


def extras_for_plots(run: Run, point: Point, table: TimelineTable, warnings: list[str]) -> PointExtras:
    """Return what plots show of a point besides its timeline."""
    chosen = set(table.index) if "selection" in table.header else None
    training = _read_training_rows(point, [], chosen)  # reading the point for its figures has warned
    requests = _request_figures_reader(point, table)
    templates = _read_plan_header(point).get("templates") or []
    described = any(SCHEDULING in (template.get("parameters") or {}) for template in templates)
    return PointExtras(
        training,
        metrics=read_captured_metrics(run, point, table, warnings),
        lives=_pod_lifetimes_reader(run, point, chosen) if described else None,
        steps=_steps_of_load(point, requests),
        requests=requests,
        failures=_failures_reader(run, point, []),  # as above
        matrix=_measured_matrix_point(point, training),
    )


def _failures_reader(
    run: Run, point: Point, warnings: list[str]
) -> Callable[[], failure_recoveries.PointFailures] | None:
    """Return what reads the failures of a point, once, and adds what it left out to the warnings; None without any."""
    if not failure_recoveries.has_failures(point.folder):
        return None
    every = float((point.all_settings or {}).get("workload_checkpoint_every") or 0)

    @functools.cache
    def read() -> failure_recoveries.PointFailures:
        failures = failure_recoveries.read_point_failures(
            point.folder, run.id, point.number, every, training=_read_training_rows(point, [], None)
        )
        warnings.extend(f"point {point.number}: {note}" for note in failures.notes)
        return failures

    return read


def _request_figures_reader(point: Point, table: TimelineTable) -> Callable[[], RequestFigures] | None:
    """Return what reads the figures of the requests of a point, once; None if no inference server was measured."""
    if not request_reader.has_requests(point.folder):
        return None
    return functools.cache(functools.partial(read_request_figures, point.folder, tuple(table.index)))


def extras_of_selected_workloads(extras: PointExtras, part: TimelineTable) -> PointExtras:
    """Return what concerns the workloads of a table, some of a point."""
    rows = set(part.index)
    return replace(extras, training=[row for row in extras.training if row.get("index") in rows])


def _extras_with_pod_lifetimes(run: Run, point: Point, extras: PointExtras, part: TimelineTable) -> PointExtras:
    return replace(extras_of_selected_workloads(extras, part), lives=_pod_lifetimes_reader(run, point, set(part.index)))


def _pod_lifetimes_reader(run: Run, point: Point, chosen: set[int] | None) -> Callable[[], Any]:
    """Return what reads the lifetimes of the pods of a point, once."""
    return functools.cache(
        functools.partial(pod_lifetimes.read_pod_lifetimes, point.folder, run.id, point.number, chosen)
    )


def _measured_matrix_point(point: Point, training: list[dict[str, Any]]) -> MeasuredPoint:
    templates = [str(template.get("name", "")) for template in _read_plan_header(point).get("templates") or []]
    return MeasuredPoint(point.settings, point.all_settings or {}, training, templates)


def _other_measured_points(run: Run, point: Point) -> list[MeasuredPoint]:
    """Return the other points of the matrix that were measured, each with its last attempt that counts."""
    good = [point for point in run.points if point.status in ("passed", "") and not point.resumed]
    last = {candidate.of: candidate for candidate in good if candidate.of != point.of}
    return [_measured_matrix_point(other, _read_training_rows(other, [], None)) for other in last.values()]


def _read_training_rows(point: Point, warnings: list[str], chosen: set[int] | None) -> list[dict[str, Any]]:
    """Return the rows of training.jsonl; none for a project without trainings."""
    path = point.folder / "training.jsonl"
    notes: list[str] = []
    rows = list(point_reader.read_json_lines(path, notes, finite=False)) if path.exists() else []
    warnings += [f"point {point.number}: {note}" for note in notes]
    rows = [row for row in rows if isinstance(row.get("figures"), dict)]
    wrong = Counter(name for row in rows for name, value in row["figures"].items() if not _is_finite_or_unknown(value))
    if wrong:
        names = formats.format_list([f"{name} ({count})" for name, count in sorted(wrong.items())], 5)
        warnings.append(
            f"point {point.number}: {path.name} has figures that are not finite numbers and are left out: {names}"
        )
        rows = [
            {**row, "figures": {name: value for name, value in row["figures"].items() if _is_finite_or_unknown(value)}}
            for row in rows
        ]
    return [row for row in rows if chosen is None or row.get("index") in chosen]


def _is_finite_or_unknown(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and abs(value) <= sys.float_info.max)


def _steps_of_load(point: Point, requests: Callable[[], RequestFigures] | None) -> list[tuple[float, float]]:
    """Return (workloads per second, seconds) of each step of the plan; empty for a load without steps."""
    arrival = _read_plan_header(point).get("arrival") or {}
    if arrival.get("type") == "search":  # whose steps have no planned duration
        return [(rate, 0.0) for _first, rate in requests().steps] if requests else []
    return [(float(step["rate"]), float(step["duration"])) for step in arrival.get("steps") or []]


def _read_plan_header(point: Point) -> dict[str, Any]:
    """Return the header of the plan; empty without one."""
    return next(point_reader.read_json_lines(point.folder / "plan.jsonl", []), {})


def _count_errors_by_reason(point: Point, warnings: list[str], chosen: set[int] | None) -> tuple[dict[str, int], int]:
    """Return the failed attempts by reason, and the number of all attempts."""
    reasons: Counter[str] = Counter()
    attempts = 0
    for record in point_reader.read_json_lines(point.folder / "ledger.jsonl", []):
        if record.get("type") != "attempt" or (chosen is not None and record["index"] not in chosen):
            continue
        attempts += 1
        if record["outcome"] not in ("created", "already_mine"):
            reasons[str(record.get("reason") or (record["status"] or "no answer"))] += 1
    return dict(reasons.most_common()), attempts


def read_captured_metrics(
    run: Run, point: Point, table: TimelineTable, warnings: list[str]
) -> dict[str, metrics_file.CapturedMetric]:
    """Return the captured metrics of a point; empty if no server was named."""
    path = point.folder / metrics_file.FILE
    if not path.exists():
        return {}
    try:
        return metrics_file.read_metrics_jsonl(
            path, run.simulated and timeline_views.node_kind_of_timeline(table) != timeline_views.REAL
        )
    except (DataError, KeyError, TypeError) as error:
        warnings.append(f"point {point.number}: metrics cannot be read: {error}")
        return {}
