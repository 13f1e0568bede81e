# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write kpis.json and attribution.json of each point of a run. Module results_kpis calls it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, workload_nodes
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.each_point import Result, each_point
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run

from . import bootstrap_interval, compute_kpis, kpi_definitions, latency_attribution
from .labels import labels_of, with_nodes
from .point_data import KpiValue
from .read_point import read_point

WRITTEN = ("kpis.json", "attribution.json")


def write_point(
    run: Run,
    point: Point,
    definitions: Sequence[Mapping[str, Any]],
    warnings: list[str],
    labels: Mapping[str, Any],
    first: dict[str, tuple[str, KpiValue]],
) -> list[dict[str, Any]]:
    """Write the KPIs and the attribution of a point; return the KPIs.

    first: name -> (point, figure) of the first point with each KPI that has an answer, the reference for later points.
    """
    data = read_point(run, point, warnings)
    found = []
    chosen = kpi_definitions.definitions_at(definitions, point.all_settings or {}) if data.of else []
    for kpi, figure in compute_kpis.figures(data, chosen):
        if "answer" in kpi:
            kpi |= _difference(first.setdefault(kpi["name"], (point.number, figure)), point, figure)
        found.append(kpi)
    selection = data.table.header.get("selection")
    all_labels = {**with_nodes(labels, data.table), **({"selection": selection["text"]} if selection else {})}
    kpis = {"schema": "kpis/2", "run": run.id, "point": point.number, "labels": all_labels, "kpis": found}
    files.write_json(point.folder / WRITTEN[0], kpis, "kpis/2")
    shares = latency_attribution.document(data.parts[0] if data.parts else data, run.id, point.number)
    if data.parts:
        shares["nodes"] = workload_nodes.REAL
    files.write_json(point.folder / WRITTEN[1], shares, "attribution/1")
    return found


def _difference(first: tuple[str, KpiValue], point: Point, figure: KpiValue) -> dict[str, Any]:
    number, before = first
    if number == point.number or before.value is None or figure.value is None:
        return {}
    value = figure.value - before.value
    confidence = bootstrap_interval.difference_interval(before.replicates, figure.replicates, value)
    document = {"point": number, "value": value, "confidence": confidence.document() if confidence else None}
    return {"difference": document}


def write_kpis(run_dir: str, definitions: Iterable[str], points: Iterable[str] = ()) -> Result:
    """Write kpis.json and attribution.json of the points from their timelines."""
    run = run_reader.read(Path(run_dir))
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
    result["summary"] = f"{formats.count(count, 'figure')} in {formats.count(len(result['points']), 'point')}"
    return result
