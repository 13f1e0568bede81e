# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles need of a cluster, rendered with the settings of each point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import cluster_requirements, setting_templates
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.cluster_requirements import ExaminedRun

pytestmark = pytest.mark.usefixtures("ansible_plugins")
COMMON = {
    "permissions": [
        {"phases": ["test"], "resources": ["pods"], "verbs": ["get"]},
        {"phases": ["test"], "resources": ["pods/log"], "verbs": ["get"], "when": "logs"},
    ],
    "namespaces": ["seatrial"],
}
OWN = {
    "kinds": "{{ kinds }}",
    "namespaces": ["{{ ns }}", "seatrial"],
    "nodes": [{"count": "{{ nodes }}"}],
    "installs": "the operator",
    "plan": {"workloads": "{{ count }}", "arrival": {"type": "trace", "src": "t.csv"}},
}


def run(*points: dict[str, Any], **settings: Any) -> ExaminedRun:
    values = {"logs": False, "kinds": ["v1/Pod"], "ns": "a", "nodes": 2, "count": 3, **settings}
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    named = {f"{number:03d}": {**values, **one} for number, one in enumerate(points or ({},), start=1)}
    return ExaminedRun(values, named, render, "doctor", ["big"])


def needs(tmp_path: Path, one: ExaminedRun, phases: list[str]) -> dict[str, Any]:
    (tmp_path / "t.csv").write_text("0\n")
    return cluster_requirements.requirements_to_check(
        [COMMON, OWN], one, phases, lambda _kind, name: str(tmp_path / name), "fine_tuning"
    )


@pytest.mark.parametrize(
    ("environment", "needed"), [({}, False), ({"NCCL_DEBUG": "INFO"}, False), ({"MY_TOKEN": "kanary-1"}, True)]
)
def test_fine_tuning_needs_secrets_only_if_it_creates_one(environment: dict[str, str], needed: bool) -> None:
    loader = DataLoader()
    given = {"fine_tuning_environment": environment}
    templar = Templar(loader=loader, variables=given)
    examined = ExaminedRun.resolve("fine_tuning", given, given, loader, templar)
    documents = cluster_requirements.read_doctor_files("fine_tuning", True)
    needs = cluster_requirements.requirements_to_check(
        documents, examined, ["prepare"], lambda _kind, name: name, "fine_tuning"
    )
    secrets = [entry for entry in needs["permissions"] if entry["resources"] == ["secrets"]]
    assert bool(secrets) is needed
    assert "kanary" not in str(needs) + str(examined.settings) + str(examined.points)


def test_nodes_count_until_the_phase_is_over_that_creates_them(tmp_path: Path) -> None:
    later = {**OWN, "nodes": [{"count": "{{ nodes }}"}, {"count": 5, "phase": "prepare"}]}
    (tmp_path / "t.csv").write_text("0\n")

    def counts(*phases: str) -> list[int]:
        found = cluster_requirements.requirements_to_check(
            [COMMON, later], run(), phases, lambda _kind, name: str(tmp_path / name), "fine_tuning"
        )
        return [one["count"] for one in found["nodes"]]

    assert counts("cluster", "prepare", "test") == [2, 5]
    assert counts("prepare", "test") == [5]
    assert counts("test") == []


def test_entries_whose_condition_does_not_hold_are_left_out(tmp_path: Path) -> None:
    assert [one["resources"] for one in needs(tmp_path, run(), ["test"])["permissions"]] == [["pods"]]
    found = needs(tmp_path, run(logs=True), ["test"])["permissions"]
    assert [one["resources"] for one in found] == [["pods"], ["pods/log"]]
    assert "when" not in found[1]


def test_the_needs_of_all_points_are_joined_without_doubles(tmp_path: Path) -> None:
    found = needs(tmp_path, run({"ns": "a"}, {"ns": "b", "kinds": ["v1/Pod", "batch/v1/Job"]}), ["test"])
    assert found["namespaces"] == ["seatrial", "a", "b"]
    assert found["kinds"] == ["v1/Pod", "batch/v1/Job"]


def test_each_point_has_its_plan_with_the_content_of_its_trace(tmp_path: Path) -> None:
    found = needs(tmp_path, run({"count": 1}, {"count": 2}), ["test"])
    assert {name: plan["workloads"] for name, plan in found["points"].items()} == {"001": 1, "002": 2}
    assert found["points"]["001"]["arrival"]["content"] == "0\n"


def test_what_phases_bring_counts_only_if_they_run(tmp_path: Path) -> None:
    found = needs(tmp_path, run(cluster_exclusive=True), ["cluster", "prepare"])
    assert (found["nodes"], found["installs"]) == ([{"count": 2}], "the operator")
    assert (found["heavy"], found["exclusive"], found["run_id"]) == (["big"], True, "doctor")
    found = needs(tmp_path, run(), ["test"])
    assert (found["nodes"], found["installs"]) == ([], "")


def test_a_project_without_needs_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"project 'fine_tunin' has no .*did you mean 'fine_tuning'"):
        cluster_requirements.read_doctor_files("fine_tunin", required=True)
    assert (
        len(cluster_requirements.read_doctor_files("fine_tunin", required=False))
        == len(cluster_requirements.read_doctor_files("fine_tuning", True)) - 1
    )


def test_a_project_is_resolved_as_a_run_would_resolve_it() -> None:
    variables = {
        "playbook_dir": "/",
        "preset": "big",
        "fine_tuning_presets": {"big": {"heavy": True, "fine_tuning_count": 5}},
    }
    one = ExaminedRun.resolve("fine_tuning", variables, {}, DataLoader(), Templar(loader=DataLoader()))
    assert (one.settings["fine_tuning_count"], one.heavy, list(one.points)) == (5, ["big"], ["001"])


def test_the_settings_of_a_run_are_read_from_its_directory(tmp_path: Path) -> None:
    (tmp_path / "settings.yml").write_text("ns: x-{{ run_point }}\n")
    for name, status in (("001", "planned"), ("002", "passed"), ("003", "skipped")):
        (tmp_path / "points" / name).mkdir(parents=True)
        (tmp_path / "points" / name / "settings.yml").write_text("ns: y\n")
        (tmp_path / "points" / name / "point.yml").write_text(f"status: {status}\n")
    one = ExaminedRun.read(tmp_path, {"run_id": "t1", "ns": "not this one"}, Templar(loader=DataLoader()))
    assert one.render(one.settings["ns"], one.settings) == ("x-001", False)
    assert (one.points, one.run_id) == ({"001": {"ns": "y"}}, "t1"), "only a point to be measured needs anything"


def test_settings_whose_values_are_kinds_are_named_with_the_kinds_of_all_values() -> None:
    own = {"workloads": ["{{ kind }}"], "alternatives": {"kind": "{{ ['job', 'rayjob'] }}"}}
    points = run({"kind": "job"}, {"kind": "job"})
    found = cluster_requirements.requirements_to_check([own], points, ["test"], lambda _kind, name: name, "fine_tuning")
    kinds = {"job": "batch/v1/Job", "rayjob": "ray.io/v1/RayJob"}
    (entry,) = found["alternatives"]
    assert (entry["setting"], entry["used"], entry["kinds"]) == ("kind", ["job"], kinds)
    assert entry["required"]["job"] == ["batch/v1/Job"]
    assert {"ray.io/v1/RayJob", "ray.io/v1/RayCluster"} <= set(entry["required"]["rayjob"])
    assert "KubeRay" in entry["install"]["rayjob"]


def test_kinds_and_rights_follow_from_the_kinds_of_workloads_of_each_point() -> None:
    own = {"workloads": ["{{ kind }}"], "watches": "{{ ['Workload'] if queued else [] }}"}
    common = {"permissions": [{"phases": ["test"], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]}
    points = run({"kind": "Job", "queued": False}, {"kind": "RayJob", "queued": True})
    found = cluster_requirements.requirements_to_check(
        [common, own], points, ["test"], lambda _kind, name: name, "fine_tuning"
    )
    assert found["kinds"] == [
        "batch/v1/Job",
        "ray.io/v1/RayJob",
        "kueue.x-k8s.io/v1beta2/Workload or kueue.x-k8s.io/v1beta1/Workload",
        "ray.io/v1/RayCluster",
    ]
    rights = [(rule["resources"], rule["verbs"]) for rule in found["permissions"] if rule["phases"] == ["test"]]
    assert rights == [
        (["pods"], ["get", "list", "watch"]),
        (["jobs"], ["create", "get", "list", "watch"]),
        (["rayjobs"], ["create", "get", "list", "watch"]),
        (["workloads"], ["get", "list", "watch"]),
        (["rayclusters"], ["get", "list", "watch"]),
    ]
