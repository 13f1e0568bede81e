# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read everything that was measured at one point: timeline, attempts, training figures, metrics, pod lifetimes."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import (
    point_reader,
    timeline_table,
    workload_nodes,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import Table

from ..metrics import metrics_file
from ..timeline import pod_lifetimes
from .point_data import MeasuredPoint, PointData, PointExtras


def read_point(run: Run, point: Point, warnings: list[str]) -> PointData:
    """Return the data of a point. Raises DataError when there is no timeline."""
    table = timeline_table.read(point.folder / "timeline.jsonl")
    chosen = set(table.index) if "selection" in table.header else None
    errors, attempts = _errors(point, warnings, chosen)
    seen = functools.cache(functools.partial(pod_lifetimes.read, point.folder, run.id, point.number, chosen))
    training = _training(point, warnings, chosen)
    captured = captured_metrics(run, point, table, warnings)
    beside = functools.cache(functools.partial(_others, run, point))
    mine = _in_matrix(point, training)
    products = run.clusters.get("sutest", {}).get("gpu_products") or {}
    simulated = any(one.startswith(run_labels.SIMULATED_PRODUCT) for one in products)
    users = _users(point, warnings)
    extras = PointExtras(
        training, errors, attempts, captured, seen, planned_steps(point), users, simulated, mine, beside
    )
    data = PointData(table, extras)
    found = workload_nodes.split_real_simulated(table)
    if found is not None:
        real, others = (PointData(part, _of_part(run, point, extras, part)) for part in found)
        data.parts = real, others
    return data


def extras_for_plots(run: Run, point: Point, table: Table, warnings: list[str]) -> PointExtras:
    """Return what plots show of a point besides its timeline."""
    chosen = set(table.index) if "selection" in table.header else None
    training = _training(point, [], chosen)  # reading the point for its figures has warned
    return PointExtras(training, metrics=captured_metrics(run, point, table, warnings), steps=planned_steps(point))


def of_part(extras: PointExtras, part: Table) -> PointExtras:
    """Return what concerns the workloads of a table, some of a point."""
    rows = set(part.index)
    return replace(extras, training=[row for row in extras.training if row.get("index") in rows])


def _of_part(run: Run, point: Point, extras: PointExtras, part: Table) -> PointExtras:
    seen = functools.cache(functools.partial(pod_lifetimes.read, point.folder, run.id, point.number, set(part.index)))
    return replace(of_part(extras, part), lives=seen)


def _in_matrix(point: Point, training: list[dict[str, Any]]) -> MeasuredPoint:
    templates = [str(one.get("name", "")) for one in _plan(point).get("templates") or []]
    return MeasuredPoint(point.settings, point.all_settings or {}, training, templates)


def _others(run: Run, point: Point) -> list[MeasuredPoint]:
    """Return the other points of the matrix that were measured, each with its last attempt that counts."""
    good = [one for one in run.points if one.status in ("passed", "") and not one.resumed]
    last = {one.of: one for one in good if one.of != point.of}
    return [_in_matrix(one, _training(one, [], None)) for one in last.values()]


def _training(point: Point, warnings: list[str], chosen: set[int] | None) -> list[dict[str, Any]]:
    """Return the rows of training.jsonl; none for a project without trainings."""
    path = point.folder / "training.jsonl"
    notes: list[str] = []
    rows = list(point_reader.lines(path, notes)) if path.exists() else []
    warnings += [f"point {point.number}: {note}" for note in notes]
    rows = [row for row in rows if isinstance(row.get("figures"), dict)]
    return [row for row in rows if chosen is None or row.get("index") in chosen]


def _users(point: Point, warnings: list[str]) -> dict[str, Any]:
    """Return what users in pods have reported; empty for other projects."""
    notes: list[str] = []
    found = point_reader.users_of(point.folder, notes)
    warnings += [f"point {point.number}: {note}" for note in notes]
    return found


def planned_steps(point: Point) -> list[tuple[float, float]]:
    """Return (workloads per second, seconds) of each step of the plan; empty for a load without steps."""
    arrival = _plan(point).get("arrival") or {}
    return [(float(one["rate"]), float(one["duration"])) for one in arrival.get("steps") or []]


def _plan(point: Point) -> dict[str, Any]:
    """Return the header of the plan; empty without one."""
    return next(point_reader.lines(point.folder / "plan.jsonl", []), {})


def _errors(point: Point, warnings: list[str], chosen: set[int] | None) -> tuple[dict[str, int], int]:
    """Return the failed attempts by reason, and the number of all attempts."""
    found: Counter[str] = Counter()
    attempts = 0
    for record in point_reader.lines(point.folder / "ledger.jsonl", []):
        if record.get("type") != "attempt" or (chosen is not None and record["index"] not in chosen):
            continue
        attempts += 1
        if record["outcome"] not in ("created", "already_mine"):
            found[str(record.get("reason") or (record["status"] or "no answer"))] += 1
    return dict(found.most_common()), attempts


def captured_metrics(run: Run, point: Point, table: Table, warnings: list[str]) -> dict[str, metrics_file.Captured]:
    """Return the captured metrics of a point; empty if no server was named."""
    path = point.folder / metrics_file.FILE
    if not path.exists():
        return {}
    try:
        return metrics_file.read(path, run.simulated and workload_nodes.node_kinds_of(table) != workload_nodes.REAL)
    except (DataError, KeyError, TypeError) as error:
        warnings.append(f"point {point.number}: metrics cannot be read: {error}")
        return {}
