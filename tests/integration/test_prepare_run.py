"""Whole runs whose phase prepare has every member: a failure of each, and kills at random moments.

Machines and pools are simulated (machine_api_simulator, machine_config_simulator), operands are those of the rehearsal.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine_api_simulator
import machine_config_simulator
import pytest
import rehearsal as support
import snapshot
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import (
    find_or_derive_machine_set,
    registry_access,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from killed_runs import end, give_back
from playbook import begin, play, run_dirs

pytestmark = pytest.mark.long

WORKERS, SOLD_OUT = "lab-x7k2p-worker-a", "p5.48xlarge"
CANARY = "canary-40aa-prepare"
TOKEN = json.dumps({"auths": {"quay.io/pre": {"auth": CANARY}}})
OTHER = json.dumps({"auths": {"cloud.openshift.com": {"auth": CANARY}}})
SECRET = '{ "auths" : {"cloud.openshift.com": {"auth": "b2xk"}}  }'
#: Seconds until a machine has a node or a pool a configuration, and those in which prepare is killed.
DELAY, SPAN = 3.0, 40.0
#: Kills of the test of random moments.
KILLS = int(os.environ.get("SEATRIAL_KILLS", "3"))
MEMBERS = {
    "nodes",
    "registry",
    "operators",
    "components",
    "gpu_burn",
    "volume models",
    "image registry.example/train:1",
}
SETTINGS: dict[str, Any] = {
    "node_scaling_sets": [{"name": WORKERS, "replicas": 3}],
    "rhoai_cluster_pull_secret": True,
    "rhoai_mirrors": [{"source": "registry.example/rhoai", "mirrors": ["quay.io/pre/rhoai"]}],
    "rhoai_registry_settle": 1,
    "gpu_operator_burn": 1,
    "storage_sources": ["hf://org/tiny"],
    "fine_tuning_image": "registry.example/train:1",
    "fine_tuning_preload": True,
    "cluster_provider": "existing",
    # How busy this machine is says nothing of what is left.
    "workload_max_lateness": 60,
    "doctor_fail": False,
}


class PoolSimulator(threading.Thread):
    """Brings the pools on, five times a second."""

    def __init__(self, client: Client, steps: int) -> None:
        super().__init__(daemon=True)
        self.pools = machine_config_simulator.MachineConfigSimulator(client, machine_config_simulator.CURRENT, steps)
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.2):
            with contextlib.suppress(ApiError):
                self.pools.step()

    def stop(self) -> None:
        self.over.set()
        self.join()


@dataclass
class Lab:
    """A cluster with OLM, machines and pools, to which runs come as to somebody's existing one."""

    info: dict[str, Any]
    client: Client
    before: set[Any]

    def words(self, **more: Any) -> list[str]:
        settings = {**SETTINGS, "cluster_kubeconfig": self.info["kubeconfig"], **more}
        return ["-e", "preset=rhoai_light", "-e", json.dumps(settings)]

    def secret(self) -> str:
        found = self.client.get(self.client.kind("v1", "Secret"), registry_access.NAME, registry_access.NAMESPACE)
        return base64.b64decode((found or {})["data"][registry_access.KEY]).decode()

    def assert_as_before(self) -> None:
        """Objects by name and content; the pull secret byte for byte."""
        assert snapshot.left(self.client, self.before) == []
        assert self.secret() == SECRET
        sets = self.client.list(
            self.client.kind(find_or_derive_machine_set.VERSION, "MachineSet"), find_or_derive_machine_set.NAMESPACE
        )[0]
        assert {one["metadata"]["name"]: one["spec"]["replicas"] for one in sets} == {WORKERS: 2}


def settle(client: Client, kinds: list[tuple[str, str]]) -> None:
    deadline = time.monotonic() + 120
    for version, kind in kinds:
        while True:
            try:
                client.list(client.kind(version, kind))
                break
            except (InputError, ApiError):
                assert time.monotonic() < deadline
                time.sleep(0.1)


@pytest.fixture(scope="module")
def lab(rehearsal_folder: Path) -> Iterator[Lab]:
    options = support.options(rehearsal_folder, "prepare", components=["training-operator", "trainer", "olm"])
    info = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    clients = [Client.from_kubeconfig(info["kubeconfig"]) for _each in range(3)]
    client = clients[0]
    fake_nodes.create_fake_nodes(client, simulated_node_pool.NodePoolSpec(4, pool="test-prepare"), 240, support.quiet)
    pools = [(registry_access.POOL_VERSION, "MachineConfigPool"), *machine_config_simulator.CURRENT]
    for one in [*machine_api_simulator.crds(), *(machine_config_simulator.crd(*kind) for kind in pools)]:
        client.create(one)
    settle(
        client,
        [*pools, (find_or_derive_machine_set.VERSION, "MachineSet"), (find_or_derive_machine_set.VERSION, "Machine")],
    )
    for name in (find_or_derive_machine_set.NAMESPACE, registry_access.NAMESPACE):
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    metadata = {"name": registry_access.NAME, "namespace": registry_access.NAMESPACE}
    data = {registry_access.KEY: base64.b64encode(SECRET.encode()).decode()}
    kind = "kubernetes.io/dockerconfigjson"
    client.create({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": metadata, "data": data})
    pool = {"apiVersion": registry_access.POOL_VERSION, "kind": "MachineConfigPool", "spec": {}}
    client.create({**pool, "metadata": {"name": machine_config_simulator.POOL}})
    client.create(machine_api_simulator.machine_set(WORKERS, 2))
    machines = machine_api_simulator.MachineApiSimulator(clients[1], (SOLD_OUT,), DELAY)
    operator = PoolSimulator(clients[2], steps=int(DELAY * 5))
    simulators = (machines, operator)
    for simulator in simulators:
        simulator.start()
    deadline = time.monotonic() + 120
    while not operator.pools.current() or len(client.list(client.kind("v1", "Node"))[0]) < 6:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    yield Lab(info, client, snapshot.settled(client))
    for simulator in simulators:
        simulator.stop()
    cluster_lifecycle.remove_instance(support.options(rehearsal_folder, "prepare", force=True), support.quiet)


def states(run_dir: Path) -> dict[str, str]:
    """Member -> passed or the message, as the step says it."""
    (step,) = run_dir.glob("*__run__prepare")
    found = {}
    for line in (step / "log").read_text().splitlines():
        name, colon, text = line.partition(" ")[2].partition(": ")
        if colon and name in MEMBERS and "still to end" not in text:
            found[name] = "passed" if text.startswith("done after") else text
    return found


def test_a_run_with_every_member_passes_and_leaves_the_cluster_as_it_was(lab: Lab, tmp_path: Path) -> None:
    env = {"SEATRIAL_RHOAI_PULL_SECRET": TOKEN}
    done = play(*lab.words(run_diff=True), artifacts=tmp_path, timeout=1500, env=env)
    assert done.code == 0, done.output
    (run_dir,) = run_dirs(tmp_path)
    assert states(run_dir) == dict.fromkeys(MEMBERS, "passed")
    assert files.read_json(run_dir / "verdict.json")["verdict"] == "pass"
    lab.assert_as_before()
    for path in run_dir.rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes(), path


@contextlib.contextmanager
def unsimulated_gpu(client: Client) -> Iterator[None]:
    """A node whose GPU looks like one with a device, so that a burn-in needs an image."""
    room = {"cpu": "4", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": "1"}
    metadata = {"name": "real", "labels": {"type": "kwok"}, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": room, "allocatable": room}}
    client.create(node)
    try:
        yield
    finally:
        client.delete(client.kind("v1", "Node"), "real")


@pytest.mark.parametrize(
    ("member", "broken", "message", "not_started"),
    [
        (
            "nodes",
            {"node_scaling_sets": [{"instance_type": SOLD_OUT, "replicas": 1}]},
            "InsufficientInstanceCapacity",
            2,
        ),
        ("registry", {"rhoai_pull_secret": OTHER}, "other credentials for cloud.openshift.com", 5),
        ("operators", {"nfd_channel": "no-such"}, "no-such", 3),
        # The settings know the components of a release; what the fields of one may be, only its definition knows.
        (
            "components",
            {"rhoai_settings": {"components.kserve.modelCache.managementState": "Managed"}},
            "a Managed modelCache needs cacheSize",
            0,
        ),
        ("volume models", {"storage_sources": ["tiny@no-such"]}, "no registry 'no-such'", 0),
        ("image registry.example/train:1", {"fine_tuning_node_selector": {"no": "such"}}, "no node has the labels", 0),
        ("gpu_burn", {"storage_sources": []}, "gpu_operator_burn_image is not set, and real have GPUs", 0),
    ],
)
def test_a_failed_member_is_told_with_the_results_of_all_others(
    lab: Lab, tmp_path: Path, member: str, broken: dict[str, Any], message: str, not_started: int
) -> None:
    members = MEMBERS - {"volume models"} if member == "gpu_burn" else MEMBERS
    env = {"SEATRIAL_RHOAI_PULL_SECRET": TOKEN}
    with unsimulated_gpu(lab.client) if member == "gpu_burn" else contextlib.nullcontext():
        done = play(*lab.words(**broken), artifacts=tmp_path, timeout=1500, env=env)
    assert done.code != 0, done.output
    (run_dir,) = run_dirs(tmp_path)
    found = states(run_dir)
    assert set(found) == members, done.output[-5000:]
    assert message in found[member], found
    others = {name: text for name, text in found.items() if name != member and text != "passed"}
    assert all(text.startswith("not started, because") for text in others.values()), others
    assert len(others) == not_started
    failures = (run_dir / "FAILURES").read_text()
    assert all(name in failures for name in members) and f"{member}: {found[member]}" in failures
    lab.assert_as_before()


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_kill_at_any_moment_of_prepare_leaves_the_cluster_as_it_was(lab: Lab, tmp_path: Path, seed: int) -> None:
    env = {"SEATRIAL_RHOAI_PULL_SECRET": TOKEN}
    process = begin(*lab.words(), artifacts=tmp_path / "runs", log=tmp_path / "log", env=env)
    deadline, how = time.monotonic() + 1800, ("kill", "interrupt", "term")[seed % 3]
    try:
        while not _prepares(tmp_path / "runs"):
            assert time.monotonic() < deadline and process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.1)
        moment = random.Random(seed).uniform(0.0, SPAN)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=moment)
        phases = _phases(tmp_path / "runs")
    finally:
        end(process, how)
    print(f"{how} {moment:.1f} s after prepare began, in phase {phases[-1]}")
    (run_dir,) = run_dirs(tmp_path / "runs")
    done = give_back(run_dir)
    assert done.returncode == 0, f"{how} at {moment:.1f} s\n{done.stdout[-6000:]}"
    assert files.read_yaml(run_dir / "run.yml")["held"] == []
    lab.assert_as_before()


def _phases(artifacts: Path) -> list[str]:
    return [name for one in run_dirs(artifacts) for name in files.read_yaml(one / "run.yml").get("phases") or {}]


def _prepares(artifacts: Path) -> bool:
    return "prepare" in _phases(artifacts)
