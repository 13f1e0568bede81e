# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cleanup on a real API server: all of a run's objects go, nothing else does, and what holds one is named."""

from __future__ import annotations

import secrets
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import run_cleanup
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.delete_by_label import CleanupTimeout, RunCleanup
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client

RUN = "perfscale.seatrial/run"


@pytest.fixture
def run_id() -> str:
    return f"c-{secrets.token_hex(4)}"


def labelled(
    run_id: str, kind: str, name: str, namespace: str = "", version: str = "v1", **body: Any
) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "labels": {RUN: run_id} if run_id else {}}
    if namespace:
        meta["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": meta, **body}


def pytorchjob(run_id: str, name: str, namespace: str) -> dict[str, Any]:
    pod = {
        "metadata": {"labels": {RUN: run_id}},
        "spec": {"containers": [{"name": "pytorch", "image": "none", "command": ["true"]}]},
    }
    replica = {"replicas": 1, "restartPolicy": "Never", "template": pod}
    spec = {"pytorchReplicaSpecs": {"Master": replica, "Worker": replica}}
    return labelled(run_id, "PyTorchJob", name, namespace, "kubeflow.org/v1", spec=spec)


def exists(client: Client, version: str, kind: str, name: str, namespace: str = "") -> bool:
    return client.get(client.kind(version, kind), name, namespace) is not None


def wait_for(client: Client, version: str, kind: str, namespace: str, count: int) -> None:
    deadline = time.monotonic() + 120
    while len(client.list(client.kind(version, kind), namespace)[0]) < count:
        assert time.monotonic() < deadline, f"no {count} {kind} in {namespace} after 120 s"
        time.sleep(0.1)


def test_everything_of_a_run_goes_and_nothing_else(client: Client, run_id: str) -> None:
    other = f"{run_id}-x"
    for namespace, owner in ((run_id, run_id), (other, "")):
        client.create(labelled(owner, "Namespace", namespace))
        client.create(labelled(run_id, "ConfigMap", "ours", namespace))
        client.create(labelled(run_id, "Secret", "ours", namespace))
        for number in range(5):
            client.create(pytorchjob(run_id, f"job-{number}", namespace))
    client.create(labelled("", "ConfigMap", "theirs", other))
    client.create(labelled(f"{run_id}-2", "ConfigMap", "of-another-run", other))
    client.create(labelled(run_id, "ClusterRole", run_id, version="rbac.authorization.k8s.io/v1", rules=[]))
    definition = {
        "group": f"{run_id}.example.com",
        "scope": "Cluster",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    }
    name = f"things.{run_id}.example.com"
    version = "apiextensions.k8s.io/v1"
    client.create(labelled(run_id, "CustomResourceDefinition", name, version=version, spec=definition))
    wait_for(client, "v1", "Pod", run_id, 10)
    wait_for(client, "v1", "Pod", other, 10)

    sweep = RunCleanup(client, run_id)
    outcome = sweep.clean(timeout=240)

    assert (
        outcome.deleted.items()
        >= {
            "PyTorchJob": 10,
            "Pod": 20,
            "ConfigMap": 2,
            "Secret": 2,
            "ClusterRole": 1,
            "Namespace": 1,
            "CustomResourceDefinition": 1,
        }.items()
    )
    assert outcome.handed_over == [] and outcome.unlisted == []
    assert RunCleanup(client, run_id).find() == []
    assert not exists(client, "v1", "Namespace", run_id)
    assert exists(client, "v1", "ConfigMap", "theirs", other) and exists(
        client, "v1", "ConfigMap", "of-another-run", other
    )
    # The operator's Services have no label of ours: they go with the jobs that own them, before "gone" is said.
    assert client.list(client.kind("v1", "Service"), other)[0] == []
    assert RunCleanup(client, run_id).clean(timeout=240).deleted == {}
    client.delete(client.kind("v1", "Namespace"), other)


def test_a_namespace_with_somebody_elses_objects_stays(client: Client, run_id: str) -> None:
    client.create(labelled(run_id, "Namespace", run_id))
    client.create(labelled(run_id, "ConfigMap", "ours", run_id))
    client.create(labelled("", "ConfigMap", "precious", run_id))
    said: list[str] = []
    outcome = RunCleanup(client, run_id, say=said.append).clean(timeout=240)
    assert outcome.handed_over == [f"Namespace {run_id}"] and outcome.deleted == {"ConfigMap": 1}
    assert exists(client, "v1", "ConfigMap", "precious", run_id)
    assert not exists(client, "v1", "ConfigMap", "ours", run_id)
    namespace = client.get(client.kind("v1", "Namespace"), run_id) or {}
    assert RUN not in namespace["metadata"]["labels"]
    assert namespace["metadata"]["annotations"]["perfscale.seatrial/left-by"] == run_id
    assert any("ConfigMap precious" in line for line in said)
    client.delete(client.kind("v1", "Namespace"), run_id)


def test_what_a_finalizer_holds_is_named_and_goes_when_it_is_let_go(client: Client, run_id: str) -> None:
    held = labelled(run_id, "ConfigMap", run_id, "default")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    client.create(held)
    with pytest.raises(CleanupTimeout, match=r"1 ConfigMap: .*held by finalizer example.com/hold") as caught:
        RunCleanup(client, run_id).clean(timeout=1)
    assert caught.value.left == {"ConfigMap": 1}
    with pytest.raises(SeatrialError, match="still has 1 ConfigMap"):
        run_cleanup.verify_nothing_left(RunCleanup(client, run_id))
    path = client.kind("v1", "ConfigMap").path("default", run_id)
    client.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
    assert RunCleanup(client, run_id).clean(timeout=240).left == {}


def test_objects_that_are_made_meanwhile_go_too(client: Client, run_id: str) -> None:
    """A submitter that was killed may still have requests under way."""
    client.create(labelled(run_id, "ConfigMap", f"{run_id}-held", "default"))
    path = client.kind("v1", "ConfigMap").path("default", f"{run_id}-held")
    client.request("PATCH", path, {"metadata": {"finalizers": ["example.com/hold"]}}, content_type=MERGE_PATCH)

    def late() -> None:
        time.sleep(1)
        client.create(labelled(run_id, "ConfigMap", f"{run_id}-late", "default"))
        time.sleep(1)
        client.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)

    thread = threading.Thread(target=late)
    thread.start()
    outcome = RunCleanup(client, run_id).clean(timeout=240)
    thread.join()
    assert outcome.deleted == {"ConfigMap": 2} and RunCleanup(client, run_id).find() == []


def test_nodes_can_be_kept(client: Client, run_id: str) -> None:
    client.create(labelled(run_id, "Node", run_id))
    client.create(labelled(run_id, "ConfigMap", run_id, "default"))
    outcome = RunCleanup(client, run_id, keep_nodes=True).clean(timeout=240)
    assert outcome.kept == {"Node": 1} and outcome.deleted == {"ConfigMap": 1}
    assert exists(client, "v1", "Node", run_id)
    assert RunCleanup(client, run_id).clean(timeout=240).deleted == {"Node": 1}


def test_only_the_kinds_that_were_named_go(client: Client, run_id: str) -> None:
    client.create(labelled(run_id, "ConfigMap", run_id, "default"))
    client.create(labelled(run_id, "Secret", run_id, "default"))
    assert RunCleanup(client, run_id, kinds=["Secret"]).clean(timeout=240).deleted == {"Secret": 1}
    assert exists(client, "v1", "ConfigMap", run_id, "default")
    assert RunCleanup(client, run_id).clean(timeout=240).deleted == {"ConfigMap": 1}


def test_a_server_that_does_not_answer_is_an_error_unless_it_may_be_gone(tmp_path: Path, rehearsal: Any) -> None:
    text = Path(rehearsal.kubeconfig).read_text(encoding="utf-8")
    with Client.from_kubeconfig(rehearsal.kubeconfig) as found:
        port = found.access.port
    dead = tmp_path / "kubeconfig"
    dead.write_text(text.replace(f":{port}", ":1"), encoding="utf-8")
    with pytest.raises(AccessError, match="can't be reached"):
        run_cleanup.clean_up_or_verify(run_cleanup.CleanupSpec(str(dead), "t1121-abcdef"), StepDirectory(None))
    for path in (dead, tmp_path / "removed"):
        result = run_cleanup.clean_up_or_verify(
            run_cleanup.CleanupSpec(str(path), "t1121-abcdef", unreachable="skip"), StepDirectory(None)
        )
        assert result["reachable"] is False and result["summary"].endswith("if any, remain")


def test_a_namespace_is_kept_while_an_aggregated_api_server_does_not_answer(client: Client, run_id: str) -> None:
    group = f"{run_id}.example.com"
    service = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 1}
    service["service"] = {"name": "not-there", "namespace": "default"}
    version = "apiregistration.k8s.io/v1"
    said: list[str] = []
    client.create(labelled("", "APIService", f"v1.{group}", version=version, spec=service))
    try:
        client.create(labelled(run_id, "Namespace", run_id))
        deadline = time.monotonic() + 120
        while f"{group}/v1" not in client.unknown_groups:
            assert time.monotonic() < deadline, "the API server does not show the group"
            time.sleep(0.1)
            client.kinds()
        outcome = RunCleanup(client, run_id, say=said.append).clean(120)
        assert outcome.handed_over == [f"Namespace {run_id}"] and exists(client, "v1", "Namespace", run_id)
        assert outcome.unlisted == [f"all kinds of {group}/v1"]
        assert f"these can't be listed: all kinds of {group}/v1" in said[-1]
    finally:
        client.delete(client.kind(version, "APIService"), f"v1.{group}")
        client.delete(client.kind("v1", "Namespace"), run_id)
