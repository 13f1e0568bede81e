"""Causes of a failure are found in the objects of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm import (
    delete_and_await,
    installation_diagnosis,
    operator_objects,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm.operator_specs import (
    ExpectedObjects,
    ReadyCondition,
)


def pod(**status: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "status": status}


def test_an_unschedulable_pod_gives_the_reason() -> None:
    one = pod(
        conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}]
    )
    assert installation_diagnosis.why_pod_does_not_run(one) == ["Unschedulable: 0/2 nodes"]


def test_a_waiting_or_failed_container_gives_the_reason_and_a_starting_one_does_not() -> None:
    one = pod(
        containerStatuses=[
            {"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
            {"name": "b", "state": {"terminated": {"exitCode": 2}}},
            {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}},
            {"name": "d", "state": {"running": {}}},
        ]
    )
    assert installation_diagnosis.why_pod_does_not_run(one) == [
        "container a: ImagePullBackOff: no such image",
        "container b exited with 2",
    ]


def test_a_deployment_without_all_its_pods_is_a_cause() -> None:
    def deployment(available: int) -> dict[str, Any]:
        return {
            "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "n"},
            "spec": {"replicas": 2},
            "status": {"availableReplicas": available},
        }

    assert installation_diagnosis.causes_in_deployments_and_pods([deployment(1), deployment(2)], []) == [
        "Deployment n/d has 1 of 2 pods"
    ]


def test_the_newest_warnings_are_causes() -> None:
    def event(at: str, kind: str = "Warning") -> dict[str, Any]:
        return {
            "metadata": {},
            "type": kind,
            "lastTimestamp": at,
            "message": at,
            "involvedObject": {"kind": "Pod", "name": "p"},
        }

    found = installation_diagnosis.newest_warnings([event("3"), event("1"), event("9", "Normal"), event("2")])
    assert found == ["event of Pod p: 2", "event of Pod p: 3"]


def test_the_finalizer_that_blocks_a_deletion_is_named() -> None:
    held = {"kind": "Thing", "metadata": {"name": "t", "finalizers": ["example.com/hold"]}}
    assert "held by finalizer example.com/hold" in delete_and_await.describe_blocked_deletion(held)
    condition = {"type": "NamespaceContentRemaining", "status": "True", "message": "some resources are remaining"}
    space = {"kind": "Namespace", "metadata": {"name": "n"}, "status": {"conditions": [condition]}}
    assert delete_and_await.describe_blocked_deletion(space) == "Namespace n (some resources are remaining)"


def test_an_operand_is_ready_by_condition_or_field() -> None:
    one = {
        "kind": "X",
        "status": {"state": "ready", "conditions": [{"type": "Ready", "status": "False", "reason": "Why"}]},
    }
    assert operator_objects.is_object_ready(one, ReadyCondition(field="status.state", equals="ready"))
    assert not operator_objects.is_object_ready(one, ReadyCondition(condition="Ready"))
    assert operator_objects.why_not_ready(one, ReadyCondition(condition="Ready")) == " (Ready=False: Why)"
    assert (
        operator_objects.why_not_ready(one, ReadyCondition(field="status.phase", equals="up"))
        == " (status.phase is not set, not up)"
    )


@pytest.mark.parametrize(
    ("item", "up"),
    [
        ({"kind": "DaemonSet", "status": {}}, False),
        ({"kind": "DaemonSet", "status": {"desiredNumberScheduled": 0}}, True),
        ({"kind": "DaemonSet", "status": {"desiredNumberScheduled": 2, "numberAvailable": 1}}, False),
        ({"kind": "Deployment", "spec": {"replicas": 0}}, True),
        ({"kind": "Deployment", "status": {"availableReplicas": 1}}, True),
        ({"kind": "Deployment", "metadata": {"generation": 2}, "status": {"availableReplicas": 1}}, False),
    ],
)
def test_pods_are_available_when_their_controller_has_seen_the_newest_spec(item: dict[str, Any], up: bool) -> None:
    assert operator_objects.is_object_ready(item, ReadyCondition(available=True)) == up


def test_a_field_without_a_value_to_equal_must_be_set_and_not_0() -> None:
    field = ReadyCondition(field='status.allocatable["nvidia.com/gpu"]')
    for value, up in (("8", True), ("0", False), (None, False)):
        assert operator_objects.is_object_ready({"status": {"allocatable": {"nvidia.com/gpu": value}}}, field) == up


def test_expected_objects_are_chosen_by_namespace_names_and_labels() -> None:
    item = {"metadata": {"name": "a", "namespace": "n", "labels": {"x": "1"}}}
    for more, meant in (
        ({}, True),
        ({"namespace": "m"}, False),
        ({"names": ["b"]}, False),
        ({"names": ["a"], "labels": {"x": "1"}}, True),
        ({"labels": {"x": "2"}}, False),
    ):
        assert (
            operator_objects.is_expected_object(
                item, ExpectedObjects("v1", "Pod", ReadyCondition(available=True), **more)
            )
            == meant
        )


def test_defaults_of_a_server_are_not_a_difference() -> None:
    assert operator_objects.contains_all_fields({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 2}})
    assert not operator_objects.contains_all_fields({"a": 1}, {"b": {"c": 2}})
    assert not operator_objects.contains_all_fields({"l": [1, 2]}, {"l": [1]})
    assert operator_objects.contains_all_fields(None, {})


@pytest.mark.parametrize("status", [{"availableReplicas": []}, {"availableReplicas": 1, "observedGeneration": "x"}])
def test_a_workload_of_another_form_is_named(status: dict[str, Any]) -> None:
    item = {"kind": "Deployment", "metadata": {"name": "d", "namespace": "ns", "generation": 2}, "status": status}
    with pytest.raises(DataError, match="Deployment ns/d: the answer has an unexpected form"):
        operator_objects.is_object_ready(item, ReadyCondition(available=True))


@pytest.mark.parametrize("rows", [[5], 5, ["a"]])
def test_requirements_of_another_form_are_said_with_their_version(rows: Any) -> None:
    csv = {"kind": "ClusterServiceVersion", "metadata": {"name": "a.v1"}, "status": {"requirementStatus": rows}}
    with pytest.raises(DataError, match="ClusterServiceVersion a.v1: the answer has an unexpected form"):
        installation_diagnosis.unmet_requirements(csv)
