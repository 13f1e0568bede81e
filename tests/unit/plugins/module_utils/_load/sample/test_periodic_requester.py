"""The times of the canary's writes and of soundings."""

from __future__ import annotations

import threading
from typing import cast

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_server_access import ApiServerAccess
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample import canary_lease
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.canary_lease import (
    PeriodicRequester,
    phase_jitter,
    probe_numbers_when_due,
)
from hypothesis import given
from hypothesis import strategies as st

WHOLE = 80  # beats to and fro


def test_the_rate_is_what_it_would_be_on_an_even_clock() -> None:
    assert phase_jitter(0) == phase_jitter(WHOLE) == 0.0
    assert {round(phase_jitter(beat) * 40) for beat in range(WHOLE)} == set(range(41))


@given(st.integers(0, 10**6))
def test_neighbours_stay_nearly_a_period_apart(beat: int) -> None:
    assert abs(phase_jitter(beat + 1) - phase_jitter(beat)) < 0.026


@given(st.floats(0, 1, exclude_max=True))
def test_a_load_of_the_same_rate_has_no_phase_that_goes_undated(phase: float) -> None:
    """The mean time since the last own write stays well below half a period, which is what being in step costs."""
    marks = sorted([beat + phase_jitter(beat) for beat in range(WHOLE)] + [beat + phase for beat in range(WHOLE)])
    gaps = [later - earlier for earlier, later in zip(marks, marks[1:], strict=False)]
    assert sum(gap * gap for gap in gaps) / (2 * sum(gaps)) < 0.36


class Virtual(threading.Event):
    """A clock that goes only while somebody waits, and when it is over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, until: float) -> None:
        super().__init__()
        self.now, self.until = 0.0, until
        monkeypatch.setattr(canary_lease.time, "monotonic", lambda: self.now)

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.now += timeout
        return self.is_set() or self.now > self.until


def test_beats_begin_when_they_should_and_end_when_they_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    over = Virtual(monkeypatch, 100.0)
    seen = []
    for beat in probe_numbers_when_due(over, 100.0, 0.05):
        seen.append((beat, over.now))
        if beat == 5:
            over.set()
    assert [beat for beat, _at in seen] == list(range(6))
    assert seen[0][1] >= 0.05 and seen[5][1] >= 0.05 + 0.05


def test_what_is_late_by_more_than_a_period_is_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = Virtual(monkeypatch, 0.5)
    assert list(probe_numbers_when_due(over, 1.0, -100.0)) == [0, 1, 2], "of a hundred, the one before and the present"


def test_one_that_has_not_begun_can_be_stopped() -> None:
    one = PeriodicRequester("one", cast(ApiServerAccess, None), 1.0)
    one.stop(0.1)
    assert one.cost_of("writes") == {}
