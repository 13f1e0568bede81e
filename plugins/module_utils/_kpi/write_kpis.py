# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module results_kpis does at one point: read what was measured, write kpis.json and attribution.json."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _format
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi import (
    attribution,
    bootstrap,
    compute_kpis,
    kpi_definitions,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.point_data import KpiValue, PointData, PointExtras
from ansible_collections.perfscale.seatrial.plugins.module_utils._metrics import metrics_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir import point_files, run_files, timeline_table
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.each_point import Result, each_point
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.run_files import Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline import pod_lifetimes

WRITTEN = ("kpis.json", "attribution.json")


def read_point(run: Run, point: Point, warnings: list[str]) -> PointData:
    """Return what was measured at a point. Raises DataError when there is no timeline."""
    table = timeline_table.read(point.folder / "timeline.jsonl")
    chosen = set(table.index) if "selection" in table.header else None
    errors, attempts = _errors(point, warnings, chosen)
    seen = functools.cache(functools.partial(pod_lifetimes.read, point.folder, run.id, point.number, chosen))
    training = _training(point, warnings, chosen)
    extras = PointExtras(training, errors, attempts, metrics(run, point, warnings), seen, steps(point))
    return PointData(table, extras)


def write_point(
    run: Run,
    point: Point,
    definitions: Sequence[Mapping[str, Any]],
    warnings: list[str],
    labels: Mapping[str, Any],
    first: dict[str, tuple[str, KpiValue]],
) -> list[dict[str, Any]]:
    """Write the KPIs and the attribution of a point; return the KPIs.

    first: name -> (point, figure) of the first point that has each KPI with an answer, from which later ones differ.
    """
    data = read_point(run, point, warnings)
    found = []
    for kpi, figure in compute_kpis.figures(data, definitions) if data.of else []:
        if "answer" in kpi:
            kpi |= _difference(first.setdefault(kpi["name"], (point.number, figure)), point, figure)
        found.append(kpi)
    selection = data.table.header.get("selection")
    told = {**labels, **({"selection": selection["text"]} if selection else {})}
    kpis = {"schema": "kpis/1", "run": run.id, "point": point.number, "labels": told, "kpis": found}
    _files.write_json(point.folder / WRITTEN[0], kpis, "kpis/1")
    parts = attribution.document(data, run.id, point.number)
    _files.write_json(point.folder / WRITTEN[1], parts, "attribution/1")
    return found


def _difference(first: tuple[str, KpiValue], point: Point, figure: KpiValue) -> dict[str, Any]:
    number, before = first
    if number == point.number or before.value is None or figure.value is None:
        return {}
    value = figure.value - before.value
    confidence = bootstrap.difference(before.replicates, figure.replicates, value)
    document = {"point": number, "value": value, "confidence": confidence.document() if confidence else None}
    return {"difference": document}


def _training(point: Point, warnings: list[str], chosen: set[int] | None) -> list[dict[str, Any]]:
    """Rows of training.jsonl; a project that trains nothing has none."""
    path = point.folder / "training.jsonl"
    notes: list[str] = []
    rows = list(point_files.lines(path, notes)) if path.exists() else []
    warnings += [f"point {point.number}: {note}" for note in notes]
    rows = [row for row in rows if isinstance(row.get("figures"), dict)]
    return [row for row in rows if chosen is None or row.get("index") in chosen]


def steps(point: Point) -> list[tuple[float, float]]:
    """Return (workloads a second, seconds) of each step that the plan says; nothing of other loads."""
    header = next(point_files.lines(point.folder / "plan.jsonl", []), {})
    arrival = header.get("arrival") or {}
    return [(float(one["rate"]), float(one["duration"])) for one in arrival.get("steps") or []]


def _errors(point: Point, warnings: list[str], chosen: set[int] | None) -> tuple[dict[str, int], int]:
    """Return how many attempts failed, by reason, and how many attempts there were."""
    found: Counter[str] = Counter()
    attempts = 0
    for record in point_files.lines(point.folder / "ledger.jsonl", []):
        if record.get("type") != "attempt" or (chosen is not None and record["index"] not in chosen):
            continue
        attempts += 1
        if record["outcome"] not in ("created", "already_mine"):
            found[str(record.get("reason") or (record["status"] or "no answer"))] += 1
    return dict(found.most_common()), attempts


def metrics(run: Run, point: Point, warnings: list[str]) -> dict[str, metrics_file.Captured]:
    """Return what was captured of a server at a point; nothing where no server was named."""
    path = point.folder / metrics_file.FILE
    if not path.exists():
        return {}
    try:
        return metrics_file.read(path, run.simulated)
    except (DataError, KeyError, TypeError) as error:
        warnings.append(f"point {point.number}: metrics can't be read: {error}")
        return {}


def write_kpis(run_dir: str, definitions: Iterable[str], points: Iterable[str] = ()) -> Result:
    """Write kpis.json and attribution.json of the points from their timelines."""
    run = run_files.read(Path(run_dir))
    loaded = kpi_definitions.load(definitions)
    first: dict[str, tuple[str, KpiValue]] = {}

    def one(point: Point, warnings: list[str]) -> Result:
        found = write_point(run, point, loaded, warnings, labels_of(run, point), first)
        return {
            "point": point.number,
            "kpis": len(found),
            "without_value": sum(1 for kpi in found if kpi["value"] is None),
        }

    result = each_point(run, points, WRITTEN, one)
    count = sum(row["kpis"] for row in result["points"])
    result["summary"] = f"{_format.count(count, 'figure')} in {_format.count(len(result['points']), 'point')}"
    return result


def labels_of(run: Run, point: Point) -> dict[str, Any]:
    cluster = run.clusters.get("sutest") or {}
    labels = {
        "project": run.record.get("project"),
        "presets": run.record.get("presets"),
        "provider": cluster.get("provider"),
        "kubernetes": cluster.get("version"),
        "simulated": cluster.get("simulated"),
        "uuid": point.record.get("uuid"),
        "matrix": point.settings,
    }
    return {key: value for key, value in labels.items() if value is not None}
