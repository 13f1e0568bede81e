"""The knee of a saturation curve: found where a queue starts to grow, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import knee_and_capacity_functions
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.knee_and_capacity_functions import (
    find_knee_by_kneedle,
    latency_by_load_step,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.knee_and_capacity_functions import (
    knee as knee_of,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import PointData, PointExtras
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from hypothesis import given
from hypothesis import strategies as st
from run_directory import World, write_point

ROOT = Path(__file__).resolve().parents[6]
RATES = [2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 60.0, 80.0]


def served(capacity: float, rates: list[float], span: float = 10.0, base: float = 0.05) -> list[float]:
    """Latency at the end of each step of a server of this capacity: load above it stays in the queue."""
    queue, found = 0.0, []
    for rate in rates:
        queue = max(0.0, queue + (rate - capacity) * span)
        found.append(base + queue / capacity)
    return found


@given(st.integers(min_value=1, max_value=len(RATES) - 2))
def test_the_last_step_that_a_queue_keeps_up_with_is_the_knee(place: int) -> None:
    capacity = (RATES[place] + RATES[place + 1]) / 2
    assert find_knee_by_kneedle(RATES, served(capacity, RATES)) == place


@given(st.lists(st.floats(min_value=0.05, max_value=0.09), min_size=len(RATES), max_size=len(RATES)))
def test_noise_without_a_queue_is_no_knee(latencies: list[float]) -> None:
    assert find_knee_by_kneedle(RATES, latencies) is None


@given(st.floats(min_value=0.001, max_value=1000), st.floats(min_value=0.001, max_value=1000))
def test_units_do_not_move_it(of_rates: float, of_latencies: float) -> None:
    latencies = served(25, RATES)
    scaled = find_knee_by_kneedle([one * of_rates for one in RATES], [one * of_latencies for one in latencies])
    assert scaled == find_knee_by_kneedle(RATES, latencies)


def test_one_lucky_step_beyond_it_does_not_move_it() -> None:
    latencies = served(25, RATES)
    latencies[6] = 0.05
    assert find_knee_by_kneedle(RATES, latencies) == 3


@pytest.mark.parametrize(
    ("rates", "latencies", "knee"),
    [
        (RATES, [0.026, 0.025, 0.019, 0.739, 7.79, 7.75, 11.4, 15.5], 10.0),
        ([5, 10, 20, 30, 40, 50, 60, 80], [0.038, 0.087, 1.25, 20.6, 48.1, 90.2, 139.0, 178.0], 10.0),
    ],
)
def test_curves_that_were_measured_bend_where_one_sees_it(
    rates: list[float], latencies: list[float], knee: float
) -> None:
    place = find_knee_by_kneedle(rates, latencies)
    assert place is not None and rates[place] == knee


def test_two_steps_are_no_curve() -> None:
    assert find_knee_by_kneedle([1, 2], [1, 9]) is None


@pytest.fixture
def data(tmp_path: Path) -> PointData:
    world = World(count=30, rate=2.0)
    table = timeline_builder.build_timeline_of_workloads(
        write_point(tmp_path / "points" / "000", world), "t1121-k3f9xa", "000"
    )
    return PointData(table, PointExtras(steps=((2.0, 5.0), (2.0, 2.0), (2.0, 8.0))))


def test_each_workload_belongs_to_the_step_in_which_it_was_due(data: PointData) -> None:
    assert sorted(one[2] for one in latency_by_load_step(data, "created", "sent", 0.95)) == [10, 16]  # four are too few


def test_too_few_steps_are_told(data: PointData) -> None:
    figure = knee_of(data, "created", since="sent")
    assert (figure.value, figure.n, figure.of) == (None, 2, 3)
    assert "three are needed" in figure.note


@pytest.mark.parametrize("stepped", [True, False])
def test_a_load_in_steps_has_a_knee_for_each_stage_and_any_other_load_has_none(stepped: bool, tmp_path: Path) -> None:
    folder = write_point(tmp_path / "points" / "000", World(count=30, rate=2.0))
    if stepped:
        header, *rest = files.read_json_lines(folder / "plan.jsonl")
        header["arrival"] = {"type": "steps", "steps": [{"rate": 2.0, "duration": 5.0}] * 3}
        files.write_json_lines(folder / "plan.jsonl", iter([header, *rest]), "plan/1")
    write_timeline(str(tmp_path))
    write_kpis(str(tmp_path), [str(ROOT / "roles" / "workload_scale" / "files" / "kpis.yml")])
    found = {one["name"]: one for one in files.read_json(folder / "kpis.json")["kpis"] if "knee" in one["name"]}
    assert bool(found) is stepped
    if stepped:
        assert {"knee", "knee_created", "knee_pods_scheduled", "knee_succeeded"} <= set(found)
        assert found["knee"]["headline"] and found["knee"]["of"] == 3
        assert [one["n"] for one in found["knee"]["labels"]["curve"]] == [10, 10, 10]


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 50)), min_size=1, max_size=8))
def test_a_falling_fit_never_rises_and_keeps_the_mean(steps):
    shares, weights = [share for share, _weight in steps], [weight for _share, weight in steps]
    fit = knee_and_capacity_functions.fit_non_increasing_shares(shares, weights)
    assert len(fit) == len(shares) and all(a >= b - 1e-9 for a, b in zip(fit, fit[1:], strict=False))
    mean = sum(share * weight for share, weight in steps)
    assert sum(share * weight for share, weight in zip(fit, weights, strict=True)) == pytest.approx(mean, abs=1e-6)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.floats(0.01, 1))
def test_a_crossing_lies_between_the_steps_around_it(shares, share):
    fit = sorted(shares, reverse=True)
    rates = [float(2**place) for place in range(len(fit))]
    value, low, high = knee_and_capacity_functions.rate_where_share_is_crossed(rates, fit, share)
    assert low <= value <= high or value == float("inf")
