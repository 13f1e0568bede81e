# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Warn if the machine that sent a load was busy, from CPU steal and load average at the end of the ledger."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

#: Thresholds: share of CPU time stolen by the hypervisor, and load average per processor.
STOLEN, LOAD = 0.05, 2.0
#: The last line of a ledger lies within this many bytes of its end.
_TAIL = 16_384


def warnings(points: Iterable[Point]) -> list[str]:
    """Return a sentence on the test points during which the machine was busy, empty if there were none."""
    busy = [(point.number, reason) for point in points if (reason := _busy(recorded(point.folder / "ledger.jsonl")))]
    if not busy:
        return []
    first = "; ".join(f"test point {number}: {reason}" for number, reason in busy[:3])
    more = f"; and {formats.count(len(busy) - 3, 'more test point')}" if len(busy) > 3 else ""
    return [f"The machine that sent the load was busy, so times may be longer than on an idle one ({first}{more})."]


def recorded(ledger: Path) -> dict[str, Any]:
    """Return the record on the machine at the end of a ledger; empty if there is none."""
    try:
        with open(ledger, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL))
            lines = stream.read().splitlines()
        last = json.loads(lines[-1])
    except (OSError, IndexError, ValueError):
        return {}
    machine = last.get("machine") if isinstance(last, dict) and last.get("type") == "end" else None
    return machine if isinstance(machine, dict) else {}


def _busy(machine: dict[str, Any]) -> str:
    reasons = []
    if (machine.get("stolen") or 0) >= STOLEN:
        reasons.append(f"the hypervisor took {machine['stolen'] * 100:.0f} % of its processor time")
    cpus = machine.get("cpus") or 0
    if cpus and (machine.get("load") or 0) >= LOAD * cpus:
        reasons.append(f"load average {formats.number(machine['load'])} on {formats.count(cpus, 'processor')}")
    return ", ".join(reasons)
