# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How busy the machine that sends a load is: its load average, and CPU steal.

CPU steal is processor time that the hypervisor gave to other machines while this one had work to do. It makes a load
generator late through no fault inside the machine. Linux counts it in proc_stat(5), the eighth figure of the first
line.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, TypeAlias

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
