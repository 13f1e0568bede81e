# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module results_kpis does at one point: read what was measured, write kpis.json and attribution.json."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi import attribution, bootstrap, compute
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.data import Data, Extras, Figure
from ansible_collections.perfscale.seatrial.plugins.module_utils._metrics import series
from ansible_collections.perfscale.seatrial.plugins.module_utils._results import lives
from ansible_collections.perfscale.seatrial.plugins.module_utils._results import point as point_files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results import table as tables
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.run import Point, Run

WRITTEN = ("kpis.json", "attribution.json")


def read(run: Run, point: Point, warnings: list[str]) -> Data:
    """Return what was measured at a point. Raises DataError when there is no timeline."""
    table = tables.read(point.folder / "timeline.jsonl")
    chosen = set(table.index) if "selection" in table.header else None
    errors, attempts = _errors(point, warnings, chosen)
    seen = functools.cache(functools.partial(lives.read, point.folder, run.id, point.number, chosen))
    training = _training(point, warnings, chosen)
    extras = Extras(training, errors, attempts, metrics(run, point, warnings), seen, steps(point))
    return Data(table, extras)


def write(
    run: Run,
    point: Point,
    definitions: Sequence[Mapping[str, Any]],
    warnings: list[str],
    labels: Mapping[str, Any],
    first: dict[str, tuple[str, Figure]],
) -> list[dict[str, Any]]:
    """Write the KPIs and the attribution of a point; return the KPIs.

    first: name -> (point, figure) of the first point that has each KPI with an answer, from which later ones differ.
    """
    data = read(run, point, warnings)
    found = []
    for kpi, figure in compute.figures(data, definitions) if data.of else []:
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


def _difference(first: tuple[str, Figure], point: Point, figure: Figure) -> dict[str, Any]:
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


def metrics(run: Run, point: Point, warnings: list[str]) -> dict[str, series.Captured]:
    """Return what was captured of a server at a point; nothing where no server was named."""
    path = point.folder / series.FILE
    if not path.exists():
        return {}
    try:
        return series.read(path, run.simulated)
    except (DataError, KeyError, TypeError) as error:
        warnings.append(f"point {point.number}: metrics can't be read: {error}")
        return {}
