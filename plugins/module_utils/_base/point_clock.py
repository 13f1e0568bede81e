# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one clock of a test point.

Every time in a point's files is in seconds since the Unix epoch *on this clock*: the wall time of an
anchor plus the monotonic time that has passed since. It never jumps, and the monotonic reading can be
computed back from the anchor, which is in the ``session`` line of each file.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


def boot_id() -> str:
    """Identify this boot of this machine: monotonic readings compare only within one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


#: Readings of both clocks, of which the closest counts.
_ATTEMPTS = 5


def read_both_clocks() -> tuple[int, int]:
    """Return the monotonic and the wall clock at one moment, in nanoseconds.

    It is the closest of a few readings, because any of them may be interrupted.
    """
    readings = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _attempt in range(_ATTEMPTS)]
    before, wall, after = min(readings, key=lambda reading: reading[2] - reading[0])
    return before + (after - before) // 2, wall


def boot_clock() -> float:
    """Return the seconds since this machine was booted, including time asleep where the system supports it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True)
class MonotonicWallClock:
    """A monotonic clock that reads as wall time. Both anchors in seconds."""

    wall: float
    monotonic: float
    boot: str = ""

    @classmethod
    def start(cls) -> MonotonicWallClock:
        """Anchor a clock now."""
        monotonic, wall = read_both_clocks()
        return cls(wall / 1e9, monotonic / 1e9, boot_id())

    @classmethod
    def resume(cls, anchor: dict[str, Any]) -> MonotonicWallClock:
        """Continue the clock of an earlier session, or start a new one after a reboot."""
        if anchor.get("boot") and anchor["boot"] == boot_id():
            return cls(float(anchor["wall"]), float(anchor["monotonic"]), anchor["boot"])
        return cls.start()

    def now(self) -> float:
        """Return the current time, in seconds since the epoch."""
        return self.wall + (time.monotonic() - self.monotonic)

    def from_monotonic(self, reading: float) -> float:
        """Convert a time.monotonic() reading to this clock."""
        return self.wall + (reading - self.monotonic)

    def anchor(self) -> dict[str, Any]:
        """Return the anchor as written to files."""
        return asdict(self)
