"""MachineSets on a rehearsal cluster with stand-in CRDs, whose simulator makes KWOK nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine_api_simulator
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.server_side_apply import ObjectDiff
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import node_scaling
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.find_or_derive_machine_set import (
    NAMESPACE,
    VERSION,
    MachineSetSpec,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.node_count_for_users import UserDemand
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.node_scaling import NodeScaler
from playbook import play, run_dirs

WORKERS = "lab-x7k2p-worker-a"


def settle(client: Client) -> None:
    """Wait until the definitions are served."""
    deadline = time.monotonic() + 120
    for kind in ("MachineSet", "Machine"):
        while True:
            try:
                client.list(client.kind(VERSION, kind))
                break
            except (InputError, ApiError):
                assert time.monotonic() < deadline
                time.sleep(0.1)


@pytest.fixture
def client(rehearsal: Any) -> Iterator[Client]:
    """A cluster that makes its machines itself: one set of two workers."""
    client = rehearsal.client()
    definitions = client.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    for one in machine_api_simulator.crds():
        if client.get(definitions, one["metadata"]["name"]) is None:
            client.create(one)
    if client.get(client.kind("v1", "Namespace"), NAMESPACE) is None:
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    settle(client)
    client.create(machine_api_simulator.machine_set(WORKERS, 2))
    simulator = machine_api_simulator.MachineApiSimulator(client, broken=("p5.48xlarge",))
    simulator.start()
    yield client
    for one in client.list(client.kind(VERSION, "MachineSet"), NAMESPACE)[0]:
        client.delete(client.kind(VERSION, "MachineSet"), one["metadata"]["name"], NAMESPACE)
    deadline = time.monotonic() + 120
    while client.list(client.kind(VERSION, "Machine"), NAMESPACE)[0]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    simulator.stop()
    assert simulator.errors == []
    client.close()


def scaling(client: Client, folder: Path, said: list[str] | None = None) -> NodeScaler:
    return NodeScaler(
        client, folder / node_scaling.FILE, "g-scale", said.append if said is not None else lambda _text: None
    )


def diff_of(action: Callable[[NodeScaler], Any], client: Client, folder: Path) -> list[dict[str, Any]]:
    """Return the specs before and after an action, by name of the set."""
    scaler = scaling(client, folder)
    action(scaler)
    diff = scaler.diff.shown()
    return [{key.split("/")[1]: one.get("spec") for key, one in diff[side].items()} for side in ("before", "after")]


def replicas(client: Client) -> dict[str, int]:
    found = client.list(client.kind(VERSION, "MachineSet"), NAMESPACE)[0]
    return {one["metadata"]["name"]: one["spec"]["replicas"] for one in found}


def test_a_set_is_scaled_a_set_is_made_and_both_are_put_back(client: Client, tmp_path: Path) -> None:
    said: list[str] = []
    there = scaling(client, tmp_path, said)
    three = MachineSetSpec(3, name=WORKERS)
    assert diff_of(lambda one: one.scale(three, 120, True), client, tmp_path) == [
        {WORKERS: {"replicas": 2}},
        {WORKERS: {"replicas": 3}},
    ]
    grown = there.scale(three, 120)
    assert grown["changed"] and grown["before"] == 2 and len(grown["nodes"]) == 3
    made = there.scale(MachineSetSpec(2, instance_type="g5.2xlarge", taint="only-users=yes:NoSchedule", spot=True), 120)
    assert made["name"] == "lab-x7k2p-g5-2xlarge" and len(made["nodes"]) == 2
    node = client.get(client.kind("v1", "Node"), made["nodes"][0])
    assert node is not None and node["metadata"]["labels"]["only-users"] == "yes"
    assert {"key": "only-users", "value": "yes", "effect": "NoSchedule"} in node["spec"]["taints"]
    again = there.scale(
        MachineSetSpec(2, instance_type="g5.2xlarge", taint="only-users=yes:NoSchedule", spot=True), 120
    )
    assert not again["changed"] and again["nodes"] == made["nodes"]
    there.scale(MachineSetSpec(4, name=WORKERS), 120)
    assert {
        one["name"]: one["before"] for one in node_scaling.read_change_records(tmp_path / node_scaling.FILE)["sets"]
    } == {
        WORKERS: 2,
        "lab-x7k2p-g5-2xlarge": 0,
    }, "what was there before the first change"
    predicted = diff_of(lambda one: one.restore(30, True), client, tmp_path)
    assert predicted == [{WORKERS: {"replicas": 4}, "lab-x7k2p-g5-2xlarge": None}, {WORKERS: {"replicas": 2}}]
    assert replicas(client) == {WORKERS: 4, "lab-x7k2p-g5-2xlarge": 2}
    back = there.restore(30)
    assert back["changed"] and back["left"] == []
    assert replicas(client) == {WORKERS: 2}
    assert not there.restore(30)["changed"]
    assert "created MachineSet lab-x7k2p-g5-2xlarge with 2 machines" in said


def test_several_sets_are_sized_from_users_together_and_put_back(client: Client, tmp_path: Path) -> None:
    said: list[str] = []
    there = scaling(client, tmp_path, said)
    user = UserDemand(0.5, 1.0)
    both = [
        MachineSetSpec(0, name=WORKERS, users=10, user=user),
        MachineSetSpec(0, instance_type="lab.small", users=4, user=user),
    ]
    with pytest.raises(InputError, match="machine type 'lab.small' is not known"):
        there.scale_all(both, 240)
    with pytest.raises(InputError, match=f"two of them are MachineSet {WORKERS}"):
        there.scale_all([both[0], MachineSetSpec(1, name=WORKERS)], 240)
    assert replicas(client) == {WORKERS: 2}, "nothing was changed"
    small = [{"name": "lab.small", "cpu": 3, "memory": 8}]
    result = there.scale_all(both, 240, types=small)
    assert [len(one["nodes"]) for one in result["sets"]] == [3, 2] and len(result["nodes"]) == 5
    assert f"MachineSet {WORKERS}: 3 machines for 10 users, limited by cpu" in said
    assert replicas(client) == {WORKERS: 3, "lab-x7k2p-lab-small": 2}
    assert there.scale_all(both, 240, types=small)["changed"] is False
    there.restore(240)
    assert replicas(client) == {WORKERS: 2}


def test_the_role_scales_sutest_and_driver_and_puts_both_back(client: Client, rehearsal: Any, tmp_path: Path) -> None:
    driver = tmp_path / "driver"
    driver.write_text(Path(rehearsal.kubeconfig).read_text())
    settings = {
        "cluster_acquired": {"sutest": {"kubeconfig": rehearsal.kubeconfig}, "driver": {"kubeconfig": str(driver)}},
        "run_dir": str(tmp_path),
        "run_id": "t1121-abcdef",
        "node_scaling_sets": [
            {"name": WORKERS, "replicas": 3},
            {"instance_type": "m5.2xlarge", "cluster": "driver", "users": 30},
        ],
    }
    tasks = [
        {"ansible.builtin.set_fact": settings},
        {"ansible.builtin.include_role": {"name": "perfscale.seatrial.node_scaling", "tasks_from": "{{ entry }}"}},
    ]
    files.write_yaml(tmp_path / "play.yml", [{"hosts": "localhost", "gather_facts": False, "tasks": tasks}])
    done = play("-e", "entry=present", artifacts=tmp_path, path=tmp_path / "play.yml")
    assert done.code == 0, done.output[-4000:]
    # 30 clients of 0.25 cores and 2 GiB: a node of 8 cores and 32 GiB has room for 14 of them.
    assert replicas(client) == {WORKERS: 3, "lab-x7k2p-m5-2xlarge": 3}
    assert [one["name"] for one in node_scaling.read_change_records(tmp_path / "scaling-driver.json")["sets"]] == [
        "lab-x7k2p-m5-2xlarge"
    ]
    done = play("-e", "entry=absent", artifacts=tmp_path, path=tmp_path / "play.yml")
    assert done.code == 0, done.output[-4000:]
    assert replicas(client) == {WORKERS: 2}


def test_a_machine_that_can_not_be_had_is_told_at_once_and_given_back(client: Client, tmp_path: Path) -> None:
    there = scaling(client, tmp_path)
    with pytest.raises(ProcessError, match="InsufficientInstanceCapacity: there is none left"):
        there.scale(MachineSetSpec(1, instance_type="p5.48xlarge"), 120)
    assert scaling(client, tmp_path).restore(30)["names"] == ["lab-x7k2p-p5-48xlarge"]
    assert replicas(client) == {WORKERS: 2}


def test_what_somebody_else_has_scaled_since_is_left_as_it_is(client: Client, tmp_path: Path) -> None:
    there = scaling(client, tmp_path)
    there.scale(MachineSetSpec(3, name=WORKERS), 120)
    path = client.kind(VERSION, "MachineSet").path(NAMESPACE, WORKERS)
    client.request("PATCH", path, {"spec": {"replicas": 5}}, content_type=MERGE_PATCH)
    assert there.restore(30)["left"] == [f"somebody scaled MachineSet {WORKERS} to 5"]
    assert replicas(client)[WORKERS] == 5


def test_namespaces_get_nodes_of_their_own_and_their_annotations_back(world: Any, tmp_path: Path) -> None:
    path = f"/api/v1/namespaces/{world.namespace}"
    before = {"annotations": {node_scaling.SELECTOR_ANNOTATION: "zone=a"}}
    world.client.request("PATCH", path, {"metadata": before}, content_type=MERGE_PATCH)
    memory = tmp_path / node_scaling.FILE

    def annotations() -> dict[str, str]:
        return dict(world.client.request("GET", path)["metadata"].get("annotations") or {})

    asked = ([world.namespace], "only-users=yes", "only-users=yes:NoSchedule")
    diff = ObjectDiff()
    assert node_scaling.dedicate_namespaces(world.client, memory, *asked, diff) is True
    assert node_scaling.dedicate_namespaces(world.client, memory, *asked, diff) is False
    shown = [diff.shown()[side][f"Namespace {world.namespace}"]["metadata"] for side in ("before", "after")]
    assert shown == [before, {"annotations": annotations()}]
    assert annotations() == {
        node_scaling.SELECTOR_ANNOTATION: "only-users=yes",
        node_scaling.TOLERATIONS_ANNOTATION: (
            '[{"effect": "NoSchedule", "key": "only-users", "operator": "Equal", "value": "yes"}]'
        ),
    }
    assert node_scaling.restore_namespaces(world.client, memory, ObjectDiff()) is True
    assert annotations() == {node_scaling.SELECTOR_ANNOTATION: "zone=a"}
    with pytest.raises(InputError, match="missing namespace nothing-here"):
        node_scaling.dedicate_namespaces(world.client, memory, ["nothing-here"], "a=b", "", ObjectDiff())


@pytest.mark.long
def test_the_points_of_a_run_have_different_numbers_of_nodes(rehearsal: Any, client: Client, tmp_path: Path) -> None:
    """MachineSets and simulated nodes are scaled before each point, and are as before the run after it."""
    data = Path(rehearsal.info["data_dir"])
    run_nodes = "perfscale.seatrial/run,perfscale.seatrial/pool"
    given = {
        "preset": "light",
        "rehearsal_name": data.name,
        "rehearsal_data_dir": str(data.parent),
        "fine_tuning_count": 1,
        "fine_tuning_gpus": 1,
        "fine_tuning_pod_count": 1,
        "fine_tuning_run_seconds": 1,
        "node_scaling_name": WORKERS,
        "node_scaling_timeout": 120,
        "matrix_points": [
            {"node_scaling_count": 3},
            {"node_scaling_count": 1, "fake_gpu_nodes": 3},
            {"fine_tuning_cpu": "2"},
        ],
    }
    done = play("-e", json.dumps(given), artifacts=tmp_path)
    assert done.code == 0, done.output
    (run,) = run_dirs(tmp_path)
    found = []
    for number in ("001", "002", "003"):
        point = run / "points" / number
        recorded = files.read_yaml(point / "point.yml")["nodes"]
        counted = files.read_json(point / "kpis.json")["labels"]["ran"]["nodes"]
        found.append((recorded, counted["count"], counted["gpus"]))
    more = found[0][1] - found[2][1]
    assert [one[0] for one in found] == [
        {"node_scaling_count": 3},
        {"node_scaling_count": 1, "fake_gpu_nodes": 3},
        {},
    ]
    # Machines and nodes with GPUs: 3 + 2, 1 + 3, and those of the run: 2 + 2.
    assert (more, found[1][1] - found[2][1]) == (1, 0)
    assert found[1][2] - found[0][2] == 8 and found[2][2] == found[0][2]
    assert replicas(client) == {WORKERS: 2}
    assert client.list(client.kind("v1", "Node"), label_selector=run_nodes)[0] == []
