# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How well a load generator keeps up: quantiles of its lateness, the load of its machine, what its process takes.

CPU steal is processor time that the hypervisor gave to other machines while this one had work to do. It makes a load
generator late through no fault inside the machine. Linux counts it in proc_stat(5), the eighth figure of the first
line.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def quantile(ordered: Sequence[float], q: float) -> float:
    """Return the ``q`` quantile of sorted values, linear between neighbours (type 7 of Hyndman and Fan, 1996)."""
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def percentile_summary(values: Sequence[float]) -> dict[str, float] | None:
    """Return P50, P95, P99 and max in seconds, rounded to microseconds; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    percentiles = {name: round(quantile(ordered, q), 6) for name, q in QUANTILES.items()}
    return {**percentiles, "max": round(ordered[-1], 6)}


def is_load_on_time(percentiles: dict[str, float] | None, most: float) -> bool:
    """Return whether the P99 of percentile_summary() is at most ``most`` seconds. None, a closed loop, is on time."""
    return percentiles is None or percentiles["p99"] <= most


STAT = Path("/proc/stat")
#: Ticks of all processors since boot: stolen, and all. None if the system does not report them.
#: (As text: ansible-test's pylint judges by the oldest Python of managed nodes, which has no | between types.)
Reading: TypeAlias = "tuple[int, int] | None"


def stolen_and_total_cpu_ticks(stat: Path = STAT) -> Reading:
    """Return the stolen and all ticks since boot."""
    try:
        ticks = [int(count) for count in stat.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    return (ticks[7], sum(ticks)) if len(ticks) == 8 else None


def cpu_steal_share(before: Reading, after: Reading) -> float | None:
    """Return the share of processor time that was stolen between two readings, 0 to 1; None if it is unknown."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return round((after[0] - before[0]) / (after[1] - before[1]), 4)


class MachineLoad:
    """The load of this machine from now on."""

    def __init__(self) -> None:
        self._stolen = stolen_and_total_cpu_ticks()
        self._loads: list[float] = []  # load averages, one a second
        self._recorded = float("-inf")

    def record(self) -> None:
        """Record the load average, at most once a second."""
        now = time.monotonic()
        if now - self._recorded >= 1.0:
            self._recorded = now
            self._loads.append(os.getloadavg()[0])

    def stolen(self) -> float | None:
        """Return the share of processor time that was stolen, 0 to 1; None if it is unknown."""
        return cpu_steal_share(self._stolen, stolen_and_total_cpu_ticks())

    def document(self) -> dict[str, Any]:
        """Return processors, stolen share and mean load average, for the last line of a file of a load."""
        load = round(sum(self._loads) / len(self._loads), 2) if self._loads else None
        return {"cpus": os.cpu_count() or 0, "stolen": self.stolen(), "load": load}


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
def raised_thread_priority() -> Iterator[None]:
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
