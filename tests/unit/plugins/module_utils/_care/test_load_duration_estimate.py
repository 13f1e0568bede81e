"""The estimate of a plan: no shorter than what a cluster can do, and exact where that is known."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.duration_and_capacity_estimate import (
    PointLoad,
    estimate_by_scheduling,
    first_invalid_entry,
    format_total_estimate,
    load_of_planned_point,
    peak_creations_per_second,
)
from hypothesis import given
from hypothesis import strategies as st


def test_with_room_for_all_the_last_one_decides() -> None:
    found = estimate_by_scheduling(
        load_of_planned_point("001", {"workloads": 10, "arrival": {"rate": 1}, "gpus": 1, "seconds": 5}), 100
    )
    assert found is not None
    assert (found.seconds, found.gpus_at_once, found.gpu_hours) == (14.0, 5.0, pytest.approx(50 / 3600))


def test_without_room_they_go_one_after_the_other() -> None:
    found = estimate_by_scheduling(
        load_of_planned_point("001", {"workloads": 10, "arrival": {"rate": 100}, "gpus": 8, "seconds": 5}), 8
    )
    assert found is not None and found.seconds == pytest.approx(50.0)


def test_what_needs_no_gpu_waits_for_none() -> None:
    found = estimate_by_scheduling(
        load_of_planned_point("001", {"workloads": 4, "arrival": {"type": "closed"}, "seconds": 3, "pods": 2}), 0
    )
    assert found is not None and (found.seconds, found.pods_at_once, found.gpu_hours) == (3.0, 8, 0.0)


def test_a_workload_that_does_not_fit_has_no_estimate() -> None:
    assert estimate_by_scheduling(load_of_planned_point("001", {"workloads": 1, "gpus": 16}), 8) is None


def test_steps_say_how_many_workloads_there_are() -> None:
    steps = {"type": "steps", "steps": [{"rate": 2, "duration": 5}, {"rate": 4, "duration": 5}]}
    assert load_of_planned_point("001", {"workloads": 0, "arrival": steps}).workloads == 30


@pytest.mark.parametrize(
    ("plan", "name", "reason"),
    [
        ({"workloads": -3}, "workloads", "workloads is -3, it must be 0 or more"),
        ({"workloads": 1, "pods": 0}, "pods", "pods is 0, it must be 1 or more"),
        ({"workloads": 1, "seconds": -1.0}, "seconds", "seconds is -1.0, it must be 0 or more"),
        (
            {"workloads": 1, "requests": {"cpu": "500m", "memory": "10Gigs"}},
            "requests",
            "the request of memory is '10Gigs', it must be a quantity such as 500m, 2 or 4Gi",
        ),
        (
            {"workloads": 1, "lifetime": {"type": "fixed", "mean": "long"}, "seconds": "long"},
            "lifetime",
            "lifetime: distribution 'fixed': mean is 'long', which is not a number",
        ),
        (
            {"workloads": 1, "use": {"type": "fixed", "mean": -1}},
            "use",
            "use: distribution 'fixed': mean is -1, it must be 0 or more",
        ),
        (
            {"workloads": 3, "release": {"type": "steps", "steps": [{"rate": 1, "duration": 2}]}},
            "release",
            "release: arrival: the steps hold 2 workloads, count is 3; give count 0 for all of them",
        ),
    ],
)
def test_a_value_that_no_load_can_have_is_named(plan: dict[str, Any], name: str, reason: str) -> None:
    assert first_invalid_entry(plan) == (name, reason)


@pytest.mark.parametrize("quantity", ["1e3", "0.5", ".5", "5.", "100n", "2Ei", "3k", 4])
def test_every_quantity_of_the_api_is_possible(quantity: object) -> None:
    assert first_invalid_entry({"workloads": 0, "requests": {"memory": quantity}}) is None


def test_an_arrival_that_is_none_is_refused() -> None:
    with pytest.raises(InputError):
        load_of_planned_point("001", {"workloads": 1, "arrival": {"type": "sometimes"}})


@given(
    st.lists(st.floats(min_value=0, max_value=100), min_size=1, max_size=30).map(sorted),
    st.integers(min_value=1, max_value=8),
    st.integers(min_value=8, max_value=64),
    st.floats(min_value=0.1, max_value=20),
)
def test_it_is_never_below_what_the_gpus_allow(offsets: list[float], each: int, gpus: int, seconds: float) -> None:
    found = estimate_by_scheduling(PointLoad("001", len(offsets), tuple(offsets), 1, each, seconds), gpus)
    assert found is not None
    rounds = -(-len(offsets) // (gpus // each))
    assert found.seconds >= rounds * seconds - 1e-6
    assert found.seconds >= offsets[-1] + seconds - 1e-6
    assert found.gpus_at_once <= gpus
    assert found.gpu_hours == pytest.approx(len(offsets) * each * seconds / 3600)


def test_an_assumption_is_named_only_where_it_may_be_wrong() -> None:
    plan = load_of_planned_point(
        "001", {"workloads": 2, "arrival": {"type": "closed"}, "seconds": 9, "assumed": "as in a film"}
    )
    plain, real = estimate_by_scheduling(plan, 0), estimate_by_scheduling(plan, 0, real=True)
    assert plain is not None and real is not None
    assert "film" not in plain.text() and real.text() == f"{plain.text()}, if they take as in a film"
    assert format_total_estimate([real, real]).endswith(", if they take as in a film")


def test_a_closed_loop_takes_at_least_the_pauses_between_its_batches() -> None:
    arrival = {"type": "closed", "batch": 5, "delay": 1}
    found = estimate_by_scheduling(
        load_of_planned_point("001", {"workloads": 12, "arrival": arrival, "gpus": 1, "seconds": 1.5}), 100
    )
    assert found is not None and (found.seconds, found.gpus_at_once) == (3.5, 10)


@pytest.mark.parametrize(
    ("plan", "most", "pods"),
    [
        ({"arrival": {"rate": 8}}, 8, 100),
        ({"arrival": {"type": "closed"}}, 1, 100),
        ({"arrival": {"type": "closed"}, "in_flight": 40}, 40, 100),
        ({"arrival": {"type": "closed"}, "in_flight": 400}, 100, 100),
        ({"arrival": {"type": "closed", "batch": 30, "delay": 5}, "in_flight": 4}, 30, 100),
        ({"arrival": {"type": "closed"}, "pool": 1000}, 1, 1100),
        # Users that create no pods: nothing happens when they are released.
        ({"arrival": {"type": "closed"}, "release": {"type": "closed"}}, 1, 100),
        ({"arrival": {"type": "closed"}, "release": {"type": "closed"}, "iterations": 3}, 100, 400),
        (
            {"arrival": {"type": "closed"}, "release": {"type": "closed", "batch": 20, "delay": 60}, "iterations": 1},
            20,
            200,
        ),
        ({"arrival": {"type": "closed"}, "release": {"type": "constant", "rate": 4}, "iterations": 1}, 4, 200),
    ],
)
def test_pods_of_a_load_and_the_most_workloads_in_a_second(plan: dict[str, Any], most: int, pods: int) -> None:
    load = load_of_planned_point("001", {"workloads": 100, **plan})
    assert (peak_creations_per_second(load), load.all_pods) == (most, pods)
