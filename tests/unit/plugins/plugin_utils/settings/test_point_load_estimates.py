"""The nodes on which a load is estimated before the cluster is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import point_loads, setting_templates

SETTINGS = {
    "cluster_provider": "rehearsal",
    "fake_gpu_nodes": 2,
    "fake_gpu_gpus_per_node": 8,
    "fake_gpu_cpu": 96,
    "fake_gpu_node_memory_gib": 1024,
}


def test_the_nodes_of_a_simulated_cluster_are_known_before_it_is_there():
    found = point_loads.simulated_nodes_added_by_run(
        {**SETTINGS, "rehearsal_nodes_real": 0}, {"pool": "a"}, Path("roles/x")
    )
    assert [one["metadata"]["labels"] for one in found] == [{"pool": "a"}] * 2


@pytest.mark.parametrize(
    "more",
    [
        {"rehearsal_nodes_real": 1},
        {"node_scaling_count": 3},
        {"rehearsal_components": ["kueue", "node"]},
        {"rehearsal_components": ["python-image"]},
    ],
)
def test_only_the_cluster_can_tell_what_its_real_nodes_hold(more):
    assert point_loads.simulated_nodes_added_by_run({**SETTINGS, **more}, {}, Path("roles/x")) is None


def test_a_component_of_a_user_may_start_a_real_node_too(tmp_path):
    kind = tmp_path / "files" / "kinds" / "simulation"
    kind.mkdir(parents=True)
    (kind / "kind.yml").write_text("about: x\nkind: Simulation\napi_version: example.com/v1\nstages: {}\n")
    (kind / "component.yml").write_text("about: x\nversion: '1'\nrequires: [node]\n")
    for name in (str(kind), "simulation"):
        settings = {**SETTINGS, "rehearsal_components": [name]}
        assert point_loads.simulated_nodes_added_by_run(settings, {}, tmp_path) is None


@pytest.mark.parametrize(
    ("points", "components"),
    [
        ([("trainjob", "")], ["trainer", "jobset"]),
        ([("pytorchjob", "")], ["training-operator"]),
        ([("job", "")], []),
        ([("job", "queue"), ("jobset", ""), ("job", "")], ["kueue", "jobset"]),
    ],
)
def test_the_kinds_of_all_points_say_which_components_a_rehearsal_cluster_has(points, components):
    role = Path(__file__).parents[5] / "roles" / "fine_tuning"
    render = setting_templates.create_template_renderer(Templar(DataLoader()), {})
    trees = [{"fine_tuning_api": api, "fine_tuning_queue": queue} for api, queue in points]
    assert point_loads.components_of_kinds(role, trees, render) == components


def test_a_project_without_a_load_needs_no_component(tmp_path):
    assert point_loads.components_of_kinds(tmp_path, [{}], lambda *_: pytest.fail("nothing to render")) == []
