"""The plan: what is sent when, and that one directory holds one load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import workload_plan
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.arrival_times import arrivals_from_options
from hypothesis import given, settings
from hypothesis import strategies as st

TEMPLATES = [
    {"name": "a", "kind": "Job", "weight": 1, "parameters": {"gpus": 1}, "sha256": "1"},
    {"name": "b", "kind": "Job", "weight": 3, "parameters": {}, "sha256": "2"},
]


def make(count: int = 8, arrival: dict[str, Any] | None = None, **changes: Any) -> workload_plan.WorkloadPlan:
    values = {
        "run": "test-run",
        "point": "001",
        "arrivals": arrivals_from_options(arrival or {"rate": 4.0}, count, 7),
        "in_flight": 2,
        "seed": 7,
        "templates": TEMPLATES,
    }
    given = {**values, **changes}
    names, weights = ([one[key] for one in given["templates"]] for key in ("name", "weight"))
    return workload_plan.plan_workloads(
        **given, chosen=workload_plan.assign_templates(given["arrivals"], names, weights)
    )


@settings(deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(0, 500))
def test_every_stretch_of_a_load_has_the_shares_of_its_templates(weights: list[int], count: int) -> None:
    chosen = workload_plan.template_numbers_by_weight(weights, count)
    assert len(chosen) == count
    whole = sum(weights)
    for index, weight in enumerate(weights):
        due = count * weight / whole
        # A divisor method strays from the exact share by less than the number of templates.
        assert abs(chosen.count(index) - due) < len(weights)
    if count and count % whole == 0:
        assert [chosen.count(index) for index in range(len(weights))] == [w * count // whole for w in weights]


def test_names_differ_between_runs_points_and_indices() -> None:
    plans = [make(run=run, point=point) for run in ("test-run", "test-two") for point in ("001", "002")]
    names = [one.name for each in plans for one in each.workloads]
    assert len(set(names)) == len(names) == 32 and names[0] == "test-run-001-0"


def test_a_closed_loop_has_no_offsets() -> None:
    assert {one.offset for one in make(arrival={"type": "closed"}).workloads} == {None}


def test_a_trace_may_name_templates_and_the_others_are_mixed_by_weight() -> None:
    found = make(0, {"type": "trace", "content": "offset,template\n0,a\n1,\n2,\n3,\n4,a\n5,\n"})
    assert [one.template for one in found.workloads] == ["a", "b", "a", "b", "a", "b"]
    with pytest.raises(InputError, match="the trace names template 'c', which is not given"):
        make(0, {"type": "trace", "content": "offset,template\n0,c\n"})


def test_a_seed_that_nobody_gave_is_drawn_once(tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    assert (
        workload_plan.resolve_load_seed(path, 5, True) == 5
        and workload_plan.resolve_load_seed(path, None, False) is None
    )
    drawn = workload_plan.resolve_load_seed(path, None, True)
    assert drawn is not None
    workload_plan.write_whole_plan(path, make(seed=drawn))
    assert workload_plan.resolve_load_seed(path, None, True) == drawn


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    assert workload_plan.write_plan_or_compare(path, make()) is False
    assert workload_plan.read_complete_plan(path) == make()
    before = path.read_bytes()
    assert workload_plan.write_plan_or_compare(path, make()) is True
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"count": 9}, "its count is 8, now it would be 9"),
        ({"run": "test-two"}, "its run is test-run"),
        ({"arrival": {"type": "closed"}}, "its arrival is"),
        ({"seed": None}, "its seed is 7, now it would be None"),
        ({"templates": TEMPLATES[:1]}, "its templates are a, b, now they would be a"),
        (
            {"templates": [{**TEMPLATES[0], "parameters": {"gpus": 2}, "sha256": "3"}, TEMPLATES[1]]},
            "template 'a' has parameters {'gpus': 1}, now it would be {'gpus': 2}",
        ),
        ({"templates": [TEMPLATES[0], {**TEMPLATES[1], "sha256": "3"}]}, "template 'b' has another text now"),
    ],
)
def test_a_directory_with_another_load_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = tmp_path / "plan.jsonl"
    workload_plan.write_plan_or_compare(path, make())
    with pytest.raises(InputError) as caught:
        workload_plan.write_plan_or_compare(path, make(**changes))
    assert words in str(caught.value) and str(path) in str(caught.value)


def test_more_requests_in_flight_do_not_make_another_load(tmp_path: Path) -> None:
    workload_plan.write_plan_or_compare(tmp_path / "plan.jsonl", make())
    assert workload_plan.write_plan_or_compare(tmp_path / "plan.jsonl", make(in_flight=9)) is True


def test_a_plan_that_is_missing_cut_or_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    with pytest.raises(DataError, match="no such file"):
        workload_plan.read_complete_plan(path)
    workload_plan.write_whole_plan(path, make())
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(DataError, match="its header has 8 workloads, the file contains 7"):
        workload_plan.read_complete_plan(path)
    path.write_bytes(json.dumps({**json.loads(lines[0]), "schema": "plan/9"}).encode() + b"\n")
    with pytest.raises(DataError, match="not a plan of schema plan/1"):
        workload_plan.read_complete_plan(path)
