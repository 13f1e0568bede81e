"""The generator's lateness."""

from __future__ import annotations

import numpy as np
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import load_generator_health
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1000, allow_subnormal=False), min_size=1, max_size=200))
def test_quantiles_are_numpys(values: list[float]) -> None:
    found = load_generator_health.percentile_summary(values)
    assert found is not None
    for name, q in load_generator_health.QUANTILES.items():
        assert found[name] == pytest.approx(float(np.quantile(values, q)), abs=2e-6)
    assert found["max"] == pytest.approx(max(values), abs=1e-6)


def test_nothing_with_a_time_to_keep_is_never_late() -> None:
    assert load_generator_health.percentile_summary([]) is None and load_generator_health.is_load_on_time(None, 0.0)


def test_on_time_looks_at_the_99th_percentile() -> None:
    values = [0.001] * 995 + [5.0] * 5
    found = load_generator_health.percentile_summary(values)
    assert found is not None and found["max"] == 5.0
    assert load_generator_health.is_load_on_time(found, 0.001) and not load_generator_health.is_load_on_time(
        found, 0.0009
    )
