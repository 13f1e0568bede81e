# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clock of a test point: its anchor, and how it continues."""

from __future__ import annotations

import time

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock


def test_a_reading_that_was_interrupted_anchors_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the first two readings of the clocks the process waits for a processor for 30 ms."""
    true = time.time_ns
    waits = iter([0.03, 0.0, 0.03])

    def late() -> int:
        wall = true()
        time.sleep(next(waits, 0.0))
        return wall

    monkeypatch.setattr("time.time_ns", late)
    anchored = MonotonicWallClock.start()
    monkeypatch.undo()
    before, shown, after = time.time(), anchored.now(), time.time()
    assert before - 0.01 <= shown <= after + 0.01


def test_a_clock_continues_in_another_process_of_the_same_boot() -> None:
    clock = MonotonicWallClock.start()
    assert MonotonicWallClock.resume(clock.anchor()) == clock
    assert MonotonicWallClock.resume({**clock.anchor(), "boot": "another"}).boot == clock.boot
