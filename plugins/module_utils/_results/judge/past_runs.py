# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a history: their points with labels and KPIs, wherever they were read from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader

from ..kpi.labels import FlatLabels


@dataclass(frozen=True)
class PastValue:
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

    points: the attempts that count.
    """

    run: str
    at: str
    verdict: str
    source: str
    points: tuple[PastPoint, ...]


def counted(points: Iterable[PastPoint], repeats: bool) -> tuple[PastPoint, ...]:
    """Return the attempts that count of those that passed: the last one at each point, or all of a run that repeats."""
    ordered = sorted(points, key=lambda one: run_reader.attempt_order(*run_reader.split_attempt_name(one.number)))
    if repeats:
        return tuple(ordered)
    return tuple({run_reader.point_of_attempt(one.number): one for one in ordered}.values())


@contextmanager
def left_out(notes: list[str], where: object) -> Iterator[None]:
    """Leave out what the body reads if it is damaged. notes: gets the reason. where: what is read, in messages."""
    try:
        yield
    except SeatrialError as error:
        notes.append(str(error))
    except Exception as error:  # a file with unexpected content can raise anything, and must not end the run
        notes.append(f"{where} cannot be read: {type(error).__name__}: {error}")


def kpis_of(documents: Any, where: object) -> dict[str, PastValue]:
    """Return the KPIs of a point by name. documents: as in kpis.json or the index.

    where: the file or index in messages. Raises DataError for anything else.
    """
    try:
        return {str(one["name"]): _value(one) for one in documents}
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise DataError(f"{where}: not KPIs as perfscale.seatrial writes them") from error


def _value(one: Mapping[str, Any]) -> PastValue:
    confidence = one.get("confidence") or {}
    low, high = _number(confidence.get("low")), _number(confidence.get("high"))
    return PastValue(_number(one["value"]), low, high, str(one.get("unit") or ""))


def _number(value: Any) -> float | None:
    return float(value) if value is not None and isfinite(float(value)) else None
