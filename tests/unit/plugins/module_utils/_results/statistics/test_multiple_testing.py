"""Corrections for many figures judged together."""

from __future__ import annotations

import math

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import readings_from_p_values
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.one_of(st.just(math.nan), st.floats(0, 1)), max_size=30))
def test_corrections_keep_order_and_never_lower_a_p_value(p_values: list[float]) -> None:
    known = [one for one in p_values if not math.isnan(one)]
    for correct in (readings_from_p_values.adjust_by_holm, readings_from_p_values.adjust_by_benjamini_hochberg):
        adjusted = correct(p_values)
        assert [math.isnan(one) for one in adjusted] == [math.isnan(one) for one in p_values]
        pairs = sorted((p, q) for p, q in zip(p_values, adjusted, strict=True) if not math.isnan(p))
        assert all(p <= q * (1 + 1e-12) <= 1 + 1e-9 for p, q in pairs)
        assert all(a[1] <= b[1] * (1 + 1e-12) for a, b in zip(pairs, pairs[1:], strict=False))
    if known:
        holm = [one for one in readings_from_p_values.adjust_by_holm(p_values) if not math.isnan(one)]
        assert min(holm) == pytest.approx(min(1.0, min(known) * len(known)))


def test_corrections_are_those_of_the_textbook() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    assert readings_from_p_values.adjust_by_holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert readings_from_p_values.adjust_by_benjamini_hochberg(p) == pytest.approx([0.02, 0.04, 0.04, 0.02])
