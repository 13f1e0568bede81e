# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two sides of a comparison: read runs, pair their points, differences of figures, the stage behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, schema_migration
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    SKIPPED,
    Point,
    point_label,
    run_with_counted_attempts,
)

from ..judge import kpi_limits
from ..judge.judge_run_groups import RunSide, group_letter_for_index
from ..judge.write_verdict import write_verdict
from ..kpi import censored_quantiles, write_kpis
from ..kpi.point_data import KpiValue
from ..kpi.read_point_data import read_point_data
from ..report.kpi_text_filters import label_of_stage
from ..statistics.setting_effects import SEED
from ..timeline.write_timeline import write_timeline

#: Limit of lateness in seconds, for points without that setting.
DEFAULT_LATENESS = 0.1
#: KPIs of a point: name -> (document as in schema kpis/2, KpiValue).
Found = Mapping[str, tuple[Mapping[str, Any], KpiValue]]


@dataclass
class PointSide(RunSide):
    """One point of a run, compared like a run."""

    @property
    def settings(self) -> dict[str, Any]:
        """The values that the matrix set for the point."""
        return {name: [{"value": value}] for name, value in self.run.points[0].settings.items()}


def complete_and_read_compared_run(top: Path, loaded: Sequence[Mapping[str, Any]], notes: list[str]) -> RunSide:
    """Read a run, write its timelines and verdict if missing; add to ``notes`` what could not be read."""
    run = run_with_counted_attempts(run_reader.read_run_directory(top))
    run.points = [point for point in run.points if point.status != SKIPPED]
    if any(not (point.folder / "timeline.jsonl").exists() for point in run.points):
        notes += write_timeline(str(top))["warnings"]
        write_verdict(str(top), DEFAULT_LATENESS)
    try:
        judged = schema_migration.read_document_migrated(top / "verdict.json", "verdict")
    except DataError:
        judged = {}
    verdict = str(judged.get("verdict") or "unknown")
    notes += [f"{run.id}: {warning}" for warning in judged.get("warnings") or ()]
    presets = "+".join(run.record.get("presets") or [])
    side = RunSide(run, f"{run.record.get('project') or 'run'} {presets}".strip(), verdict)
    for point in run.points:
        try:
            data = read_point_data(run, point, notes)
        except (DataError, OSError, KeyError, ValueError) as error:
            notes.append(f"{run.id}, point {point.number}: {error}")
            continue
        if data.of:
            side.data[point.number] = data
            side.kpis[point.number] = {
                kpi["name"]: (kpi, figure) for kpi, figure in write_kpis.compute_point_kpis(data, loaded)
            }
    return side


def sides_from_points_of_run(side: RunSide) -> list[RunSide]:
    """Return the points of a run as sides. Raises InputError for fewer than two points."""
    if len(side.run.points) < 2:
        raise InputError(
            f"{side.run.top} has {formats.format_count(len(side.run.points), 'point')}: a comparison needs two"
        )
    sides: list[RunSide] = []
    for place, point in enumerate(side.run.points):
        named = point_label(point, str(side.run.record.get("project") or ""))
        label = f"{group_letter_for_index(place)} ({named})"
        sides.append(PointSide(replace(side.run, points=[point]), label, side.verdict, side.data, side.kpis))
    return sides


def baseline_of_side(sides: Sequence[RunSide], other: RunSide) -> RunSide | None:
    """Return the side with which another one is compared: the first run, or a point of the same run.

    A point is compared with that of its seed which has the other settings of the first point, because another seed is
    another load.

    Args:
        sides: Runs, or all points of a run, in their order.
        other: One of them, but not the first.

    Returns:
        The first side if there is no such point, or if points differ in nothing but seeds; None for a point with which
        those of its seed are compared.
    """
    first = sides[0]
    if not isinstance(other, PointSide):
        return first
    (kept, _seed), (others, seed) = _settings_and_seeds(first), _settings_and_seeds(other)
    if others == kept:
        return first if all(_settings_and_seeds(side)[0] == kept for side in sides) else None
    return next((side for side in sides if _settings_and_seeds(side) == (kept, seed)), first)


def _settings_and_seeds(side: RunSide) -> tuple[dict[str, Any], dict[str, Any]]:
    settings = side.run.points[0].settings
    seeds = {name: value for name, value in settings.items() if name.endswith(SEED)}
    return {name: value for name, value in settings.items() if name not in seeds}, seeds


def pair_points_by_matrix_values(first: Sequence[Point], second: Sequence[Point]) -> list[tuple[Point, Point]]:
    """Return pairs of points with the same matrix values; two single points always form a pair."""
    if len(first) == len(second) == 1:
        return [(first[0], second[0])]
    pairs = []
    left = list(second)
    for point in first:
        same = next((other for other in left if other.settings == point.settings), None)
        if same is not None:
            left.remove(same)
            pairs.append((point, same))
    return pairs


def differing_settings(
    of: Sequence[Mapping[str, Sequence[Mapping[str, Any]]]], used: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the settings that differ: name, and the value in each run.

    of: provenance of each run, without defaults. used: all values of each run, including defaults.
    """
    names = sorted({name for provenance in of for name in provenance})
    rows = []
    for name in names:
        values = [
            provenance[name][-1].get("value") if provenance.get(name) else every.get(name)
            for provenance, every in zip(of, used, strict=True)
        ]
        if any(value != values[0] for value in values):
            rows.append({"name": name, "values": values})
    return rows


def kpi_differences(first: Found, second: Found) -> list[dict[str, Any]]:
    """Return the difference of each KPI that both points have, in the order of the definitions.

    A simulated figure is not compared with a measured one.
    """
    both = [name for name in first if name in second]
    comparable = [name for name in both if first[name][0]["simulated"] == second[name][0]["simulated"]]
    return [_kpi_difference_row(first[name], second[name]) for name in comparable]


def _kpi_difference_row(
    before: tuple[Mapping[str, Any], KpiValue], after: tuple[Mapping[str, Any], KpiValue]
) -> dict[str, Any]:
    (old, old_figure), (new, new_figure) = before, after
    values: list[Any] = [old["value"], new["value"]]
    known = None not in values
    difference = new["value"] - old["value"] if known else None
    confidence = censored_quantiles.difference_interval(old_figure.replicates, new_figure.replicates, difference)
    row = {
        "name": new["name"],
        "title": new["title"],
        "unit": new["unit"],
        "direction": new["direction"],
        "before": values[0],
        "after": values[1],
        "difference": difference,
        "percent": 100 * difference / abs(values[0]) if difference is not None and values[0] else None,
        "confidence": confidence.document() if confidence else None,
        "reading": _assess_kpi_difference(new["direction"], difference, confidence)
        if known
        else _assess_bounds(old, new),
        "simulated": new["simulated"],
        "n": [old["n"], new["n"]],
        "of": [old["of"], new["of"]],
        "headline": new["headline"],
        **{
            key: kpi["at_least"]
            for key, kpi in (("before_at_least", old), ("after_at_least", new))
            if kpi["value"] is None and kpi.get("at_least") is not None
        },
    }
    notes = [str(kpi["note"]) for kpi in (old, new) if kpi.get("note") and kpi["value"] is None]
    return {**row, **({"note": "; ".join(dict.fromkeys(notes))} if notes else {})}


def _assess_bounds(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return better or worse if the bound of a figure without a value lies above the whole interval of the other."""
    before, after = (kpi_limits.kpi_uncertainty_interval(kpi) for kpi in (old, new))
    if new["direction"] == "none" or (old["value"] is None) == (new["value"] is None):
        return "unclear"
    bound, high = (after[0], before[1]) if new["value"] is None else (before[0], after[1])
    if bound is None or high is None or bound <= high:
        return "unclear"
    rises = new["value"] is None
    return "better" if rises == (new["direction"] == "higher") else "worse"


def _assess_kpi_difference(
    direction: str, difference: float | None, confidence: censored_quantiles.ConfidenceInterval | None
) -> str:
    """Return better or worse if the interval excludes zero, same if there is no difference, else unclear.

    It covers these two runs only, not the variation between runs of the same configuration.
    """
    if difference is None:
        return "unclear"
    if difference == 0 and (confidence is None or (confidence.low == confidence.high == 0)):
        return "same"
    if confidence is None or confidence.low is None or confidence.high is None or direction == "none":
        return "unclear"
    if confidence.low <= 0 <= confidence.high:
        return "unclear"
    return "better" if (difference > 0) == (direction == "higher") else "worse"


def count_figures_by_reading(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of figures by assessment."""
    counts = {"better": 0, "worse": 0, "same": 0, "unclear": 0}
    for row in rows:
        counts[row["reading"]] += 1
    return counts


def stage_with_largest_difference(pairs: Sequence[Mapping[str, Any]], group: str, point: str) -> dict[str, Any] | None:
    """Return the stage with the largest part in the difference of the mean times; None without a difference.

    pairs: of the same point in the first run and in each run of a group, as in schema comparison/2. group: its letter.
    """
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for pair in pairs:
        for stage in pair["stages"]:
            rows.setdefault(str(stage["name"]), []).append(stage)
    count = sum(1 for pair in pairs if pair["stages"])
    means = {
        name: tuple(sum(row[end] for row in pairs) / count for end in ("before", "after"))
        for name, pairs in rows.items()
    }
    total = sum(after - before for before, after in means.values())
    if not total:
        return None
    sign = 1.0 if total > 0 else -1.0
    name = max(means, key=lambda stage: sign * (means[stage][1] - means[stage][0]))
    before, after = means[name]
    stage = {
        "group": group,
        "point": point,
        "stage": name,
        "writer": rows[name][0]["writer"],
        "before": before,
        "after": after,
        "share": (after - before) / total,
    }
    return {**stage, "text": _changed_stage_text(stage, total)}


def _changed_stage_text(stage: Mapping[str, Any], total: float) -> str:
    difference = stage["after"] - stage["before"]
    percent = f" ({100 * difference / stage['before']:+.0f} %)" if stage["before"] > 0 else ""
    whole = (
        f"The mean time of a workload is {formats.format_duration(abs(total))} {'longer' if total > 0 else 'shorter'}."
    )
    ends = " to ".join(formats.format_duration(stage[end]) for end in ("before", "after"))
    return f"{whole} Stage {label_of_stage(stage['stage'])} changed most, from {ends}{percent}."
