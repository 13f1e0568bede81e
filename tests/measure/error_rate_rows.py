"""Rows of the table of docs/statistics.md: false alarms and power of each method on synthetic series."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import log, sqrt
from pathlib import Path

import numpy
import synthetic_series
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.history_settings import HistorySettings
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_history import judge_history
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.past_run_data import KpiSeries, RunValue
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import (
    comparison_scale,
    group_comparison_intervals,
    readings_from_p_values,
    student_t,
    time_dependence,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics.readings_from_p_values import (
    REGRESSION,
)
from synthetic_series import Array

KPIS, LEVEL = 20, 0.01
RUNS, SHIFTS = (5, 10, 20), (0.05, 0.10, 0.20)
#: Series of independent runs: on these the level is promised.
INDEPENDENT = ("normal", "skewed", "with outliers")
#: Otava's default level of a series, and the one that a suite of KPIs needs for the level of ours.
OTAVA, OTAVA_SUITE = 0.001, 0.001 / KPIS
#: Suites of a row that otava reads, five times as many of one KPI; it is a hundred times slower.
OTAVA_SUITES = 200
Method = Callable[[Array], list[float]]
HEAD = "| what | measured | bound | promised | otava |\n|---|---|---|---|---|"


@dataclass(frozen=True)
class Row:
    """One row: shares of ``count`` suites. bound: the most that the test can reach; promised: the most allowed."""

    name: str
    ours: float
    count: int
    bound: float | None = None
    otava: float | None = None
    promised: float | None = None

    def text(self) -> str:
        """Return the row as Markdown; ± is 95 % of the simulation."""
        error = 196 * sqrt(max(self.ours * (1 - self.ours), 0.25 / self.count) / self.count)
        cells = [self.name, f"{100 * self.ours:.1f} ± {error:.1f} %"]
        cells.append("" if self.bound is None else f"{100 * self.bound:.1f} %")
        cells.append("" if self.promised is None else f"≤ {100 * self.promised:.0f} %")
        cells.append("" if self.otava is None else f"{100 * self.otava:.1f} %")
        return "| " + " | ".join(cells) + " |"


@dataclass(frozen=True)
class Otava:
    """apache-otava in its own environment, on the same series. python: of that environment, empty for none."""

    python: str = ""

    def rises(self, suites: Array, p_value: float, first: bool) -> float | None:
        """Return the share of suites in which it finds a rise, in the first KPI or in any; None without otava."""
        if not self.python:
            return None
        part = suites[: 5 * OTAVA_SUITES, :1] if first else suites[:OTAVA_SUITES]
        with tempfile.TemporaryDirectory() as folder:
            given, found = Path(folder) / "series.npy", Path(folder) / "rises.npy"
            numpy.save(given, part.reshape(-1, part.shape[2]))
            script = Path(__file__).with_name("otava_readings.py")
            subprocess.run([self.python, str(script), str(given), str(found), str(p_value)], check=True, timeout=3600)
            return float(numpy.load(found).reshape(part.shape[:2]).any(axis=1).mean())


def by_groups(suite: Array) -> list[float]:
    """Return the p-value of "not higher" of each KPI of a suite by comparing old with new runs."""
    runs = suite.shape[1] // 2
    scaled = [comparison_scale.convert_to_scale(one, comparison_scale.is_compared_on_log_scale(one)) for one in suite]
    found = time_dependence.estimate_suite_dependence([(one[:runs], one[runs:]) for one in scaled])
    return [
        group_comparison_intervals.compare_groups(one[:runs], one[runs:], dependence=found).p_greater for one in suite
    ]


def by_groups_with_history(suite: Array) -> list[float]:
    """Return the same with the noise of 20 earlier runs, drawn like those of the suite."""
    runs = suite.shape[1] // 2
    generator = numpy.random.default_rng(round(float(suite[0, 0]) * 1e6))
    earlier = synthetic_series.normal(generator, len(suite), 20)
    return [
        group_comparison_intervals.compare_groups(one[:runs], one[runs:], earlier=[past]).p_greater
        for one, past in zip(suite, earlier, strict=True)
    ]


def by_few_new_runs(new: int, suite: Array) -> list[float]:
    """Return the same from all old runs and the first ``new`` ones of the new runs."""
    old = suite.shape[1] // 2
    return [group_comparison_intervals.compare_groups(one[:old], one[old : old + new]).p_greater for one in suite]


def by_judgement(suite: Array) -> list[str]:
    """Return the results of a suite, of which the last 5 runs are new and lower is better."""
    runs = [[RunValue(str(number), float(value)) for number, value in enumerate(one)] for one in suite]
    kpis = [KpiSeries("000", "kpi", "s", "lower", tuple(one[:-5]), tuple(one[-5:])) for one in runs]
    return [one.result for one in judge_history(kpis, HistorySettings(level=LEVEL))]


def alarms(suites: Array, method: Method, correct: Callable[[list[float]], list[float]], first: bool) -> float:
    """Return the share of suites with an alarm: of the first KPI, or of any."""
    hits = 0
    for suite in suites:
        adjusted = correct(method(suite))
        hits += adjusted[0] <= LEVEL if first else any(one <= LEVEL for one in adjusted)
    return hits / len(suites)


def false_alarms(count: int, otava: Otava) -> Iterator[Row]:
    """Yield the false alarms of suites of 20 KPIs without any change."""
    for shape in synthetic_series.SHAPES:
        for runs in RUNS:
            suites = synthetic_series.suites(shape, 1, count, KPIS, runs)
            theirs = otava.rises(suites, OTAVA_SUITE, False)
            ours = alarms(suites, by_groups, readings_from_p_values.adjust_by_holm, False)
            promised = LEVEL if shape in INDEPENDENT else None
            yield Row(f"false alarms a suite, {shape}, {runs} + {runs}", ours, count, None, theirs, promised)


def false_alarms_of_one(count: int, otava: Otava) -> Iterator[Row]:
    """Yield the false alarms of one KPI alone at the same level."""
    for shape in synthetic_series.SHAPES:
        for runs in RUNS:
            suites = synthetic_series.suites(shape, 2, count, 1, runs)
            theirs = otava.rises(suites, OTAVA, True)
            ours = alarms(suites, by_groups, readings_from_p_values.leave_p_values_uncorrected, True)
            yield Row(f"false alarms of one KPI, {shape}, {runs} + {runs}", ours, count, otava=theirs)


def power(count: int, otava: Otava) -> Iterator[Row]:
    """Yield the share of suites in which one KPI that rose is found, and the same of one KPI alone."""
    for name, kpis, correct, level, theirs in (
        ("one of 20 KPIs", KPIS, readings_from_p_values.adjust_by_holm, LEVEL / KPIS, OTAVA_SUITE),
        ("one KPI alone", 1, readings_from_p_values.leave_p_values_uncorrected, LEVEL, OTAVA),
    ):
        for runs in RUNS:
            for shift in SHIFTS:
                suites = synthetic_series.suites("normal", 3, count, kpis, runs, shift)
                bound = student_t.power_of_t_test(level, 2 * runs - 2, effect(shift, runs, runs))
                ours = alarms(suites, by_groups, correct, True)
                label = f"found: +{100 * shift:.0f} % in {name}, {runs} + {runs}"
                yield Row(label, ours, count, bound, otava.rises(suites, theirs, True))


def few_new_runs(count: int, otava: Otava) -> Iterator[Row]:
    """Yield false alarms and power of a few new runs beside 20 old ones."""
    for new in (1, 3, 4, 5, 10):
        method = partial(by_few_new_runs, new)
        for shape in INDEPENDENT:
            suites = synthetic_series.suites(shape, 7, count, KPIS, 20)
            ours = alarms(suites, method, readings_from_p_values.adjust_by_holm, False)
            # The t-test alone does not judge histories: few new runs that are skewed mislead it, as these rows show.
            promised = LEVEL if shape == "normal" else None
            yield Row(f"false alarms a suite, {shape}, 20 + {new}", ours, count, promised=promised)
        for shift in SHIFTS:
            suites = synthetic_series.suites("normal", 8, count, KPIS, 20, shift)
            bound = student_t.power_of_t_test(LEVEL / KPIS, 18 + new, effect(shift, 20, new))
            ours = alarms(suites, method, readings_from_p_values.adjust_by_holm, True)
            yield Row(f"found: +{100 * shift:.0f} % in one of 20 KPIs, 20 + {new}", ours, count, bound)


def whole_judgement(count: int, otava: Otava) -> Iterator[Row]:
    """Yield false alarms and power of the whole judgement, with a history of 20 runs that is cut at change points."""
    for shape, shift in (*((one, 0.0) for one in INDEPENDENT), *(("normal", one) for one in SHIFTS)):
        suites = synthetic_series.suites(shape, 9, count, KPIS, 20, shift)
        found = [by_judgement(suite[:, :25]) for suite in suites]
        hits = [REGRESSION in one[:1] if shift else REGRESSION in one for one in found]
        what = f"found: +{100 * shift:.0f} % in one of 20 KPIs" if shift else f"false alarms a suite, {shape}"
        bound = student_t.power_of_t_test(LEVEL / KPIS, 23, effect(shift, 20, 5)) if shift else None
        promised = None if shift else LEVEL
        yield Row(f"{what}, whole judgement, 20 + 5", sum(hits) / count, count, bound, promised=promised)


def power_with_history(count: int, otava: Otava) -> Iterator[Row]:
    """Yield false alarms and power where history knows the noise from 20 earlier runs."""
    for runs in (1, 3, 5, 10):
        for shift in (0.0, *SHIFTS):
            suites = synthetic_series.suites("normal", 4, count, KPIS, runs, shift)
            ours = alarms(suites, by_groups_with_history, readings_from_p_values.adjust_by_holm, bool(shift))
            where = f"noise from 20 earlier runs, {runs} + {runs}"
            if not shift:
                yield Row(f"false alarms a suite, {where}", ours, count, promised=LEVEL)
                continue
            bound = student_t.power_of_t_test(LEVEL / KPIS, 2 * runs - 2 + 19, effect(shift, runs, runs))
            yield Row(f"found: +{100 * shift:.0f} % in one of 20 KPIs, {where}", ours, count, bound)


def repetition(count: int, otava: Otava) -> Iterator[Row]:
    """Yield how often repeating until decided finds a change of one KPI, looking after each of 30 runs."""
    for shape, shift in (("normal", 0.0), ("skewed", 0.0), *(("normal", one) for one in SHIFTS)):
        suites = synthetic_series.suites(shape, 6, count, 1, 30, shift)[:, 0]
        stops = [_runs_until_found(one) for one in suites]
        ours = sum(one is not None for one in stops) / count
        looks = numpy.median([one for one in stops if one is not None] or [0])
        what = f"found: +{100 * shift:.0f} %, median after {looks:.0f} new runs" if shift else f"false alarms, {shape}"
        promised = None if shift else LEVEL
        yield Row(f"{what}, repeated until decided, 10 old runs, 30 looks", ours, count, promised=promised)


def _runs_until_found(one: Array) -> int | None:
    """Return after how many new runs a rise is found; None when it never is."""
    for n in range(1, 31):
        found = group_comparison_intervals.compare_groups(one[:10], one[30 : 30 + n])
        always = group_comparison_intervals.interval_of_group_difference(found, 2 * LEVEL)
        if always.low > 0:
            return n
        if always.high < 0:
            return None
    return None


def effect(shift: float, n_old: int, n_new: int) -> float:
    """Return how many standard errors a rise amounts to, on the logarithmic scale."""
    return log(1.0 + shift) / (synthetic_series.VARIATION * sqrt(1.0 / n_old + 1.0 / n_new))


#: Part of the table -> its rows, and the suites of a row.
PARTS: dict[str, tuple[Callable[[int, Otava], Iterator[Row]], int]] = {
    "false_alarms": (false_alarms, 1000),
    "power": (power, 2000),
    "few_new_runs": (few_new_runs, 500),
    "whole_judgement": (whole_judgement, 300),
    "power_with_history": (power_with_history, 1000),
    "false_alarms_of_one": (false_alarms_of_one, 1000),
    "repetition": (repetition, 400),
}


def rows(part: str, count: int | None, otava: Otava) -> list[Row]:
    """Return the rows of a part. count: suites of a row, None for the number of a whole measurement."""
    make, usual = PARTS[part]
    return list(make(count or usual, otava))
