# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of one KPI over the runs of a history: what a verdict compares."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

#: Width of a 95 % interval in standard errors.
WIDTH = 3.92


@dataclass(frozen=True)
class RunValue:
    """A KPI in one run; None for what was not measured. low, high: its confidence interval at 95 % within the run."""

    run: str
    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def error(self) -> float:
        """Standard error within the run, in the unit of the KPI; NaN if unknown."""
        return nan if self.low is None or self.high is None else (self.high - self.low) / WIDTH


@dataclass(frozen=True)
class KpiSeries:
    """One KPI of one point in old and new runs, each oldest first.

    direction: lower, higher or none. new: this run, or all of its attempts, and past runs of the same configuration.
    judged: whether it may decide the verdict. repeated: whether attempts were added until it was decided. baseline:
    what distinguishes the old runs, such as "4.19.3"; empty if they differ in nothing that is compared.
    """

    point: str
    name: str
    unit: str
    direction: str
    old: tuple[RunValue, ...]
    new: tuple[RunValue, ...]
    judged: bool = True
    repeated: bool = False
    baseline: str = ""
