# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real Kubeflow Trainer and JobSet on a rehearsal cluster: their webhooks answer, and trainings run to the end.

Releases of Trainer and Kueue that do not go together are refused.
"""

from __future__ import annotations

import copy
import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import custom_resources
import pytest
import rehearsal as support
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cluster_lifecycle,
    component_manifests,
    component_spec,
    go_build,
    go_toolchain,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import conditions_by_type
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.served_fields import ServedSchemas
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import (
    rendered_workload_templates,
    template_renderer,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import read_workload_files
from playbook import play

RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: simple, namespace: default}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec:
              template:
                metadata: {annotations: {perfscale.seatrial/run-seconds: "1"}}
                spec: {tolerations: [{operator: Exists}], containers: [{name: node, image: none}]}
"""
TRAIN_JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: one, namespace: default}
spec:
  runtimeRef: {kind: TrainingRuntime, name: simple}
  trainer: {numNodes: 2}
"""


@pytest.fixture(scope="module")
def cluster(rehearsal_folder: Any) -> Iterator[support.Rehearsal]:
    options = support.options(rehearsal_folder, "trainer", components=["trainer"])
    info = cluster_lifecycle.create_or_repair_instance(options, print)
    order = simulated_node_pool.NodePoolSpec(1, pool="trainer")
    found = support.Rehearsal(info["kubeconfig"], info)
    with found.client() as client:
        fake_nodes.create_fake_nodes(client, order, 240, support.quiet)
    yield found
    cluster_lifecycle.remove_instance(support.options(rehearsal_folder, "trainer", force=True), support.quiet)


@pytest.fixture(scope="module")
def client(cluster: support.Rehearsal) -> Iterator[Client]:
    with cluster.client() as found:
        yield found


def until(look: Callable[[], Any]) -> Any:
    """Return what ``look`` returns when it is true; its last value after a minute."""
    deadline = time.monotonic() + 60
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def test_a_train_job_becomes_a_job_set_with_the_defaults_of_its_webhook_and_completes(client: Client) -> None:
    client.apply(yaml.safe_load(RUNTIME))
    kinds = {
        kind: client.kind(f"{group}", kind)
        for group, kind in (("trainer.kubeflow.org/v1alpha1", "TrainJob"), ("jobset.x-k8s.io/v1alpha2", "JobSet"))
    }
    # The webhook of TrainJobs reads runtimes from a cache.
    until(lambda: accepted(client, yaml.safe_load(TRAIN_JOB)))
    made = until(lambda: client.get(kinds["JobSet"], "one", "default"))
    job = made["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert (job["completionMode"], job["template"]["spec"]["restartPolicy"]) == ("Indexed", "OnFailure")
    assert (job["parallelism"], job["completions"]) == (2, 2)

    def ended() -> dict[str, Any]:
        return conditions_by_type(client.get(kinds["TrainJob"], "one", "default")).get("Complete", {})

    assert until(ended)["reason"] == "AllJobsCompleted"


def accepted(client: Client, manifest: dict[str, Any]) -> bool:
    """Return whether the API server accepts an object."""
    try:
        client.apply(manifest)
    except ApiError as error:
        assert error.status == 403
        return False
    return True


def test_their_webhooks_refuse_what_their_schemas_accept(client: Client) -> None:
    wrong = yaml.safe_load(RUNTIME)
    wrong["metadata"]["name"] = "wrong"
    wrong["spec"]["template"]["spec"]["replicatedJobs"][0]["replicas"] = 3
    with pytest.raises(ApiError, match=r"validator\.trainingruntime\.trainer\.kubeflow\.org"):
        client.apply(wrong)
    spec = {**wrong["spec"]["template"]["spec"], "successPolicy": {"operator": "All", "targetReplicatedJobs": ["none"]}}
    job_set = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "wrong", "namespace": "default"},
        "spec": spec,
    }
    with pytest.raises(ApiError, match=r"vjobset\.kb\.io"):
        client.apply(job_set)


def test_the_metrics_of_trainer_count_its_reconciliations_and_its_one_worker(cluster: support.Rehearsal) -> None:
    ports = yaml.safe_load((Path(cluster.kubeconfig).parent / "ports.json").read_text(encoding="utf-8"))
    url = f"http://127.0.0.1:{ports['trainer.metrics']}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        metrics = answer.read()
    assert b'controller_runtime_reconcile_total{controller="trainjob_controller"' in metrics
    # What docs/workload_scale.md says of this version: its configuration asks for five, and one works.
    assert b'controller_runtime_max_concurrent_reconciles{controller="trainjob_controller"} 1\n' in metrics


OLD = component_spec.CrdSource(
    "github.com/kubeflow/trainer/v2",
    "v2.1.0",
    "h1:jRABD9ZYToamNH2atHze3L/VC/v6KCAqUEqsOQOjVTg=",
    ["manifests/base/crds/trainer.kubeflow.org_*.yaml"],
)
PARAMETERS = {
    "metadata": {},
    "pods": 2,
    "gpus": 1,
    "suspend": True,
    "backoff_limit": 0,
    "annotations": {"perfscale.seatrial/run-seconds": "1"},
    "node_selector": {},
    "tolerations": [],
    "scheduler": "",
    "image": "none",
    "command": ["sleep", "1"],
    "resources": {"cpu": "1"},
    "pvc": False,
}


def test_the_objects_of_a_load_fit_the_schemas_of_trainer_2_1_and_2_2(tmp_path: Path) -> None:
    folder = support.ROOT / "roles" / "workload_scale" / "templates"
    given = {"kind": "TrainJob", "src": str(folder / "pod.yaml.j2"), "parameters": PARAMETERS}
    (resolved,) = read_workload_files.templates_with_content([given], lambda _folder, name: name)
    template = rendered_workload_templates.WorkloadTemplate(**resolved)
    toolchain = go_toolchain.find_toolchain((1, 26), support.CACHE, print)
    go_build.copy_crds_of_modules([OLD], toolchain, tmp_path / "old.yml", print)
    old = component_manifests.read_yaml_objects(tmp_path / "old.yml")
    for crds, field in ((old, "podTemplateOverrides"), (custom_resources.definitions("trainer"), "runtimePatches")):
        found = custom_resources.validators_of(crds)
        fields = next(one for one in crds if one["spec"]["names"]["kind"] == "TrainJob")["spec"]["versions"][0][
            "schema"
        ]
        has = fields["openAPIV3Schema"]["properties"]["spec"]["properties"].__contains__
        made = template_renderer.render_template_for_indices(
            template, "t1-run", "001", "ns", [0], None, lambda _v, _k, path, has=has: has(path.removeprefix("spec."))
        )
        job = made.workload.manifest(0)
        assert field in job["spec"] and len({"podTemplateOverrides", "runtimePatches"} & set(job["spec"])) == 1
        for one in (job, *made.shared):
            problems = found[one["apiVersion"], one["kind"]].iter_errors(one)
            assert [error.message for error in problems] == []
        assert job["spec"]["runtimeRef"]["name"] == made.shared[0]["metadata"]["name"]


def replace_definition(client: Client, definition: dict[str, Any], field: tuple[str, str, str], served: bool) -> None:
    """Put a CRD in place of the one of its name, and wait until the server has a field of it, or no longer has it."""
    kind, name = client.kind_of(definition), definition["metadata"]["name"]
    found = client.get(kind, name)
    assert found
    client.request("PUT", kind.path("", name), {**found, "spec": {**found["spec"], **definition["spec"]}})
    assert until(lambda: ServedSchemas(client).has_field(*field) == served)


@pytest.mark.long
def test_releases_of_trainer_and_kueue_that_do_not_go_together_are_refused(own_instance: Any, tmp_path: Path) -> None:
    info = cluster_lifecycle.create_or_repair_instance(
        own_instance("pair", components=["kueue", "trainer"]), support.quiet
    )
    given = {
        "cluster_provider": "existing",
        "cluster_kubeconfig": info["kubeconfig"],
        "fake_gpu_real_cluster": True,
    }
    words = ["-e", "preset=light,kueue", "-e", json.dumps(given)]
    fits = play(*words, artifacts=tmp_path, project="doctor")
    assert fits.code == 0, fits.output

    def refused(reason: str) -> None:
        ran = play(*words, "--tags", "cluster,prepare,test,release", artifacts=tmp_path)
        asked = play(*words, artifacts=tmp_path, project="doctor")
        for done in (ran, asked):
            assert done.code != 0 and reason in done.flat(), done.output
        names = {one["metadata"]["name"] for one in server.list(server.kind("v1", "Namespace"))[0]}
        assert not [name for name in names if name.startswith("fine-tuning-")]

    toolchain = go_toolchain.find_toolchain((1, 26), support.CACHE, print)
    go_build.copy_crds_of_modules([OLD], toolchain, tmp_path / "old.yml", print)
    train_job = ("trainer.kubeflow.org/v1alpha1", "TrainJob", "spec.runtimePatches")
    workload = ("kueue.x-k8s.io/v1beta2", "Workload", "spec.preemptionGates")
    (older,) = (
        one
        for one in component_manifests.read_yaml_objects(tmp_path / "old.yml")
        if one["spec"]["names"]["kind"] == "TrainJob"
    )
    with Client.from_kubeconfig(info["kubeconfig"]) as server:
        definitions = server.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        newer = server.get(definitions, "trainjobs.trainer.kubeflow.org")
        kueue = server.get(definitions, "workloads.kueue.x-k8s.io")
        assert newer and kueue
        replace_definition(server, older, train_job, False)
        refused("Kueue 0.17 or later writes spec.runtimePatches, which Trainer 2.1 and earlier do not have")
        replace_definition(server, newer, train_job, True)
        # Kueue 0.16 can't be had as a Go module. By this field the two are told apart.
        older_kueue = copy.deepcopy(kueue)
        (version,) = (one for one in older_kueue["spec"]["versions"] if one["name"] == "v1beta2")
        del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["preemptionGates"]
        replace_definition(server, older_kueue, workload, False)
        refused("Kueue 0.16 and earlier write spec.podTemplateOverrides, which Trainer 2.2 and later do not have")
