# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Correction for many figures judged at once.

Holm (Scandinavian Journal of Statistics 6, 1979) keeps the chance of one false alarm in the whole suite below the
level, however the figures depend on each other; those of one run come from the same workloads and depend strongly.
Benjamini and Hochberg (JRSS B 57, 1995) limit the share of false ones among the alarms, which needs figures that depend
positively.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan


def holm(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values: those up to the level are alarms at a chance of ``level`` for any false one.

    NaN (not judged) stays NaN and is not counted.
    """
    order = _ascending(p_values)
    adjusted = [nan] * len(p_values)
    highest = 0.0
    for place, index in enumerate(order):
        highest = max(highest, min(1.0, p_values[index] * (len(order) - place)))
        adjusted[index] = highest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values: of those up to the level a share of ``level`` is false, in the mean. NaN stays NaN."""
    order = _ascending(p_values)
    adjusted = [nan] * len(p_values)
    lowest = 1.0
    for place, index in reversed(list(enumerate(order, start=1))):
        lowest = min(lowest, p_values[index] * len(order) / place)
        adjusted[index] = lowest
    return adjusted


def _ascending(p_values: Sequence[float]) -> list[int]:
    known = [index for index, p in enumerate(p_values) if not isnan(p)]
    return sorted(known, key=lambda index: p_values[index])
