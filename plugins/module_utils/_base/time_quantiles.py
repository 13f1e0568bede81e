# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantiles of times in seconds, such as the lateness of a load (sent minus intended)."""

from __future__ import annotations

from collections.abc import Sequence

QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def quantile(ordered: Sequence[float], q: float) -> float:
    """Return the ``q`` quantile of sorted values, linear between neighbours (type 7 of Hyndman and Fan, 1996)."""
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def percentile_summary(values: Sequence[float]) -> dict[str, float] | None:
    """Return P50, P95, P99 and max in seconds, rounded to microseconds; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    percentiles = {name: round(quantile(ordered, q), 6) for name, q in QUANTILES.items()}
    return {**percentiles, "max": round(ordered[-1], 6)}


def is_load_on_time(percentiles: dict[str, float] | None, most: float) -> bool:
    """Return whether the P99 of a summary() is at most ``most`` seconds. A closed loop (None) is always on time."""
    return percentiles is None or percentiles["p99"] <= most
