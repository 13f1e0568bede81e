# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known regressions: a setting that lets a run pass with a regression that somebody works on, and with no other.

An acknowledgement names the first run, or the version, that has the regression. The runs since then show how large it
is: a run that is worse than they are is a regression again. On the day after its last one it has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

from . import kpi_limits
from .past_run_data import KpiSeries, RunValue

SETTING = "results_acknowledged"
_KEYS = ("kpi", "since", "until", "ticket")


@dataclass(frozen=True)
class Acknowledgement:
    """A known regression. kpi: name or pattern. since: the first run, or version, that has it. until: the last day."""

    kpi: str
    since: str
    until: date
    ticket: str

    def applies(self, series: KpiSeries, today: date) -> bool:
        """Return whether it is of this KPI, its first run or version is compared, and it has not ended."""
        return self._covers(series, today) and (self.since in series.labels or any(map(self._is_first, series.new)))

    def first_in_history(self, series: KpiSeries, today: date) -> int | None:
        """Return the place of its first run among the old runs, None if it is not there or does not apply."""
        if not self._covers(series, today):
            return None
        return next((place for place, run in enumerate(series.old) if self._is_first(run)), None)

    def known_runs(self, series: KpiSeries) -> tuple[RunValue, ...]:
        """Return the runs before the last one that have the regression, oldest first."""
        earlier = series.new[:-1]
        if self.since in series.labels:
            return earlier
        first = next((place for place, run in enumerate(series.new) if self._is_first(run)), len(series.new))
        return earlier[first:]

    def text(self) -> str:
        """Return the sentence that leads the reason: "known regression (TICKET-1), acknowledged until 2026-12-31"."""
        return f"known regression ({self.ticket}), acknowledged until {self.until}"

    def _covers(self, series: KpiSeries, today: date) -> bool:
        return today <= self.until and kpi_limits.do_patterns_overlap(self.kpi, series.name)

    def _is_first(self, run: RunValue) -> bool:
        return self.since in (run.run, run.run.partition("/")[0])


def today_utc() -> date:
    """Return the day that acknowledgements are compared with."""
    return datetime.now(UTC).date()


def parse_acknowledgements(setting: Any) -> tuple[Acknowledgement, ...]:
    """Return the acknowledgements of setting results_acknowledged. Raises InputError for any other form."""
    entries = setting or []
    if not isinstance(entries, list | tuple):
        raise InputError(f"{SETTING} is {setting!r}, and it must be a list of known regressions", setting=SETTING)
    return tuple(_parse_entry(entry, f"{SETTING}[{place}]") for place, entry in enumerate(entries))


def _parse_entry(entry: Any, where: str) -> Acknowledgement:
    if isinstance(entry, Acknowledgement):
        return entry
    if not isinstance(entry, dict):
        raise InputError(f"{where} is {entry!r}, and it must have the keys {', '.join(_KEYS)}", setting=SETTING)
    for key in entry:
        if key not in _KEYS:
            near = suggest_similar_name(key, _KEYS)
            raise InputError(f"{where}: unknown key '{key}'{near}; it has {', '.join(_KEYS)}", setting=SETTING)
    texts = {key: str(entry.get(key) or "").strip() for key in _KEYS}
    for key, text in texts.items():
        if not text:
            raise InputError(f"{where}: '{key}' is missing; it has {', '.join(_KEYS)}", setting=SETTING)
    try:
        until = date.fromisoformat(texts["until"][:10]) if len(texts["until"]) >= len("2026-12-31") else None
    except ValueError:
        until = None
    if until is None:
        raise InputError(f"{where}: until '{texts['until']}' is no day, such as 2026-12-31", setting=SETTING)
    return Acknowledgement(texts["kpi"], texts["since"], until, texts["ticket"])


def find_acknowledgement(
    series: KpiSeries, acknowledged: Sequence[Acknowledgement], today: date
) -> Acknowledgement | None:
    """Return the first acknowledgement that applies to a KPI, None without one."""
    return next((known for known in acknowledged if known.applies(series, today)), None)


def regroup_since_acknowledged(series: KpiSeries, acknowledged: Sequence[Acknowledgement], today: date) -> KpiSeries:
    """Return the series with the past runs that have a known regression among the new ones.

    So each later night is still compared with the runs before the regression, and covered by its acknowledgement.
    """
    for known in acknowledged:
        first = None if series.repeated else known.first_in_history(series, today)
        if first is not None:
            return replace(series, old=series.old[:first], new=(*series.old[first:], *series.new))
    return series
