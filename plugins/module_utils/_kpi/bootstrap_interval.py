# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Confidence intervals by resampling blocks of workloads in the order of submission.

Workloads of one run are not independent: a queue that builds up makes neighbours slow together. So whole blocks of
neighbours are drawn, not single rows (circular block bootstrap, Politis and Romano 1992), with blocks of √N rows, long
enough for queues. The interval is that of percentiles, at 95 %. It says how much the figure would vary over more load
of the same kind in the same run; how much runs differ from each other only more runs can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.censored_quantile import Sample

LEVEL = 0.95
#: Fewer rows make too few blocks to draw from.
LEAST_ROWS = 8
#: Between so many samples are drawn, the more the fewer rows there are.
MOST_SAMPLES, LEAST_SAMPLES, DRAWN_ROWS = 1000, 200, 20_000_000
#: So many numbers are worked on at a time: what the caches of a processor hold.
CHUNK = 2_000_000


@dataclass(frozen=True)
class Confidence:
    """An interval at LEVEL; None at an end that is not known. ``method`` in words."""

    low: float | None
    high: float | None
    method: str

    def document(self) -> dict[str, Any]:
        """Return it as in schema kpis/1."""
        return {"low": self.low, "high": self.high, "level": LEVEL, "method": self.method}


class Resampling:
    """How often each of ``rows`` neighbours was drawn, in each of the samples; the same for the same seed."""

    def __init__(self, rows: int, seed: int = 1, samples: int | None = None) -> None:
        import numpy

        self.rows = rows
        self.block = max(1, round(sqrt(rows)))
        self.samples = samples or min(MOST_SAMPLES, max(LEAST_SAMPLES, DRAWN_ROWS // max(rows, 1)))
        blocks = ceil(rows / self.block) if rows else 0
        generator = numpy.random.default_rng(seed)
        self.drawn = numpy.empty((self.samples, rows), dtype=numpy.uint8)
        for number in range(self.samples):
            begins = numpy.bincount(generator.integers(0, rows, blocks), minlength=rows)
            around = numpy.concatenate([begins[rows - self.block + 1 :], begins])
            total = numpy.concatenate([[0], numpy.cumsum(around)])
            self.drawn[number] = total[self.block :] - total[: -self.block]
        self.totals = self.drawn.sum(axis=1, dtype=numpy.int64)

    @property
    def method(self) -> str:
        """What was done, in words."""
        return f"block bootstrap in submission order, {self.samples} samples, blocks of {self.block}"

    def quantiles(self, sample: Sample, wanted: Sequence[float]) -> Any:
        """Return an array [sample, quantile] of the quantiles of the samples; infinite where one is not known."""
        import numpy

        found = numpy.full((self.samples, len(wanted)), numpy.inf)
        if not sample.n:
            return found
        rows, order, is_event = _in_order(sample)
        values = rows[order]
        for begin in range(0, self.samples, step := max(1, CHUNK // max(len(order), 1))):
            share = self._shares(slice(begin, begin + step), order, is_event)
            for column, q in enumerate(wanted):
                place = numpy.minimum((share < q - 1e-9).sum(axis=1), len(order))
                known = place < len(order)
                part = numpy.where(known, values[numpy.minimum(place, len(order) - 1)], numpy.inf)
                found[begin : begin + step, column] = part
        return found

    def _shares(self, part: slice, order: Any, is_event: Any) -> Any:
        """Return for some of the samples the share of rows that came by each of the ordered times."""
        import numpy

        weights = self.drawn[part][:, order].astype(numpy.int32)
        totals = self.totals[part, None]
        reached = numpy.cumsum(weights, axis=1)
        if is_event is None:
            return reached / totals
        at_risk = numpy.maximum(totals - (reached - weights), 1)
        kept = numpy.where(is_event, 1.0 - weights / at_risk, 1.0)
        return 1.0 - numpy.cumprod(numpy.maximum(kept, 0.0), axis=1)

    def means(self, values: Any) -> Any:
        """Return the mean of each sample over the rows that have a value (not NaN); NaN where none has."""
        import numpy

        known = ~numpy.isnan(values)
        filled = numpy.where(known, values, 0.0)
        sums, counts = numpy.empty(self.samples), numpy.empty(self.samples)
        for begin in range(0, self.samples, step := max(1, CHUNK // max(self.rows, 1))):
            part = self.drawn[begin : begin + step].astype(numpy.float64)
            sums[begin : begin + step] = part @ filled
            counts[begin : begin + step] = part @ known
        with numpy.errstate(invalid="ignore", divide="ignore"):
            return sums / counts

    def curves(self, sample: Sample, grid: Any, most: int = MOST_SAMPLES) -> tuple[Any, Any]:
        """Return the 2.5 % and 97.5 % points of the share of rows that took at most ``grid``, pointwise.

        most: so many of the samples are enough.
        """
        import numpy

        rows, order, is_event = _in_order(sample)
        samples = min(self.samples, most)
        shares = numpy.empty((samples, len(grid)))
        if is_event is None:  # counting is enough, and needs no order
            bins = numpy.searchsorted(grid, rows, side="left")  # NaN comes behind all
            for number in range(samples):
                counts = numpy.bincount(bins, weights=self.drawn[number], minlength=len(grid) + 1)
                shares[number] = numpy.cumsum(counts[: len(grid)]) / self.totals[number]
            low, high = numpy.quantile(shares, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
            return low, high
        places = numpy.searchsorted(rows[order], grid, side="right")
        for begin in range(0, samples, step := max(1, CHUNK // max(len(order), 1))):
            share = self._shares(slice(begin, min(begin + step, samples)), order, is_event)
            padded = numpy.concatenate([numpy.zeros((len(share), 1)), share], axis=1)
            shares[begin : begin + step] = padded[:, places]
        low, high = numpy.quantile(shares, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        return low, high


def _in_order(sample: Sample) -> tuple[Any, Any, Any]:
    """Return times of all rows, the ascending order of those that have one, and which of these are no censorings."""
    import numpy

    known = ~numpy.isnan(sample.rows)
    if not sample.censored:
        rows = sample.rows
        order = numpy.argsort(rows, kind="stable")[: sample.n]  # NaN comes last
        return rows, order, None
    rows = numpy.where(known, sample.rows, numpy.where(sample.open, sample.waited, numpy.nan))
    order = numpy.lexsort((~known, rows))[: sample.n + sample.censored]  # at one time: first the event
    return rows, order, known[order]


def interval(replicates: Any, value: float | None, method: str) -> Confidence | None:
    """Return the percentile interval of ``replicates``, made to hold ``value``; None when nothing is known."""
    import numpy

    replicates = replicates[~numpy.isnan(replicates)]
    if not len(replicates):
        return None
    low, high = (
        float(numpy.quantile(replicates, q, method="inverted_cdf")) for q in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    )
    if not numpy.isfinite(low):
        return None
    if value is not None:
        low, high = min(low, value), max(high, value)
    return Confidence(low, high if value is not None and numpy.isfinite(high) else None, method)


def difference(before: Any, after: Any, value: float | None) -> Confidence | None:
    """Return the interval of the difference of two figures from the replicates of both; None where it is not known."""
    import numpy

    if value is None or before is None or after is None:
        return None
    size = min(len(before), len(after))
    with numpy.errstate(invalid="ignore"):
        spread = after[:size] - before[:size]
    if not numpy.isfinite(spread).all():
        return None  # in some sample one of the two is not known
    return interval(spread, value, "difference of two block bootstraps")
