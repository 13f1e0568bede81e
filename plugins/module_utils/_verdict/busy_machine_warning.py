# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the machine that sent a load was busy with other things, by what the ledger says at its end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _format
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.run_files import Point

#: From this share of the processor time that a hypervisor took, and from this load average a processor, on.
STOLEN, LOAD = 0.05, 2.0
#: The last line of a ledger lies within so many bytes of its end.
_TAIL = 16_384


def warnings(points: Iterable[Point]) -> list[str]:
    """Return a sentence for the test points during which the machine was busy, none when it was quiet."""
    busy = [(point.number, said) for point in points if (said := _busy(recorded(point.folder / "ledger.jsonl")))]
    if not busy:
        return []
    first = "; ".join(f"test point {number}: {said}" for number, said in busy[:3])
    more = f"; and {len(busy) - 3} more test points" if len(busy) > 3 else ""
    return [f"The machine that sent the load was busy, so times may be longer than on a quiet one ({first}{more})."]


def recorded(ledger: Path) -> dict[str, Any]:
    """Return what the end of a ledger says of the machine; nothing where it says nothing, or has no end."""
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
    said = []
    if (machine.get("stolen") or 0) >= STOLEN:
        said.append(f"the hypervisor took {machine['stolen'] * 100:.0f} % of its processor time")
    cpus = machine.get("cpus") or 0
    if cpus and (machine.get("load") or 0) >= LOAD * cpus:
        said.append(f"load average {_format.number(machine['load'])} on {_format.count(cpus, 'processor')}")
    return ", ".join(said)
