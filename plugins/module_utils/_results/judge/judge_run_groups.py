# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge groups of runs: each group of runs with the same labels against the first one, with the past runs of both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_views
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run

from ..kpi.point_data import PointData
from ..kpi.point_labels import FlatLabels, ReadSettings, flatten_labels, recorded_labels
from ..statistics.readings_from_p_values import (
    ACKNOWLEDGED,
    IMPROVEMENT,
    INCONCLUSIVE,
    NO_HISTORY,
    NOT_MEASURED,
    PASS,
    REGRESSION,
)
from . import collect_history, comparable_points, judge_history, kpi_limits, overall_verdict
from .collect_history import HistoryRequest, RunHistory
from .comparable_points import UNUSABLE, LabelRules
from .history_settings import HEADLINE, HistorySettings
from .judge_run import is_compared_with_history
from .overall_verdict import INVALID
from .past_run_data import KpiSeries, RunValue, kpi_value_of_run, kpis_by_name, versions_in_past_run

#: Without history, one run on each side says nothing about the variation between runs.
TWO_SINGLE_RUNS = (
    "Two single runs do not distinguish a change from the variation between runs. Give several runs of each, "
    "or past runs with results_history."
)
#: Readings that leave a comparison open.
UNDECIDED = (INCONCLUSIVE, NO_HISTORY, NOT_MEASURED)
#: Readings whose figures are drawn with all of their runs.
EXPLAINED = (REGRESSION, IMPROVEMENT, INCONCLUSIVE)
#: Labels of a group that are named.
_NAMED = 3

Kpi = dict[str, Any]


@dataclass
class RunSide:
    """A compared run. ``data``, ``kpis``: of its points by number, for the points that could be read."""

    run: Run
    label: str
    verdict: str
    data: dict[str, PointData] = field(default_factory=dict)
    kpis: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def letter(self) -> str:
        """The letter of its group, and its number if the group has several runs."""
        return self.label.partition(" ")[0]

    @property
    def simulated(self) -> bool | None:
        """Whether its figures are simulated; None if some are, because its workloads ran on both kinds of nodes."""
        points = [self.data[point.number] for point in self.run.points if point.number in self.data]
        kinds = {timeline_views.node_kind_of_timeline(data.table) for data in points} - {None}
        if not kinds:
            return self.run.simulated
        if len(kinds) > 1 or timeline_views.MIXED in kinds:
            return None
        return any(data.simulated_stages for data in points)

    @property
    def settings(self) -> dict[str, Any]:
        """Provenance of the settings of the run."""
        return self.run.provenance


@dataclass(frozen=True)
class RunGroup:
    """Runs of the same configuration. what: what distinguishes it from the first group; empty for the first."""

    letter: str
    sides: tuple[RunSide, ...]
    what: str = ""


@dataclass(frozen=True)
class ComparisonRules:
    """How groups are judged. judged: patterns of KPI names; ``headline`` and ``all`` are groups of them."""

    past: HistoryRequest = HistoryRequest()
    settings: HistorySettings = HistorySettings()
    judged: Sequence[str] = (HEADLINE,)


def group_and_label_runs(sides: Sequence[RunSide], rules: LabelRules) -> list[RunGroup]:
    """Return the groups in the order of their first runs, and label the runs: A, or A1 and A2.

    Runs with the same labels are a group. If all have the same labels, the first half of them is A, the rest B.
    """
    by_labels: dict[str, list[RunSide]] = {}
    read = settings_read_by_any(sides)
    for side in sides:
        by_labels.setdefault(json.dumps(_grouping_labels(side, rules, read), sort_keys=True), []).append(side)
    parts = list(by_labels.values())
    if len(parts) == 1 and len(sides) > 1:
        parts = [list(sides[: len(sides) // 2]), list(sides[len(sides) // 2 :])]
    groups = []
    for place, members in enumerate(parts):
        name = group_letter_for_index(place)
        for number, side in enumerate(members, 1):
            side.label = f"{name}{number if len(members) > 1 else ''} ({side.run.id})"
        what = _differing_labels(parts[0][0], members[0], rules, read) if place else ""
        groups.append(RunGroup(name, tuple(members), what))
    return groups


def group_letter_for_index(place: int) -> str:
    """Return the letter of the group or point at a place that counts from 0: A to Z, then AA, AB."""
    before, last = divmod(place, 26)
    return (group_letter_for_index(before - 1) if before else "") + chr(ord("A") + last)


def settings_read_by_any(sides: Sequence[RunSide]) -> ReadSettings:
    """Return the settings that one of the runs reads; those of other projects do not distinguish groups."""
    recorded = [ReadSettings.of(side.run) for side in sides]
    read = {role for each in recorded for role in each.read}
    return ReadSettings(tuple(read), tuple({role for each in recorded for role in each.other} - read))


def _grouping_labels(side: RunSide, rules: LabelRules, read: ReadSettings) -> list[FlatLabels]:
    """Return the labels of each point by which runs are grouped, without repetitions."""
    of_points = [read.keep_read(flatten_labels(recorded_labels(side.run, point))) for point in side.run.points]
    kept = [
        {
            **comparable_points.labels_required_equal(labels, rules),
            **comparable_points.labels_distinguishing_old_group(labels, rules),
        }
        for labels in of_points
    ]
    return [labels for place, labels in enumerate(kept) if labels not in kept[:place]]


def _differing_labels(first: RunSide, other: RunSide, rules: LabelRules, read: ReadSettings) -> str:
    """Return the labels in which two groups differ: "ran.openshift 4.19.4 instead of 4.19.3"."""
    ours, theirs = (
        {name: labels[name] for labels in _grouping_labels(side, rules, read) for name in labels}
        for side in (first, other)
    )
    texts = [
        f"{comparable_points.label_display_name(name)} {theirs.get(name, 'none')} instead of {ours.get(name, 'none')}"
        for name in comparable_points.differing_label_names(ours, theirs)
    ]
    return formats.format_list(texts, _NAMED)


def judge_run_groups(groups: Sequence[RunGroup], rules: ComparisonRules, notes: list[str]) -> dict[str, Any]:
    """Return the parts of schema comparison/2 that state the verdict. notes: gets what could not be read."""
    invalid = _reason_not_comparable(groups)
    past = {
        group.letter: _past_runs_of_group(group, groups, rules, notes)
        if group is groups[0] or group.what
        else RunHistory()
        for group in groups
    }
    history = past[groups[0].letter]
    pairs = [pair for group in groups[1:] for pair in _judged_kpi_series(groups[0], group, past, rules.judged, notes)]
    kpis = [_comparison_kpi_entry(kpi) for kpi in judge_history.judge_kpis(pairs, rules.settings)]
    readings = [INCONCLUSIVE if kpi["reading"] in UNDECIDED else str(kpi["reading"]) for kpi in kpis]
    judgement = overall_verdict.verdict_with_exit_status([INVALID] if invalid else [], readings or [INCONCLUSIVE])
    return {
        **judgement,
        "why": invalid or _verdict_reasons(judgement["verdict"], groups, history, kpis),
        "kpis": kpis,
        **({"history": history.document()} if rules.past.sources else {}),
    }


def _reason_not_comparable(groups: Sequence[RunGroup]) -> list[str]:
    """Return why the runs must not be compared, empty if they may."""
    sides = [side for group in groups for side in group.sides]
    reasons = [f"The verdict of {side.label} is {side.verdict}." for side in sides if side.verdict in UNUSABLE]
    simulated = {side.simulated for side in sides}
    return reasons + (["Simulated figures are not compared with measured ones."] if len(simulated) > 1 else [])


def _verdict_reasons(result: str, groups: Sequence[RunGroup], history: RunHistory, kpis: Sequence[Kpi]) -> list[str]:
    if not kpis:
        return ["The runs have no judged figure in common."]
    if not history.used and all(len(group.sides) == 1 for group in groups):
        return [TWO_SINGLE_RUNS]
    deciding = UNDECIDED if result == INCONCLUSIVE else (result,)
    known, others = (
        [f"{_full_name(kpi, kpis)}: {kpi['why']}" for kpi in kpis if kpi["reading"] in wanted]
        for wanted in ((ACKNOWLEDGED,), deciding)
    )
    return [*known, *others] if result == PASS else [*others, *known]


def _full_name(kpi: Kpi, kpis: Sequence[Kpi]) -> str:
    """Return the name of a figure, with its point and group if there are several."""
    parts = [kpi["group"]] if len({other["group"] for other in kpis}) > 1 else []
    parts += [f"point {kpi['point']}"] if len({other["point"] for other in kpis}) > 1 else []
    return kpi["name"] + (f" ({', '.join(parts)})" if parts else "")


def _past_runs_of_group(
    of: RunGroup, groups: Sequence[RunGroup], rules: ComparisonRules, notes: list[str]
) -> RunHistory:
    """Return the past runs with the labels of a group, without the runs of the comparison."""
    exact = replace(rules.past, rules=LabelRules((), rules.past.rules.ignore))
    side = of.sides[0]
    points = [
        replace(point, kpis=[kpi for kpi, _figure in side.kpis[point.number].values()])
        for point in side.run.points
        if point.number in side.kpis
    ]
    compared = {member.run.id for group in groups for member in group.sides}
    history = collect_history.collect_past_runs(replace(side.run, points=points), exact, compared)
    notes += [note for note in history.notes if note not in notes]
    return history


def _judged_kpi_series(
    first: RunGroup, other: RunGroup, past: Mapping[str, RunHistory], judged: Sequence[str], notes: list[str]
) -> Iterator[tuple[Kpi, KpiSeries]]:
    """Yield each judged KPI of each point with its values in two groups, past runs of the same labels first.

    notes: gets a sentence on each KPI that not all past runs have.
    """
    top, side = first.sides[0], other.sides[0]
    ran = (
        versions_in_past_run(flatten_labels(recorded_labels(side.run, side.run.points[0])))
        if side.run.points
        else frozenset()
    )
    for point in _first_readable_points(top):
        same = [attempt.of for attempt in _attempts_at_matching_point(side, top, point)][:1]
        for name, (kpi, _figure) in top.kpis[point.number].items():
            if not is_compared_with_history(kpi, judged) or kpi["direction"] == "none":
                continue
            unit = str(kpi["unit"])
            old = past[first.letter].values(point.of, name, unit)
            new = tuple(value for of in same for value in past[other.letter].values(of, name, unit))
            covered = [(first.letter, past[first.letter].coverage(point.of, name, unit))]
            covered += [(other.letter, past[other.letter].coverage(of, name, unit)) for of in same]
            missing = [
                f"{name}: of the history of {letter}, {coverage.runs_of_text} are compared: {coverage.why}"
                for letter, coverage in covered
                if coverage.why
            ]
            notes += [note for note in missing if note not in notes]
            before, after = (tuple(_kpi_value_per_run(group, top, point, name, unit)) for group in (first, other))
            if after:
                baseline = f"{first.letter} and its history" if old else first.letter
                values = ((*old, *before), (*new, *after))
                series = KpiSeries(point.number, name, unit, kpi["direction"], *values, baseline=baseline, labels=ran)
                yield {**kpi_limits.judge_kpi_by_limits(point.number, kpi, (), (), True), "group": other.letter}, series


def _first_readable_points(side: RunSide) -> list[Point]:
    """Return the first readable attempt at each point of the matrix."""
    points: dict[str, Point] = {}
    for point in side.run.points:
        if point.number in side.kpis:
            points.setdefault(point.of, point)
    return list(points.values())


def _attempts_at_matching_point(side: RunSide, first: RunSide, point: Point) -> list[Point]:
    """Return the attempts of a run at the point with these matrix values; at its only one if both have one."""
    single = all(len({attempt.of for attempt in run.points}) == 1 for run in (side.run, first.run))
    return [
        attempt
        for attempt in side.run.points
        if attempt.number in side.kpis and (single or attempt.settings == point.settings)
    ]


def _kpi_value_per_run(group: RunGroup, first: RunSide, point: Point, name: str, unit: str) -> Iterator[RunValue]:
    """Yield one value per run: a run is one observation, however many attempts at the point it made."""
    for side in group.sides:
        values = []
        for attempt in _attempts_at_matching_point(side, first, point):
            documents = [kpi for kpi, _figure in side.kpis[attempt.number].values()]
            value = kpis_by_name(documents, side.run.top).get(name)
            if value is not None and value.unit == unit:
                values.append(value)
        if values:
            yield kpi_value_of_run(side.run.id, values)


def _comparison_kpi_entry(kpi: Kpi) -> Kpi:
    """Return an entry of ``kpis`` of schema comparison/2: the figure in the later group, compared with the first."""
    entry = {**kpi, "value": kpi["new"]["value"]}
    if any(
        run["group"] == "new" and run["value"] is None and run["low"] is not None for run in kpi.get("series") or ()
    ):
        entry |= {"value": None, "low": kpi["new"]["value"]}  # of one run only a bound is known
    if kpi["reading"] == NO_HISTORY:
        entry["why"] = f"A has {formats.format_count(kpi['old']['n'], 'run')} with this figure; it needs two"
    return entry
