"""Series of KPIs over runs, as a history would give them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.past_run_data import KpiSeries, RunValue

NOISE = 0.05


def runs(values: Iterable[float | None], prefix: str = "old") -> tuple[RunValue, ...]:
    """Return one run per value: old0, old1, …"""
    return tuple(
        RunValue(f"{prefix}{number}", None if value is None else float(value)) for number, value in enumerate(values)
    )


def series(old: Iterable[float | None], new: Iterable[float | None], **more: Any) -> KpiSeries:
    """Return a KPI in seconds that should be low, unless ``more`` says otherwise."""
    given = {"point": "000", "name": "time_to_running_p95", "unit": "s", "direction": "lower", **more}
    return KpiSeries(old=runs(old), new=runs(new, "new"), **given)


def at_least(bound: float, count: int, prefix: str = "bound") -> tuple[RunValue, ...]:
    """Return runs of whose figure only a lower bound is known."""
    return tuple(RunValue(f"{prefix}{number}", None, bound) for number in range(count))


def noisy(seed: int, mean: float, count: int) -> list[float]:
    """Return normally distributed runs with NOISE between them."""
    return list(mean * (1.0 + NOISE * numpy.random.default_rng(seed).standard_normal(count)))
