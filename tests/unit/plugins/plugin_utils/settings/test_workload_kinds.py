# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of workloads as they are read from their folders, and a new one that is nothing but a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible_collections.perfscale.seatrial.plugins.lookup import workload_kind
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import template_renderer
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.rendered_workload_templates import (
    WorkloadTemplate,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import read_workload_files, workload_kinds

#: A kind of a user's, as docs/kinds.md shows it.
SIMULATION = {
    "api_version": ["example.com/v1", "example.com/v1beta1"],
    "kind": "Simulation",
    "resource": "simulations",
    "parts": ["Pod", {"use": "Workload", "optional": True}],
    "operator": "the operator of simulations",
    "permissions": [{"phases": ["test"], "group": "example.com", "resources": ["meshes"], "verbs": ["get"]}],
    "stages": [
        {"name": "created", "field": "metadata.creationTimestamp", "writer": "api-server"},
        {"name": "succeeded", "condition": "Complete", "writer": "controller", "ends": "succeeded"},
    ],
}
TEMPLATE = """apiVersion: example.com/v1
kind: Simulation
metadata: {{ metadata | to_json }}
spec:
  replicas: {{ pods }}
  template:
    {{ pod("simulation", "Never") | indent(4) }}
"""
POD = """{% macro pod(container, restart_policy="", starts=true) -%}
metadata: {labels: {{ labels | to_json }}}
spec: {restartPolicy: {{ restart_policy }}, containers: [{name: {{ container }}, image: {{ image }}}]}
{%- endmacro %}
"""


def rendered(template: dict[str, Any]) -> dict[str, Any]:
    """The first object of a template."""
    made = template_renderer.render_template_for_indices(WorkloadTemplate(**template), "r", "001", "ns", [0])
    return made.workload.manifest(0)


def nothing(_where: str, name: str) -> str:
    return name


@pytest.fixture
def role(tmp_path: Path) -> Path:
    """The folder of a role that has a kind of its own."""
    folder = tmp_path / "roles" / "my_test" / "files" / "kinds" / "simulation"
    folder.mkdir(parents=True)
    (folder / "kind.yml").write_text(yaml.safe_dump(SIMULATION), encoding="utf-8")
    (folder / "template.yaml.j2").write_text(TEMPLATE, encoding="utf-8")
    return tmp_path / "roles" / "my_test"


@pytest.fixture
def places(role: Path) -> list[Path]:
    return workload_kinds.kind_folders_of_task({"role_path": str(role)}, str)


@pytest.mark.parametrize("name", workload_kinds.all_kind_names())
def test_each_kind_has_a_resource_and_parts_that_exist(name: str) -> None:
    kind = workload_kinds.load_kind_by_name_or_path(name)
    assert kind.resource
    compiled = stage_definitions.compile_stages_of_kinds(
        workload_kinds.resolve_stage_definitions(kind.watched(), nothing)
    )
    assert compiled[0].kind == kind.kind
    if (kind.folder / workload_kinds.TEMPLATE).exists():
        assert f"kind: {kind.kind}\n" in kind.template()
        assert compiled[0].ends, "a load waits for its end"


def test_a_kind_that_is_only_a_folder_has_all_that_a_load_needs(places: list[Path]) -> None:
    parameters = {"metadata": {"labels": {"a": "b"}}, "pods": 3, "image": "i"}
    templates = [{"kind": "Simulation", "content": POD, "parameters": parameters}]
    found = read_workload_files.submit_options_with_content(
        {"stages": ["Simulation", "Pod"], "templates": templates}, nothing, places
    )
    kinds = stage_definitions.compile_stages_of_kinds(found["stages"])
    assert [kind.kind for kind in kinds] == ["Simulation", "Pod"] and kinds[0].ends == {1: "succeeded"}
    assert found["stages"][0] == {key: SIMULATION[key] for key in ("api_version", "kind", "stages")}
    template = WorkloadTemplate(**found["templates"][0])
    manifest = rendered(found["templates"][0])
    assert (template.name, manifest["kind"], manifest["spec"]["replicas"]) == ("simulation", "Simulation", 3)
    assert manifest["metadata"]["labels"]["a"] == "b" and "perfscale.seatrial/index" in manifest["metadata"]["labels"]
    assert manifest["spec"]["template"]["spec"]["containers"] == [{"name": "simulation", "image": "i"}]


def test_its_rights_follow_from_the_folder(places: list[Path]) -> None:
    own = {"group": "example.com", "resources": ["simulations"]}
    assert workload_kinds.permissions_required_by_load(["Simulation"], [], places) == [
        {"phases": ["test"], **own, "verbs": ["create", "get", "list", "watch"]},
        {"phases": ["test", "cleanup"], **own, "verbs": ["list", "delete", "deletecollection"]},
        *SIMULATION["permissions"],  # type: ignore[misc]  # a list
        {"phases": ["test"], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"phases": ["cleanup"], "resources": ["pods"], "verbs": ["list", "delete", "deletecollection"]},
    ]
    # What is only watched is not deleted; the resource of a definition that stands in the settings is not known.
    entries = ["Job", {"use": "Pod", "select": "owners"}, {"kind": "X"}, "own.yml"]
    watched = workload_kinds.permissions_required_by_load([], entries, places)
    assert [(rule["resources"], rule["verbs"]) for rule in watched] == [
        (["jobs"], ["get", "list", "watch"]),
        (["pods"], ["get", "list", "watch"]),
    ]


def test_roles_read_it_by_name_or_by_the_path_of_its_folder(role: Path) -> None:
    folder = role / "files" / "kinds" / "simulation"
    for name, variables in (("simulation", {"ansible_parent_role_paths": [str(role)]}), (str(folder), {})):
        (kind,) = workload_kind.LookupModule().run([name], variables)
        assert (kind["kind"], kind["group"], kind["resource"]) == ("Simulation", "example.com", "simulations")
        assert kind["references"] == ["example.com/v1/Simulation", "example.com/v1beta1/Simulation"]
        assert kind["stages"] == ["Simulation", "Pod", {"use": "Workload", "optional": True}]
        assert kind["install"] == "the operator of simulations"


def test_a_kind_of_the_role_precedes_ours_of_the_same_name(role: Path, places: list[Path]) -> None:
    own = role / "files" / "kinds" / "job"
    own.mkdir()
    (own / "kind.yml").write_text("{api_version: batch/v1, kind: Job, resource: jobs, parts: [], stages: []}")
    assert workload_kinds.load_kind_by_name_or_path("Job", places).folder == own
    # In a task of role workload, where the kinds of the project's role are still its own.
    task = {"ansible_parent_role_paths": [str(role)], "role_path": str(workload_kinds.SHIPPED.parents[1])}
    found = workload_kinds.kind_folders_of_task(task, lambda value: value)
    assert workload_kinds.load_kind_by_name_or_path("Job", found).folder == own
    assert workload_kinds.load_kind_by_name_or_path("Job").folder == workload_kinds.SHIPPED / "job"


def test_a_component_in_its_folder_is_what_a_rehearsal_cluster_adds(role: Path, places: list[Path]) -> None:
    folder = role / "files" / "kinds" / "simulation"
    known = Path("/none")
    assert workload_kinds.replace_kinds_with_component_folders(["simulation", "kueue"], known, places) == [
        "simulation",
        "kueue",
    ]
    (folder / "component.yml").write_text("about: x\n")
    assert workload_kinds.replace_kinds_with_component_folders(["Simulation", "kueue"], known, places) == [
        str(folder),
        "kueue",
    ]
    (kind,) = workload_kind.LookupModule().run(["Simulation"], {"role_path": str(role)})
    assert kind["install"].endswith("""on a rehearsal cluster: -e '{"rehearsal_components": ["simulation"]}'""")
    assert workload_kinds.components_of_load(["Simulation", "TrainJob"], [], places) == [
        str(folder),
        "trainer",
        "jobset",
    ]


def test_a_wrapper_contains_an_object_of_another_kind() -> None:
    values = {"metadata": {"labels": {"queue": "q"}}, "suspend": True, "pods": 2, "backoff_limit": 0, "image": "i"}

    def wrapped(**entry: str) -> dict[str, Any]:
        templates = [{"kind": "AppWrapper", "content": POD, "parameters": values, **entry}]
        manifest = rendered(read_workload_files.templates_with_content(templates, nothing)[0])
        assert manifest["metadata"]["labels"]["queue"] == "q" and manifest["spec"]["suspend"] is True
        found = dict(manifest["spec"]["components"][0]["template"])
        assert found["metadata"]["name"] == manifest["metadata"]["name"], "its controller gives it none"
        return found

    job = wrapped()
    assert (job["kind"], "suspend" in job["spec"]) == ("Job", False)
    assert "queue" not in job["metadata"]["labels"] and job["metadata"]["labels"]["perfscale.seatrial/index"] == "0"
    assert wrapped(wraps="JobSet")["kind"] == "JobSet"
    with pytest.raises(InputError, match="kind Job does not wrap another object, so it cannot wrap Pod"):
        read_workload_files.templates_with_content([{"kind": "Job", "wraps": "Pod"}], nothing)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parts": "Pod"}, r"'parts' must be list\[Any\], got 'Pod'"),
        ({"endless": "yes"}, "'endless' must be bool"),
    ],
)
def test_a_wrong_value_is_refused_with_its_file(role: Path, changes: dict[str, Any], words: str) -> None:
    path = role / "files" / "kinds" / "simulation" / "kind.yml"
    path.write_text(yaml.safe_dump({**SIMULATION, **changes}))
    with pytest.raises(DataError, match=f"{path}: {words}"):
        workload_kinds.read_kind_file(path)


def test_what_a_kind_lacks_is_an_error_where_it_is_needed(role: Path, places: list[Path]) -> None:
    folder = role / "files" / "kinds" / "simulation"
    (folder / "template.yaml.j2").unlink()
    with pytest.raises(InputError, match="kind Simulation has no template: .* does not exist"):
        read_workload_files.templates_with_content([{"kind": "Simulation"}], nothing, places)
    (folder / "kind.yml").write_text("{api_version: v1, kind: Simulation, stages: []}")
    with pytest.raises(DataError, match="resource is missing"):
        workload_kinds.permissions_required_by_load([], ["Simulation"], places)


def test_an_unknown_kind_is_refused_with_the_nearest(places: list[Path]) -> None:
    with pytest.raises(
        InputError, match=r"unknown kind of workload 'Simulations' \(did you mean 'Simulation'\?\); there are "
    ):
        workload_kinds.load_kind_by_name_or_path("Simulations", places)
    with pytest.raises(AnsibleLookupError, match="did you mean 'PyTorchJob'"):
        workload_kind.LookupModule().run(["PyTorchJobs"])
    with pytest.raises(InputError, match="unknown kind of workload '/none/x'"):
        workload_kinds.load_kind_by_name_or_path("/none/x")
