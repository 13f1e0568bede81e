"""Stage definitions are converted to the stages of a timeline."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.stage_order_and_reduction import (
    MOST_STAGES,
    stage_with_ancestors,
    stages_between,
    stages_from_definitions,
    timeline_stage_name,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds
from run_directory import STAGES

OWN = {"PyTorchJob"}


def stages(kinds=STAGES, own=OWN, simulated=("node",)):
    return {stage.name: stage for stage in stages_from_definitions(kinds, own, simulated)}


def test_each_stage_stands_after_those_that_it_waits_for():
    placed: set[str] = set()
    found = stages()
    for stage in found.values():
        assert placed >= {need for need in stage.needs if need in found}, stage.name
        placed.add(stage.name)


def test_a_stage_of_pods_becomes_one_for_the_first_and_one_for_all():
    found = stages()
    assert {"pods_running_first", "pods_running", "pods_scheduled_first", "pods_scheduled"} <= found.keys()
    assert found["pods_scheduled_first"].needs == ("pods_created_first",)
    assert found["pods_scheduled"].needs == ("pods_created",)


def test_what_a_pod_waits_for_at_least_is_its_workload():
    assert stages()["pods_created"].needs == ("created",)


def test_only_stages_of_the_workload_itself_end_it():
    ends = {name: stage.ends for name, stage in stages().items() if stage.ends}
    assert ends == {"succeeded": "succeeded", "failed": "failed"}


def test_a_pod_that_is_the_workload_ends_itself():
    found = stages({"Pod": STAGES["Pod"]}, {"Pod"})
    assert found["succeeded"].ends == "succeeded"
    assert "pods_running" not in found


def test_a_writer_that_a_stage_waits_for_stays_named():
    assert "node" in stages()["succeeded"].needs


def test_simulated_is_what_a_simulated_writer_makes_and_what_waits_for_it_by_name():
    found = stages()
    assert found["pods_running"].simulated
    assert found["running"].simulated, "the controller writes it, and waits for whatever the node does"
    assert not found["accepted"].simulated, "the controller is no simulated writer for that"


def test_a_claim_is_sent_before_its_workload_and_does_not_wait_for_it():
    claim = workload_kinds.load_kind_by_name_or_path("PersistentVolumeClaim").definition
    found = stages({**STAGES, "PersistentVolumeClaim": claim})
    assert found["persistentvolumeclaim_created"].needs == ()
    assert found["pods_created"].needs == ("created",), "who says nothing waits for the workload"


def test_a_simulated_writer_that_is_not_watched_shows_in_what_waits_for_it():
    found = stages({"PyTorchJob": STAGES["PyTorchJob"]})
    assert found["succeeded"].simulated
    assert not found["created"].simulated


def test_a_need_that_another_need_implies_is_dropped():
    kinds = {
        "Job": {
            "stages": [
                {"name": "created", "writer": "api-server"},
                {"name": "started", "writer": "controller", "depends_on": ["created"]},
                {"name": "done", "writer": "controller", "depends_on": ["created", "started"], "ends": "succeeded"},
            ]
        }
    }
    assert stages(kinds, {"Job"})["done"].needs == ("started",)


def test_a_cycle_loses_no_stage():
    kinds = {
        "Job": {
            "stages": [{"name": "a", "writer": "x", "depends_on": "b"}, {"name": "b", "writer": "x", "depends_on": "a"}]
        }
    }
    assert set(stages(kinds, {"Job"})) == {"a", "b"}


def test_a_need_that_nobody_defines_is_dropped():
    kinds = {"Job": {"stages": [{"name": "a", "writer": "x", "depends_on": ["nothing", "Other.b"]}]}}
    assert stages(kinds, {"Job"})["a"].needs == ()


@pytest.mark.parametrize(
    ("start", "end", "parts"),
    [
        ("a", "c", {"b", "c", "node"}),
        ("b", "c", {"c"}),
        ("sent", "b", {"a", "b", "node"}),
        ("c", "c", set()),
    ],
)
def test_between_names_who_decides_how_long_it_takes(start, end, parts):
    needs = {"a": (), "b": ("a", "node"), "c": ("b",)}
    assert stages_between(start, end, needs) == parts


def test_ancestors_holds_the_stage_itself():
    assert stage_with_ancestors("b", {"a": (), "b": ("a", "node")}) == {"a", "b"}


@pytest.mark.parametrize(
    ("kind", "defined", "which", "name"),
    [
        ("Pod", "running", "all", "pods_running"),
        ("Pod", "running", "first", "pods_running_first"),
        ("Workload", "admitted", "all", "workload_admitted"),
        ("PyTorchJob", "running", "own", "running"),
    ],
)
def test_names_in_a_timeline_tell_whose_stage_it_is(kind, defined, which, name):
    assert timeline_stage_name(kind, defined, which, OWN) == name


def test_a_stranger_can_not_define_any_number_of_stages():
    body = {"stages": [{"name": f"s{number}"} for number in range(MOST_STAGES + 1)]}
    with pytest.raises(DataError, match="501 stages"):
        stages({"PyTorchJob": body})
