# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Warn of trainings of which nobody knows whether their processes worked together."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

FILE = "training.jsonl"


def warnings(points: Iterable[Point]) -> list[str]:
    """Return a sentence on the test points with such trainings, for each reason; empty if there were none."""
    found: dict[str, list[str]] = {}
    for point in points:
        reasons = {str(row["unchecked"]) for row in point_reader.lines(point.folder / FILE, []) if row.get("unchecked")}
        for reason in sorted(reasons):
            found.setdefault(reason, []).append(point.number)
    return [
        "Whether the processes of a training worked together, or each on all data, was not checked at "
        f"{formats.listed([f'test point {number}' for number in numbers], 3)}: {reason}."
        for reason, numbers in found.items()
    ]
