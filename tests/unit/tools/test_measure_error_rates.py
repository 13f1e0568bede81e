"""The command that measures the error rates of the verdicts' statistics, with few suites."""

from __future__ import annotations

from math import comb

import measure_error_rates
import numpy
import pytest
import synthetic_series
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.statistics import (
    readings_from_p_values,
    student_t,
)
from error_rate_rows import HEAD, INDEPENDENT, KPIS, LEVEL, PARTS, Otava, Row, alarms, by_groups, effect

SUITES = 40


def most_of(probability: float, count: int) -> int:
    """Return the number of hits that is exceeded once in ten thousand times."""
    beyond = 1.0
    for hits in range(count + 1):
        beyond -= comb(count, hits) * probability**hits * (1 - probability) ** (count - hits)
        if beyond < 1e-4:
            return hits
    return count


@pytest.mark.parametrize("shape", INDEPENDENT)
def test_a_suite_without_a_change_raises_no_more_alarms_than_promised(shape: str) -> None:
    suites = synthetic_series.suites(shape, 1, SUITES, KPIS, 10)
    found = alarms(suites, by_groups, readings_from_p_values.adjust_by_holm, False) * SUITES
    assert found <= most_of(LEVEL, SUITES)


def test_a_slower_kpi_is_found_as_often_as_the_test_can() -> None:
    bound = student_t.power_of_t_test(LEVEL / KPIS, 8, effect(0.2, 5, 5))
    suites = synthetic_series.suites("normal", 3, SUITES, KPIS, 5, 0.2)
    missed = 1 - alarms(suites, by_groups, readings_from_p_values.adjust_by_holm, True)
    assert missed * SUITES <= most_of(1 - bound + 0.05, SUITES)


@pytest.mark.parametrize("shape", synthetic_series.SHAPES)
def test_a_seed_gives_the_same_series_with_the_stated_variation(shape: str) -> None:
    first, again = (synthetic_series.suites(shape, 4, 100, 5, 10) for _ in range(2))
    assert numpy.array_equal(first, again)
    assert first.mean() == pytest.approx(100.0, rel=0.01)
    assert 0.04 < first.std() / 100.0 < 0.08


def test_a_rise_is_in_the_new_runs_of_the_first_kpi() -> None:
    suites = synthetic_series.suites("normal", 4, 200, 2, 10, 0.2)
    means = suites.reshape(200, 2, 2, 10).mean(axis=(0, 3))
    assert means == pytest.approx(numpy.array([[100.0, 120.0], [100.0, 100.0]]), rel=0.01)


def test_part_of_the_table_is_printed_and_leaves_the_page(monkeypatch, capsys) -> None:
    monkeypatch.setattr(measure_error_rates, "put", lambda *_: pytest.fail("wrote a part into the page"))
    assert measure_error_rates.main(["--suites", "2", "--part", "repetition"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(HEAD)
    assert printed.count("repeated until decided, 10 old runs, 30 looks | ") == 5


@pytest.mark.parametrize("wrong", [["--suites", "0"], ["--suites", "lint"], ["--part", "powr"]])
def test_arguments_without_meaning_are_refused(wrong: list[str], capsys) -> None:
    with pytest.raises(SystemExit):
        measure_error_rates.main(wrong)
    assert wrong[1] in capsys.readouterr().err


def test_a_whole_measurement_is_written_between_the_marks(monkeypatch, tmp_path) -> None:
    page = tmp_path / "statistics.md"
    begin, end = measure_error_rates.BEGIN, measure_error_rates.END
    page.write_text(f"above\n{begin}\nold\n{end}\nbelow\n", encoding="utf-8")
    monkeypatch.setattr(measure_error_rates, "PAGE", page)
    monkeypatch.setattr(measure_error_rates, "otava_python", lambda: "")
    monkeypatch.setattr(measure_error_rates, "rows", shortened)
    monkeypatch.setattr(measure_error_rates, "history_tables", lambda *_: [])
    assert measure_error_rates.main(["--otava"]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"above\n{begin}\n\nMeasured on ") and text.endswith(f"{end}\nbelow\n")
    assert text.count("| 1.0 ± ") == len(PARTS) and "old" not in text


def shortened(part: str, count: int | None, otava: Otava) -> list[Row]:
    """Return one row of a whole measurement without measuring it."""
    assert count is None
    return [Row(part, 0.01, 100)]


def test_the_page_shows_each_row_with_what_was_promised() -> None:
    text = measure_error_rates.PAGE.read_text(encoding="utf-8")
    table = text.partition(measure_error_rates.BEGIN)[2].partition(measure_error_rates.END)[0]
    shown = [line for line in table.splitlines() if line.startswith("| ")]
    assert shown[0] == HEAD.splitlines()[0]
    promised = [line for line in shown if "≤" in line]
    assert len(promised) > 10
    for line in promised:
        measured, error = (float(one) for one in line.split("|")[2].replace("%", "").split("±"))
        assert measured - error <= 100 * LEVEL, line
