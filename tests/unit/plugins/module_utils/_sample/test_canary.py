"""The times of the canary's writes."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.canary import sway
from hypothesis import given
from hypothesis import strategies as st

WHOLE = 80  # beats to and fro


def test_the_rate_is_what_it_would_be_on_an_even_clock() -> None:
    assert sway(0) == sway(WHOLE) == 0.0
    assert {round(sway(beat) * 40) for beat in range(WHOLE)} == set(range(41))


@given(st.integers(0, 10**6))
def test_neighbours_stay_nearly_a_period_apart(beat: int) -> None:
    assert abs(sway(beat + 1) - sway(beat)) < 0.026


@given(st.floats(0, 1, exclude_max=True))
def test_a_load_of_the_same_rate_has_no_phase_that_goes_undated(phase: float) -> None:
    """The mean time since the last own write stays well below half a period, which is what being in step costs."""
    marks = sorted([beat + sway(beat) for beat in range(WHOLE)] + [beat + phase for beat in range(WHOLE)])
    gaps = [later - earlier for earlier, later in zip(marks, marks[1:], strict=False)]
    assert sum(gap * gap for gap in gaps) / (2 * sum(gaps)) < 0.36
