# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the measurements of a bisection: both ends until they differ, then the value that halves the probability.

What comes next follows from the figures in the order of their measurement, so that a bisection can be continued at any
time. The statistics are in ``_results/statistics/probabilistic_bisection.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

from ..statistics import always_valid_interval, comparison_scale
from ..statistics.group_comparison import compare_groups
from ..statistics.probabilistic_bisection import Bisection, bisect
from . import repetition, time_budget

WORD = "bisect"
KEYS = ("over", "values", "kpi", "least", "max", "budget")
LEAST, MOST = 0.95, 40
#: Chance of finding a difference between ends that do not differ.
LEVEL = 0.01
#: Runs at each neighbour of the likeliest step before a change is called gradual.
ENOUGH = 5
#: Share of the whole difference below which a step between two neighbours is none.
STEP_SHARE = 0.5
#: Runs without the figure, one after the other at one value, after which the bisection ends.
MISSING = 2
PASS, INCONCLUSIVE, INVALID = "pass", "inconclusive", "invalid"


@dataclass(frozen=True)
class BisectionPlan:
    """The word ``bisect``. over: a setting. values: from the good to the bad one. least: probability of a step."""

    over: str
    values: tuple[Any, ...]
    kpi: str
    least: float = LEAST
    most: int = MOST
    budget: float | None = None


@dataclass(frozen=True)
class Measurement:
    """A run at value ``index``; figure None if it failed or has no such figure."""

    index: int
    figure: float | None


@dataclass(frozen=True)
class NextValue:
    """The value to measure next, and why."""

    index: int
    why: str


@dataclass(frozen=True)
class BisectionEnd:
    """The result. step: index of the last value before the step, None if there is none."""

    verdict: str
    why: str
    step: int | None = None


def parse(raw: object) -> BisectionPlan | None:
    """Return what the word ``bisect`` asks for, None if it is empty. Raises InputError."""
    if raw is None or raw == {}:
        return None
    if not isinstance(raw, Mapping):
        raise InputError(f"{WORD} needs a dictionary with over, values and kpi, got {raw!r}")
    for key in raw:
        if key not in KEYS:
            raise InputError(f"{WORD}: unknown key '{key}'{nearest(str(key), KEYS)}; there are {', '.join(KEYS)}")
    for key in ("over", "kpi"):
        if not isinstance(raw.get(key), str) or not raw[key]:
            raise InputError(f"{WORD}: {key} needs a name; give it by -e {key}=…")
    values = raw.get("values")
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InputError(
            f"values needs a list from a good to a bad value, such as -e '{{\"values\": [1, 2, 4]}}', got {values!r}"
        )
    if len(values) < 2:
        raise InputError(f"values: {formats.count(len(values), 'value')}; a bisection needs a good and a bad one")
    twice = next((one for index, one in enumerate(values) if one in values[:index]), None)
    if twice is not None:
        raise InputError(f"values: {formats.setting_text(twice)} is given twice")
    most = repetition.count(raw, WORD, "max", MOST)
    return BisectionPlan(
        str(raw["over"]),
        tuple(values),
        str(raw["kpi"]),
        _probability(raw.get("least", LEAST)),
        most,
        time_budget.parse(raw.get("budget"), WORD),
    )


def _probability(given: object) -> float:
    try:
        found = float(str(given))
    except ValueError:
        found = 0.0
    if not 0.5 < found < 1.0:
        raise InputError(f"{WORD}: least '{given}' is no probability between 0.5 and 1")
    return found


def next_value(plan: BisectionPlan, measured: Sequence[Measurement], spent: float) -> NextValue | BisectionEnd:
    """Return the value to measure next, or the result. measured: in the order in which the runs were made.

    spent: seconds, from time_budget.spent().
    """
    missing = _missing(plan, measured)
    if missing is not None:
        return missing
    stop = _stop(plan, len(measured), spent)
    if not ends_differ(plan, measured):
        if stop:
            return BisectionEnd(INCONCLUSIVE, f"{no_difference(plan, measured)} ({stop})")
        first, last = (sum(1 for one in measured if one.index == end) for end in (0, len(plan.values) - 1))
        return NextValue(0 if first <= last else len(plan.values) - 1, "the ends are not known to differ")
    found = bisect(_by_value(measured), len(plan.values))
    if found.probability >= plan.least:
        return _confirmed(plan, measured, found, stop)
    beside = (found.step, found.step + 1)
    if found.probability < 0.5 and all(_count(measured, index) >= ENOUGH for index in beside):
        return BisectionEnd(INCONCLUSIVE, f"the change is gradual: {_likeliest(plan, found)}")
    if stop:
        return BisectionEnd(INCONCLUSIVE, f"{_likeliest(plan, found)} after {_runs(measured)} ({stop})", None)
    return NextValue(found.next, _likeliest(plan, found))


def _confirmed(
    plan: BisectionPlan, measured: Sequence[Measurement], found: Bisection, stop: str
) -> NextValue | BisectionEnd:
    """Return the step if most of the difference lies between its neighbours; the model knows nothing but steps."""
    step = found.step
    least = 2
    if (share := step_share(plan, measured, step)) is not None and share < STEP_SHARE:
        least = ENOUGH
    beside = min((step, step + 1), key=lambda index: _count(measured, index))
    if _count(measured, beside) < least and not stop:
        return NextValue(beside, f"{_likeliest(plan, found)}; its neighbours are measured {least} times at least")
    if share is not None and share < STEP_SHARE:
        text = f"only {max(0.0, share) * 100:.0f} % of the difference lies {_between(plan, step)}"
        return BisectionEnd(INCONCLUSIVE, f"the change is gradual: {text}, the likeliest place of a step")
    runs = _runs(measured)
    why = f"the step of {plan.kpi} is {_between(plan, step)}: probability {_share(found)}, {runs}"
    return BisectionEnd(PASS, why, step)


def ends_differ(plan: BisectionPlan, measured: Sequence[Measurement]) -> bool:
    """Return whether both ends were known to differ at any look, by a test that holds at every look.

    Figures without any noise are compared by the permutation test.
    """
    bad = len(plan.values) - 1
    ends: dict[int, list[float]] = {0: [], bad: []}
    for one in measured:
        if one.index not in ends or one.figure is None or not isfinite(one.figure):
            continue
        ends[one.index].append(one.figure)
        compared = compare_groups(ends[0], ends[bad])
        if compared.reason:
            continue
        always = always_valid_interval.anytime(compared, LEVEL)
        exact = 2.0 * min(compared.p_greater, compared.p_less) if not compared.standard_error else 1.0
        if min(always.p_value, exact) <= LEVEL:
            return True
    return False


def probabilities(plan: BisectionPlan, measured: Sequence[Measurement]) -> tuple[float, ...]:
    """Return the probabilities of a step behind each value but the last."""
    return bisect(_by_value(measured), len(plan.values)).probabilities


def step_share(plan: BisectionPlan, measured: Sequence[Measurement], step: int) -> float | None:
    """Return the share of the difference between the ends that lies between value ``step`` and the next; None without
    a run at one of them."""
    cells = _by_value(measured)
    every = comparison_scale.on_log_scale(*(comparison_scale.finite(one) for one in cells.values()))
    means = {
        index: float(comparison_scale.scaled(values, every).mean())
        for index, one in cells.items()
        if len(values := comparison_scale.finite(one))
    }
    wanted = (0, len(plan.values) - 1, step, step + 1)
    if any(index not in means for index in wanted) or means[wanted[1]] == means[0]:
        return None
    return (means[step + 1] - means[step]) / (means[wanted[1]] - means[0])


def no_difference(plan: BisectionPlan, measured: Sequence[Measurement]) -> str:
    """Return the sentence for ends that do not differ."""
    first, last = (formats.setting_text(plan.values[end], 40) for end in (0, -1))
    return f"no difference of {plan.kpi} between {first} and {last} after {_runs(measured)}: nothing to bisect"


def _missing(plan: BisectionPlan, measured: Sequence[Measurement]) -> BisectionEnd | None:
    for index in dict.fromkeys(one.index for one in measured):
        last = [one.figure for one in measured if one.index == index][-MISSING:]
        if len(last) == MISSING and all(one is None for one in last):
            value = formats.setting_text(plan.values[index], 40)
            why = f"{MISSING} runs in a row with {plan.over} = {value} have no {plan.kpi}"
            return BisectionEnd(INVALID, why)
    return None


def _stop(plan: BisectionPlan, runs: int, spent: float) -> str:
    if runs >= plan.most:
        return f"max is {formats.count(plan.most, 'run')}"
    if plan.budget is not None and spent >= plan.budget:
        return f"the budget of {formats.seconds(plan.budget)} is used up"
    return ""


def _by_value(measured: Sequence[Measurement]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for one in measured:
        if one.figure is not None:
            found.setdefault(one.index, []).append(one.figure)
    return found


def _count(measured: Sequence[Measurement], index: int) -> int:
    return len(_by_value(measured).get(index, ()))


def _likeliest(plan: BisectionPlan, found: Bisection) -> str:
    return f"the likeliest step is {_between(plan, found.step)} (probability {_share(found)})"


def _share(found: Bisection) -> str:
    return f"{min(found.probability, 0.999):.3f}".rstrip("0") if found.probability < 0.9995 else "over 0.999"


def _between(plan: BisectionPlan, step: int) -> str:
    before, after = (formats.setting_text(plan.values[index], 40) for index in (step, step + 1))
    return f"between {plan.over} = {before} and {after}"


def _runs(measured: Sequence[Measurement]) -> str:
    return formats.count(len(measured), "run")
