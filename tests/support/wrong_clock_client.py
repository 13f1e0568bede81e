"""Runs a client of a load as on a machine whose clock is wrong and drifts.

usage: wrong_clock_client.py AHEAD DRIFT -m MODULE [ARGUMENT…]     as python -m MODULE [ARGUMENT…]

time.time(), time.monotonic() and the kernel's times of arrival show ``WrongClock(AHEAD, DRIFT)``; the monotonic clock
counts from another moment. Waits are as long as ever. So every time that the client records is of that clock, and the
test can compute what it showed at any moment, also after the client was started again.

libfaketime would do the same from outside. That of Debian 12 (0.9.10) does not know sem_clockwait(3), by which
Python 3.11 and later wait for a lock: a wait with a timeout never ends. A time namespace shifts a clock, but all clocks
of a machine have one rate.
"""

from __future__ import annotations

import runpy
import struct
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from split_point import WrongClock

_wall, _monotonic = time.time, time.monotonic


class ShownTimes:
    """Unpacks the kernel's time of an arrival as the wrong clock shows it."""

    def __init__(self, times: struct.Struct, clock: WrongClock) -> None:
        self._times, self._clock = times, clock
        self.size = times.size

    def unpack(self, data: bytes) -> tuple[int, int]:
        """Return seconds and nanoseconds."""
        seconds, nanoseconds = self._times.unpack(data)
        shown = self._clock.shows(seconds + nanoseconds * 1e-9)
        return int(shown), round((shown - int(shown)) * 1e9)


def be_wrong(clock: WrongClock) -> None:
    """Replace the clocks of this process."""
    time.time = lambda: clock.shows(_wall())
    time.monotonic = lambda: 1e6 + _monotonic() * (1 + clock.drift)
    from ansible_collections.perfscale.seatrial.plugins.module_utils._base import point_clock as machine
    from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import tls

    boot = f"{machine.boot_id()}-{clock.ahead}-{clock.drift}"  # of another machine, after each start the same
    machine.boot_id = lambda: boot
    stream: Any = tls
    stream._TIMESTAMP = ShownTimes(tls._TIMESTAMP, clock)


def interpreter(path: Path, clock: WrongClock) -> str:
    """Write a program that stands for the Python of such a machine; return its path."""
    words = [sys.executable, str(Path(__file__).resolve()), repr(clock.ahead), repr(clock.drift)]
    path.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n', encoding="ascii")
    path.chmod(0o755)
    return str(path)


if __name__ == "__main__":
    be_wrong(WrongClock(float(sys.argv[1]), float(sys.argv[2])))
    assert sys.argv[3] == "-m"
    sys.argv[1:] = sys.argv[4:]
    module = sys.argv.pop(1)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
