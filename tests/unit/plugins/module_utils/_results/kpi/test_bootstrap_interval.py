"""Confidence intervals: nominal coverage, and wider for correlated neighbours."""

from __future__ import annotations

import math

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import censored_quantiles
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.censored_quantiles import (
    BootstrapResampling,
    DurationSample,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def sample(values, waited=None, censored=None):
    values = numpy.asarray(values, dtype=float)
    return DurationSample(values, values, values, numpy.zeros(len(values)) if waited is None else waited, censored)


@given(st.integers(8, 300), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_each_sample_draws_as_many_rows_as_whole_blocks_have(rows, seed):
    drawn = BootstrapResampling(rows, seed, samples=20)
    assert set(drawn.totals) == {drawn.block * -(-rows // drawn.block)}
    assert drawn.drawn.mean() == pytest.approx(drawn.totals[0] / rows)


@given(st.lists(st.lists(st.floats(0, 100), max_size=40), min_size=8, max_size=40), st.sampled_from([0.01, 0.5, 0.99]))
@settings(max_examples=60, deadline=None)
def test_a_quantile_of_parts_is_that_of_the_parts_of_the_drawn_rows_laid_out(parts, q):
    drawn = BootstrapResampling(len(parts), 3, samples=10)
    values = numpy.array([value for part in parts for value in part])
    rows = numpy.array([row for row, part in enumerate(parts) for _value in part], dtype=int)
    order = numpy.argsort(values)
    found = drawn.quantiles_of_parts(values[order], rows[order], q)
    for number, weights in enumerate(drawn.drawn):
        laid_out = sorted(value for row, part in enumerate(parts) for value in part * int(weights[row]))
        if laid_out:
            assert found[number] == laid_out[max(0, math.ceil(q * len(laid_out)) - 1)]
        else:
            assert numpy.isnan(found[number])


def test_a_block_is_drawn_whole():
    drawn = BootstrapResampling(100, samples=50).drawn.astype(int)
    changes = (drawn != numpy.roll(drawn, 1, axis=1)).sum(axis=1)
    assert changes.max() <= 2 * 10  # ten blocks, each with two edges


@given(st.lists(st.floats(0, 100), min_size=8, max_size=60), st.sampled_from([0.1, 0.5, 0.9, 0.99]))
@settings(max_examples=40, deadline=None)
def test_a_quantile_of_a_sample_is_that_of_its_rows_laid_out(values, q):
    drawn = BootstrapResampling(len(values), 3, samples=10)
    found = drawn.quantiles(sample(values), [q])[:, 0]
    for number, weights in enumerate(drawn.drawn):
        rows = sorted(value for value, weight in zip(values, weights, strict=True) for _ in range(weight))
        assert found[number] == rows[int(numpy.ceil(q * len(rows) - 1e-9)) - 1]


def test_rows_still_waiting_are_weighed_as_kaplan_and_meier_do():
    values = numpy.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, numpy.nan, numpy.nan])
    open_ = numpy.isnan(values)
    one = sample(values, numpy.where(open_, 2.5, 0.0), open_)
    drawn = BootstrapResampling(8, samples=200)
    found = drawn.quantiles(one, [0.5])[:, 0]
    for number, weights in enumerate(drawn.drawn.astype(int)):
        survival, at_risk, expected = 1.0, weights.sum(), numpy.inf
        for moment, weight, event in sorted(
            zip(numpy.where(open_, 2.5, values), weights, ~open_, strict=True), key=lambda row: (row[0], not row[2])
        ):
            if event and at_risk:
                survival *= 1 - weight / at_risk
                if 1 - survival >= 0.5 - 1e-9:
                    expected = moment
                    break
            at_risk -= weight
        assert found[number] == expected


def test_the_interval_of_independent_rows_holds_the_median_about_as_often_as_it_says():
    generator = numpy.random.default_rng(7)
    drawn = BootstrapResampling(400, samples=300)
    held = 0
    for _ in range(150):
        found = censored_quantiles.percentile_interval(
            drawn.quantiles(sample(generator.exponential(1, 400)), [0.5])[:, 0], None, ""
        )
        held += found.low <= numpy.log(2)
        held -= found.high is not None and found.high < numpy.log(2)
    assert held / 150 >= 0.85


def test_neighbours_that_are_alike_make_it_wider():
    generator = numpy.random.default_rng(7)
    noise = generator.normal(0, 1, 900)
    alike = numpy.convolve(noise, numpy.ones(15) / numpy.sqrt(15), "same")
    drawn = BootstrapResampling(900)
    widths = []
    for values in (noise, alike):
        found = censored_quantiles.percentile_interval(drawn.means(values), float(values.mean()), "")
        widths.append(found.high - found.low)
    assert widths[1] > 2 * widths[0]


def test_an_end_that_is_not_known_stays_open():
    values = numpy.array([*range(1, 10), numpy.nan], dtype=float)
    found = censored_quantiles.percentile_interval(
        BootstrapResampling(10).quantiles(sample(values), [0.9])[:, 0], 9.0, ""
    )
    assert found.low <= 9.0
    assert found.high is None


def test_the_same_rows_give_the_same_interval():
    values = numpy.random.default_rng(1).exponential(1, 50)
    first, second = (BootstrapResampling(50).quantiles(sample(values), [0.5, 0.95]) for _ in range(2))
    assert (first == second).all()


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_a_band_holds_its_curve(share):
    values = numpy.random.default_rng(5).exponential(1, 200)
    one = sample(values[: int(200 * share)])
    grid = numpy.linspace(0, 4, 40)
    low, high = BootstrapResampling(one.of).curves(one, grid)
    curve = (one.middle[None, :] <= grid[:, None]).mean(axis=1)
    assert (low <= curve + 0.02).all() and (curve <= high + 0.02).all()
