# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keyword ``bisect``, and which of its values a bisection can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from . import choose_next_point, repeat_until_decided

KEYWORD = "bisect"
KEYS = ("over", "values", "kpi", "least", "max", "budget")
LEAST, MOST = 0.95, 40
#: Runs without the figure, one after the other at one value, after which the bisection ends.
MISSING = 2


@dataclass(frozen=True)
class BisectionPlan:
    """The keyword ``bisect``. over: a setting. values: from the good to the bad one. least: probability of a step."""

    over: str
    values: tuple[Any, ...]
    kpi: str
    least: float = LEAST
    most: int = MOST
    budget: float | None = None


@dataclass(frozen=True)
class BisectionMeasurement:
    """A run at value ``index``; figure None if it failed or has no such figure. at_least: a bound without a figure."""

    index: int
    figure: float | None
    at_least: float | None = None


def parse_bisect_keyword(raw: object) -> BisectionPlan | None:
    """Return what the keyword ``bisect`` asks for, None if it is empty. Raises InputError."""
    if raw is None or raw == {}:
        return None
    if not isinstance(raw, Mapping):
        raise InputError(f"{KEYWORD} needs a dictionary with over, values and kpi, got {raw!r}")
    repeat_until_decided.check_keys_of_keyword(raw, KEYWORD, KEYS)
    for key in ("over", "kpi"):
        if not isinstance(raw.get(key), str) or not raw[key]:
            raise InputError(f"{KEYWORD}: {key} needs a name; give it by -e {key}=…")
    values = raw.get("values")
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InputError(
            f"values needs a list from a good to a bad value, such as -e '{{\"values\": [1, 2, 4]}}', got {values!r}"
        )
    if len(values) < 2:
        raise InputError(
            f"values: {formats.format_count(len(values), 'value')}; a bisection needs a good and a bad one"
        )
    twice = next((value for index, value in enumerate(values) if value in values[:index]), None)
    if twice is not None:
        raise InputError(f"values: {formats.format_setting_value(twice)} is given twice")
    least, most = (
        _parse_step_probability(raw.get("least", LEAST)),
        repeat_until_decided.parse_number_of_runs(raw, KEYWORD, "max", MOST),
    )
    budget = choose_next_point.parse_budget(raw.get("budget"), KEYWORD)
    return BisectionPlan(str(raw["over"]), tuple(values), str(raw["kpi"]), least, most, budget)


def _parse_step_probability(raw: object) -> float:
    try:
        probability = float(str(raw))
    except ValueError:
        probability = 0.0
    if not 0.5 < probability < 1.0:
        raise InputError(f"{KEYWORD}: least '{raw}' is not a valid probability between 0.5 and 1")
    return probability


def attempts_left_out(document: Mapping[str, Any]) -> set[str]:
    """Return the attempts at values that a bisection has left out. document: schema bisection/1, or empty."""
    left_out = document.get("left_out") or []
    return {run["point"] for run in document.get("measurements") or [] if run["index"] in left_out}


def leave_out_unusable_values(
    plan: BisectionPlan, measured: Sequence[BisectionMeasurement]
) -> tuple[list[int], BisectionPlan, list[BisectionMeasurement]]:
    """Return the values that a bisection can use: their indices, and the plan and the runs with these values alone.

    A value between the ends where no run has a figure is left out, such as a revision that cannot be built.
    """
    runs = {index: [run for run in measured if run.index == index] for index in range(len(plan.values))}
    usable = [
        index
        for index, there in runs.items()
        if index in (0, len(plan.values) - 1)
        or len(there) < MISSING
        or any(run.figure is not None or run.at_least is not None for run in there)
    ]
    return (
        usable,
        replace(plan, values=tuple(plan.values[index] for index in usable)),
        [replace(run, index=usable.index(run.index)) for run in measured if run.index in usable],
    )
