# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads that are chains of objects, under their real controllers: their stages against the audit log."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import conditions_by_type
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import read_workload_files, workload_kinds
from chain_truth import CHAINS, GANG, Chain, check_stages
from load_world import World, world_on

POD = """{% macro pod(container, restart_policy="", starts=true, namespace="") -%}
metadata:
  labels: {{ labels | to_json }}
  annotations: {perfscale.seatrial/run-seconds: "2"}
spec:
  restartPolicy: {{ restart_policy or "Always" }}
  tolerations: [{operator: Exists}]
  containers: [{name: {{ container }}, image: i, resources: {limits: {cpu: 10m}}}]
{%- endmacro %}
"""


def submit_chain(world: World, chain: Chain, count: int, rate: float) -> dict[str, Any]:
    """Submit workloads of a kind with its own template, and wait until all are ready or have ended."""
    parameters = {"metadata": {"labels": {}}, "pods": chain.pods, "gpus": 0, "suspend": False, "backoff_limit": 0}
    parameters["sandbox_pool"] = count if chain.warm else 0
    options = read_workload_files.submit_options_with_content(
        {
            "stages": workload_kinds.load_kind_by_name_or_path(chain.kind).watched(),
            "templates": [{"kind": chain.kind, "content": POD, "parameters": parameters}],
        },
        lambda _where, name: name,
        [],
    )
    return world.submit(count=count, arrival={"rate": rate}, wait=True, timeout=280, settle=2, in_flight=32, **options)


@pytest.mark.parametrize("chain", ["TrainJob", "JobSet"])
def test_the_stages_of_a_short_load_meet_the_audit_log(own_instance: Any, tmp_path: Path, chain: str) -> None:
    measure(own_instance, tmp_path, CHAINS[chain], 20, 20)


@pytest.mark.long
@pytest.mark.parametrize("rate", [20, 100])
@pytest.mark.parametrize("chain", list(CHAINS))
def test_the_stages_meet_the_audit_log(own_instance: Any, tmp_path: Path, chain: str, rate: int) -> None:
    measure(own_instance, tmp_path, CHAINS[chain], rate, CHAINS[chain].many)


def measure(own_instance: Any, folder: Path, chain: Chain, rate: float, count: int) -> None:
    info = cluster_lifecycle.create_or_repair_instance(
        own_instance("sets", components=[chain.component]), support.quiet
    )
    with world_on(info["kubeconfig"], folder) as world:
        fake_nodes.create_fake_nodes(world.client, simulated_node_pool.NodePoolSpec(20), 120, support.quiet)
        found = submit_chain(world, chain, count, rate)
        assert found.get("counts", {}).get("succeeded") == count, found
        audit = Path(info["cluster"]["audit_log"])
        print("\n".join([found["msg"], *check_stages(world.point_dir, world.run_id, audit, chain, count)]))


def test_the_stages_of_gangs_of_kubernetes_itself_meet_the_audit_log(own_instance: Any, tmp_path: Path) -> None:
    info = cluster_lifecycle.create_or_repair_instance(
        own_instance("sets", components=["workload-aware", "gangs"]), support.quiet
    )
    parameters = {
        "mode": "workload-aware",
        "simulated": True,
        "metadata": {"labels": {}},
        "suspend": False,
        "pods": GANG.pods,
        "gpus": 0,
        "priority_class": "",
        "gang_timeout": 60,
        "backoff_limit": 0,
        "claim_template": "",
        "resources": {"cpu": "1"},
        "node_selector": {},
        "topology": {},
        "tolerations": [],
        "image": "none",
        "run_time": {"type": "fixed", "mean": 2},
        "seed": 1,
    }
    pod = (support.ROOT / "roles" / "scheduler" / "templates" / "pod.yaml.j2").read_text(encoding="utf-8")
    stages = workload_kinds.resolve_stage_definitions(["Job", "NativePodGroup", "Pod"], lambda _where, name: name)
    templates = read_workload_files.templates_with_content(
        [{"kind": "Job", "content": pod, "parameters": parameters}], lambda _where, name: name
    )
    with world_on(info["kubeconfig"], tmp_path) as world:
        fake_nodes.create_fake_nodes(world.client, simulated_node_pool.NodePoolSpec(2), 120, support.quiet)
        found = world.submit(
            count=10, arrival={"rate": 5}, wait=True, timeout=120, settle=2, templates=templates, stages=stages
        )
        assert found.get("counts", {}).get("succeeded") == 10, found
        audit = Path(info["cluster"]["audit_log"])
        print("\n".join(check_stages(world.point_dir, world.run_id, audit, GANG, 10)))


@pytest.mark.long
def test_a_group_whose_pod_was_deleted_is_made_again_and_the_set_says_so(own_instance: Any, tmp_path: Path) -> None:
    info = cluster_lifecycle.create_or_repair_instance(
        own_instance("sets", components=["leader-worker-set"]), support.quiet
    )
    with world_on(info["kubeconfig"], tmp_path) as world:
        fake_nodes.create_fake_nodes(world.client, simulated_node_pool.NodePoolSpec(2), 120, support.quiet)
        submit_chain(world, CHAINS["LeaderWorkerSet"], 1, 1)
        pods = world.client.kind("v1", "Pod")
        before, _version = world.client.list(pods, world.namespace, "leaderworkerset.sigs.k8s.io/name")
        # What the webhook of pods gives them.
        assert [pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"] for pod in before] == ["0"] * 3
        names = {entry["name"] for pod in before for entry in pod["spec"]["containers"][0]["env"]}
        assert {"LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"} <= names
        worker = max(before, key=lambda pod: str(pod["metadata"]["name"]))
        world.client.delete(pods, worker["metadata"]["name"], world.namespace)
        old = {pod["metadata"]["uid"] for pod in before}
        kind = stage_definitions.compile_stages_of_kind(
            workload_kinds.load_kind_by_name_or_path("LeaderWorkerSet").definition
        )
        sets = world.client.kind("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
        said = False
        deadline = time.monotonic() + 120
        while True:
            (found,), _version = world.client.list(sets, world.namespace)
            values = dict(zip(kind.names, kind.values(found, conditions_by_type(found)), strict=True))
            said = said or bool(values["interrupted"]) and not values["ready"]
            now, _version = world.client.list(pods, world.namespace, "leaderworkerset.sigs.k8s.io/name")
            if len(now) == 3 and not old & {pod["metadata"]["uid"] for pod in now}:
                break
            assert time.monotonic() < deadline, "the group was not made again"
            time.sleep(0.05)
        assert said, "the set never said that it was interrupted"
