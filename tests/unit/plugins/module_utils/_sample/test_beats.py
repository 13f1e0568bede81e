"""The times of the canary's writes and of soundings."""

from __future__ import annotations

import threading
import time

from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.beats import beats, sway
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


def test_beats_begin_when_they_should_and_end_when_they_are_told() -> None:
    over, begin = threading.Event(), time.monotonic() + 0.05
    seen = []
    for beat in beats(over, 100.0, begin):
        seen.append((beat, time.monotonic()))
        if beat == 5:
            over.set()
    assert [beat for beat, _at in seen] == list(range(6))
    assert seen[0][1] >= begin and seen[5][1] >= begin + 0.05


def test_what_is_late_by_more_than_a_period_is_not_made_up_for() -> None:
    over = threading.Event()
    threading.Timer(0.5, over.set).start()
    assert list(beats(over, 1.0, time.monotonic() - 100.0)) == [0, 1, 2], "of a hundred, the one before and the present"
