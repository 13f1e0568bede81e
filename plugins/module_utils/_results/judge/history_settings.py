# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of role results that govern the comparison with history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

from . import kpi_patterns

GROUPS, ROBUST_Z, CHANGE_POINTS = "groups", "robust_z", "change_points"
METHODS = (GROUPS, ROBUST_Z, CHANGE_POINTS)
CORRECTIONS = ("holm", "fdr", "none")
LEAST_DIFFERENCE = 0.05
#: Words in results_judged that stand for groups of KPIs.
HEADLINE, ALL = "headline", "all"
#: Setting -> a condition that its value must meet, in words.
_RANGES = {
    "level": (lambda value: 0.0 < value <= 0.5, "a probability above 0 and at most 0.5"),
    "power": (lambda value: 0.0 < value < 1.0, "a probability between 0 and 1"),
    "minimum_segment": (lambda value: value >= 2, "at least 2 runs, because a single outlier would be a change"),
    "seed": (lambda value: value >= 0, "0 or more"),
}


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
        patterns = [one for one in self.least if kpi_patterns.overlap(one, kpi)]
        return self.least[kpi if kpi in patterns else patterns[0]] if patterns else LEAST_DIFFERENCE


#: Names of the settings without the prefix: options of the modules that judge by history.
OPTIONS = tuple(one.name for one in fields(HistorySettings))
#: Argument spec of these modules (doc fragment _history.judging).
ARGUMENTS: dict[str, Any] = {
    "judged": {"type": "list", "elements": "str", "default": [HEADLINE]},
    "method": {"choices": list(METHODS), "default": GROUPS},
    "level": {"type": "float", "default": HistorySettings.level},
    "least": {"type": "raw", "default": LEAST_DIFFERENCE},
    "power": {"type": "float", "default": HistorySettings.power},
    "correction": {"choices": list(CORRECTIONS), "default": HistorySettings.correction},
    "minimum_segment": {"type": "int", "default": HistorySettings.minimum_segment},
    "seed": {"type": "int", "default": HistorySettings.seed},
}


def parse(given: Mapping[str, Any]) -> HistorySettings:
    """Return the settings from those of role results, without the prefix ``results_``.

    Raises InputError for a value out of range.
    """
    for name, (is_allowed, words) in _RANGES.items():
        if name in given and not is_allowed(given[name]):
            raise InputError(f"results_{name} is {given[name]}, and it must be {words}")
    least = given.get("least", LEAST_DIFFERENCE)
    if isinstance(least, Mapping):
        shares: Any = {str(name): _share(value, f"results_least: {name}") for name, value in least.items()}
    else:
        shares = _share(least, "results_least")
    return HistorySettings(**{**given, "least": shares})


def _share(value: Any, where: str) -> float:
    try:
        share = formats.parse_value(value, "")
    except InputError as error:
        raise InputError(f"{where}: {error}; it is a share of the baseline, such as 0.05 for 5 %") from error
    if not 0.0 <= share < 1.0:
        raise InputError(f"{where} is {value}, and it must be a share of at least 0 and below 1, such as 0.05 for 5 %")
    return share


def check_names(judged: Iterable[str], least: Any, known: Iterable[str]) -> None:
    """Raise InputError for a KPI in results_judged or results_least that no definition yields.

    known: names that the definitions yield, with ``*`` for words whose values depend on the point.
    """
    names = list(known)
    groups = [HEADLINE, ALL]
    for setting, given in (("results_judged", judged), ("results_least", least if isinstance(least, Mapping) else ())):
        for one in map(str, given):
            if one in groups and setting == "results_judged":
                continue
            if not any(kpi_patterns.overlap(one, name) for name in names):
                near = nearest(one, [*names, *groups])
                raise InputError(f"{setting}: KPI '{one}' is not defined{near}")
