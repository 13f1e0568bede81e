"""Which pods the ResourceQuotas and LimitRanges of a namespace never let be created."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.namespace_limits import (
    pod_templates,
    why_never_created,
)


def pod(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {"containers": [{"name": "c", "resources": resources}], **spec}


def quota(hard: dict[str, str], **spec: Any) -> list[dict[str, Any]]:
    return [{"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}]


def limits(**item: Any) -> list[dict[str, Any]]:
    return [{"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container", **item}]}}]


@pytest.mark.parametrize(
    ("spec", "quotas", "ranges", "why"),
    [
        (pod({"cpu": "2"}), quota({"requests.cpu": "1500m"}), [], "ResourceQuota q: one pod needs 2 requests.cpu, it"),
        (pod({"cpu": "2"}), quota({"cpu": "1"}), [], "one pod needs 2 cpu, it allows 1 in all"),
        (pod(limits={"nvidia.com/gpu": "8"}), quota({"requests.nvidia.com/gpu": "4"}), [], "8 requests.nvidia.com/gpu"),
        (pod(), quota({"pods": "0"}), [], "one pod needs 1 pods, it allows 0 in all"),
        (pod(), quota({"limits.memory": "1Gi"}), [], "container c states no limits.memory"),
        (pod(limits={"cpu": "2"}), [], limits(max={"cpu": "1"}), "LimitRange r: container c has 2 cpu as requests"),
        (pod({"memory": "1Mi"}), [], limits(min={"memory": "64Mi"}), "1Mi memory as requests, the minimum is 64Mi"),
        (pod({"cpu": "2"}, {"cpu": "3"}), [], limits(type="Pod", max={"cpu": "2"}), "a pod has 3 cpu as limits"),
    ],
)
def test_what_a_single_pod_exceeds_is_named(spec: Any, quotas: Any, ranges: Any, why: str) -> None:
    assert why in why_never_created(spec, quotas, ranges)


@pytest.mark.parametrize(
    ("spec", "quotas", "ranges"),
    [
        (pod({"cpu": "1"}), quota({"requests.cpu": "1"}), []),
        (pod(), quota({"pods": "0"}, scopes=["BestEffort"]), []),  # only of some pods
        (pod(), quota({"limits.cpu": "4"}), limits(default={"cpu": "1"})),  # the LimitRange states it
        (pod(), quota({"requests.nvidia.com/gpu": "0", "count/jobs.batch": "0"}), []),
        (pod({"cpu": "9"}), [], limits(type="PersistentVolumeClaim", max={"cpu": "1"})),
        (pod({"cpu": "9"}, resources={"requests": {"cpu": "1"}}), quota({"cpu": "1"}), []),  # of the whole pod
    ],
)
def test_what_may_be_created_later_is_not_refused(spec: Any, quotas: Any, ranges: Any) -> None:
    assert why_never_created(spec, quotas, ranges) == ""


def test_templates_are_found_in_objects_of_any_kind() -> None:
    template = {"metadata": {}, "spec": pod()}
    training = {"spec": {"pytorchReplicaSpecs": {"Master": {"template": template}, "Worker": {"template": template}}}}
    sets = {"spec": {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": template}}}]}}
    assert list(pod_templates(training)) == [pod(), pod()] and list(pod_templates(sets)) == [pod()]
    leaders = {"spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template, "leaderTemplate": template}}}
    assert list(pod_templates(leaders)) == [pod(), pod()]
    assert list(pod_templates({"spec": {"podTemplate": template}})) == [pod()], "of a Sandbox"
    assert list(pod_templates({"spec": {"template": "text", "runtimeRef": {"template": {"spec": None}}}})) == []
