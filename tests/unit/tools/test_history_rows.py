"""The tables of histories, of public series and of nights, with few suites."""

from __future__ import annotations

import json
from itertools import islice

import history_rows
import numpy
import pytest
import synthetic_series


def cells(line: str) -> list[str]:
    """Return the cells of a row."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_no_suite_of_a_few_raises_an_alarm_and_large_changes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "noise 2 %, then 10 %"
    monkeypatch.setattr(history_rows, "KPIS", 8)
    (row,) = history_rows.histories(2, "", 5, [name])
    row_cells = cells(row)
    assert row_cells[:3] == [f"{name}, 20 + 5", "0 of 2", "0 of 2"]
    assert int(row_cells[3].split(", ")[3]) >= 75
    assert len(row_cells) == len(cells(history_rows.HEAD))


def test_every_history_has_the_shape_that_is_asked_for() -> None:
    for name in synthetic_series.HISTORIES:
        suite = synthetic_series.history_series(name, numpy.random.default_rng(1), 3, 20, 5)
        assert suite.shape == (3, 25) and numpy.isfinite(suite).all(), name


def test_public_series_name_their_source_and_licence() -> None:
    for entry in json.loads(history_rows.SERIES.read_text(encoding="utf-8")):
        assert entry["source"].startswith("https://") and entry["licence"] == "Apache-2.0"
        assert all(0 < change < len(entry["values"]) for change in entry["changes"])
    first = cells(next(islice(history_rows.public(1, ""), 1)))
    assert first[0] == "TigerBeetle, 20 + 5" and len(first) == len(cells(history_rows.PUBLIC_HEAD))


def test_the_rule_of_ten_percent_reads_both_directions() -> None:
    old = numpy.full(20, 100.0)
    found = [history_rows.plain(numpy.append(old, [now]), 20) for now in (89.0, 95.0, 111.0)]
    assert found == [-1, 0, 1]


def test_nights_pass_where_runs_differ_by_less_than_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_rows, "PASSING", ((0.05, 0.05), (0.001, 0.2)))
    monkeypatch.setattr(history_rows, "GROUPS", ((20, 3),))
    assert [cells(row)[2] for row in history_rows.passing_nights(2)] == ["0 %", "100 %"]
