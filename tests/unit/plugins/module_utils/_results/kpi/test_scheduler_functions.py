"""Scheduler figures: small examples computed by hand, and bounds that hold for any schedule."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import (
    fairness_functions,
    scheduler_functions,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import PointData
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.scheduler_functions import (
    least_makespan,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import draw_run_plots
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.pod_lifetimes import (
    first_moment_all_run,
)
from hypothesis import given
from hypothesis import strategies as st
from scheduled_points import GPU, at, pod, world


@pytest.fixture
def two_gangs() -> PointData:
    """Two gangs of two on 4 GPUs. The first waits 4 s for its second pod; the second loses a pod and gets another."""
    rows = [{"sent": 0, "ended": 15}, {"sent": 1, "ended": 20}]
    pods = [
        pod(0, 0.5, 1, 15),
        pod(0, 4, 5, 15),
        pod(1, 2, 3, 20),
        pod(1, 2, 3, 6, "deleted"),
        pod(1, 8, 10, 20),
    ]
    return world(rows, pods, sizes={"a": 2}, told={"preempted": [(1, at(6.0))], "evicted": [(1, at(6.0))]})


def test_a_gang_waits_until_all_of_it_runs_at_once_for_the_first_time(two_gangs: PointData) -> None:
    found = scheduler_functions.waiting(two_gangs, "max")
    assert found.value == 5  # sent at 0, whole at 5; the other: sent at 1, whole at 3
    assert scheduler_functions.waiting(two_gangs, "min").value == 2
    assert (found.n, found.of) == (2, 2)


def test_a_gang_that_was_never_whole_has_a_bound_and_stays_in_the_denominator() -> None:
    data = world([{"sent": 0, "ended": 9}, {"sent": 4, "ended": None}], [pod(0, 1, 2, 9)], horizon=30)
    found = scheduler_functions.waiting(data, "max")
    assert (found.value, found.n, found.of) == (None, 1, 2)
    assert (found.at_least, found.note) == (26, "1 of 2 never ran as a whole")


def test_waiting_of_a_queue_and_of_a_priority_looks_at_theirs_only() -> None:
    rows = [{"sent": 0, "ended": 9}, {"sent": 0, "ended": 9, "template": "b"}]
    data = world(rows, [pod(0, 1, 2, 9), pod(1, 6, 7, 9)])
    assert scheduler_functions.waiting(data, "p50", queue="b").value == 7
    assert scheduler_functions.waiting(data, "p50", priority="p-a").value == 2
    assert scheduler_functions.distinct_queue_names(data) == ["a", "b"]
    assert scheduler_functions.distinct_priority_names(data) == ["p-a", "p-b"]


def test_what_was_held_is_useful_waiting_or_lost(two_gangs: PointData) -> None:
    # 4 GPUs for 20 s are 80. Held: 14.5 + 11 + 18 + 4 + 12 = 59.5. Whole from 5 and from 10: 10 + 10 + 10 + 10 = 40.
    values = {part: scheduler_functions.utilisation(two_gangs, part).value for part in scheduler_functions.PARTS}
    assert values == pytest.approx({"held": 74.375, "useful": 50.0, "unfinished": 0.0, "lost": 5.0, "waiting": 19.375})
    assert scheduler_functions.utilisation(two_gangs, "held").labels["resource"] == GPU


def test_a_gang_that_still_runs_at_the_end_has_held_nothing_useful() -> None:
    data = world([{"sent": 0, "ended": None}], [pod(0, 1, 2, None, end="")], gpus=1)
    parts = {part: scheduler_functions.utilisation(data, part).value for part in scheduler_functions.PARTS}
    assert parts["useful"] == 0 and parts["unfinished"] > 0
    assert parts["held"] == pytest.approx(sum(value or 0 for part, value in parts.items() if part != "held"))


def test_another_resource_has_its_own_capacity(two_gangs: PointData) -> None:
    assert scheduler_functions.utilisation(two_gangs, "held", "cpu").value == pytest.approx(
        100 * 59.5 * 0.5 / (100 * 20)
    )
    assert "capacity of tpu is unknown" in scheduler_functions.utilisation(two_gangs, "held", "tpu").note


def test_the_gap_is_from_the_first_pod_of_the_final_gang_to_the_last(two_gangs: PointData) -> None:
    assert scheduler_functions.gang_gap(two_gangs, "max").value == 7  # 3 to 10: the pod that came again
    assert scheduler_functions.gang_gap(two_gangs, "min").value == 4


def test_preemptions_and_lost_pods_are_counted(two_gangs: PointData) -> None:
    counts = {what: scheduler_functions.preemptions(two_gangs, what).value for what in ("preempted", "evicted", "lost")}
    assert counts == {"preempted": 1, "evicted": 1, "lost": 1}


def test_the_theoretical_makespan_counts_work_on_the_scarcest_resource() -> None:
    # Three jobs of 10 s, all there at once, one GPU each, on 1 GPU: 30 s. They took 36.
    rows = [{"sent": 0, "ended": 12}, {"sent": 0, "ended": 24}, {"sent": 0, "ended": 36}]
    data = world(rows, [pod(i, 12 * i + 1, 12 * i + 2, 12 * i + 12) for i in range(3)], gpus=1)
    assert scheduler_functions.ideal_makespan(data).value == pytest.approx(30)
    assert scheduler_functions.efficiency(data).value == pytest.approx(100 * 30 / 36)


def test_a_load_that_did_not_end_well_has_no_efficiency() -> None:
    data = world([{"sent": 0, "ended": 9}, {"sent": 0, "ended": None}], [pod(0, 1, 2, 9)])
    assert scheduler_functions.efficiency(data).value is None
    assert scheduler_functions.ideal_makespan(data).note == "1 of 2 did not succeed and are left out"


def test_without_what_they_asked_for_nothing_is_known(good) -> None:
    _world, _folder, table = good
    for function in (
        scheduler_functions.efficiency,
        fairness_functions.fairness,
        fairness_functions.starving,
        scheduler_functions.utilisation,
    ):
        found = function(PointData(table))
        assert (found.value, found.note, found.inapplicable) == (None, scheduler_functions.UNKNOWN, True)
    assert scheduler_functions.distinct_queue_names(PointData(table)) == []


def test_a_capacity_without_the_requested_resources_leaves_figures_unknown(tmp_path: Path) -> None:
    rows = [{"sent": 0, "ended": 9}, {"sent": 0, "ended": 9, "template": "b"}]
    data = world(rows, [pod(0, 1, 2, 9), pod(1, 1, 2, 9)], capacity={"memory": "1Gi"})
    figures = [
        scheduler_functions.utilisation(data, "useful"),
        fairness_functions.fairness(data),
        fairness_functions.work_lost(data),
        fairness_functions.share_held(data, "a"),
        fairness_functions.share_withheld(data, "a"),
    ]
    for found in figures:
        assert (found.value, found.note, found.inapplicable) == (None, scheduler_functions.NO_CAPACITY, False)
    assert draw_run_plots.draw_point_plot(data, "shares", tmp_path / "shares") is None
    # What needs no capacity is known.
    assert scheduler_functions.waiting(data, "max").value == 2


@pytest.mark.parametrize(
    ("function", "arguments"), [(scheduler_functions.utilisation, "helt"), (scheduler_functions.preemptions, "lots")]
)
def test_a_word_that_is_not_known_is_refused(two_gangs: PointData, function, arguments: str) -> None:
    with pytest.raises(InputError, match=arguments):
        function(two_gangs, arguments)


positive = st.floats(0.01, 1000)


jobs = st.lists(
    st.tuples(st.floats(0, 50), st.floats(0.1, 20), st.sampled_from([0.25, 0.5, 1.0])), min_size=1, max_size=12
)


@given(jobs)
def test_no_first_come_first_served_schedule_beats_the_bound(rows: list[tuple[float, float, float]]) -> None:
    """A greedy schedule within the capacity, as a list of starts and ends."""
    running: list[tuple[float, float]] = []
    last = 0.0
    for release, work, rate in sorted(rows):
        begin = release
        while sum(part for end, part in running if end > begin) + rate > 1 + 1e-9:
            begin = min(end for end, _part in running if end > begin)
        running.append((begin + work, rate))
        last = max(last, begin + work)
    assert least_makespan(*zip(*rows, strict=True)) <= last + 1e-6


def test_the_bound_looks_at_what_comes_late_too() -> None:
    # One short job at 0; from 10 on two of 5 s that need everything: 10 + 10.
    assert least_makespan([0, 10, 10], [1, 5, 5], [1, 1, 1]) == 20


def test_a_gang_is_whole_while_enough_of_its_pods_run_at_once() -> None:
    assert first_moment_all_run([pod(0, 0, 1, 4), pod(0, 0, 5, 9)], 2) == float("inf")
    assert first_moment_all_run([pod(0, 0, 1, 6), pod(0, 0, 5, 9)], 2) == 5
