"""A load in a pod is one Job that owns the rest; its rights are those that this very load needs."""

from __future__ import annotations

import base64
import gzip
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.why_pod_waits_or_cannot_run import (
    why_pod_waits_or_ended,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.rendered_workload_templates import (
    WorkloadTemplate,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import pod_main, pod_manifests
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds

ORDER = pod_manifests.DriverPodSpec("run-abc", "001", "registry.example.com/x:1")
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ name }}"}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: none}]}}}
"""
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: "{{ name }}-c", namespace: other}
---
"""


class Server:
    """What rights() asks of a client."""

    class access:
        namespace = "default"

    def kind(self, version: str, kind: str) -> ServedKind:
        if kind == "Gone":
            raise InputError("no kind Gone")
        return ServedKind(version, kind, f"{kind.lower()}s", kind != "Node")


def wanted(*templates: str, **more: Any) -> LoadSpec:
    pod = workload_kinds.load_kind_by_name_or_path("Pod").definition
    stages = (pod, {**pod, "kind": "Gone"})
    usual: dict[str, Any] = {
        "kubeconfig": "k", "context": "", "run": "run-abc", "point": "001", "point_dir": Path("p"), "namespace": "ns",
        "count": 5, "arrival": {}, "in_flight": 1, "seed": 1, "sample": True, "stages": stages,
        "templates": tuple(WorkloadTemplate(f"t{n}", text) for n, text in enumerate(templates)),
        "simulated_writers": (),
        "canary_rate": 1.0, "wait": False, "timeout": 1.0, "settle": 0.0, "request_timeout": 1.0, "retry_time": 1.0,
        "max_lateness": 1.0,
    }  # fmt: skip
    return LoadSpec(**{**usual, **more})


def allowed(request: LoadSpec, lock: dict[str, Any] | None = None) -> set[tuple[str, str, str]]:
    server: Any = Server()
    return {
        (one.namespace, one.resource, one.verb) for one in pod_manifests.rights_needed_on_target(server, request, lock)
    }


def test_the_rights_are_the_kinds_of_the_templates_and_stages_in_their_namespace_and_no_more() -> None:
    found = allowed(wanted(JOB))
    assert {one for one in found if one[2] == "create"} == {("ns", "jobs", "create"), ("ns", "leases", "create")}
    assert ("ns", "pods", "watch") in found
    assert {one[0] for one in found} == {"ns"}, "nothing in any other namespace"
    assert not {verb for _space, resource, verb in found if resource != "leases"} & {"delete", "patch", "update"}


def test_a_lock_and_several_namespaces_widen_them_by_just_that() -> None:
    found = allowed(wanted(CLAIM + JOB), {"namespace": "locks"})
    assert ("other", "persistentvolumeclaims", "create") in found
    assert ("", "pods", "watch") in found, "workloads in two namespaces are watched in all"
    assert ("locks", "leases", "update") in found
    assert ("", "jobs", "create") not in found


def test_everything_belongs_to_the_job_and_a_kubeconfig_is_there_for_another_cluster_only() -> None:
    asked = {"request": {"run_id": "run-abc"}, "lock": None}
    for config in (None, "secret words"):
        made = pod_manifests.objects_owned_by_job(ORDER, "uid-1", asked, {pod_main.KUBECONFIG: config})
        assert all(one["metadata"]["ownerReferences"][0]["uid"] == "uid-1" for one in made)
        assert all(one["metadata"]["labels"]["perfscale.seatrial/run"] == "run-abc" for one in made)
        data = next(one["data"] for one in made if one["kind"] == "Secret")
        packed = json.loads(gzip.decompress(base64.b64decode(data[pod_main.REQUEST])))
        assert packed["request"] == asked["request"] and packed["metadata"]["namespace"] == ORDER.effective_namespace
        assert (pod_main.KUBECONFIG in data) == (config is not None)
        words_of_all = json.dumps([one for one in made if one["kind"] != "Secret"])
        assert "secret words" not in words_of_all


def test_clients_may_write_what_is_theirs_and_delete_the_secret_only() -> None:
    made = pod_manifests.objects_owned_by_job(replace(ORDER, clients=2), "u", {"request": {}, "lock": None}, {})
    (role,) = [one for one in made if one["kind"] == "Role"]
    rights = {
        (verb, name) for rule in role["rules"] for verb in rule["verbs"] for name in rule.get("resourceNames", "*")
    }
    written = {f"{ORDER.name}-{client}-{what}" for client in range(2) for what in ("state", "files")}
    patched = {("patch", name) for name in written}
    urls = f"{ORDER.name}-upload"
    assert rights == {("create", "*"), ("get", "*"), ("delete", ORDER.name), ("get", urls)} | patched
    assert written <= {one["metadata"]["name"] for one in made if one["kind"] == "ConfigMap"}


def test_a_request_that_no_secret_holds_is_refused_with_what_to_do() -> None:
    trace = random.Random(1).randbytes(1_200_000).hex()
    with pytest.raises(InputError, match="the maximum of a Secret is 1 MB: run the load on the controller"):
        pod_manifests.objects_owned_by_job(ORDER, "u", {"request": {"trace": trace}, "lock": None}, {})


def test_the_job_is_suspended_and_has_one_index_a_client() -> None:
    job = pod_manifests.suspended_job_manifest(replace(ORDER, clients=3, restarts=2, security_context={"runAsUser": 7}))
    assert job["spec"]["suspend"] is True and job["spec"]["completionMode"] == "Indexed"
    assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["backoffLimitPerIndex"]) == (3, 3, 2)
    assert job["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == 7
    assert job["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert "perfscale.seatrial/index" not in job["metadata"]["labels"], "it is no workload that a sampler watches"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"phase": "Pending"}, "Pending"),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}]},
            "Unschedulable: 0/3",
        ),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, "ImagePullBackOff"),
        (
            {
                "containerStatuses": [
                    {
                        "state": {
                            "waiting": {
                                "reason": "ImagePullBackOff",
                                "message": 'Back-off pulling image "a:1": ErrImagePull: failed to pull: not found',
                            }
                        }
                    }
                ]
            },
            "ErrImagePull: failed to pull: not found",
        ),
        (
            {"containerStatuses": [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]},
            "exit code 137, OOMKilled",
        ),
        (
            {
                "initContainerStatuses": [{"name": "helper", "state": {"waiting": {"reason": "ErrImagePull"}}}],
                "containerStatuses": [{"state": {"waiting": {"reason": "PodInitializing"}}}],
            },
            "init container helper: ErrImagePull",
        ),
        (
            {
                "initContainerStatuses": [
                    {"name": "helper", "state": {"terminated": {"exitCode": 2, "reason": "Error"}}}
                ],
                "containerStatuses": [{"state": {"waiting": {"reason": "PodInitializing"}}}],
            },
            "init container helper: exit code 2, Error",
        ),
        (
            {
                "initContainerStatuses": [{"name": "helper", "state": {"running": {}}}],
                "containerStatuses": [{"state": {"waiting": {"reason": "PodInitializing"}}}],
            },
            "PodInitializing",
        ),
    ],
)
def test_what_a_pod_waits_for_is_said_in_its_own_words(status: dict[str, Any], said: str) -> None:
    assert why_pod_waits_or_ended({"status": status}) == said
