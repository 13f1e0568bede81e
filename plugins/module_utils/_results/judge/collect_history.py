# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect the history of a run: read its sources, keep the comparable runs, say why the others are left out.

A source that cannot be read is no error: the run was measured, and only its comparison is missing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch_connection import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.s3 import S3Location
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run

from ..kpi.point_labels import FlatLabels, ReadSettings, flatten_labels, recorded_labels
from . import comparable_points, read_past_runs
from .comparable_points import ComparablePoint, LabelRules, LeftOut
from .past_run_data import (
    KeptRuns,
    KpiSeries,
    PastRun,
    PastValue,
    RunValue,
    kpi_value_of_run,
    kpis_by_name,
    leave_out_damaged_run,
    versions_in_past_run,
)

#: The source that stands for the index of the settings export_opensearch_*.
OPENSEARCH = "opensearch"
S3 = "s3://"
#: Comparable runs that are used at most by default.
USED = 50
#: Runs that are read at most from one source, and seconds after which no further one is read.
MOST_READ, LONGEST = 1000, 300.0
#: Damaged files that are named one by one.
_NAMED = 3


@dataclass(frozen=True)
class HistoryRequest:
    """Where past runs are and which to use.

    sources: folders, s3://bucket/prefix and opensearch. most: the newest comparable runs. s3: server and credentials,
    without bucket. opensearch: None without a usable address; without_opensearch: why.
    """

    sources: tuple[str, ...] = ()
    most: int = USED
    rules: LabelRules = LabelRules()
    s3: S3Location = S3Location("")
    opensearch: OpenSearchServer | None = None
    without_opensearch: str = "no address of OpenSearch is set"

    def read(self, source: str, project: str, notes: list[str]) -> Iterator[PastRun]:
        """Yield the runs of a source, the newest first. notes: gets a sentence on each run that cannot be read.

        Raises a SeatrialError if the source cannot be read.
        """
        if source.startswith(S3):
            bucket, prefix = s3.parse_s3_url(source)
            return read_past_runs.read_runs_from_s3(replace(self.s3, bucket=bucket, prefix=prefix), project, notes)
        if source != OPENSEARCH:
            return read_past_runs.read_runs_from_folder(Path(source), project, notes)
        if self.opensearch is None:
            raise InputError(self.without_opensearch)
        return read_past_runs.read_runs_from_opensearch(self.opensearch, project, notes)


@dataclass(frozen=True)
class HistoryCoverage:
    """The past runs with which a KPI is compared, of how many, and why it is not compared with the others."""

    runs: frozenset[str]
    of: int
    why: str

    @property
    def runs_of_text(self) -> str:
        """Return the numbers as text: "0 of 10 runs"."""
        return f"{len(self.runs)} of {formats.format_count(self.of, 'run')}"


@dataclass(frozen=True)
class RunHistory:
    """The past runs of a run. found: how many there are, without copies. points: by matrix point, oldest first.

    notes: what could not be read, and patterns without effect. unread: why sources could not be read at all.
    findings_of: the runs before this one in which causes of failures were sought, oldest first, with what was found.
    """

    sources: tuple[str, ...] = ()
    found: int = 0
    used: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    points: Mapping[str, Sequence[ComparablePoint]] = field(default_factory=dict)
    rules: LabelRules = LabelRules()
    unread: tuple[str, ...] = ()
    findings_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def findings(self) -> dict[str, list[str]]:
        """Return the past runs in which each signature of failures was found, oldest first."""
        runs: dict[str, list[str]] = {}
        for run, signatures in self.findings_of.items():
            for signature in signatures:
                runs.setdefault(signature, []).append(run)
        return runs

    def document(self) -> dict[str, Any]:
        """Return the part ``history`` of schemas verdict/2 and comparison/2."""
        reasons: dict[str, list[str]] = {}
        for past in self.left_out:
            reasons.setdefault(past.why, []).append(past.run)
        ordered = sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
        groups = [{"why": why, "runs": runs} for why, runs in ordered]
        return {"sources": list(self.sources), "found": self.found, "used": len(self.used), "left_out": groups}

    def values(self, point: str, name: str, unit: str, new: bool | None = None) -> tuple[RunValue, ...]:
        """Return a KPI of a matrix point in past runs, in their order; runs without it or in another unit are left out.

        new: only in runs whose configuration is that of the run, or only in the others.
        """
        runs: dict[str, list[PastValue]] = {}
        for past in self.points.get(point, ()):
            kpi = past.point.kpis.get(name)
            if kpi is not None and kpi.unit == unit and new in (None, past.new):
                runs.setdefault(past.run.run, []).append(kpi)
        return tuple(kpi_value_of_run(run, kpis) for run, kpis in runs.items())

    def coverage(self, point: str, name: str, unit: str) -> HistoryCoverage:
        """Return how many past runs have a KPI of a matrix point in this unit, and why others, or attempts, do not."""
        reasons: dict[str, set[str]] = {}
        known: set[str] = set()
        for past in self.points.get(point, ()):
            kpi = past.point.kpis.get(name)
            if kpi is None:
                reason = f"without {name}"
            elif kpi.unit != unit:
                reason = f"with {name} in {kpi.unit or 'no unit'} instead of {unit or 'no unit'}"
            elif kpi.known is None:
                reason = f"in which {name} has no usable value"
            else:
                known.add(past.run.run)
                continue
            reasons.setdefault(reason, set()).add(past.run.run)
        counts = {reason: len(runs - known) for reason, runs in reasons.items() if runs - known}
        parts = {f"in part (attempts {reason})": len(runs & known) for reason, runs in reasons.items() if runs & known}
        counts |= parts
        every = known.union(*reasons.values())
        return HistoryCoverage(frozenset(known), len(every), ", ".join(f"{n} {why}" for why, n in counts.items()))

    def series(self, run: Run, kpi: Mapping[str, Any], of: str, *, judged: bool, repeated: bool = False) -> KpiSeries:
        """Return a KPI of matrix point ``of`` over the past runs and this one.

        Args:
            run: This run; each of its attempts at the point that was measured is a value.
            kpi: Its definition or a figure: name, unit, direction.
            of: The matrix point.
            judged: Whether it may decide the verdict.
            repeated: Whether attempts were added until it was decided.
        """
        name, unit, direction = (str(kpi[key]) for key in ("name", "unit", "direction"))
        own = [point for point in run.points if point.of == of and _is_measured(point) and not point.resumed]
        labels = flatten_labels(recorded_labels(run, own[0])) if own else {}
        old_points = [past.point for past in self.points.get(of, ()) if not past.new]
        return KpiSeries(
            of,
            name,
            unit,
            direction,
            self.values(of, name, unit, new=False),
            (*self.values(of, name, unit, new=True), *_own_values(run, own, name)),
            judged,
            repeated,
            comparable_points.label_difference_text(old_points, labels, self.rules),
            versions_in_past_run(labels),
        )


def _own_values(run: Run, points: Sequence[Point], name: str) -> Iterator[RunValue]:
    for point in points:
        label = f"{run.id}/{point.number}" if len(points) > 1 else run.id
        kpi = kpis_by_name(point.kpis, point.folder).get(name)
        yield kpi_value_of_run(label, [kpi]) if kpi else RunValue(label, None)


def _is_measured(point: Point) -> bool:
    return point.kpis is not None and point.record.get("status", "passed") == "passed"


def collect_past_runs(
    run: Run, request: HistoryRequest, without: Collection[str] = (), store: KeptRuns | None = None
) -> RunHistory:
    """Return the history of a run: the runs before it, without itself, copies and the runs ``without``.

    store: what the session has read, None if it looks only once.
    """
    if not request.sources:
        return RunHistory(rules=request.rules)
    notes: list[str] = []
    unread: list[str] = []
    read = ReadSettings.of(run)
    own = _own_labels(run, read)
    defaults = {point.of: _unset_setting_defaults(run, point) for point in run.points if point.of in own}
    started = formats.normalize_time_to_utc_text(run.record.get("started"))
    matched: dict[str, dict[str, list[ComparablePoint]]] = {}
    left: dict[str, LeftOut] = {}
    explained: dict[str, PastRun] = {}
    for source in request.sources:
        used = 0
        read_source = partial(_read_source_runs, request, source, str(run.record.get("project") or ""), started)
        runs = store.read(source, read_source, notes, unread) if store else read_source(notes, unread)
        for past in runs:
            known = matched.get(past.run)
            displaced = known is not None and past.own and not _rank_of_run(known)[0]
            if past.run in (run.id, *without) or (known is not None and not displaced):
                continue
            if past.findings is not None and not (started and past.at > started):
                explained[past.run] = past
            if started and past.at > started:
                match: dict[str, list[ComparablePoint]] | LeftOut = LeftOut(past.run, "later than this run")
            else:
                match = comparable_points.find_comparable_points(own, past, request.rules, defaults, read)
            if isinstance(match, LeftOut):
                left.setdefault(past.run, match)
                continue
            left.pop(past.run, None)
            matched[past.run] = match  # an own run in place of a copied or received one of an earlier source
            used += 1
            if used >= request.most:
                break
    if store:
        store.save()
    newest = sorted(matched, key=lambda name: _rank_of_run(matched[name]), reverse=True)
    kept, others = newest[: request.most], newest[request.most :]
    too_old = [LeftOut(name, f"older than the newest {request.most}") for name in others]
    compared = [past.point.labels for points in matched.values() for group in points.values() for past in group]
    notes += [*unread, *_without_effect([*own.values(), *compared], request.rules)]
    return RunHistory(
        request.sources,
        len(matched) + len(left),
        tuple(sorted(kept, key=lambda name: _rank_of_run(matched[name])[1])),
        (*left.values(), *too_old),
        tuple(notes),
        {number: _sorted_comparable_points(matched, kept, number) for number in own},
        request.rules,
        tuple(unread),
        {past.run: past.findings or () for past in sorted(explained.values(), key=lambda past: past.at)},
    )


def _rank_of_run(points: Mapping[str, Sequence[ComparablePoint]]) -> tuple[bool, str]:
    """Return whether a run is an own one, and when it began. A stranger chooses the time of a received one."""
    return next((past.run.own, past.run.at) for group in points.values() for past in group)


def _sorted_comparable_points(
    matched: Mapping[str, Mapping[str, Sequence[ComparablePoint]]], kept: Collection[str], number: str
) -> tuple[ComparablePoint, ...]:
    points = [past for run in kept for past in matched[run].get(number, ())]
    return tuple(sorted(points, key=lambda past: (past.run.at, past.point.at, past.point.number)))


def _own_labels(run: Run, read: ReadSettings) -> dict[str, FlatLabels]:
    """Return the labels of each matrix point that was measured, those of its first measured attempt."""
    labels: dict[str, FlatLabels] = {}
    for point in run.points:
        if _is_measured(point) and point.of not in labels:
            labels[point.of] = read.keep_read(flatten_labels(recorded_labels(run, point)))
    return labels


def _unset_setting_defaults(run: Run, point: Point) -> frozenset[str]:
    """Return the settings of a point that nothing sets; none if that is not recorded."""
    if not (run.top / "provenance.yml").exists():
        return frozenset()
    set_names = {name.partition(".")[0] for name in (*run.provenance, *point.settings)}
    return frozenset(point.all_settings or ()) - set_names


def _read_source_runs(
    request: HistoryRequest, source: str, project: str, started: str, notes: list[str], unread: list[str]
) -> Iterator[PastRun]:
    """Yield the runs of a source, the newest first; note what cannot be read.

    started: of the run that is judged; later runs are not among the most that are read. unread: gets why the source
    cannot be read.
    """
    damaged: list[str] = []
    begun = time.monotonic()
    count = 0
    failed: list[str] = []
    with leave_out_damaged_run(failed, source):
        for past in request.read(source, project, damaged):
            yield past
            count += not (started and past.at > started)
            if count >= MOST_READ or time.monotonic() - begun > LONGEST:
                notes.append(f"history {source}: only the newest {formats.format_count(count, 'run')} were read")
                break
    unread += [f"history could not be read: {reason}" for reason in failed]
    notes += [f"history {source}: {reason}" for reason in damaged[:_NAMED]]
    if len(damaged) > _NAMED:
        notes.append(
            f"history {source}: {formats.format_count(len(damaged) - _NAMED, 'further file')} could not be read"
        )


def _without_effect(compared: Sequence[FlatLabels], rules: LabelRules) -> list[str]:
    """Return a sentence on each pattern that matches a label neither of the run nor of a comparable one."""
    names = {name for labels in compared for name in labels}
    patterns = {"results_compare_on": rules.compare_on, "results_ignore": rules.ignore}
    return [
        f"{setting}: '{pattern}' matches no label of this run"
        for setting, setting_patterns in patterns.items()
        for pattern in (comparable_points.unmatched_label_patterns(setting_patterns, names) if names else ())
    ]
