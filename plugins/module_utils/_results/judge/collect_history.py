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
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.s3 import S3Location
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run

from ..kpi.labels import FlatLabels, flat, recorded_labels
from . import from_folder, from_opensearch, from_s3, matching
from .history_sources import OPENSEARCH, S3, USED
from .kept_runs import KeptRuns
from .kpi_series import KpiSeries, RunValue
from .matching import ComparablePoint, LabelRules, LeftOut
from .past_runs import PastRun, PastValue, kpis_of, left_out

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
            bucket, prefix = s3.split(source)
            return from_s3.read(replace(self.s3, bucket=bucket, prefix=prefix), project, notes)
        if source != OPENSEARCH:
            return from_folder.read(Path(source), project, notes)
        if self.opensearch is None:
            raise InputError(self.without_opensearch)
        return from_opensearch.read(self.opensearch, project, notes)


@dataclass(frozen=True)
class History:
    """The past runs of a run. found: how many there are, without copies. points: by matrix point, oldest first.

    notes: what could not be read, and patterns without effect. unread: why sources could not be read at all.
    """

    sources: tuple[str, ...] = ()
    found: int = 0
    used: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    points: Mapping[str, Sequence[ComparablePoint]] = field(default_factory=dict)
    rules: LabelRules = LabelRules()
    unread: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the part ``history`` of schemas verdict/2 and comparison/2."""
        reasons: dict[str, list[str]] = {}
        for one in self.left_out:
            reasons.setdefault(one.why, []).append(one.run)
        ordered = sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
        left_out = [{"why": why, "runs": runs} for why, runs in ordered]
        return {"sources": list(self.sources), "found": self.found, "used": len(self.used), "left_out": left_out}

    def series(self, run: Run, kpi: Mapping[str, Any], of: str, *, judged: bool, repeated: bool = False) -> KpiSeries:
        """Return a KPI of matrix point ``of`` over the past runs and this one.

        kpi: its definition or a figure: name, unit, direction. judged: whether it may decide the verdict. repeated:
        whether attempts were added until it was decided. Past values in another unit are left out.
        """
        name, unit = str(kpi["name"]), str(kpi["unit"])
        past = self.points.get(of, ())
        own = [point for point in run.points if point.of == of and _is_measured(point) and not point.resumed]
        old = [one for one in past if not one.new]
        labels = flat(recorded_labels(run, own[0])) if own else {}
        return KpiSeries(
            of,
            name,
            unit,
            str(kpi["direction"]),
            past_values(old, name, unit),
            (*past_values([one for one in past if one.new], name, unit), *_own_values(run, own, name)),
            judged,
            repeated,
            matching.difference_text([one.point for one in old], labels, self.rules),
        )


def collect(run: Run, request: HistoryRequest, without: Collection[str] = (), store: KeptRuns | None = None) -> History:
    """Return the history of a run: the runs before it, without itself, copies and the runs ``without``.

    store: what the session has read, None if it looks only once.
    """
    if not request.sources:
        return History(rules=request.rules)
    notes: list[str] = []
    unread: list[str] = []
    own = _own_labels(run)
    defaults = {point.of: _defaults(run, point) for point in run.points if point.of in own}
    started = str(run.record.get("started") or "")
    matched: dict[str, dict[str, list[ComparablePoint]]] = {}
    left_out: dict[str, LeftOut] = {}
    for source in request.sources:
        used = 0
        fresh = partial(_read, request, source, str(run.record.get("project") or ""))
        for past in store.read(source, fresh, notes, unread) if store else fresh(notes, unread):
            if past.run in (run.id, *matched, *without):
                continue
            late = bool(started) and past.at > started
            found = (
                LeftOut(past.run, "later than this run")
                if late
                else matching.comparable(own, past, request.rules, defaults)
            )
            if isinstance(found, LeftOut):
                left_out.setdefault(past.run, found)
                continue
            left_out.pop(past.run, None)
            matched[past.run] = found
            used += 1
            if used >= request.most:
                break
    if store:
        store.save()
    newest = sorted(matched, key=lambda one: _begun(matched[one]), reverse=True)
    too_old = [LeftOut(one, f"older than the newest {request.most}") for one in newest[request.most :]]
    kept = set(newest[: request.most])
    compared = [one.point.labels for points in matched.values() for group in points.values() for one in group]
    notes += [*unread, *_without_effect([*own.values(), *compared], request.rules)]
    return History(
        request.sources,
        len(matched) + len(left_out),
        tuple(reversed(newest[: request.most])),
        (*left_out.values(), *too_old),
        tuple(notes),
        {number: _points(matched, kept, number) for number in own},
        request.rules,
        tuple(unread),
    )


def _begun(found: Mapping[str, Sequence[ComparablePoint]]) -> str:
    return next(one.run.at for points in found.values() for one in points)


def _points(
    matched: Mapping[str, Mapping[str, Sequence[ComparablePoint]]], kept: set[str], number: str
) -> tuple[ComparablePoint, ...]:
    found = [one for run in kept for one in matched[run].get(number, ())]
    return tuple(sorted(found, key=lambda one: (one.run.at, one.point.at, one.point.number)))


def _own_labels(run: Run) -> dict[str, FlatLabels]:
    """Return the labels of each matrix point that was measured, those of its first measured attempt."""
    found: dict[str, FlatLabels] = {}
    for point in run.points:
        if _is_measured(point) and point.of not in found:
            found[point.of] = flat(recorded_labels(run, point))
    return found


def _defaults(run: Run, point: Point) -> frozenset[str]:
    """Return the settings of a point that nothing sets; none if that is not recorded."""
    if not (run.top / "provenance.yml").exists():
        return frozenset()
    given = {name.partition(".")[0] for name in (*run.provenance, *point.settings)}
    return frozenset(point.all_settings or ()) - given


def _is_measured(point: Point) -> bool:
    return point.kpis is not None and point.record.get("status", "passed") == "passed"


def _read(request: HistoryRequest, source: str, project: str, notes: list[str], unread: list[str]) -> Iterator[PastRun]:
    """Yield the runs of a source, the newest first; note what cannot be read. unread: gets why the source cannot be."""
    damaged: list[str] = []
    begun = time.monotonic()
    count = 0
    failed: list[str] = []
    with left_out(failed, source):
        for past in request.read(source, project, damaged):
            yield past
            count += 1
            if count >= MOST_READ or time.monotonic() - begun > LONGEST:
                notes.append(f"history {source}: only the newest {formats.count(count, 'run')} were read")
                break
    unread += [f"history could not be read: {one}" for one in failed]
    notes += [f"history {source}: {one}" for one in damaged[:_NAMED]]
    if len(damaged) > _NAMED:
        notes.append(f"history {source}: {formats.count(len(damaged) - _NAMED, 'further file')} could not be read")


def _without_effect(compared: Sequence[FlatLabels], rules: LabelRules) -> list[str]:
    """Return a sentence on each pattern that matches a label neither of the run nor of a comparable one."""
    names = {name for labels in compared for name in labels}
    absent = {"results_compare_on": rules.compare_on, "results_ignore": rules.ignore}
    return [
        f"{setting}: '{pattern}' matches no label of this run"
        for setting, patterns in absent.items()
        for pattern in (matching.unmatched(patterns, names) if names else ())
    ]


def past_values(points: Sequence[ComparablePoint], name: str, unit: str) -> tuple[RunValue, ...]:
    """Return a KPI in past runs, in their order; runs without it or with it in another unit are left out.

    A run is one observation, so several comparable points of a run, such as attempts, count as their mean.
    """
    runs: dict[str, list[PastValue]] = {}
    for one in points:
        kpi = one.point.kpis.get(name)
        if kpi is not None and kpi.unit == unit:
            runs.setdefault(one.run.run, []).append(kpi)
    return tuple(_value(run, mean_of(kpis)) for run, kpis in runs.items())


def mean_of(kpis: Sequence[PastValue]) -> PastValue:
    """Return the mean of attempts, of the logarithms if all are positive; its interval is the union of theirs."""
    values = [one.value for one in kpis if one.value is not None]
    if len(kpis) == 1 or not values:
        return kpis[0]
    mean = values[0]
    if len(set(values)) > 1:
        mean = exp(fmean(map(log, values))) if min(values) > 0 else fmean(values)
    lows, highs = [one.low for one in kpis], [one.high for one in kpis]
    low = None if None in lows else min(one for one in lows if one is not None)
    high = None if None in highs else max(one for one in highs if one is not None)
    return PastValue(mean, low, high, kpis[0].unit)


def _own_values(run: Run, points: Sequence[Point], name: str) -> tuple[RunValue, ...]:
    named = [(f"{run.id}/{point.number}" if len(points) > 1 else run.id, point) for point in points]
    found = [(label, kpis_of(point.kpis, point.folder).get(name)) for label, point in named]
    return tuple(_value(label, kpi) if kpi else RunValue(label, None) for label, kpi in found)


def _value(label: str, kpi: PastValue) -> RunValue:
    return RunValue(label, kpi.value, kpi.low, kpi.high)
