"""How much the benchmarks run: BENCH_SCALE=0.1 runs a tenth of everything."""

from __future__ import annotations

import os

SCALE = float(os.environ.get("BENCH_SCALE", "1"))
PAIRS = max(1, round(5 * SCALE))
#: Rows of the whole table.
ROWS = 14


def scaled(number: int, least: int = 20) -> int:
    """A number of workloads, smaller when everything is only tried."""
    return max(least, round(number * SCALE))


def spread(values: list[float]) -> str:
    """The single ratios behind a median."""
    return f"median of {len(values)} pairs, {min(values):.2f} to {max(values):.2f}"
