# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Durations as Go prints them, such as 11h59m0s and 850ms."""

from __future__ import annotations

import re

_PART = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>h|ms|us|µs|ns|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def seconds(text: str) -> float | None:
    """Return the seconds of a duration; None for an invalid one (time.ParseDuration)."""
    found = list(_PART.finditer(text or ""))
    if not found or "".join(one.group() for one in found) != text:
        return None
    return sum(float(one["number"]) * _SECONDS[one["unit"]] for one in found)
