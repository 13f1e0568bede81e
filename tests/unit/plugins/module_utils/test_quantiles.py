"""The generator's lateness."""

from __future__ import annotations

import numpy as np
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils import _quantiles
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1000, allow_subnormal=False), min_size=1, max_size=200))
def test_quantiles_are_numpys(values: list[float]) -> None:
    found = _quantiles.summary(values)
    assert found is not None
    for name, q in _quantiles.QUANTILES.items():
        assert found[name] == pytest.approx(float(np.quantile(values, q)), abs=2e-6)
    assert found["max"] == pytest.approx(max(values), abs=1e-6)


def test_nothing_with_a_time_to_keep_is_never_late() -> None:
    assert _quantiles.summary([]) is None and _quantiles.on_time(None, 0.0)


def test_on_time_looks_at_the_99th_percentile() -> None:
    values = [0.001] * 995 + [5.0] * 5
    found = _quantiles.summary(values)
    assert found is not None and found["max"] == 5.0
    assert _quantiles.on_time(found, 0.001) and not _quantiles.on_time(found, 0.0009)
