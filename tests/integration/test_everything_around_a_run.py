# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run with all that a user may add around a test: stack, nodes, registry, monitoring, burn-in, dump; before = after.

Operands of OLM, machines of MachineSets, MachineConfigPools and GPUs are simulated. The API server, its etcd, OLM and
Prometheus are real.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine_api_simulator
import machine_config_simulator
import pytest
import rehearsal as support
import servers
import snapshot
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics import (
    user_workload_monitoring as monitoring,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import registry_access
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.find_or_derive_machine_set import (
    NAMESPACE,
    VERSION,
)
from playbook import play, run_dirs

pytestmark = pytest.mark.long

CANARY = "canary-7c40-registry"
UWM = "openshift-user-workload-monitoring"
WORKERS = "lab-x7k2p-worker-a"
PULL_SECRET = '{ "auths" : {\n  "cloud.openshift.com": {"auth": "b2xk"}\n}  }\n'


class Pools(threading.Thread):
    """Brings the MachineConfigPools a step on, five times a second."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self.machines = machine_config_simulator.MachineConfigSimulator(client, machine_config_simulator.CURRENT)
        self.over = threading.Event()

    def run(self) -> None:
        """Look at the cluster until the end."""
        while not self.over.wait(0.2):
            self.machines.step()


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def openshift(client: Client) -> None:
    """Add what a run looks for on OpenShift: machines, pools, the pull secret, the monitoring of user workloads."""
    pools = [(registry_access.POOL_VERSION, "MachineConfigPool"), *machine_config_simulator.CURRENT]
    for one in [*machine_api_simulator.crds(), *(machine_config_simulator.crd(*each) for each in pools)]:
        client.create(one)
    for name in (NAMESPACE, registry_access.NAMESPACE, monitoring.NAMESPACE, UWM):
        client.create(namespace(name))
    for version, kind in [(VERSION, "MachineSet"), (VERSION, "Machine"), *pools]:
        await_kind(client, version, kind)
    client.create(machine_api_simulator.machine_set(WORKERS, 2))
    pool = {"apiVersion": registry_access.POOL_VERSION, "kind": "MachineConfigPool"}
    spec = {"configuration": {"name": "first"}}
    client.create({**pool, "metadata": {"name": machine_config_simulator.POOL}, "spec": spec})
    meta = {"name": registry_access.NAME, "namespace": registry_access.NAMESPACE}
    data = {registry_access.KEY: base64.b64encode(PULL_SECRET.encode()).decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson"}
    client.create({**secret, "metadata": meta, "data": data})
    labels = {"app": "uwm"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "prometheus", "image": "prometheus"}]}}
    spec = {"replicas": 0, "serviceName": "uwm", "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": "prometheus-user-workload", "namespace": UWM}
    client.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec})


def await_kind(client: Client, version: str, kind: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            client.list(client.kind(version, kind))
            return
        except (InputError, ApiError):
            assert time.monotonic() < deadline, f"{kind} is not served"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def info(rehearsal_folder: Path) -> Iterator[dict[str, Any]]:
    """A cluster with OLM that looks like OpenShift to a run."""
    options = support.options(rehearsal_folder, "around", components=["training-operator", "trainer", "olm"])
    made = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    with Client.from_kubeconfig(made["kubeconfig"]) as client:
        fake_nodes.create_fake_nodes(
            client, simulated_node_pool.NodePoolSpec(4, pool="test-around"), 240, support.quiet
        )
        openshift(client)
        machines, pools = machine_api_simulator.MachineApiSimulator(client), Pools(client)
        machines.start()
        pools.start()
        yield made
        pools.over.set()
        pools.join()
        machines.stop()
        assert machines.errors == []
    cluster_lifecycle.remove_instance(support.options(rehearsal_folder, "around", force=True), support.quiet)


@pytest.fixture(scope="module")
def prometheus(info: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    scrape = {
        "job_name": "apiserver",
        "scheme": "https",
        "tls_config": servers.credentials(info["kubeconfig"], folder),
        "static_configs": [{"targets": [info["cluster"]["api_host"]]}],
    }
    with servers.prometheus(folder, scrape) as address:
        yield address


def several_contexts(kubeconfig: str, folder: Path) -> Path:
    """Write a kubeconfig with context ``lab`` of the cluster; its current context leads to no server."""
    config = files.read_yaml(Path(kubeconfig))
    [cluster], [context] = config["clusters"], config["contexts"]
    nowhere = {"name": "nowhere", "cluster": {**cluster["cluster"], "server": "https://127.0.0.1:9"}}
    config["clusters"].append(nowhere)
    config["contexts"] = [
        {"name": "lab", "context": context["context"]},
        {"name": "nowhere", "context": {**context["context"], "cluster": "nowhere"}},
    ]
    files.write_yaml(folder / "kubeconfig", {**config, "current-context": "nowhere"})
    return folder / "kubeconfig"


def settings(info: dict[str, Any], prometheus: str, folder: Path) -> list[str]:
    """Return the settings of the run; the token of the registry is a file of secrets_dir."""
    (folder / "secrets").mkdir()
    token = json.dumps({"auths": {"registry.example/pre": {"auth": CANARY}}})
    (folder / "secrets" / "rhoai_pull_secret").write_text(token)
    (folder / "secrets" / "rhoai_pull_secret").chmod(0o600)
    given = {
        "preset": "rhoai_light",
        "cluster_provider": "existing",
        "cluster_kubeconfig": str(several_contexts(info["kubeconfig"], folder)),
        "cluster_context": "lab",
        "workload_max_lateness": 60,
        "run_diff": True,
        "run_diff_timeout": 120,
        "secrets_dir": str(folder / "secrets"),
        "rhoai_cluster_pull_secret": True,
        "rhoai_mirrors": [{"source": "registry.example/rhoai", "mirrors": ["registry.example/pre"]}],
        "rhoai_registry_settle": 1,
        "node_scaling_sets": [{"name": WORKERS, "replicas": 3}],
        "gpu_operator_burn": 5,
        "metrics_url": prometheus,
        "metrics_dump": True,
        "metrics_queries": ["control_plane", "gpu"],
        "metrics_user_workload": True,
    }
    return ["-e", json.dumps(given)]


def test_a_run_with_everything_passes_and_leaves_the_cluster_as_it_was(
    info: dict[str, Any], prometheus: str, tmp_path: Path
) -> None:
    with Client.from_kubeconfig(info["kubeconfig"]) as client:
        before = snapshot.settled(client)
        done = play(*settings(info, prometheus, tmp_path), artifacts=tmp_path / "runs", timeout=1800)
        assert done.code == 0, done.output[-8000:]
        assert snapshot.left(client, before) == []
        secret = client.get(client.kind("v1", "Secret"), registry_access.NAME, registry_access.NAMESPACE) or {}
    assert base64.b64decode(secret["data"][registry_access.KEY]).decode() == PULL_SECRET, "byte for byte"
    [run_dir] = run_dirs(tmp_path / "runs")
    assert files.read_json(run_dir / "verdict.json")["verdict"] == "pass"
    difference = files.read_json(run_dir / "run_diff.json")
    assert [difference[name] for name in ("left", "gone", "changed")] == [[], [], []]
    whys = [one["why"] for one in files.read_json(run_dir / "capture" / "index.json")["captures"]]
    assert whys == ["before the test", "after point 001"]
    assert files.read_json(run_dir / "metrics_dump.json")["metrics"] > 100
    [burnt] = [files.read_json(path) for path in run_dir.glob("*__gpu_operator__burn/gpu_burn.json")]
    assert "simulated" in json.dumps(burnt)
    assert not (run_dir / "registry.json").exists() and not (run_dir / "monitoring.json").exists()
    for call in run_dir.glob("[0-9][0-9][0-9]__*"):
        assert (call / "arguments.yml").exists() and (call / "COMMAND").exists(), call.name
    texts = [path for path in run_dir.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert texts == [] and CANARY not in done.output
