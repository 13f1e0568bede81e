# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judged figures of points that are repeated until decided: one figure for all attempts at a point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run

from ..statistics import comparison_scale
from . import limits, repeated_limits
from .limits import Limit
from .repeated_limits import RepeatedReading

Kpi = Mapping[str, Any]


def attempts_of(run: Run) -> dict[str, list[Point]]:
    """Return the passed attempts at each point of a run that repeats its points; empty for any other run.

    An attempt that was resumed does not count: its times include the interruption, and another one is made.
    """
    found: dict[str, list[Point]] = {}
    for point in run.points if run.repeats else ():
        if point.status == "passed" and not point.resumed and point.kpis is not None:
            found.setdefault(point.of, []).append(point)
    return found


def judged_kpis(
    attempts: Mapping[str, Sequence[Point]],
    given: Mapping[str, Sequence[Limit]],
    is_judged: Callable[[Kpi], bool],
    level: float,
    each: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return the figures on which the verdict depends, as in schema verdict/2.

    attempts: point -> those that count. given: limits by point. level, each: as in repeated_limits.read().
    """
    figures = [
        (of, kpis, [one for one in given.get(of, ()) if one.matches(kpis[0]["name"])])
        for of, points in attempts.items()
        for kpis in _by_name(points)
    ]
    suite = [(limit, kpis) for _of, kpis, own in figures for limit in own]
    read = iter(repeated_limits.read(suite, level, each))
    found = []
    for of, kpis, own in figures:
        readings = [next(read) for _limit in own]
        if readings or is_judged(kpis[0]):
            found.append(_judged(of, kpis, own, readings, is_judged(kpis[0])))
    return found


def absent(
    attempts: Mapping[str, Sequence[Point]], given: Mapping[str, Sequence[Limit]]
) -> Iterator[tuple[Point, Limit]]:
    """Yield the limits of which no attempt at a point has a figure."""
    for of, points in attempts.items():
        names = {str(kpi["name"]) for point in points for kpi in point.kpis or []}
        yield from ((points[0], one) for one in given.get(of, ()) if not any(map(one.matches, names)))


def _by_name(points: Sequence[Point]) -> list[list[dict[str, Any]]]:
    """Return the figures of the attempts by their name; ``attempt`` is the name of the folder."""
    found: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        for kpi in point.kpis or []:
            found.setdefault(str(kpi["name"]), []).append({**kpi, "attempt": point.number})
    return list(found.values())


def _judged(
    of: str, kpis: Sequence[Kpi], own: Sequence[Limit], readings: Sequence[RepeatedReading], compared: bool
) -> dict[str, Any]:
    values = [one["value"] for one in kpis if one["value"] is not None]
    found = {
        **limits.entry(of, kpis[0], own, readings, compared),
        "value": sum(values) / len(values) if values else None,
        "simulated": any(one["simulated"] for one in kpis),
        "series": [_run_value(one) for one in kpis],
    }
    if not readings:
        return found
    read = limits.worst(readings)
    numbers = {name: getattr(read, name) for name in ("value", "low", "high", "p", "p_corrected")}
    known = {name: comparison_scale.known(number) for name, number in numbers.items()}
    return {**found, "method": repeated_limits.METHOD, **known}


def _run_value(kpi: Kpi) -> dict[str, Any]:
    low, high = limits.interval_of(kpi)
    return {"run": kpi["attempt"], "group": "new", "value": kpi["value"], "low": low, "high": high}
