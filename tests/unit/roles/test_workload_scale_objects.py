# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects and stages of role workload_scale for its settings, made from the role's variables as Ansible does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import custom_resources
import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    component_manifests,
    component_spec,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import (
    rendered_workload_templates,
    template_renderer,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import read_workload_files, workload_kinds

pytestmark = pytest.mark.usefixtures("ansible_plugins")
ROLE = Path(__file__).parents[3] / "roles" / "workload_scale"
LOADER = DataLoader()
#: The kinds that a load can create.
KINDS = [
    kind
    for kind in map(workload_kinds.load_kind_by_name_or_path, workload_kinds.all_kind_names())
    if (kind.folder / workload_kinds.TEMPLATE).exists()
]
#: Settings that change what a template makes.
VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "distributed": {"workload_scale_type": "distributed", "workload_scale_workers": 3},
    "kueue": {"workload_scale_through": "kueue"},
    "everything": {
        "workload_scale_type": "distributed",
        "workload_scale_pvc": True,
        "workload_scale_gpus": 2,
        "workload_scale_command": ["sh", "-c", "echo 'one: two' {}"],
        "workload_scale_node_selector": {"zone": "a"},
        "workload_scale_tolerations": [{"operator": "Exists"}],
        "workload_scale_scheduler": "other",
    },
}


def variables(settings: dict[str, Any], *names: str) -> list[Any]:
    """Return the values of variables of the role for these settings of a point."""
    known: dict[str, Any] = {}
    for folder in ("defaults", "vars"):
        known.update(LOADER.load_from_file(str(ROLE / folder / "main.yml"), trusted_as_template=True))
    cluster = {"kubeconfig": "/none", "simulated": True, "simulated_writers": []}
    known.update(run_id="t1", run_point="001", role_path=str(ROLE), cluster_acquired={"sutest": cluster})
    templar = Templar(loader=LOADER, variables={**known, **settings})
    return [templar.template(known[name]) for name in names]


def rendered(settings: dict[str, Any]) -> rendered_workload_templates.RenderedTemplate:
    """Return the objects of the first two workloads."""
    (entries,) = variables(settings, "__workload_scale_templates")
    (template,) = read_workload_files.templates_with_content([dict(entries[0])], lambda _folder, name: name)
    return template_renderer.render_template_for_indices(
        rendered_workload_templates.WorkloadTemplate(**template), "t1", "001", "ns", [0, 1]
    )


def workload(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the object of the first workload."""
    return rendered(settings).workload.manifest(0)


@pytest.mark.parametrize(
    ("settings", "kind", "stages"),
    [
        ({}, "Job", ["Job", "Pod"]),
        ({"workload_scale_type": "distributed"}, "TrainJob",
         ["TrainJob", {"use": "JobSet", "select": "owners"}, {"use": "Job", "select": "owners"}, "Pod"]),
        ({"workload_scale_type": "distributed", "workload_scale_kind": "PyTorchJob"}, "PyTorchJob",
         ["PyTorchJob", "Pod"]),
        ({"workload_scale_type": "interactive"}, "StatefulSet", ["StatefulSet", "Pod"]),
        ({"workload_scale_kind": "Notebook"}, "Notebook", ["Notebook", "StatefulSet", "Pod"]),
        ({"workload_scale_kind": "JobSet"}, "JobSet", ["JobSet", {"use": "Job", "select": "owners"}, "Pod"]),
        ({"workload_scale_through": "kueue", "workload_scale_pvc": True}, "Job",
         ["Job", "Workload", "PersistentVolumeClaim", "Pod"]),
        ({"workload_scale_complete_at": "running"}, "Job", [{"use": "Job", "ends_at": "running"}, "Pod"]),
        ({"workload_scale_through": "runai", "workload_scale_type": "distributed"}, "DistributedWorkload",
         ["DistributedWorkload", {"use": "PyTorchJob", "select": "owners", "optional": True},
          {"use": "RunaiPodGroup", "optional": True}, {"use": "Pod", "select": "owners"}]),
        ({"workload_scale_workload_template": "/mine.yml"}, None, ["Job", {"use": "Pod", "select": "owners"}]),
    ],
)  # fmt: skip
def test_the_kind_and_its_stages_follow_from_the_settings(
    settings: dict[str, Any], kind: str | None, stages: list[Any]
) -> None:
    assert variables(settings, "__workload_scale_stages") == [stages]
    if kind:
        assert workload(settings)["kind"] == kind


def test_workloads_of_a_project_have_its_namespace_labels_and_queue() -> None:
    project = [{"name": "team", "weight": 1, "queue": "fast"}]
    found = workload({"workload_scale_projects": project, "workload_scale_through": "kueue"})
    assert found["metadata"]["namespace"] == "workload-scale-t1-team" and found["spec"]["suspend"] is True
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "fast"
    found = workload({"workload_scale_projects": project})
    assert found["metadata"]["labels"]["perfscale.seatrial/project"] == "team"
    assert "kueue.x-k8s.io/queue-name" not in found["metadata"]["labels"] and "suspend" not in found["spec"]
    found = workload({"workload_scale_projects": project, "workload_scale_through": "runai"})
    assert (found["metadata"]["namespace"], found["metadata"]["labels"]["project"]) == ("runai-team", "team")
    assert workload({"workload_scale_projects": project, "workload_scale_kind": "Pod"})["metadata"]["namespace"]


def test_a_distributed_workload_has_one_pod_and_its_workers() -> None:
    settings = {"workload_scale_type": "distributed", "workload_scale_workers": 3}
    assert workload(settings)["spec"]["trainer"]["numNodes"] == 4
    replicas = workload({**settings, "workload_scale_kind": "PyTorchJob"})["spec"]["pytorchReplicaSpecs"]
    assert (replicas["Master"]["replicas"], replicas["Worker"]["replicas"]) == (1, 3)
    jobs = workload({**settings, "workload_scale_kind": "JobSet"})["spec"]["replicatedJobs"]
    assert jobs[0]["template"]["spec"]["parallelism"] == 4


def test_each_trainjob_claims_its_own_volume_although_they_share_a_runtime() -> None:
    job = workload({"workload_scale_type": "distributed", "workload_scale_pvc": True})
    (patch,) = job["spec"]["runtimePatches"]
    (patched,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": job["metadata"]["name"]}}
    assert patched["template"]["spec"]["template"]["spec"]["volumes"] == [claim]


def test_the_variables_of_templates_are_those_that_are_checked_beforehand() -> None:
    (entries,) = variables({"workload_scale_workload_template": "/mine.yml"}, "__workload_scale_templates")
    about = LOADER.load_from_file(str(ROLE / "meta" / "files.yml"))["workload_scale_workload_template"]
    assert sorted(entries[0]["parameters"]) == sorted(about["variables"])


@pytest.fixture(scope="module")
def schemas() -> dict[tuple[str, str], Any]:
    """What validates the objects of kinds that a component of the rehearsal cluster defines, or one in their folder."""
    own = {kind.component for kind in KINDS if (kind.folder / component_spec.FILE).exists()}
    validators = custom_resources.validator(sorted({kind.component for kind in KINDS if kind.component} - own))
    for kind in KINDS:
        if kind.component in own:
            path = kind.folder / component_spec.load_component(kind.folder).objects
            objects = component_manifests.read_yaml_objects(path)
            crds = [manifest for manifest in objects if manifest["kind"] == "CustomResourceDefinition"]
            validators.update(custom_resources.validators_of(crds))
    return validators


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_each_kind_makes_the_objects_that_its_folder_says(
    kind: workload_kinds.WorkloadKind, variant: str, schemas: dict[tuple[str, str], Any]
) -> None:
    made = rendered({"workload_scale_kind": kind.name, **VARIANTS[variant]})
    first, second = (made.workload.manifest(index) for index in (0, 1))
    assert f"{first['apiVersion']}/{first['kind']}" in kind.references
    assert first["metadata"]["name"] != second["metadata"]["name"]
    for index, manifest in enumerate((first, second)):
        labels = manifest["metadata"]["labels"]
        assert (labels["perfscale.seatrial/run"], labels["perfscale.seatrial/index"]) == ("t1", str(index))
    objects = [*(document.manifest(0) for document in made.documents), *made.shared]
    validators = [(schemas.get((entry["apiVersion"], entry["kind"])), entry) for entry in objects]
    if kind.component:
        assert validators[-len(made.shared) - 1][0], "the component has no schema of the kind"
    errors = [error.message for schema, entry in validators if schema for error in schema.iter_errors(entry)]
    assert errors == []
