# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the groups of a comparison: each against the first one, with the past runs of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_schemas import VERDICTS
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

from ..judge import collect_history, judge_history, overall_verdict
from ..judge.collect_history import History, HistoryRequest, mean_of, past_values
from ..judge.history_settings import HEADLINE, HistorySettings
from ..judge.judge_history import HistoryReading
from ..judge.judge_run import is_judged
from ..judge.kpi_series import KpiSeries, RunValue
from ..judge.matching import UNUSABLE, LabelRules
from ..judge.overall_verdict import INVALID
from ..judge.past_runs import kpis_of
from ..statistics.readings import IMPROVEMENT, INCONCLUSIVE, NO_HISTORY, NOT_MEASURED, REGRESSION
from .run_groups import RunGroup
from .run_side import RunSide

#: Without history, one run on each side says nothing about the variation between runs.
TWO_SINGLE_RUNS = (
    "Two single runs do not distinguish a change from the variation between runs. Give several runs of each, "
)
TWO_SINGLE_RUNS += "or past runs with results_history."

#: Readings that leave a comparison open.
UNDECIDED = (INCONCLUSIVE, NO_HISTORY, NOT_MEASURED)
#: Readings whose figures are drawn with all of their runs.
EXPLAINED = (REGRESSION, IMPROVEMENT, INCONCLUSIVE)

Kpi = dict[str, Any]


@dataclass(frozen=True)
class ComparisonRules:
    """How groups are judged. judged: patterns of KPI names; ``headline`` and ``all`` are groups of them."""

    past: HistoryRequest = HistoryRequest()
    settings: HistorySettings = HistorySettings()
    judged: Sequence[str] = (HEADLINE,)


def judge(groups: Sequence[RunGroup], rules: ComparisonRules, notes: list[str]) -> dict[str, Any]:
    """Return the parts of schema comparison/2 that state the verdict. notes: gets what could not be read."""
    invalid = _invalid(groups)
    past = {
        group.letter: _history(group, groups, rules, notes) if group is groups[0] or group.what else History()
        for group in groups
    }
    history = past[groups[0].letter]
    compared = [one for group in groups[1:] for one in _series(groups[0], group, past, rules.judged)]
    read = judge_history.judge_history([series for _kpi, series in compared], rules.settings)
    kpis = [_document(kpi, one) for (kpi, _series_), one in zip(compared, read, strict=True)]
    readings = [INCONCLUSIVE if one["reading"] in UNDECIDED else str(one["reading"]) for one in kpis]
    result = overall_verdict.overall([INVALID] if invalid else [], readings or [INCONCLUSIVE])
    code, status = VERDICTS[result]
    return {
        "verdict": result,
        "code": code,
        "exit_status": status,
        "why": invalid or _reasons(result, groups, history, kpis),
        "kpis": kpis,
        **({"history": history.document()} if rules.past.sources else {}),
    }


def _invalid(groups: Sequence[RunGroup]) -> list[str]:
    """Return why the runs must not be compared, empty if they may."""
    sides = [side for group in groups for side in group.sides]
    found = [f"The verdict of {side.label} is {side.verdict}." for side in sides if side.verdict in UNUSABLE]
    simulated = {side.simulated for side in sides}
    return found + (["Simulated figures are not compared with measured ones."] if len(simulated) > 1 else [])


def _reasons(result: str, groups: Sequence[RunGroup], history: History, kpis: Sequence[Kpi]) -> list[str]:
    if not kpis:
        return ["The runs have no judged figure in common."]
    if not history.used and all(len(group.sides) == 1 for group in groups):
        return [TWO_SINGLE_RUNS]
    if result == INCONCLUSIVE:
        return [f"{_name(one, kpis)}: {one['why']}" for one in kpis if one["reading"] in UNDECIDED]
    return [f"{_name(one, kpis)}: {one['why']}" for one in kpis if one["reading"] == result]


def _name(kpi: Kpi, kpis: Sequence[Kpi]) -> str:
    """Return the name of a figure, with its point and group if there are several."""
    parts = [kpi["group"]] if len({one["group"] for one in kpis}) > 1 else []
    parts += [f"point {kpi['point']}"] if len({one["point"] for one in kpis}) > 1 else []
    return kpi["name"] + (f" ({', '.join(parts)})" if parts else "")


def _history(of: RunGroup, groups: Sequence[RunGroup], rules: ComparisonRules, notes: list[str]) -> History:
    """Return the past runs with the labels of a group, without the runs of the comparison."""
    exact = replace(rules.past, rules=LabelRules((), rules.past.rules.ignore))
    side = of.sides[0]
    points = [
        replace(point, kpis=[kpi for kpi, _figure in side.kpis[point.number].values()])
        for point in side.run.points
        if point.number in side.kpis
    ]
    given = {each.run.id for group in groups for each in group.sides}
    found = collect_history.collect(replace(side.run, points=points), exact, given)
    notes += [one for one in found.notes if one not in notes]
    return found


def _series(
    first: RunGroup, other: RunGroup, past: Mapping[str, History], judged: Sequence[str]
) -> Iterator[tuple[Kpi, KpiSeries]]:
    """Yield each judged KPI of each point with its values in two groups, past runs of the same labels first."""
    top = first.sides[0]
    for point in _points(top):
        same = [one.of for one in _same(other.sides[0], top, point)][:1]
        for name, (kpi, _figure) in top.kpis[point.number].items():
            if not is_judged(kpi, judged) or kpi["direction"] == "none":
                continue
            unit = str(kpi["unit"])
            old = past_values(past[first.letter].points.get(point.of, ()), name, unit)
            new = past_values([one for of in same for one in past[other.letter].points.get(of, ())], name, unit)
            before, after = (tuple(_values(group, top, point, name, unit)) for group in (first, other))
            if after:
                baseline = f"{first.letter} and its history" if old else first.letter
                values = ((*old, *before), (*new, *after))
                series = KpiSeries(point.number, name, unit, kpi["direction"], *values, baseline=baseline)
                yield {**kpi, "point": point.number, "group": other.letter}, series


def _points(side: RunSide) -> list[Point]:
    """Return the first readable attempt at each point of the matrix."""
    found: dict[str, Point] = {}
    for point in side.run.points:
        if point.number in side.kpis:
            found.setdefault(point.of, point)
    return list(found.values())


def _same(side: RunSide, first: RunSide, point: Point) -> list[Point]:
    """Return the attempts of a run at the point with these matrix values; at its only one if both have one."""
    single = len({one.of for one in side.run.points}) == len({one.of for one in first.run.points}) == 1
    there = [one for one in side.run.points if one.number in side.kpis]
    return [one for one in there if single or one.settings == point.settings]


def _values(group: RunGroup, first: RunSide, point: Point, name: str, unit: str) -> Iterator[RunValue]:
    """Yield one value per run: a run is one observation, however many attempts at the point it made."""
    for side in group.sides:
        found = []
        for one in _same(side, first, point):
            documents = [kpi for kpi, _figure in side.kpis[one.number].values()]
            value = kpis_of(documents, side.run.top).get(name)
            if value is not None and value.unit == unit:
                found.append(value)
        if found:
            mean = mean_of(found)
            yield RunValue(side.run.id, mean.value, mean.low, mean.high)


def _document(kpi: Mapping[str, Any], read: HistoryReading) -> Kpi:
    """Return an entry of ``kpis`` of schema comparison/2: the figure in the later group, compared with the first."""
    document = read.document()
    if read.result == NO_HISTORY:
        document["why"] = f"A has {formats.count(document['old']['n'], 'run')} with this figure; it needs two"
    return {
        "point": kpi["point"],
        "group": kpi["group"],
        "name": kpi["name"],
        "title": kpi.get("title") or kpi["name"],
        "unit": kpi["unit"],
        "direction": kpi["direction"],
        "value": document["new"]["value"],
        "simulated": bool(kpi["simulated"]),
        **document,
    }
