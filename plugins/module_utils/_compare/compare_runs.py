# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module results_compare does: read runs, compare their points, write comparison.json, plots and page.

Of one run alone its points are compared, each with the first, as if each were a run of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _format
from ansible_collections.perfscale.seatrial.plugins.module_utils._compare import (
    comparison_links,
    comparison_plots,
    point_pairs,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._format import setting_text
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi import (
    attribution,
    compute_kpis,
    kpi_definitions,
    write_kpis,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.point_data import PointData
from ansible_collections.perfscale.seatrial.plugins.module_utils._report import kpi_text, plot_canvas, write_report
from ansible_collections.perfscale.seatrial.plugins.module_utils._report.attribution_text import stage_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir import run_files
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.point_label import point_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.run_files import Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import stamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._verdict.write_verdict import write_verdict

Result = dict[str, Any]
#: Limit of lateness, in seconds, of points whose settings don't say.
DEFAULT_LATENESS = 0.1


@dataclass
class RunSide:
    """One of the runs. ``data``, ``write_kpis``: of its points by number, as far as they could be read."""

    run: Run
    label: str
    verdict: str
    data: dict[str, PointData] = field(default_factory=dict)
    kpis: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """Who set what in the run."""
        return self.run.provenance


@dataclass
class PointSide(RunSide):
    """One point of a run, as if it were a run of its own."""

    @property
    def settings(self) -> dict[str, Any]:
        """What the matrix set for it."""
        return {name: [{"value": value}] for name, value in self.run.points[0].settings.items()}


def compare(run_dirs: Sequence[str], dest: str, definition_files: Iterable[str], template: str) -> Result:
    """Write the comparison of the first run, or point of a single run, with each of the others. Raises InputError."""
    if not run_dirs:
        raise InputError("no run is given: two or more are compared, or the points of one")
    if not Path(template).is_file():
        raise InputError(f"template {template} does not exist")
    loaded = kpi_definitions.load(definition_files)
    notes: list[str] = []
    sides = _labelled([_side(Path(one), loaded, notes) for one in run_dirs])
    if len(sides) == 1:
        sides = _points_of(sides[0])
    folder = Path(dest)
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    for old in (folder / "plots").iterdir():
        old.unlink()
    document: dict[str, Any] = {
        "schema": "comparison/1",
        "made": stamp(),
        "runs": [_shown(side) for side in sides],
        "settings": point_pairs.settings([side.settings for side in sides], [side.run.settings for side in sides]),
        "pairs": [],
        "notes": notes,
    }
    drawn: list[list[dict[str, Any]]] = []
    for other in sides[1:]:
        found = point_pairs.of_points(sides[0].run.points, other.run.points)
        if not found:
            notes.append(f"no point of {other.label} has the same matrix values as one of {sides[0].label}")
        for first, second in found:
            made = _pair(sides[0], other, first, second, notes)
            if made is not None:
                document["pairs"].append(made)
                drawn.append(_draw(sides[0], other, first, second, made, folder / "plots", len(drawn)))
    _files.write_json(folder / "comparison.json", document, "comparison/1")
    path = folder / "index.html"
    reports = [comparison_links.back(side.run.top, path) for side in sides]
    _files.replace_text(path, write_report.render(Path(template), _page(document, drawn, reports)))
    notes += comparison_links.add(
        [side.run.top for side in sides], path, _title(document["runs"]), document["made"], Path(template)
    )
    lines = [line for pair in document["pairs"] for line in _lines(pair)]
    counts = point_pairs.summary(row for pair in document["pairs"] for row in pair["kpis"])
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing to compare"
    return {"changed": True, "path": str(path), "lines": lines, "warnings": notes, "summary": f"{path}: figures {told}"}


def _side(top: Path, loaded: Sequence[Mapping[str, Any]], notes: list[str]) -> RunSide:
    run = run_files.read(top)
    if any(not (point.folder / "timeline.jsonl").exists() for point in run.points):
        notes += write_timeline(str(top))["warnings"]
        write_verdict(str(top), DEFAULT_LATENESS)
    try:
        judged = _files.read_json(top / "verdict.json")
    except DataError:
        judged = {}
    verdict = str(judged.get("verdict") or "unknown")
    notes += [f"{run.id}: {one}" for one in judged.get("warnings") or ()]
    presets = "+".join(run.record.get("presets") or [])
    side = RunSide(run, f"{run.record.get('project') or 'run'} {presets}".strip(), verdict)
    for point in run.points:
        try:
            data = write_kpis.read_point(run, point, notes)
        except (DataError, OSError, KeyError, ValueError) as error:
            notes.append(f"{run.id}, point {point.number}: {error}")
            continue
        if data.of:
            side.data[point.number] = data
            side.kpis[point.number] = {kpi["name"]: (kpi, found) for kpi, found in compute_kpis.figures(data, loaded)}
    return side


def _labelled(sides: list[RunSide]) -> list[RunSide]:
    """Give each run a label of its own: letters, then what it is."""
    for place, side in enumerate(sides):
        side.label = f"{chr(ord('A') + place)} ({side.run.id})"
    return sides


def _points_of(side: RunSide) -> list[RunSide]:
    """Return the points of a run as sides. Raises InputError when there are fewer than two."""
    if len(side.run.points) < 2:
        raise InputError(
            f"{side.run.top} has {_format.count(len(side.run.points), 'point')}: there is nothing to compare"
        )
    found: list[RunSide] = []
    for place, point in enumerate(side.run.points):
        said = point_label(point, str(side.run.record.get("project") or ""))
        label = f"{chr(ord('A') + place)} ({said})"
        found.append(PointSide(replace(side.run, points=[point]), label, side.verdict, side.data, side.kpis))
    return found


def _shown(side: RunSide) -> dict[str, Any]:
    selections = {
        data.table.header["selection"]["text"] for data in side.data.values() if "selection" in data.table.header
    }
    return {
        "run": side.run.id,
        "label": side.label,
        "verdict": side.verdict,
        "simulated": side.run.simulated,
        "selection": "; ".join(sorted(selections)) or None,
    }


def _pair(first: RunSide, other: RunSide, one: Point, two: Point, notes: list[str]) -> dict[str, Any] | None:
    if one.number not in first.data or two.number not in other.data:
        notes.append(f"point {one.number} of {first.label} and {two.number} of {other.label}: not both could be read")
        return None
    old, new = first.data[one.number], other.data[two.number]
    before, after = attribution.attribute(old), attribution.attribute(new)
    both = bool(before.n and after.n)
    several = len(first.run.points) > 1 or len(other.run.points) > 1
    label = f", {point_label(one, str(first.run.record.get('project') or ''))}" if several else ""
    return {
        "label": f"{other.label[0]} against {first.label[0]}{label}",
        "run": other.run.id,
        "points": [one.number, two.number],
        "kpis": point_pairs.differences(first.kpis[one.number], other.kpis[two.number]),
        "stages": attribution.of_difference(before, after, old.resampling, new.resampling) if both else [],
        "writers": attribution.of_difference(before, after, old.resampling, new.resampling, "writers") if both else [],
        "total": [_mean(old, before), _mean(new, after)],
    }


def _mean(data: PointData, found: attribution.Attribution) -> float | None:
    return float(data.np.nanmean(found.total)) if found.n else None


def _draw(
    first: RunSide, other: RunSide, one: Point, two: Point, pair: Mapping[str, Any], folder: Path, number: int
) -> list[dict[str, Any]]:
    label = pair["label"]
    runs_drawn = [(first.label, first.data[one.number]), (other.label, other.data[two.number])]
    with plot_canvas.style():
        made = {
            "attribution": comparison_plots.attribution(pair["stages"], label),
            "distributions": comparison_plots.distributions(runs_drawn, label),
        }
        written = [
            plot_canvas.write(each, folder / f"{number:02d}_{name}") for name, each in made.items() if each is not None
        ]
    return [write_report.embedded(each) for each in written]


def _lines(pair: Mapping[str, Any]) -> list[str]:
    """The headline figures in words, for a terminal."""
    found = []
    for row in pair["kpis"]:
        if row["headline"]:
            shown = row_words(row)
            interval = f" ({shown['confidence']})" if shown["confidence"] else ""
            told = f"{shown['before']} → {shown['after']} {shown['percent']}{interval}: {row['reading']}"
            found.append(f"{pair['label']}: {row['title']} {told}{', SIMULATED' if row['simulated'] else ''}")
    return found


def row_words(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a difference of a KPI in words."""
    difference = row["difference"]
    signed = "–" if difference is None else f"{'+' if difference > 0 else ''}{_format.value(difference, row['unit'])}"
    percent = "" if row["percent"] is None else f"{row['percent']:+.1f} %"
    return {
        **row,
        "before": _format.value(row["before"], row["unit"]),
        "after": _format.value(row["after"], row["unit"]),
        "difference": signed,
        "percent": percent,
        "confidence": kpi_text.confidence({"confidence": row["confidence"], "unit": row["unit"]}),
        "rows": " / ".join(f"{n:,} of {of:,}" for n, of in zip(row["n"], row["of"], strict=True)),
        "note": row.get("note", ""),
    }


def _page(
    document: Mapping[str, Any], drawn: Sequence[Sequence[Mapping[str, Any]]], reports: Sequence[str]
) -> dict[str, Any]:
    shown = []
    for pair, pictures in zip(document["pairs"], drawn, strict=True):
        rows = [row_words(row) for row in pair["kpis"]]
        total = [_format.seconds(one) if one is not None else "–" for one in pair["total"]]
        shown.append(
            {
                "label": pair["label"],
                "headline": [row for row in rows if row["headline"]],
                "changed": [row for row in rows if not row["headline"] and row["reading"] in ("better", "worse")],
                "others": [row for row in rows if not row["headline"] and row["reading"] not in ("better", "worse")],
                "counts": point_pairs.summary(pair["kpis"]),
                "total": total,
                "writers": [_part(one, _format.writer(one["name"])) for one in pair["writers"]],
                "stages": [_part(one, stage_name(one["name"])) for one in pair["stages"]],
                "plots": list(pictures),
            }
        )
    settings = [
        {"name": one["name"], "values": [textwrap.shorten(setting_text(value), 80) for value in one["values"]]}
        for one in document["settings"]
    ]
    return {
        "title": _title(document["runs"]),
        "runs": [{**one, "report": where} for one, where in zip(document["runs"], reports, strict=True)],
        "settings": settings,
        "pairs": shown,
        "notes": list(document["notes"]),
        "simulated": any(one["simulated"] for one in document["runs"]),
    }


def _title(compared: Sequence[Mapping[str, Any]]) -> str:
    """Two runs by their ids, the points of one by the run's."""
    first, second = compared[:2]
    return (
        f"the points of {first['run']}" if first["run"] == second["run"] else f"{second['run']} against {first['run']}"
    )


def _part(one: Mapping[str, Any], name: str) -> dict[str, Any]:
    signed = f"{'+' if one['difference'] > 0 else ''}{_format.seconds(one['difference'])}"
    return {
        "name": name,
        "writer": _format.writer(one["writer"]),
        "before": _format.seconds(one["before"]),
        "after": _format.seconds(one["after"]),
        "difference": signed,
        "confidence": kpi_text.confidence({"confidence": one["confidence"], "unit": "s"}),
        "simulated": one["simulated"],
    }
