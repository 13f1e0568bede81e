# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences of figures, and the stage that changed most between two groups of runs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.compare import run_pairs
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import KpiValue


def pair(**stages: tuple[float, float]) -> dict[str, Any]:
    rows = [{"name": name, "writer": "node", "before": one[0], "after": one[1]} for name, one in stages.items()]
    return {"stages": rows}


def test_the_largest_part_of_the_difference_is_named() -> None:
    pairs = [pair(sent=(0.01, 0.01), created=(1.0, 0.9), pods_running=(5.0, 6.0)), pair(pods_running=(5.0, 6.2))]
    found = run_pairs.stage_with_largest_difference(pairs, "B", "001")
    assert found is not None
    assert (found["stage"], found["group"], found["before"]) == ("pods_running", "B", 5.0)
    assert found["after"] == pytest.approx(6.1)
    assert found["text"].endswith("Stage pods running changed most, from 5 s to 6.10 s (+22 %).")
    assert found["text"].startswith("The mean time of a workload is 1.05 s longer.")


def test_a_shorter_time_is_attributed_to_what_became_shorter() -> None:
    found = run_pairs.stage_with_largest_difference([pair(created=(1.0, 1.4), pods_running=(6.0, 5.0))], "C", "002")
    assert found is not None
    assert (found["stage"], found["share"]) == ("pods_running", pytest.approx(1.0 / 0.6))
    assert "shorter" in found["text"]


@pytest.mark.parametrize("pairs", [[], [pair()], [pair(created=(1.0, 1.0))]])
def test_without_a_difference_no_stage_is_named(pairs: list[dict[str, Any]]) -> None:
    assert run_pairs.stage_with_largest_difference(pairs, "B", "001") is None


def figure(value: float | None, at_least: float | None = None, direction: str = "lower") -> run_pairs.Found:
    kpi: dict[str, Any] = {
        "name": "wait",
        "title": "Wait",
        "unit": "s",
        "direction": direction,
        "value": value,
        "simulated": False,
    }
    kpi |= {"n": 9, "of": 10, "headline": True, "confidence": None, "interval": value and [value - 1, value + 1]}
    if at_least is not None:
        kpi["at_least"] = at_least
    return {"wait": (kpi, KpiValue(value, 9, 10))}


@pytest.mark.parametrize(
    ("before", "after", "direction", "reading"),
    [
        ((5.0, None), (None, 100.0), "lower", "worse"),
        ((None, 100.0), (5.0, None), "lower", "better"),
        ((5.0, None), (None, 100.0), "higher", "better"),
        ((5.0, None), (None, 5.5), "lower", "unclear"),  # within the interval of the other
        ((None, 5.0), (None, 100.0), "lower", "unclear"),
        ((5.0, None), (None, None), "lower", "unclear"),
        ((5.0, None), (None, 100.0), "none", "unclear"),
    ],
)
def test_a_bound_above_the_other_figure_is_a_difference(
    before: tuple[float | None, float | None], after: tuple[float | None, float | None], direction: str, reading: str
) -> None:
    (row,) = run_pairs.kpi_differences(figure(*before, direction), figure(*after, direction))
    assert row["reading"] == reading
    assert row.get("after_at_least") == after[1]
