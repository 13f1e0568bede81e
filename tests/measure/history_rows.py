"""Tables of docs/statistics.md: series as histories have them, public series with labelled changes, a month of nights.

Beside the whole judgement stand apache-otava and the rule "median of the new runs against ± 10 % of that of the last
five old ones". None of the two is corrected for the number of KPIs, as in practice.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy
import synthetic_series
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.history_settings import HistorySettings
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_history import judge_history
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.past_run_data import KpiSeries, RunValue
from synthetic_series import Array

KPIS, OLD = 20, 20
SHIFTED, SHIFTS = 4, (0.05, 0.10, 0.20, 0.50)
#: Public series: values in the order of the runs, the first runs after labelled changes, source and licence.
SERIES = Path(__file__).with_name("public_series.json")
HEAD = (
    "| series, runs | false regressions | false improvements | found +5, 10, 20, 50 % | otava | ± 10 % of the last 5 |"
)
PUBLIC_HEAD = "| public series, windows | flagged without a change | labelled changes found | otava | ± 10 % |"
NIGHTS_HEAD = "| 30 nights | false alarms | nights until +20 % is found (median) | found |"
#: Of docs/verdicts.md: how much runs differ, and results_least; past and new runs.
PASSING = ((0.01, 0.05), (0.02, 0.05), (0.02, 0.1), (0.05, 0.05), (0.05, 0.1), (0.05, 0.2))
GROUPS = ((2, 1), (5, 1), (10, 1), (20, 1), (20, 3), (20, 5))
PASSING_HEAD = "| nights that pass | `results_least` | " + " | ".join(f"{old} + {new}" for old, new in GROUPS) + " |"


def judged(suite: Array, old: int, least: float = 0.05) -> list[str]:
    """Return the readings of a suite, an array [KPI, run]; lower is better."""
    runs = [[RunValue(str(number), float(value)) for number, value in enumerate(one)] for one in suite]
    kpis = [KpiSeries("000", "kpi", "s", "lower", tuple(one[:old]), tuple(one[old:])) for one in runs]
    return [one.result for one in judge_history(kpis, HistorySettings(least=least))]


def plain(one: Array, old: int) -> int:
    """Return 1 for a rise by the rule of ± 10 %, -1 for a fall, else 0."""
    base, now = float(numpy.median(one[max(0, old - 5) : old])), float(numpy.median(one[old:]))
    return int(now > 1.1 * base) - int(now < 0.9 * base)


def otava(python: str, series: Sequence[Array], old: int) -> list[bool] | None:
    """Return in which series apache-otava sees a change at a new run; None without it."""
    if not python or not series:
        return None
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "series.npy", Path(folder) / "found.npy"
        numpy.save(given, numpy.array(series))
        script = Path(__file__).with_name("otava_readings.py")
        command = [python, str(script), str(given), str(found), "0.001", str(old - 1)]
        subprocess.run(command, check=True, timeout=3600)
        return [bool(one) for one in numpy.load(found)]


def _share(hits: Sequence[bool] | None) -> str:
    return "" if hits is None else f"{100 * sum(hits) / max(1, len(hits)):.0f} %"


def histories(count: int, python: str, new: int = 5, names: Sequence[str] = ()) -> Iterator[str]:
    """Yield the rows of series without and with a change of four of 20 KPIs. count: suites of a row."""
    for name in names or tuple(synthetic_series.HISTORIES):
        generator = numpy.random.default_rng([11, list(synthetic_series.HISTORIES).index(name), new])
        suites = [synthetic_series.history_series(name, generator, KPIS, OLD, new) for _suite in range(count)]
        read = [judged(suite, OLD) for suite in suites]
        worse, better = (sum(what in one for one in read) for what in ("regression", "improvement"))
        powers = []
        for shift in SHIFTS:
            found, several = 0, max(3, count // 8)
            for _suite in range(several):
                suite = synthetic_series.history_series(name, generator, KPIS, OLD, new)
                suite[:SHIFTED, OLD:] *= 1.0 + shift
                found += judged(suite, OLD)[:SHIFTED].count("regression")
            powers.append(f"{100 * found / SHIFTED / several:.0f}")
        theirs = otava(python, [one for suite in suites for one in suite], OLD)
        by_suite = theirs and [any(theirs[begin : begin + KPIS]) for begin in range(0, len(theirs), KPIS)]
        rule = [any(plain(one, OLD) > 0 for one in suite) for suite in suites]
        cells = [f"{name}, {OLD} + {new}", f"{worse} of {count}", f"{better} of {count}", ", ".join(powers)]
        yield "| " + " | ".join([*cells, _share(by_suite), _share(rule)]) + " |"


def public(count: int, python: str) -> Iterator[str]:
    """Yield the rows of public series: sliding windows of 20 + 5 and 10 + 3 runs, each judged alone, both ways.

    A window counts as one with a change if its new runs begin at a labelled one, and is left out if one is elsewhere.
    """
    for entry in json.loads(SERIES.read_text(encoding="utf-8")):
        values = numpy.array(entry["values"], dtype=float)
        for old, new in ((20, 5), (10, 3)):
            begins = range(len(values) - old - new + 1)
            quiet = [b for b in begins if not any(b < change < b + old + new for change in entry["changes"])]
            quiet = quiet[:: max(1, len(quiet) // count)]
            changed = [change - old for change in entry["changes"] if change - old in begins]
            windows = [values[b : b + old + new] for b in (*quiet, *changed)]
            flags = [judged(window[None, :], old)[0] in ("regression", "improvement") for window in windows]
            theirs, rule = otava(python, windows, old), [bool(plain(window, old)) for window in windows]
            cells = [f"{entry['name']}, {old} + {new}", f"{sum(flags[: len(quiet)])} of {len(quiet)}"]
            cells.append(f"{sum(flags[len(quiet) :])} of {len(changed)}")
            cells += [
                "" if one is None else f"{sum(one[: len(quiet)])} of {len(quiet)}, {sum(one[len(quiet) :])} found"
                for one in (theirs, rule)
            ]
            yield "| " + " | ".join(cells) + " |"


def nights(count: int) -> Iterator[str]:
    """Yield a month of nights, each one new run beside those before it; one KPI of five rises by 20 % in night 15."""
    for noise in (0.02, 0.05):
        draw, false, found = numpy.random.default_rng(13).standard_normal, 0, []
        for _month in range(count):
            suite = 100.0 * (1.0 + noise * draw((5, OLD + 30)))
            suite[0, OLD + 15 :] *= 1.2
            first = None
            for night in range(30):
                read = judged(suite[:, : OLD + night + 1], OLD + night)
                step = night >= 15 and read[0] == "regression"
                false += "regression" in read[1:] or (night < 15 and read[0] == "regression")
                first = night - 14 if step and first is None else first
            found.append(first)
        known = [one for one in found if one is not None]
        median = f"{numpy.median(known):.0f}" if known else "–"
        cells = [f"runs differ by {100 * noise:.0f} %", f"{false} in {30 * count} nights", median]
        yield "| " + " | ".join([*cells, f"{len(known)} of {count}"]) + " |"


def passing_nights(count: int) -> Iterator[str]:
    """Yield the share of nights that pass by what they are compared with; of five KPIs none changes."""
    for noise, least in PASSING:
        cells = [f"runs differ by {100 * noise:.0f} %", f"{least}"]
        for old, new in GROUPS:
            draw = numpy.random.default_rng([17, old, new]).standard_normal
            suites = [100.0 * (1.0 + noise * draw((5, old + new))) for _suite in range(count)]
            passed = [{"pass", "improvement"}.issuperset(judged(suite, old, least)) for suite in suites]
            cells.append(_share(passed))
        yield "| " + " | ".join(cells) + " |"
