"""The rehearsal cluster as a cluster: real objects behave as on a real one, and are marked as simulated."""

from __future__ import annotations

import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    OwnershipError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    component_manifests,
    process_launch_plan,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.instance_dir import InstancePaths
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import (
    fake_nodes,
    kwok_on_real_cluster,
    simulated_node_pool,
)


def wait_for(truth: Callable[[], Any], what: str, timeout: float = 240) -> Any:
    deadline = time.monotonic() + timeout
    while not (found := truth()):
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def client(rehearsal: support.Rehearsal) -> Iterator[Client]:
    with rehearsal.client() as client:
        yield client


@pytest.fixture(scope="module")
def namespace(client: Client) -> Iterator[str]:
    """A namespace with a GPU node of its own."""
    name = "test-rehearsal"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    account = client.kind("v1", "ServiceAccount")
    wait_for(lambda: client.get(account, "default", name), "the default service account")
    order = simulated_node_pool.NodePoolSpec(1, pool=name, labels={"only": name})
    fake_nodes.create_fake_nodes(client, order, 240, support.quiet)
    yield name
    fake_nodes.remove_fake_nodes(client, order, 240, support.quiet)
    client.delete(client.kind("v1", "Namespace"), name)


def template(namespace: str, container: str, gpus: int = 1, **annotations: str) -> dict[str, Any]:
    marks = {f"perfscale.seatrial/{key.replace('_', '-')}": value for key, value in annotations.items()}
    limits = {"limits": {"nvidia.com/gpu": gpus}}
    return {
        "metadata": {"annotations": marks},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"only": namespace},
            "containers": [{"name": container, "image": "none", "resources": limits}],
        },
    }


def job(namespace: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"backoffLimit": 0, "template": template(namespace, "main", **more)},
    }


def condition(client: Client, manifest: dict[str, Any], wanted: str) -> dict[str, Any] | None:
    meta = manifest["metadata"]
    found = client.get(client.kind_of(manifest), meta["name"], meta["namespace"]) or {}
    conditions = (found.get("status") or {}).get("conditions") or []
    return found if any(one["type"] == wanted and one["status"] == "True" for one in conditions) else None


def pods_of(client: Client, namespace: str, selector: str) -> list[dict[str, Any]]:
    return client.list(client.kind("v1", "Pod"), namespace, selector)[0]


def test_a_job_completes_and_its_log_is_read_through_the_api_server(client: Client, namespace: str, rehearsal) -> None:
    wanted = job(namespace, "good", run_seconds="0.5")
    client.create(wanted)
    wait_for(lambda: condition(client, wanted, "Complete"), "the Job to complete")
    (pod,) = pods_of(client, namespace, "job-name=good")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (pod["status"]["phase"], ended["exitCode"]) == ("Succeeded", 0)
    assert "simulated by KWOK" in ended["message"]
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/log"
    # The log as it is now: other tests of this cluster may have replaced it. CRI format, 3 words first.
    lines = Path(rehearsal.info["played_logs"]).read_text(encoding="utf-8").splitlines()
    assert client.text(path) == "".join(line.split(" ", 3)[3] + "\n" for line in lines)
    assert "simulated" in client.text(path).lower()
    played = Path(rehearsal.info["played_logs"])
    before = played.read_text()
    try:
        played.write_text("2026-01-01T00:00:00.000000000Z stdout F loss 0.5\n")
        assert client.text(path) == "loss 0.5\n"
    finally:
        played.write_text(before)


def test_a_job_that_is_to_fail_fails(client: Client, namespace: str) -> None:
    wanted = job(namespace, "bad", run_seconds="0.5", outcome="failed")
    client.create(wanted)
    wait_for(lambda: condition(client, wanted, "Failed"), "the Job to fail")
    (pod,) = pods_of(client, namespace, "job-name=bad")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


def test_a_pytorchjob_is_run_by_the_real_operator(client: Client, namespace: str) -> None:
    def replica(count: int) -> dict[str, Any]:
        return {"replicas": count, "restartPolicy": "Never", "template": template(namespace, "pytorch", 2)}

    wanted = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {"pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(2)}},
    }
    client.create(wanted)
    found = wait_for(lambda: condition(client, wanted, "Succeeded"), "the PyTorchJob to succeed")
    assert found["status"]["replicaStatuses"]["Master"]["succeeded"] == 1
    pods = pods_of(client, namespace, "training.kubeflow.org/job-name=train")
    assert {one["metadata"]["name"] for one in pods} == {"train-master-0", "train-worker-0", "train-worker-1"}
    variables = {one["name"] for one in pods[0]["spec"]["containers"][0]["env"]}
    assert {"MASTER_ADDR", "WORLD_SIZE", "RANK"} <= variables
    assert all(one["status"]["podIP"].startswith("10.1") for one in pods)


def test_the_scheduler_keeps_to_the_gpus_there_are(client: Client, namespace: str) -> None:
    wanted = job(namespace, "greedy", gpus=9)
    client.create(wanted)

    def refused() -> list[str]:
        pods = pods_of(client, namespace, "job-name=greedy")
        conditions = [one for pod in pods for one in (pod["status"].get("conditions") or [])]
        return [one["message"] for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"]

    (message,) = wait_for(refused, "the scheduler's refusal")
    assert "Insufficient nvidia.com/gpu" in message
    client.delete(client.kind_of(wanted), "greedy", namespace, {"propagationPolicy": "Background"})


def test_a_pod_of_nobody_runs_until_it_is_deleted(client: Client, namespace: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": namespace}}
    pod["spec"] = template(namespace, "main")["spec"]
    client.create(pod)
    kind = client.kind("v1", "Pod")
    wait_for(lambda: client.get(kind, "alone", namespace)["status"].get("phase") == "Running", "the pod to run")
    client.delete(kind, "alone", namespace)
    wait_for(lambda: client.get(kind, "alone", namespace) is None, "the pod to go")


def test_a_definition_that_is_not_met_is_refused_by_the_real_schema(client: Client, namespace: str) -> None:
    wrong = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "wrong", "namespace": namespace},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": "many"}}},
    }
    with pytest.raises(ApiError, match="spec.pytorchReplicaSpecs.Master.replicas"):
        client.create(wrong)


def test_a_definition_that_is_being_deleted_is_created_again_once_it_is_gone(client: Client) -> None:
    """The API server accepts a change of an object that is being deleted, and then deletes it all the same."""
    names = {"kind": "Held", "plural": "helds", "singular": "held"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "helds.test.perfscale.seatrial"},
        "spec": {"group": "test.perfscale.seatrial", "names": names, "scope": "Cluster", "versions": [version]},
    }
    kind, name = client.kind_of(definition), definition["metadata"]["name"]
    held = {**definition, "metadata": {"name": name, "finalizers": ["test.perfscale.seatrial/held"]}}
    first = client.create(held)
    try:
        client.delete(kind, name)
        with pytest.raises(WaitTimeout, match=r"still being deleted after 1 s: .*test.perfscale.seatrial/held"):
            component_manifests.apply_component_objects(client, [definition], 1)
        freed = {"metadata": {"finalizers": []}}
        release = threading.Timer(1, client.request, ("PATCH", kind.path(name=name), freed, None, MERGE_PATCH))
        release.start()
        assert component_manifests.apply_component_objects(client, [definition], 60) == [
            f"CustomResourceDefinition {name}"
        ]
        release.join()
        assert client.get(kind, name)["metadata"]["uid"] != first["metadata"]["uid"]
    finally:
        client.delete(kind, name)


def test_the_audit_log_dates_every_write_and_nothing_else(client: Client, namespace: str, rehearsal) -> None:
    name = "audited"
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}})

    def lines() -> list[dict[str, Any]]:
        with open(rehearsal.info["audit_log"], encoding="utf-8") as stream:
            return [json.loads(line) for line in stream if line.endswith("\n")]

    found = wait_for(
        lambda: [one for one in lines() if (one.get("objectRef") or {}).get("name") == name],
        "the write in the audit log",
    )
    assert [(one["verb"], one["stage"]) for one in found] == [("create", "ResponseComplete")]
    assert found[0]["requestReceivedTimestamp"] <= found[0]["stageTimestamp"]
    assert {one["verb"] for one in lines()} <= {"create", "update", "patch", "delete", "deletecollection"}


def test_who_takes_part_may_do_what_it_needs_and_no_more(rehearsal) -> None:
    instance = InstancePaths(Path(rehearsal.info["data_dir"]).parent, rehearsal.info["name"])
    for user, allowed, refused in (
        ("kwok", ("v1", "Node"), ("v1", "Secret")),
        ("training-operator", ("kubeflow.org/v1", "PyTorchJob"), ("v1", "Secret")),
    ):
        with Client.from_kubeconfig(instance.kubeconfig_of(user)) as client:
            client.list(client.kind(*allowed))
            with pytest.raises(ApiError, match="403"):
                client.list(client.kind(*refused))


def test_the_user_is_queued_like_any_other(client: Client) -> None:
    reply = client.raw("GET", "/api/v1/namespaces")
    levels, _version = client.list(client.kind("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration"))
    names = {one["metadata"]["uid"]: one["metadata"]["name"] for one in levels}
    assert names[reply.header("x-kubernetes-pf-prioritylevel-uid")] == "global-default"


def test_the_store_answers_only_the_api_server(rehearsal) -> None:
    instance = InstancePaths(Path(rehearsal.info["data_dir"]).parent, rehearsal.info["name"])
    port = process_launch_plan.read_ports(instance)["etcd.client"]
    for certificate in ("", "admin"):
        context = ssl.create_default_context(cafile=str(instance.pki / "etcd-ca.crt"))
        if certificate:
            context.load_cert_chain(instance.pki / f"{certificate}.crt", instance.pki / f"{certificate}.key")
        with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
            urllib.request.urlopen(f"https://127.0.0.1:{port}/health", context=context, timeout=10).read()


def test_a_cluster_that_is_no_rehearsal_gets_no_fake_nodes(client: Client, other_marker: None) -> None:
    with pytest.raises(OwnershipError, match="is not a rehearsal cluster .* Nothing was changed"):
        fake_nodes.create_fake_nodes(client, simulated_node_pool.NodePoolSpec(1, pool="never"), 240, support.quiet)


@pytest.fixture
def other_marker(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for a marker that this cluster does not have."""
    monkeypatch.setattr(kwok_on_real_cluster, "MARKER", ("kube-public", "no-such-marker"))
