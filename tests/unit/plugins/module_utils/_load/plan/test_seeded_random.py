"""Numbers of a seed are those of numpy's generator, computed without it."""

from __future__ import annotations

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.random_draws import SeededRandom
from hypothesis import example, given
from hypothesis import strategies as st


@given(st.integers(0, 2**200))
@example(0)
@example(2**32 - 1)
@example(2**32)
@example(2**128)
def test_the_numbers_are_those_of_numpy_for_any_seed(seed: int) -> None:
    draw = SeededRandom(seed)
    assert [draw() for _ in range(200)] == numpy.random.Generator(numpy.random.PCG64(seed)).random(200).tolist()


def test_a_seed_below_0_is_refused() -> None:
    with pytest.raises(InputError, match="seed -1 is below 0"):
        SeededRandom(-1)
