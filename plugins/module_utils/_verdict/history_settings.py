# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of role results that govern the comparison with history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

GROUPS, ROBUST_Z, CHANGE_POINTS = "groups", "robust_z", "change_points"
METHODS = (GROUPS, ROBUST_Z, CHANGE_POINTS)
CORRECTIONS = ("holm", "fdr", "none")
LEAST_DIFFERENCE = 0.05


@dataclass(frozen=True)
class HistorySettings:
    """Settings results_<name>; docs/settings.md describes them. least: a share, or KPI pattern -> share."""

    method: str = GROUPS
    level: float = 0.01
    least: float | Mapping[str, float] = LEAST_DIFFERENCE
    power: float = 0.8
    correction: str = CORRECTIONS[0]
    minimum_segment: int = 3
    seed: int = 1

    def least_of(self, kpi: str) -> float:
        """Return the smallest difference of a KPI that matters, as a share: by its name, else by the first pattern."""
        if not isinstance(self.least, Mapping):
            return self.least
        patterns = [one for one in self.least if fnmatchcase(kpi, one)]
        return self.least[kpi if kpi in patterns else patterns[0]] if patterns else LEAST_DIFFERENCE
