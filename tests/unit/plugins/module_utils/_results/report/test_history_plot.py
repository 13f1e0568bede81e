# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture that explains a verdict by history, and the sentences below it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import verdict_plots

WHY = "12 % slower than 4 runs of 4.19.3 (8 to 16 %), p 0.0004 after correction for 5 figures"


def kpi(**more: Any) -> dict[str, Any]:
    values = [2.0, 2.1, 1.0, None, 1.1, 1.2]
    series = [
        {"run": f"r{at}", "value": value, "low": None, "high": None, "group": "new" if at == 5 else "old"}
        for at, value in enumerate(values)
    ]
    return {
        "point": "003", "name": "makespan", "title": "Makespan", "unit": "s", "direction": "lower", "value": 1.2,
        "reading": "regression", "why": WHY, "simulated": True, "series": series, "band": [0.9, 1.15],
        "limit": {"text": "at most 2 s: within", "result": "within", "max": 2.0},
        "change_points": [{"run": "r2", "p": 0.01, "before": 2.05, "after": 1.05}], **more,
    }  # fmt: skip


def check(one: dict[str, Any]) -> dict[str, Any]:
    """Return a figure that fits the schema of the verdict."""
    document = {"schema": "verdict/2", "run": "t1121-abcdef", "verdict": "pass", "code": 0, "exit_status": 0}
    rest = {"checks": [], "kpis": [one], "baseline": None, "headline": [], "answer": [], "warnings": []}
    files.validate_schema_if_enabled("verdict/2", {**document, **rest})
    return one


def test_the_picture_has_every_run_the_steps_the_band_and_the_limit(tmp_path: Path) -> None:
    one = check(kpi())
    drawn = verdict_plots.draw_history_with_sentences(one, "gpus 8")
    (axis,) = drawn.figure.axes
    labels = axis.get_legend_handles_labels()[1]
    assert sorted(labels) == [
        "expected of one more run", "median before and after a change", "new runs, this one last", "old runs",
        "upper limit",
    ]  # fmt: skip
    lines = {line.get_label(): line for line in axis.get_lines()}
    assert list(lines["median before and after a change"].get_ydata()) == [2.05, 2.05, 1.05, 1.05]
    assert list(lines["old runs"].get_xdata()) == [1, 2, 3, 5], "a run without the figure leaves a gap"
    assert drawn.title == "Makespan – SIMULATED – gpus 8"
    plot = verdict_plots.draw_history(one, tmp_path / "history_00")
    rows = list(csv.reader(plot.data.open())) if plot.data else []
    assert [row[:3] for row in rows[1:3]] == [["r0", "old", "2"], ["r1", "old", "2.1"]]
    assert plot.path.stat().st_size > 5000


def test_a_band_that_says_little_does_not_flatten_the_runs() -> None:
    (axis,) = verdict_plots.draw_history_with_sentences(
        check(kpi(band=[1e-3, 1.6e4], limit={"text": "x", "result": "within"}))
    ).figure.axes
    low, high = axis.get_ylim()
    assert -2 < low <= 1 and 2.1 <= high < 5


def test_a_limit_of_zero_stays_in_the_picture() -> None:
    limit = {"text": "at least 0: within", "result": "within", "min": 0.0}
    (axis,) = verdict_plots.draw_history_with_sentences(check(kpi(band=[-9.0, 9.0], limit=limit))).figure.axes
    assert axis.get_ylim()[0] <= -2.0, "the room below the limit, not below the lowest run"


@pytest.mark.parametrize("value", [0.0, 1e-6, 1e9, -3.0])
def test_a_constant_history_can_be_drawn(tmp_path: Path, value: float) -> None:
    series = [{"run": str(at), "value": value, "group": group} for at, group in enumerate(("old", "old", "new"))]
    bare = {key: one for key, one in kpi(series=series).items() if key not in ("band", "limit", "change_points")}
    assert verdict_plots.draw_history(check(bare), tmp_path / "x").path.stat().st_size > 3000


def test_the_sentences_say_the_reading_why_and_what_changed_before() -> None:
    assert verdict_plots.history_sentences(kpi()) == (
        f"Regression: {WHY}. It changed at run r2, from 2.05 s to 1.05 s. At most 2 s: within."
    )


def test_what_is_worse_is_drawn_first_then_the_headline_then_what_is_no_plain_pass() -> None:
    figures = [
        kpi(name="a", reading="pass"),
        kpi(name="b", reading="pass", limit={"text": "at most 1 s: outside", "result": "outside"}),
        kpi(name="c", reading="inconclusive"),
        kpi(name="d", reading="pass"),
        kpi(name="e", reading="not enough history"),
        kpi(name="f", series=[{"run": "r", "value": 1.0, "group": "new"}]),
    ]
    assert [one["name"] for one in verdict_plots.histories_to_draw(figures, "d")] == ["b", "d", "c"]
    assert verdict_plots.history_sentences(kpi(reading="inconclusive", why="inconclusive: 3 % slower")).startswith(
        "Inconclusive: 3 % slower."
    )
    many = [kpi(name=f"k{number}") for number in range(20)]
    assert len(verdict_plots.histories_to_draw(many, "k3")) == verdict_plots.MOST_HISTORIES
