# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage that changed most between two groups of runs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.compare import run_pairs


def pair(**stages: tuple[float, float]) -> dict[str, Any]:
    rows = [{"name": name, "writer": "node", "before": one[0], "after": one[1]} for name, one in stages.items()]
    return {"stages": rows}


def test_the_largest_part_of_the_difference_is_named() -> None:
    pairs = [pair(sent=(0.01, 0.01), created=(1.0, 0.9), pods_running=(5.0, 6.0)), pair(pods_running=(5.0, 6.2))]
    found = run_pairs.changed_stage(pairs, "B", "001")
    assert found is not None
    assert (found["stage"], found["group"], found["before"]) == ("pods_running", "B", 5.0)
    assert found["after"] == pytest.approx(6.1)
    assert found["text"].endswith("Stage pods running changed most, from 5 s to 6.10 s (+22 %).")
    assert found["text"].startswith("The mean time of a workload is 1.05 s longer.")


def test_a_shorter_time_is_attributed_to_what_became_shorter() -> None:
    found = run_pairs.changed_stage([pair(created=(1.0, 1.4), pods_running=(6.0, 5.0))], "C", "002")
    assert found is not None
    assert (found["stage"], found["share"]) == ("pods_running", pytest.approx(1.0 / 0.6))
    assert "shorter" in found["text"]


@pytest.mark.parametrize("pairs", [[], [pair()], [pair(created=(1.0, 1.0))]])
def test_without_a_difference_no_stage_is_named(pairs: list[dict[str, Any]]) -> None:
    assert run_pairs.changed_stage(pairs, "B", "001") is None
