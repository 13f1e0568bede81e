# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a history, wherever they were read from: their points with labels and KPIs; a KPI as a series over runs.

A repetition looks at the history after each attempt. Reading it again each time could take minutes, and attempts of the
same session would be judged by different histories. So a session keeps what it has read in history.json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import exp, log, nan
from pathlib import Path
from statistics import fmean
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader

from ..kpi.point_labels import FlatLabels
from ..statistics import comparison_scale

FILE, SCHEMA = "history.json", "history/1"
#: Width of a 95 % interval in standard errors.
WIDTH = 3.92
#: Reads a source; gets the lists for notes, and for why the source cannot be read.
ReadSource = Callable[[list[str], list[str]], Iterator["PastRun"]]


class _ValueOrBound:
    """A figure of a run.

    One of which only a bound is known ("100 s or longer") has no value, ``low`` as that bound, and no ``high``.
    """

    value: float | None
    low: float | None
    high: float | None

    @property
    def at_least(self) -> float | None:
        """The bound, if that is all that is known of the figure."""
        return self.low if self.value is None and self.high is None else None

    @property
    def known(self) -> float | None:
        """The value, else the bound; None for what was not measured."""
        return self.at_least if self.value is None else self.value


@dataclass(frozen=True)
class PastValue(_ValueOrBound):
    """A KPI of a point; None for what was not measured. low, high: its confidence interval at 95 % within the run."""

    value: float | None
    low: float | None
    high: float | None
    unit: str


@dataclass(frozen=True)
class PastPoint:
    """A point that was measured to its end. number: the name of its folder. at: when it began, as text."""

    number: str
    at: str
    labels: FlatLabels
    kpis: Mapping[str, PastValue]


@dataclass(frozen=True)
class PastRun:
    """A run of a history. verdict: empty if it has none. source: the folder, prefix or index that it was read from.

    points: the attempts that count. findings: signatures of failures that were found in it, None if none were sought.
    own: False for a run directory that was copied, moved or received.
    """

    run: str
    at: str
    verdict: str
    source: str
    points: tuple[PastPoint, ...]
    findings: tuple[str, ...] | None = None
    own: bool = True


@dataclass(frozen=True)
class RunValue(_ValueOrBound):
    """A KPI in one run; None for what was not measured. low, high: its confidence interval at 95 % within the run."""

    run: str
    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def error(self) -> float:
        """Standard error within the run, in the unit of the KPI; NaN if unknown."""
        return nan if self.low is None or self.high is None else (self.high - self.low) / WIDTH


@dataclass(frozen=True)
class KpiSeries:
    """One KPI of one point in old and new runs, each oldest first.

    direction: lower, higher or none. new: this run, or all of its attempts, and past runs of the same configuration.
    judged: whether it may decide the verdict. repeated: whether attempts were added until it was decided. baseline:
    what distinguishes the old runs, such as "4.19.3"; empty if they differ in nothing that is compared. labels: values
    of the labels of this run, such as "4.19.4".
    """

    point: str
    name: str
    unit: str
    direction: str
    old: tuple[RunValue, ...]
    new: tuple[RunValue, ...]
    judged: bool = True
    repeated: bool = False
    baseline: str = ""
    labels: frozenset[str] = frozenset()


def versions_in_past_run(labels: FlatLabels) -> frozenset[str]:
    """Return what ran, as far as it has a value: versions, images, names of nodes' parts."""
    return frozenset(str(value) for name, value in labels.items() if name.startswith("ran."))


def kpi_value_of_run(label: str, kpis: Sequence[PastValue]) -> RunValue:
    """Return a KPI in one run from its attempts: a run is one observation, so several count as their mean."""
    mean = mean_kpi_of_attempts(kpis)
    return RunValue(label, mean.value, mean.low, mean.high)


def mean_kpi_of_attempts(kpis: Sequence[PastValue]) -> PastValue:
    """Return the mean of attempts, of the logarithms if all are positive; its interval is the union of theirs.

    If of one attempt only a bound is known, only a bound of the mean is.
    """
    values = [kpi.known for kpi in kpis if kpi.known is not None]
    if len(kpis) == 1 or not values:
        return kpis[0]
    mean = values[0]
    if len(set(values)) > 1:
        mean = exp(fmean(map(log, values))) if min(values) > 0 else fmean(values)
    if any(kpi.at_least is not None for kpi in kpis):
        return PastValue(None, mean, None, kpis[0].unit)
    lows, highs = [kpi.low for kpi in kpis], [kpi.high for kpi in kpis]
    low = None if None in lows else min(end for end in lows if end is not None)
    high = None if None in highs else max(end for end in highs if end is not None)
    return PastValue(mean, low, high, kpis[0].unit)


def passed_attempts_to_use(points: Iterable[PastPoint], repeats: bool) -> tuple[PastPoint, ...]:
    """Return the attempts that count of those that passed: the last one at each point, or all of a run that repeats."""
    ordered = sorted(points, key=lambda point: run_reader.attempt_order(*run_reader.split_attempt_name(point.number)))
    if repeats:
        return tuple(ordered)
    return tuple({run_reader.point_of_attempt_folder(point.number): point for point in ordered}.values())


@contextmanager
def leave_out_damaged_run(notes: list[str], where: object) -> Iterator[None]:
    """Leave out what the body reads if it is damaged. notes: gets the reason. where: what is read, in messages."""
    try:
        yield
    except SeatrialError as error:
        notes.append(str(error))
    except Exception as error:  # a file with unexpected content can raise anything, and must not end the run
        notes.append(f"{where} cannot be read: {type(error).__name__}: {error}")


def kpis_by_name(documents: Any, where: object) -> dict[str, PastValue]:
    """Return the KPIs of a point by name.

    Args:
        documents: KPIs as in kpis.json or the index.
        where: The file or index in messages.

    Raises:
        DataError: For anything else, and for two KPIs of one name, of which one would count.
    """
    try:
        values = [(str(kpi["name"]), _past_value(kpi)) for kpi in documents]
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise DataError(f"{where}: not KPIs as perfscale.seatrial writes them") from error
    by_name = dict(values)
    if len(by_name) < len(values):
        names = [name for name, _value in values]
        doubled = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{where}: KPI '{doubled}' is there twice")
    return by_name


def _past_value(kpi: Mapping[str, Any]) -> PastValue:
    value, unit = _usable_number_or_none(kpi["value"]), str(kpi.get("unit") or "")
    if value is None:
        # A figure that is NaN, infinite or beyond LARGEST was computed wrongly, so its interval bounds nothing.
        return PastValue(None, _bound_without_value(kpi) if kpi["value"] is None else None, None, unit)
    confidence = kpi.get("confidence") or {}
    low, high = _usable_number_or_none(confidence.get("low")), _usable_number_or_none(confidence.get("high"))
    return PastValue(value, low, high, unit)


def _bound_without_value(kpi: Mapping[str, Any]) -> float | None:
    """Return the lower bound of a figure without a value, None if nothing is known."""
    if kpi.get("at_least") is not None:
        return _usable_number_or_none(kpi["at_least"])
    interval = kpi.get("interval") or [None]
    return _usable_number_or_none(interval.get("low") if isinstance(interval, Mapping) else interval[0])


def _usable_number_or_none(value: Any) -> float | None:
    """Return a number with which statistics can be done; None for NaN, infinity and what is beyond LARGEST."""
    return float(value) if value is not None and abs(float(value)) < comparison_scale.LARGEST else None


@dataclass
class _SourceContent:
    """What was read of a source. whole: to its end, or to the most that are read of any."""

    runs: list[PastRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    whole: bool = False


class KeptRuns:
    """The past runs that a session has read. session: its start, as in run.yml."""

    def __init__(self, top: Path, session: str) -> None:
        self._path, self._session = top / FILE, session
        self._sources = _kept_sources(self._path, session)

    def read(self, source: str, read_source: ReadSource, notes: list[str], unread: list[str]) -> Iterator[PastRun]:
        """Yield the runs of a source: those that are kept, then further ones that ``read_source`` reads.

        A source that could not be read is read again at the next look.
        """
        kept = self._sources.get(source, _SourceContent())
        yield from kept.runs
        if kept.whole:
            notes += kept.notes
            return
        known = {run.run for run in kept.runs}
        current, failed = _SourceContent(), list[str]()
        self._sources[source] = current
        for run in read_source(current.notes, failed):
            current.runs.append(run)
            if run.run not in known:
                yield run
        current.whole = not failed
        notes += current.notes
        unread += failed

    def save(self) -> None:
        """Write the file."""
        sources = {name: asdict(source) for name, source in self._sources.items()}
        files.write_json(self._path, {"schema": SCHEMA, "session": self._session, "sources": sources}, SCHEMA)


def _kept_sources(path: Path, session: str) -> dict[str, _SourceContent]:
    """Return what a session has read; nothing of another session, or from a damaged file."""
    try:
        document = files.read_json(path)
        if document["session"] != session:
            return {}
        return {
            name: _SourceContent([_kept_run(run) for run in source["runs"]], source["notes"], source["whole"])
            for name, source in document["sources"].items()
        }
    except (DataError, OSError, KeyError, TypeError, AttributeError):
        return {}


def _kept_run(run: Mapping[str, Any]) -> PastRun:
    points = tuple(
        PastPoint(**{**point, "kpis": {name: PastValue(**kpi) for name, kpi in point["kpis"].items()}})
        for point in run["points"]
    )
    findings = None if run.get("findings") is None else tuple(run["findings"])
    return PastRun(**{**run, "points": points, "findings": findings})
