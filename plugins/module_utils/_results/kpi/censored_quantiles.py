# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantiles of durations with right-censored rows, and bootstrap confidence intervals.

Two kinds of rows have no value. A row that can no longer reach the stage (failed, refused, never sent) counts as longer
than all others. A row that was still waiting when the observation ended is right-censored: its duration is at least the
time waited. The distribution is the product-limit estimate (E. L. Kaplan, P. Meier: "Nonparametric Estimation from
Incomplete Observations", 1958). A quantile among rows without a value is unknown and has only a lower bound. So a run
that loses its slowest workloads never looks faster.

Workloads of one run are not independent: a growing queue delays neighbours together. So blocks of neighbours in
submission order are drawn instead of single rows: the circular block bootstrap (D. N. Politis, J. P. Romano: "A
circular block-resampling procedure for stationary data", 1992), with blocks of √N rows, which is long enough for
queues. Intervals are percentile intervals at 95 % (B. Efron, 1979). They estimate the variation over repeated loads of
the same kind within one run, not the variation between runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

#: Tolerance for probabilities that were summed in different orders.
_TINY = 1e-9
LEVEL = 0.95
#: Fewer rows give too few blocks to draw from.
LEAST_ROWS = 8
#: Bounds of the number of samples, and the rows drawn in total: fewer rows, more samples.
MOST_SAMPLES, LEAST_SAMPLES, DRAWN_ROWS = 1000, 200, 20_000_000
#: Numbers processed at a time, so that they fit into the processor's caches.
CHUNK = 2_000_000
#: Most groups of the values that rows have several of, and most numbers of such values, of all rows in all groups.
MOST_GROUPS, GROUPED = 256, 8_000_000


@dataclass(frozen=True)
class QuantileEstimate:
    """A quantile and its measurement bounds [lower, upper], or None for both and ``at_least``; from n of N rows.

    All in the unit of the values.
    """

    value: float | None
    interval: tuple[float, float] | None
    n: int
    of: int
    at_least: float | None = None


def parse_quantile(text: Any) -> float:
    """Return a quantile (p95, p99.9, max, min, or a number from 0 to 1) as a number. Raises InputError."""
    if text in ("max", "min"):
        return 1.0 if text == "max" else 0.0
    try:
        level = float(str(text)[1:]) / 100 if str(text).startswith("p") else float(text)
    except ValueError:
        level = -1.0
    if not 0 <= level <= 1:
        raise InputError(f"quantile '{text}' is none of p50, p95, …, max, min or a number from 0 to 1")
    return level


def compute_quantile(ordered: Any, of: int, q: float) -> float | None:
    """Return the quantile ``q`` (0 to 1) of ``of`` rows, the smallest of which are ``ordered``; None beyond these.

    Linear interpolation between neighbours: definition 7 of R. J. Hyndman, Y. Fan: "Sample Quantiles in Statistical
    Packages" (1996), numpy's default.
    """
    if not of:
        return None
    place = (of - 1) * q
    low, high = floor(place), ceil(place)
    if high >= len(ordered):
        return None
    return float(ordered[low] + (place - low) * (ordered[high] - ordered[low]))


def kaplan_meier_shares(events: Any, censored: Any, of: int) -> Any:
    """Return an array (len(events),): the estimated share of all ``of`` rows with at most each duration.

    events: ascending durations. censored: ascending times at which rows were last seen waiting. Rows in neither never
    reach the stage. The product-limit estimate of Kaplan and Meier; without censored rows it is k/N. In a tie the event
    comes before the censoring.
    """
    import numpy

    k = numpy.arange(len(events))
    if not len(censored):
        return (k + 1.0) / of
    before = numpy.searchsorted(censored, events, side="left")  # rows censored before each event
    at_risk = of - k - before
    with numpy.errstate(divide="ignore"):
        return 1.0 - numpy.exp(numpy.cumsum(numpy.log1p(-1.0 / at_risk)))


class DurationSample:
    """Durations of ``of`` rows: midpoints and measurement bounds.

    middle, lower, upper: arrays (rows,), NaN where a row has no value. waited: array (rows,), how long a row without a
    value had waited at least, 0 if unknown. All in one unit. censored: boolean array (rows,), which rows may still
    reach the stage; without it none may.
    """

    def __init__(self, middle: Any, lower: Any, upper: Any, waited: Any, censored: Any = None) -> None:
        import numpy

        known = ~numpy.isnan(middle)
        self.of = len(middle)
        self.n = int(known.sum())
        self.rows = middle  # in the given order
        self.middle = numpy.sort(middle[known])
        self._lower = numpy.sort(lower[known])
        self._upper = numpy.sort(upper[known])
        self._at_least = numpy.sort(numpy.where(known, middle, waited))
        self.open = numpy.zeros(self.of, dtype=bool) if censored is None else censored & ~known
        self.waited = waited
        self.shares = kaplan_meier_shares(self.middle, numpy.sort(waited[self.open]), self.of)
        # Plotting positions of definition 7 if no row is missing: 0 for the first, 1 for the last.
        self._places = (self.shares - 1.0 / self.of) * (self.of / max(self.of - 1, 1)) if self.of else self.shares

    @property
    def censored(self) -> int:
        """Number of rows that were still waiting when the observation ended."""
        return int(self.open.sum())

    def quantile(self, q: float) -> QuantileEstimate:
        """Return the quantile ``q``; q=1 is the maximum, which is unknown as long as a row has no value."""
        place = self._place(q)
        if place is None:
            least = compute_quantile(self._at_least, self.of, q)
            return QuantileEstimate(None, None, self.n, self.of, None if least is None else max(least, 0.0))
        value, low, high = (_interpolate_ordered_values(of, *place) for of in (self.middle, self._lower, self._upper))
        return QuantileEstimate(value, (min(low, value), max(high, value)), self.n, self.of)

    def _place(self, q: float) -> tuple[int, float] | None:
        """Return the index of the event below ``q`` and the fraction of the way to the next; None beyond the last."""
        if not self.n or (q >= 1 and self.n < self.of):
            return None
        import numpy

        above = int(numpy.searchsorted(self._places, q - _TINY, side="left"))
        if above >= self.n:
            return (self.n - 1, 0.0) if self.n == self.of else None
        if above == 0 or self._places[above] - q <= _TINY:
            return above, 0.0
        below = self._places[above - 1]
        return above - 1, float((q - below) / (self._places[above] - below))


def _interpolate_ordered_values(ordered: Any, place: int, part: float) -> float:
    if not part:
        return float(ordered[place])
    return float(ordered[place] + part * (ordered[place + 1] - ordered[place]))


@dataclass(frozen=True)
class ConfidenceInterval:
    """An interval at LEVEL, in the unit of the figure; None for an unknown bound. ``method``: a description."""

    low: float | None
    high: float | None
    method: str

    def document(self) -> dict[str, Any]:
        """Return the interval as in schema kpis/2."""
        return {"low": self.low, "high": self.high, "level": LEVEL, "method": self.method}


class BootstrapResampling:
    """Bootstrap weights: ``drawn`` is an array (samples, rows) of how often each row was drawn. Seeded."""

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
        """Description of the method, for documents and pages."""
        return f"block bootstrap in submission order, {self.samples} samples, blocks of {self.block}"

    def quantiles(self, sample: DurationSample, wanted: Sequence[float]) -> Any:
        """Return an array (samples, len(wanted)) of quantiles, in the unit of ``sample``; infinite where unknown."""
        import numpy

        times = numpy.full((self.samples, len(wanted)), numpy.inf)
        if not sample.n:
            return times
        rows, order, is_event = _sorted_event_times(sample)
        values = numpy.append(rows[order], numpy.inf)
        least = numpy.asarray(wanted) - 1e-9
        for begin in range(0, self.samples, step := max(1, CHUNK // max(len(order), 1))):
            shares = self._shares(slice(begin, begin + step), order, is_event)
            for number, share in enumerate(shares, begin):
                times[number] = values[numpy.searchsorted(share, least, side="left")]  # shares never fall
        return times

    def _shares(self, part: slice, order: Any, is_event: Any) -> Any:
        """Return an array (samples in ``part``, len(order)): the share of rows that came by each ordered time."""
        import numpy

        weights = self.drawn[part].take(order, axis=1)
        totals = self.totals[part, None]
        reached = numpy.cumsum(weights, axis=1, dtype=numpy.int64)
        if is_event is None:
            return reached / totals
        at_risk = numpy.maximum(totals - (reached - weights), 1)
        kept = numpy.where(is_event, 1.0 - weights / at_risk, 1.0)
        return 1.0 - numpy.cumprod(numpy.maximum(kept, 0.0), axis=1)

    def quantiles_of_parts(self, ordered: Any, rows: Any, wanted: float) -> Any:
        """Return an array (samples,) of a quantile of values, of which a row has any number; NaN if none is drawn.

        The values of a row are drawn together. ordered: the values, ascending. rows: the row of each value.
        """
        import numpy

        # Counting the values by group first, then looking into one group, is exact and reads few values per sample.
        groups = max(1, min(MOST_GROUPS, GROUPED // max(self.rows, 1), len(ordered)))
        begins = numpy.linspace(0, len(ordered), groups + 1).astype(int)
        group = numpy.repeat(numpy.arange(groups), numpy.diff(begins))
        counts = numpy.bincount(rows * groups + group, minlength=self.rows * groups).reshape(self.rows, groups)
        counts = counts.astype(numpy.float64)
        quantiles = numpy.full(self.samples, numpy.nan)
        for begin in range(0, self.samples, step := max(1, CHUNK // max(self.rows, 1))):
            reached = numpy.cumsum(self.drawn[begin : begin + step].astype(numpy.float64) @ counts, axis=1)
            for number, numbers in enumerate(reached, begin):
                if not numbers[-1]:
                    continue
                least = wanted * numbers[-1]
                chosen = int(numpy.searchsorted(numbers, least))
                first, end = begins[chosen], begins[chosen + 1]
                weights = self.drawn[number].take(rows[first:end])
                before = numbers[chosen - 1] if chosen else 0.0
                place = numpy.searchsorted(before + numpy.cumsum(weights, dtype=numpy.int64), least)
                quantiles[number] = ordered[first + min(int(place), end - first - 1)]
        return quantiles

    def means(self, values: Any) -> Any:
        """Return an array (samples,) of means over the rows with a value (not NaN); NaN where no row has one."""
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

    def curves(self, sample: DurationSample, grid: Any, most: int = MOST_SAMPLES) -> tuple[Any, Any]:
        """Return two arrays (len(grid),): the pointwise 2.5 % and 97.5 % bounds of the share of rows up to ``grid``.

        most: maximum number of samples to use.
        """
        import numpy

        rows, order, is_event = _sorted_event_times(sample)
        samples = min(self.samples, most)
        shares = numpy.empty((samples, len(grid)))
        if is_event is None:  # without censoring counting suffices, and needs no order
            bins = numpy.searchsorted(grid, rows, side="left")  # NaN sorts last
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


def _sorted_event_times(sample: DurationSample) -> tuple[Any, Any, Any]:
    """Return the times of all rows, the ascending order of those with a time, and which of these are events.

    The last is None when no row is censored.
    """
    import numpy

    known = ~numpy.isnan(sample.rows)
    if not sample.censored:
        rows = sample.rows
        order = numpy.argsort(rows, kind="stable")[: sample.n]  # NaN sorts last
        return rows, order, None
    rows = numpy.where(known, sample.rows, numpy.where(sample.open, sample.waited, numpy.nan))
    order = numpy.lexsort((~known, rows))[: sample.n + sample.censored]  # ties: the event first
    return rows, order, known[order]


def percentile_interval(replicates: Any, value: float | None, method: str) -> ConfidenceInterval | None:
    """Return the percentile interval of ``replicates``, extended to include ``value``; None if it is unknown.

    replicates: array (samples,), NaN and infinity for unknown values.
    """
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
    return ConfidenceInterval(low, high if value is not None and numpy.isfinite(high) else None, method)


def difference_interval(before: Any, after: Any, value: float | None) -> ConfidenceInterval | None:
    """Return the percentile interval of the difference of two figures from the replicates of both, or None."""
    import numpy

    if value is None or before is None or after is None:
        return None
    size = min(len(before), len(after))
    with numpy.errstate(invalid="ignore"):
        spread = after[:size] - before[:size]
    if not numpy.isfinite(spread).all():
        return None  # unknown in at least one sample
    return percentile_interval(spread, value, "difference of two block bootstraps")
