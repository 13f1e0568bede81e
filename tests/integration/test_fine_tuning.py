# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The template of a fine-tuning job against the real CRD, and the logs of played pods through the real API server."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import custom_resources
import pytest
import rehearsal as support
import training_objects
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import SecretScanner
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_names import MASK
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import pod_logs
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.delete_by_label import RunCleanup
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import cluster_properties
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import component_manifests
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load import simulated_training_logs
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures import training_rows
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import training_flavours

pytestmark = pytest.mark.usefixtures("ansible_plugins")

NO_SECRET = SecretScanner({})
#: Of PyTorchJobs, whose pods one object describes.
PARAMETERS: dict[str, Any] = {
    "fine_tuning_api": "pytorchjob",
    "fine_tuning_pod_count": 2,
    "fine_tuning_image": "played",
    "fine_tuning_memory": "1Gi",
    "__fine_tuning_simulation": {"run_seconds": 1.0},
}
#: Each flavour with everything that its pods can have.
EVERYTHING: dict[str, Any] = {
    "fine_tuning_pod_count": 8,
    "fine_tuning_command": ["python", "train.py"],
    "fine_tuning_networks": ["lab/rail-a", "rail-b"],
    "fine_tuning_host_network": True,
    "fine_tuning_extra_resources": {"rdma/shared_ib": 1},
    "fine_tuning_capabilities": ["IPC_LOCK"],
    "fine_tuning_service_account": "rdma",
    "fine_tuning_node_selector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
    "fine_tuning_priority_class": "system-node-critical",
    "fine_tuning_storage_claim": "models",
}


@pytest.fixture
def run_id(client: Client) -> Iterator[str]:
    """A run with a namespace of its own, removed afterwards."""
    name = f"f-{secrets.token_hex(4)}"
    own = {"perfscale.seatrial/run": name}
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": own}})
    yield name
    RunCleanup(client, name).clean(timeout=240)


@pytest.fixture(scope="module")
def kinds_of_all_apis(rehearsal: support.Rehearsal) -> Iterator[None]:
    """The CRDs of each API that trains; those added are removed afterwards, because the cluster is shared."""
    crds = [one for name in ("kuberay", "jobset", "trainer") for one in custom_resources.definitions(name)]
    with rehearsal.client() as client:
        added = [one for one in crds if client.get(client.kind_of(one), one["metadata"]["name"]) is None]
        component_manifests.apply_component_objects(client, added, 120)
        yield
        for one in added:
            client.delete(client.kind_of(one), one["metadata"]["name"])


@pytest.mark.parametrize("given", [{"fine_tuning_gpus": 0}, EVERYTHING], ids=["little", "everything"])
@pytest.mark.usefixtures("kinds_of_all_apis")
def test_the_api_server_accepts_every_field_of_every_flavour(client: Client, given: dict[str, Any]) -> None:
    """Strict validation refuses a field that the CRD does not know, which would otherwise be dropped silently."""
    for flavour in training_flavours.flavour_names():
        made = training_objects.rendered({**given, "fine_tuning_flavour": flavour}, run_id="default")
        for manifest in made.shared:
            client.apply(manifest)
        stored = accepted(client, {**made.workload.manifest(0)})
        assert stored["kind"] == made.workload.manifest(0)["kind"]
        for manifest in made.shared:
            client.delete(client.kind_of(manifest), manifest["metadata"]["name"], "default")


def accepted(client: Client, manifest: dict[str, Any]) -> dict[str, Any]:
    """Create an object strictly, without storing it. The webhook of TrainJobs reads runtimes from a cache."""
    manifest["metadata"] = {**manifest["metadata"], "namespace": "default"}
    deadline = time.monotonic() + 60
    while True:
        try:
            return client.create(manifest, {"fieldValidation": "Strict", "dryRun": "All"})
        except ApiError as error:
            if error.status != 403 or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def wait_for_phases(client: Client, run_id: str, phases: dict[str, int]) -> None:
    deadline = time.monotonic() + 120
    while True:
        found: dict[str, int] = {}
        for pod in client.list(client.kind("v1", "Pod"), run_id)[0]:
            found[pod["status"].get("phase", "")] = found.get(pod["status"].get("phase", ""), 0) + 1
        if found == phases:
            return
        assert time.monotonic() < deadline, f"pods are {found} and not {phases} after 120 s"
        time.sleep(0.2)


def test_logs_of_played_masters_are_collected_and_their_figures_read(
    client: Client, run_id: str, rehearsal: Any, tmp_path: Path
) -> None:
    order = simulated_node_pool.NodePoolSpec(1, pool=run_id, run_id=run_id, labels={"test": run_id})
    fake_nodes.create_fake_nodes(client, order, 240, lambda _line: None, False)
    played = simulated_training_logs.simulate_training_job(1, 2, 1, {})
    simulated_training_logs.write_log_file(
        rehearsal.info["played_logs"], simulated_training_logs.training_log_lines(played, "model", "data", 2, 1)
    )
    parameters = {**PARAMETERS, "fine_tuning_node_selector": {"test": run_id}}
    made = training_objects.workloads(parameters, 3, simulated=True, run_id=run_id)
    fails = made[2]["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["metadata"]["annotations"]
    fails["perfscale.seatrial/outcome"] = "failed"
    for one in made:
        client.create(one)
    wait_for_phases(client, run_id, {"Succeeded": 5, "Failed": 1})

    masters = f"{run_labels.RUN}={run_id},training.kubeflow.org/replica-type=master"
    logs = pod_logs.LogCollectionSpec(str(tmp_path / "logs"), run_id, masters, container="pytorch")
    result = pod_logs.LogCollection(client, logs, NO_SECRET).run()
    assert result["unread"] == [] and result["collected"] == result["found"] == 3 and result["changed"]
    assert [(one["index"], one["workload"], one["phase"]) for one in result["pods"]] == [
        (0, f"{run_id}-001-0", "Succeeded"),
        (1, f"{run_id}-001-1", "Succeeded"),
        (2, f"{run_id}-001-2", "Failed"),
    ]
    text = (tmp_path / "logs" / f"{run_id}-001-0-master-0.log").read_text(encoding="utf-8")
    assert text.startswith("SIMULATED: ")
    assert pod_logs.LogCollection(client, logs, NO_SECRET).run()["changed"] is False, "the same logs once more"
    word = next(word for word in text.split() if len(word) > 8 and word.isalpha())
    hidden = pod_logs.LogCollectionSpec(str(tmp_path / "hidden"), run_id, masters, container="pytorch")
    pod_logs.LogCollection(client, hidden, SecretScanner({"token": word})).run()
    masked = [path.read_text(encoding="utf-8") for path in (tmp_path / "hidden").iterdir()]
    assert len(masked) == 3 and all(word not in log and MASK in log for log in masked), "a secret that a program prints"

    collected = training_rows.logs_from_pod_logs(result["pods"], tmp_path / "logs")
    training_rows.write_training_rows(tmp_path, collected, training_rows.SIMULATED, simulated=True)
    rows = list(files.read_json_lines(tmp_path / "training.jsonl"))
    assert [row["figures"] for row in rows] == [played.figures] * 3 and all(row["simulated"] for row in rows)

    failed = pod_logs.LogCollectionSpec(str(tmp_path / "failed"), run_id, masters, which="failed")
    assert [one["index"] for one in pod_logs.LogCollection(client, failed, NO_SECRET).run()["pods"]] == [2]
    few = pod_logs.LogCollectionSpec(str(tmp_path / "few"), run_id, masters, maximum=2)
    found = pod_logs.LogCollection(client, few, NO_SECRET).run()
    assert [one["index"] for one in found["pods"]] == [0, 2] and found["left_out"] == 1


def test_a_log_that_can_not_be_had_is_told_with_its_pod(client: Client, run_id: str, tmp_path: Path) -> None:
    own = {"perfscale.seatrial/run": run_id, "perfscale.seatrial/index": "7"}
    meta = {"name": "waits", "namespace": run_id, "labels": own}
    spec = {"containers": [{"name": "c", "image": "none"}], "nodeSelector": {"no": "such-node"}}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    order = pod_logs.LogCollectionSpec(str(tmp_path), run_id, f"{run_labels.RUN}={run_id}", container="another")
    result = pod_logs.LogCollection(client, order, NO_SECRET).run()
    assert result["collected"] == 0 and result["pods"][0]["index"] == 7 and result["pods"][0]["log"] is None
    assert f"log of pod {run_id}/waits: 400" in result["unread"][0] and list(tmp_path.glob("*")) == []

    kinds = cluster_properties.existence_of_kinds(
        client, ["kubeflow.org/v1/PyTorchJob", "kubeflow.org/v1/TFJob", "nowhere.example/v1/Thing"]
    )
    assert list(kinds.values()) == [True, False, False]
    found = cluster_properties.read_namespace_runs(client, [run_id, "default", "no-such"])
    assert found == {run_id: run_id, "default": "", "no-such": None}
