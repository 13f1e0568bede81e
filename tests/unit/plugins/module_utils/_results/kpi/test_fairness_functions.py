# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of fairness between queues: examples computed by hand, and bounds that hold for any shares."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import fairness_functions
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.fairness_functions import (
    jain_fairness_index,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import PointData
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import draw_run_plots
from hypothesis import given
from hypothesis import strategies as st
from scheduled_points import GPU, pod, world


def crowded(**more) -> PointData:
    """Queue a has all 4 GPUs until 10; b wants one from 5 on, gets it at 10 and is done at 20, when the load ends."""
    rows = [{"sent": 0, "ended": 10}] * 4 + [{"sent": 5, "ended": 20, "template": "b"}]
    return world(rows, [pod(i, 0, 0, 10) for i in range(4)] + [pod(4, 10, 10, 20)], **more)


def test_a_queue_is_entitled_to_its_quota_or_to_its_weight_of_what_is_left() -> None:
    def entitled(**more) -> dict[str, float]:
        return {name: fairness_functions.shares_of_queue(crowded(**more), name).entitlement for name in ("a", "b")}

    assert entitled() == {"a": 0.5, "b": 0.5}
    assert entitled(weights={"a": 1, "b": 3}) == {"a": 0.25, "b": 0.75}
    assert entitled(quotas={"a": {GPU: "3", "cpu": "1"}, "b": {GPU: "0"}}) == {"a": 0.5, "b": 0.5}
    # A generous quota of another resource entitles to no more; one beyond the capacity leaves nothing.
    assert entitled(quotas={"a": {GPU: "1", "cpu": "90"}}) == pytest.approx({"a": 0.25, "b": 0.75})
    assert entitled(quotas={"a": {GPU: "8"}})["b"] == 0


def test_what_a_queue_is_entitled_to_and_waits_for_is_withheld() -> None:
    data = crowded()
    shares = fairness_functions.shares_of_queue(data, "b")
    assert list(zip(shares.moments, shares.held, shares.wanted, strict=True)) == [
        (0, 0, 0),
        (5, 0, 0.25),
        (10, 0.25, 0.25),
        (20, 0, 0),
    ]
    # Entitled to two GPUs for 20 s, it wanted one for 5 s and did not get it: 5 of 40.
    assert fairness_functions.share_withheld(data, "b").value == pytest.approx(12.5)
    assert fairness_functions.share_withheld(data, "a").value == 0
    # While it had a workload: nothing for 5 s, a quarter for 10 s.
    assert fairness_functions.share_held(data, "b").value == pytest.approx(100 / 6)
    assert fairness_functions.share_held(data, "a").value == 100
    assert fairness_functions.share_held(data, "b").note == "entitled to 50 %"
    assert fairness_functions.share_withheld(crowded(quotas={"a": {GPU: "4"}}), "b").note == "it is entitled to nothing"


def test_work_is_lost_from_the_start_of_a_pod_until_it_was_preempted_or_failed() -> None:
    rows = [{"sent": 0, "ended": 20}, {"sent": 0, "ended": 20, "template": "b"}]
    pods = [
        pod(0, 0, 2, 6, "deleted"),
        pod(0, 6, None, 7, "deleted"),
        pod(0, 8, 9, 20),
        pod(1, 0, 0, 19, "failed"),
        pod(1, 19, 19, 20),
    ]
    data = world(rows, pods)
    assert fairness_functions.work_lost(data).value == 4 + 19
    assert fairness_functions.work_lost(data, "a").value == 4
    assert fairness_functions.work_lost(data, "a", "held").value == pytest.approx(100 * 4 / 19)
    # The first pod goes when the gang is preempted, and its work is wanted again until it is done.
    shares = fairness_functions.shares_of_queue(data, "a")
    assert shares.wanted[:-1] == [0.25] * (len(shares.wanted) - 1)


def test_the_plot_has_the_shares_of_several_queues(tmp_path: Path) -> None:
    plot = draw_run_plots.draw_point_plot(crowded(), "shares", tmp_path / "shares", "point 1")
    assert plot and plot.alt.endswith("a: at most 100 %, entitled to 50 %. b: at most 25 %, entitled to 50 %.")
    rows = plot.data.read_text().splitlines() if plot.data else []
    assert {"held,b,10,25", "waiting,b,5,25", "entitlement,b,0,50"} <= {*rows}
    one = world([{"sent": 0, "ended": 9}], [pod(0, 1, 2, 9)])
    assert draw_run_plots.draw_point_plot(one, "shares", tmp_path / "one") is None


def test_fairness_looks_at_the_time_in_which_both_queues_want_something() -> None:
    # Queue a has 3 GPUs and b one from 2 to 10, when b is done: (24 + 8)² / (2 (24² + 8²)) = 0.8.
    rows = [{"sent": 0, "ended": 20}] * 3 + [{"sent": 2, "ended": 10, "template": "b"}]
    pods = [pod(i, 0, 0, 20) for i in range(3)] + [pod(3, 2, 2, 10)]
    found = fairness_functions.fairness(world(rows, pods))
    assert found.value == pytest.approx(0.8)
    assert found.labels["share"] == {"a": 24.0, "b": 8.0}
    weighted = fairness_functions.fairness(world(rows, pods, weights={"a": 3, "b": 1}))
    assert weighted.value == pytest.approx(1.0)


def test_fairness_of_one_queue_is_not_known() -> None:
    assert fairness_functions.fairness(world([{"sent": 0, "ended": 9}], [pod(0, 1, 2, 9)])).value is None


def test_who_waits_four_times_as_long_as_most_and_more_than_10_s_starves() -> None:
    rows = [{"sent": 0, "ended": 50}] * 9
    pods = [pod(i, 1, 3, 50) for i in range(7)] + [pod(7, 1, 11, 50), pod(8, 1, 14, 50)]
    found = fairness_functions.starving(world(rows, pods))
    assert found.value == 1
    assert found.note == "longer than 12 s"


positive = st.floats(0.01, 1000)


@given(st.lists(positive, min_size=1, max_size=20), st.floats(0.1, 10))
def test_jains_index_lies_between_one_nth_and_one_and_knows_no_unit(shares: list[float], unit: float) -> None:
    value = jain_fairness_index(shares)
    assert 1 / len(shares) - 1e-9 <= value <= 1 + 1e-9
    assert jain_fairness_index([one * unit for one in shares]) == pytest.approx(value)


@given(st.integers(1, 20), positive)
def test_jains_index_is_1_for_equals_and_1_of_n_when_one_has_all(n: int, share: float) -> None:
    assert jain_fairness_index([share] * n) == pytest.approx(1)
    assert jain_fairness_index([share] + [0.0] * (n - 1)) == pytest.approx(1 / n)
