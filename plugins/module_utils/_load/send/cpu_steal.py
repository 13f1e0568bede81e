# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU steal: processor time that the hypervisor gave to other machines while this one had work to do.

It makes a load generator in a virtual machine late through no fault inside the machine. Linux counts it as "steal"
(proc_stat(5), the eighth figure of the first line).
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

STAT = Path("/proc/stat")
#: Ticks of all processors since boot: stolen, and all. None if the system does not report them.
#: (As text: ansible-test's pylint judges by the oldest Python of managed nodes, which has no | between types.)
Reading: TypeAlias = "tuple[int, int] | None"


def reading(stat: Path = STAT) -> Reading:
    """Return the stolen and all ticks since boot."""
    try:
        ticks = [int(one) for one in stat.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    return (ticks[7], sum(ticks)) if len(ticks) == 8 else None


def share(before: Reading, after: Reading) -> float | None:
    """Return the share of processor time that was stolen between two readings, 0 to 1; None if it is unknown."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return round((after[0] - before[0]) / (after[1] - before[1]), 4)
