# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that sends requests: its open files, its priority, its processor time, and whether it was too slow."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

#: File descriptors that are left for everything else.
_OTHER_FILES = 200
#: Real-time priority of the client, the lowest one: it needs little processor time, but on time.
_PRIORITY = 1
#: Seconds of lag or lateness (P99), and share of a processor, above which the client was the bottleneck.
_MOST_LAG, _MOST_BUSY = 0.01, 0.9


def raise_file_limit(wanted: int) -> int:
    """Permit this process as many open files as ``wanted`` requests need, if possible; return how many these can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else wanted + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted + _OTHER_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, max(soft, wanted + _OTHER_FILES)), hard))
    return min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_FILES)


@contextmanager
def raised_priority() -> Iterator[None]:
    """Run this thread before all others while the load is sent, if that is permitted.

    It is for root, in containers only with the capability SYS_NICE, and for users with a limit of real-time priorities
    (ulimit -r). Others send with their usual priority. A nice value would not do: Linux applies it among the programs
    of one session only (sched_autogroup_enabled). The kernel leaves the others 5 % of the time even if this thread
    never waits (sched_rt_runtime_us). A policy that the user has chosen (chrt) is kept.
    """
    before = os.sched_getscheduler(0)
    if before not in (os.SCHED_OTHER, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK):
        yield
        return
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(_PRIORITY))
    except OSError:
        yield
        return
    try:
        yield
    finally:
        try:
            os.sched_setscheduler(0, before, os.sched_param(0))
        except PermissionError:  # only SYS_NICE may clear the flag
            os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))


def processor_seconds() -> float:
    """Return the processor time of this process so far, in seconds."""
    times = os.times()
    return times.user + times.system


def client_bottleneck(lag: dict[str, float] | None, lateness: dict[str, float] | None, cpu: float, wall: float) -> str:
    """Return why the client and not the server determined the times, an empty string if it did not."""
    if lag and lag["p99"] > _MOST_LAG:
        what = f"read 1 % of what it received {lag['p99'] * 1000:.0f} ms late or later"
    elif lateness and lateness["p99"] > _MOST_LAG:
        what = f"sent 1 % of the requests {lateness['p99'] * 1000:.0f} ms late or later"
    elif wall > 1 and cpu / wall > _MOST_BUSY:
        what = f"used {cpu / wall:.0%} of a processor"
    else:
        return ""
    return f"The client was the bottleneck: it {what}"
