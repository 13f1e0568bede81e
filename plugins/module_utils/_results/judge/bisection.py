# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bisect with the attempts of a run (keyword ``bisect``): both ends until they differ, then between them.

What comes next follows from the figures in the order of their measurement, so that a bisection can be continued at any
time. The statistics are in ``statistics/probabilistic_bisection.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any, TypeAlias

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_and_comparison_schemas import (
    VERDICTS,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader

from ..statistics import comparison_scale, group_comparison_intervals
from ..statistics.group_comparison_intervals import compare_groups
from ..statistics.probabilistic_bisection import BisectionState, locate_step_and_next_value
from ..statistics.readings_from_p_values import INCONCLUSIVE, PASS
from . import choose_next_point
from .bisection_plan import MISSING, BisectionMeasurement, BisectionPlan, leave_out_unusable_values
from .choose_next_point import (
    FAILED,
    PASSED,
    AttemptChooser,
    PlannedPoint,
    PointAttempt,
    ScheduleFinished,
    ScheduleState,
)
from .overall_verdict import INVALID

#: Chance of finding a difference between ends that do not differ.
LEVEL = 0.01
#: Runs at each neighbour of the likeliest step before a change is called gradual.
ENOUGH = 5
#: Share of the whole difference below which a step between two neighbours is none.
STEP_SHARE = 0.5
#: Name of the folder of an attempt -> its figure, and the bound if only that is known ("100 s or longer"); else None.
Figure: TypeAlias = "Callable[[str], tuple[float | None, float | None]]"


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


def make_next_value_chooser(
    plan: BisectionPlan, figure: Figure, spent: float, note: Callable[[dict[str, Any]], None]
) -> AttemptChooser:
    """Return what decides which value is measured next.

    Args:
        plan: What the keyword ``bisect`` asks for.
        figure: Returns the figure of an attempt.
        spent: Seconds, from choose_next_point.spent().
        note: Takes the state of the bisection, as in schema bisection/1 without the run.
    """

    def choose(state: ScheduleState) -> PlannedPoint | ScheduleFinished:
        points = sorted({attempt.of for attempt in state.attempts}, key=run_reader.attempt_order)
        ended = completed_attempts_in_start_order(state.attempts)
        # A failed attempt may have a figure of the part that was measured.
        measured = [
            BisectionMeasurement(
                points.index(attempt.of), *(figure(attempt.name) if attempt.status == PASSED else (None, None))
            )
            for attempt in ended
        ]
        names = [attempt.name for attempt in ended]
        following = next_value(plan, measured, spent)
        why = formats.capitalize_first_letter(following.why)
        if isinstance(following, BisectionEnd):
            note(bisection_state_document(plan, measured, names, following))
            return ScheduleFinished(f"{why}.")
        note(
            bisection_state_document(
                plan, measured, names, BisectionEnd(INCONCLUSIVE, f"not finished: {following.why}")
            )
        )
        point = points[following.index]
        left = choose_next_point.remaining_budget_seconds(plan.budget, spent)
        return PlannedPoint(point, state.fresh_attempt(point), why, remaining_budget=left)

    return choose


def completed_attempts_in_start_order(attempts: Sequence[PointAttempt]) -> list[PointAttempt]:
    """Return the attempts that have ended without an interruption, in the order in which they were begun."""
    ended = [attempt for attempt in attempts if attempt.status in (PASSED, FAILED) and not attempt.resumed]
    return sorted(ended, key=lambda attempt: (str(attempt.record.get("started") or ""), attempt.attempt, attempt.of))


def bisection_state_document(
    plan: BisectionPlan, measured: Sequence[BisectionMeasurement], names: Sequence[str], end: BisectionEnd
) -> dict[str, Any]:
    """Return the state of a bisection as in schema bisection/1, without the run. names: folders of the attempts."""
    usable, of_usable, usable_runs = leave_out_unusable_values(plan, measured)
    likelihoods = [0.0] * (len(plan.values) - 1)
    for index, probability in zip(
        usable,
        probabilities_of_step_places(of_usable, fill_figures_from_lower_bounds(of_usable, usable_runs)),
        strict=False,
    ):
        likelihoods[index] = probability
    code, status = VERDICTS[end.verdict]
    state = {
        "schema": "bisection/1",
        "over": plan.over,
        "kpi": plan.kpi,
        "values": list(plan.values),
        "measurements": [
            {
                "index": run.index,
                "point": name,
                "figure": run.figure,
                **({} if run.at_least is None else {"at_least": run.at_least}),
            }
            for run, name in zip(measured, names, strict=True)
        ],
        "probabilities": likelihoods,
        "verdict": end.verdict,
        "code": code,
        "exit_status": status,
        "why": f"{formats.capitalize_first_letter(end.why)}.",
    }
    left_out = [index for index in range(len(plan.values)) if index not in usable]
    if left_out:
        state["left_out"] = left_out
    if end.step is None:
        return state
    before, after = plan.values[end.step], plan.values[usable[usable.index(end.step) + 1]]
    step = {"index": end.step, "before": before, "after": after, "probability": likelihoods[end.step]}
    return {**state, "step": step}


def next_value(plan: BisectionPlan, measured: Sequence[BisectionMeasurement], spent: float) -> NextValue | BisectionEnd:
    """Return the value to measure next, or the result.

    Args:
        plan: What the keyword ``bisect`` asks for.
        measured: The runs, in the order in which they were made.
        spent: Seconds, from choose_next_point.spent().
    """
    stop = _limit_reached_text(plan, len(measured), spent)
    usable, of_usable, usable_runs = leave_out_unusable_values(plan, measured)
    decision = _next_usable_value(of_usable, usable_runs, stop)
    if isinstance(decision, NextValue):
        return replace(decision, index=usable[decision.index])
    left_out = [formats.format_setting_value(value, 40) for at, value in enumerate(plan.values) if at not in usable]
    why = f"{decision.why}; no run at {' and '.join(left_out)} had this figure" if left_out else decision.why
    return replace(decision, why=why, step=None if decision.step is None else usable[decision.step])


def _next_usable_value(
    plan: BisectionPlan, measured: Sequence[BisectionMeasurement], stop: str
) -> NextValue | BisectionEnd:
    measured = fill_figures_from_lower_bounds(plan, measured)
    missing = _end_for_missing_figures(plan, measured)
    if missing is not None:
        return missing
    last = len(plan.values) - 1
    if not do_both_ends_differ(plan, measured):
        if stop:
            return BisectionEnd(INCONCLUSIVE, f"{_no_difference(plan, measured)} ({stop})")
        good, bad = (sum(run.index == end for run in measured) for end in (0, last))
        return NextValue(0 if good <= bad else last, "the ends are not known to differ")
    estimate = locate_step_and_next_value(_figures_by_value_index(measured), len(plan.values))
    if estimate.probability >= plan.least:
        return _confirm_step(plan, measured, estimate, stop)
    if estimate.probability < 0.5 and all(
        _count_figures_at_value(measured, estimate.step + side) >= ENOUGH for side in (0, 1)
    ):
        return BisectionEnd(INCONCLUSIVE, f"the change is gradual: {_likeliest_step_text(plan, estimate)}")
    if stop:
        return BisectionEnd(
            INCONCLUSIVE, f"{_likeliest_step_text(plan, estimate)} after {_run_count_text(measured)} ({stop})"
        )
    return NextValue(estimate.next, _likeliest_step_text(plan, estimate))


def _confirm_step(
    plan: BisectionPlan, measured: Sequence[BisectionMeasurement], estimate: BisectionState, stop: str
) -> NextValue | BisectionEnd:
    """Return the step if most of the difference lies between its neighbours; the model knows nothing but steps."""
    step = estimate.step
    share = _step_share(plan, measured, step)
    gradual = share is not None and share < STEP_SHARE
    least = ENOUGH if gradual else 2
    beside = min((step, step + 1), key=lambda index: _count_figures_at_value(measured, index))
    if _count_figures_at_value(measured, beside) < least and not stop:
        return NextValue(
            beside, f"{_likeliest_step_text(plan, estimate)}; its neighbours are measured {least} times at least"
        )
    if share is not None and gradual:
        text = f"only {max(0.0, share) * 100:.0f} % of the difference lies {_step_location_text(plan, step)}"
        return BisectionEnd(INCONCLUSIVE, f"the change is gradual: {text}, the likeliest place of a step")
    runs = _run_count_text(measured)
    why = (
        f"the step of {plan.kpi} is {_step_location_text(plan, step)}: probability"
        f" {_probability_text(estimate)}, {runs}"
    )
    return BisectionEnd(PASS, why, step)


def fill_figures_from_lower_bounds(
    plan: BisectionPlan, measured: Sequence[BisectionMeasurement]
) -> list[BisectionMeasurement]:
    """Return the runs, with a bound as the figure where it is evidence.

    A bound above the middle between both ends is on the side of the higher end, however high the figure itself is; a
    lower one says nothing. The mean of the lower end has to be known: of two bounds none is the lower.
    """
    exact, least = dict[int, float](), dict[int, float]()
    for end in (0, len(plan.values) - 1):
        at_end = [run for run in measured if run.index == end]
        for means, known in (
            (exact, [run.figure for run in at_end if run.figure is not None]),
            (least, [run.at_least if run.figure is None else run.figure for run in at_end]),
        ):
            finite = comparison_scale.finite_values(known)
            if len(finite):
                means[end] = float(finite.mean())
    lower = min(least, key=lambda end: least[end], default=-1)
    is_known = len(least) == 2 and lower in exact
    middle = (exact[lower] + max(least.values())) / 2 if is_known else inf
    return [
        replace(run, figure=run.at_least)
        if run.figure is None and run.at_least is not None and run.at_least >= middle
        else run
        for run in measured
    ]


def do_both_ends_differ(plan: BisectionPlan, measured: Sequence[BisectionMeasurement]) -> bool:
    """Return whether both ends were known to differ at any look, by a test that holds at every look.

    Figures without any noise are compared by Fisher's exact test.
    """
    bad = len(plan.values) - 1
    ends: dict[int, list[float]] = {0: [], bad: []}
    for run in measured:
        if run.index not in ends or run.figure is None or not isfinite(run.figure):
            continue
        ends[run.index].append(run.figure)
        compared = compare_groups(ends[0], ends[bad])
        if compared.reason:
            continue
        always = group_comparison_intervals.interval_of_group_difference(compared, LEVEL)
        exact = 2.0 * min(compared.p_greater, compared.p_less) if not compared.standard_error else 1.0
        if min(always.p_value, exact) <= LEVEL:
            return True
    return False


def probabilities_of_step_places(plan: BisectionPlan, measured: Sequence[BisectionMeasurement]) -> tuple[float, ...]:
    """Return the probabilities of a step behind each value but the last."""
    return locate_step_and_next_value(_figures_by_value_index(measured), len(plan.values)).probabilities


def _step_share(plan: BisectionPlan, measured: Sequence[BisectionMeasurement], step: int) -> float | None:
    """Return the share of the difference between the ends that lies between value ``step`` and the next.

    None without a run at one of them.
    """
    by_value = {
        index: comparison_scale.finite_values(figures) for index, figures in _figures_by_value_index(measured).items()
    }
    logarithmic = comparison_scale.is_compared_on_log_scale(*by_value.values())
    means = {
        index: float(comparison_scale.convert_to_scale(figures, logarithmic).mean())
        for index, figures in by_value.items()
        if len(figures)
    }
    last = len(plan.values) - 1
    if any(index not in means for index in (0, last, step, step + 1)) or means[last] == means[0]:
        return None
    return (means[step + 1] - means[step]) / (means[last] - means[0])


def _no_difference(plan: BisectionPlan, measured: Sequence[BisectionMeasurement]) -> str:
    """Return the sentence for ends that do not differ."""
    first, last = (formats.format_setting_value(plan.values[end], 40) for end in (0, -1))
    return (
        f"no difference of {plan.kpi} between {first} and {last} after {_run_count_text(measured)}: nothing to bisect"
    )


def _end_for_missing_figures(plan: BisectionPlan, measured: Sequence[BisectionMeasurement]) -> BisectionEnd | None:
    for index in dict.fromkeys(run.index for run in measured):
        last = [run.figure for run in measured if run.index == index][-MISSING:]
        if len(last) == MISSING and all(figure is None for figure in last):
            value = formats.format_setting_value(plan.values[index], 40)
            bounds = any(run.index == index and run.figure is None and run.at_least is not None for run in measured)
            what = f"only a bound of {plan.kpi}, too low to tell both ends apart" if bounds else f"no {plan.kpi}"
            return BisectionEnd(INVALID, f"{MISSING} runs in a row with {plan.over} = {value} have {what}")
    return None


def _limit_reached_text(plan: BisectionPlan, runs: int, spent: float) -> str:
    if runs >= plan.most:
        return f"max is {formats.format_count(plan.most, 'run')}"
    if plan.budget is not None and spent >= plan.budget:
        return f"the budget of {formats.format_duration(plan.budget)} is used up"
    return ""


def _figures_by_value_index(measured: Sequence[BisectionMeasurement]) -> dict[int, list[float]]:
    figures: dict[int, list[float]] = {}
    for run in measured:
        if run.figure is not None:
            figures.setdefault(run.index, []).append(run.figure)
    return figures


def _count_figures_at_value(measured: Sequence[BisectionMeasurement], index: int) -> int:
    return len(_figures_by_value_index(measured).get(index, ()))


def _likeliest_step_text(plan: BisectionPlan, estimate: BisectionState) -> str:
    return (
        f"the likeliest step is {_step_location_text(plan, estimate.step)} (probability {_probability_text(estimate)})"
    )


def _probability_text(estimate: BisectionState) -> str:
    probability = estimate.probability
    return f"{min(probability, 0.999):.3f}".rstrip("0") if probability < 0.9995 else "over 0.999"


def _step_location_text(plan: BisectionPlan, step: int) -> str:
    before, after = (formats.format_setting_value(plan.values[index], 40) for index in (step, step + 1))
    return f"between {plan.over} = {before} and {after}"


def _run_count_text(measured: Sequence[BisectionMeasurement]) -> str:
    return formats.format_count(len(measured), "run")
