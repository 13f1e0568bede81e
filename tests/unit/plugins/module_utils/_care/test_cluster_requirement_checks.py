"""What the examination says of nodes and room, on an API server that answers as scripted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import cluster_requirement_checks
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.cluster_requirement_checks import (
    ExaminationSpec,
    estimate_without_cluster,
    run_cluster_checks,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds
from scripted_server import ScriptedServer

GPU = "nvidia.com/gpu"
PLAN = {"workloads": 3, "arrival": {"type": "closed"}, "gpus": 2, "requests": {GPU: 1}}


def node(name: str, ready: bool = True) -> dict[str, Any]:
    said = [{"type": "Ready", "status": str(ready)}]
    return {"metadata": {"name": name}, "status": {"allocatable": {GPU: "8"}, "conditions": said}}


def told(folder: Path, there: list[dict[str, Any]], scaler: bool = False, **order: Any) -> dict[str, tuple[str, str]]:
    """Return what is said of each check."""

    def answer(asked: Any) -> Any:
        if asked.path.startswith("/version"):
            return 200, {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
        if asked.path.startswith("/api/v1/nodes"):
            return 200, {"metadata": {}, "items": there}
        if asked.path == "/api/v1":
            return 200, {"resources": [{"name": "nodes", "kind": "Node", "namespaced": False, "verbs": ["list"]}]}
        if asked.path == "/apis":
            return 200, {"groups": []}
        if scaler and "cluster-autoscaler-status" in asked.path:
            return 200, {}
        return 404, {"kind": "Status", "code": 404, "message": "not found"}

    asked = {"phases": ["prepare", "test"], "permissions": [], "kinds": [], "namespaces": [], "storage_classes": []}
    with ScriptedServer(answer) as server, Client.from_kubeconfig(server.kubeconfig(folder / "kubeconfig")) as client:
        found = run_cluster_checks(
            client, ExaminationSpec(**{**asked, "points": {"001": PLAN}, "others": False, **order})
        )
    return {one["check"]: (one["result"], one["detail"]) for one in found["checks"]}


def served(**fields: str) -> dict[str, Any]:
    """An OpenAPI document of one kind with these fields of its spec."""
    spec = {"allOf": [{"$ref": "#/components/schemas/spec"}]}
    group, version, kind = fields.pop("of").split("/")
    return {
        "components": {
            "schemas": {
                "kind": {
                    "properties": {"spec": spec},
                    "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}],
                },
                "spec": {"properties": dict.fromkeys(fields, {"type": "array"})},
            }
        }
    }


@pytest.mark.parametrize(
    ("kueue", "trainer", "wrong"),
    [
        ({}, {"podTemplateOverrides": ""}, ""),
        ({"preemptionGates": ""}, {"runtimePatches": ""}, ""),
        ({"preemptionGates": ""}, {"podTemplateOverrides": ""}, "Kueue 0.17 or later writes spec.runtimePatches"),
        ({}, {"runtimePatches": ""}, "Kueue 0.16 and earlier write spec.podTemplateOverrides"),
        (None, {"runtimePatches": ""}, ""),
    ],
)
def test_releases_of_kueue_and_trainer_that_do_not_go_together_are_refused(
    tmp_path: Path, kueue: dict[str, str] | None, trainer: dict[str, str], wrong: str
) -> None:
    schemas = {"trainer.kubeflow.org/v1alpha1": served(of="trainer.kubeflow.org/v1alpha1/TrainJob", **trainer)}
    if kueue is not None:
        schemas["kueue.x-k8s.io/v1beta2"] = served(of="kueue.x-k8s.io/v1beta2/Workload", **kueue)
    kinds = {"trainer.kubeflow.org/v1alpha1": "TrainJob", "kueue.x-k8s.io/v1beta2": "Workload"}
    groups = [
        {
            "name": name.partition("/")[0],
            "versions": [{"groupVersion": name, "version": name.partition("/")[2]}],
            "preferredVersion": {"groupVersion": name},
        }
        for name in schemas
    ]

    def answer(asked: Any, _server: Any = None) -> tuple[int, dict[str, Any]]:
        if (name := asked.path.removeprefix("/openapi/v3/apis/")) in schemas:
            return 200, schemas[name]
        if (name := asked.path.removeprefix("/apis/")) in schemas:
            return 200, {"resources": [{"name": "x", "kind": kinds[name], "namespaced": True, "verbs": ["list"]}]}
        if asked.path == "/apis":
            return 200, {"groups": groups}
        if asked.path == "/api":
            return 200, {"versions": ["v1"]}
        if asked.path == "/api/v1":
            return 200, {"resources": []}
        return 404, {"kind": "Status", "code": 404, "message": "not found"}

    conflicts = workload_kinds.conflicts_of_load(["TrainJob"], ["Workload"], [])
    spec = ExaminationSpec(["test"], [], [], [], [], {}, conflicts=conflicts)
    findings = cluster_requirement_checks.CheckResults()
    with ScriptedServer(answer) as server, Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig")) as client:
        cluster_requirement_checks._check_conflicts(client, spec, findings)
    assert [(one["check"], one["detail"][: len(wrong)]) for one in findings.checks] == [("versions", wrong)] * bool(
        wrong
    )


def test_without_kueue_no_releases_conflict() -> None:
    assert workload_kinds.conflicts_of_load(["TrainJob"], [], []) == []
    assert workload_kinds.conflicts_of_load(["Job"], ["Workload"], []) == []


def test_a_cluster_without_nodes_is_not_ok_and_says_it_once(tmp_path: Path) -> None:
    found = told(tmp_path, [])
    assert found["nodes"] == ("missing", "the cluster has no node, so nothing can be scheduled")
    assert "room" not in found


def test_nodes_that_are_not_ready_are_missing_if_all_are_and_noted_if_some_are(tmp_path: Path) -> None:
    assert told(tmp_path, [node("a", False)])["nodes"][0] == "missing"
    assert told(tmp_path, [node("a"), node("b", False)])["nodes"] == ("note", "1 of 2 Ready, 16 GPUs")
    assert told(tmp_path, [node("a")])["nodes"] == ("ok", "1 of 1 Ready, 8 GPUs")


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"installs": "nfd, gpu_operator"}, "phase prepare installs nfd, gpu_operator"),
        ({"nodes": [{"count": 2}]}, "is not known yet"),
        ({"scaler": True}, "the cluster autoscaler may add nodes"),
    ],
)
def test_what_may_come_later_is_noted_and_not_missing(tmp_path: Path, order: dict[str, Any], words: str) -> None:
    points = {"001": {**PLAN, "requests": {GPU: 16}}}
    assert told(tmp_path, [node("a")], points=points)["room"][0] == "missing"
    result, detail = told(tmp_path, [node("a")], points=points, **order)["room"]
    assert result == "note" and words in detail


def test_points_that_lack_the_same_are_named_together(tmp_path: Path) -> None:
    points = {name: {**PLAN, "gpus": 16} for name in ("001", "002")}
    assert told(tmp_path, [node("a")], points=points)["room"][1].startswith("points 001, 002: one workload wants 16")


def test_many_points_have_one_line_for_all(tmp_path: Path) -> None:
    points = {f"{number:03d}": PLAN for number in range(1, 9)}
    assert told(tmp_path, [node("a")], points=points)["plan"][1].startswith("all 8 points: ")


def test_of_two_versions_of_a_kind_one_is_enough_and_without_both_the_first_is_missing(tmp_path: Path) -> None:
    found = told(tmp_path, [node("a")], kinds=["gone/v2/Node or v1/Node"])
    assert found["kinds"] == ("ok", "Node (v1)") and "kind" not in found
    result, detail = told(tmp_path, [node("a")], kinds=["gone/v2/Node or gone/v1/Node"])["kind"]
    assert result == "missing" and "gone/v2" in detail


def test_without_a_cluster_each_point_is_estimated_and_the_least_rbac_is_known() -> None:
    right = {"phases": ["test"], "resources": ["pods"], "verbs": ["list"]}
    points = {f"{number:03d}": {**PLAN, "seconds": 600, "pods": 1} for number in range(1, 6)}
    found = estimate_without_cluster(ExaminationSpec(["test"], [right], [], ["mine"], [], points))
    assert [one["check"] for one in found["checks"]] == ["cluster", *["plan"] * 6] and found["missing"] == 0
    assert "point 005: 3 workloads in about 600 s, 1.00 GPU hours" in found["checks"][5]["detail"]
    assert [one["kind"] for one in found["rbac"]][:1] == ["ClusterRole"]


LACKS = "my_api=gone needs Node (gone/v1) and Part (gone/v1), which the cluster does not have: install Gone"


@pytest.mark.parametrize(
    ("used", "others", "result", "detail"),
    [
        (["here"], ["gone"], "ok", "here is used; the cluster has the kinds of here"),
        (["gone", "here"], ["here"], "missing", f"{LACKS}, or set my_api=here"),
        (["gone"], ["away"], "missing", LACKS),
    ],
)
def test_the_values_of_a_setting_that_a_cluster_has_kinds_for_are_named_once(
    used: list[str], others: list[str], result: str, detail: str, tmp_path: Path
) -> None:
    required = {"here": ["v1/Node"], "gone": ["gone/v1/Node", "gone/v1/Part or gone/v2/Part"], "away": ["away/v1/Node"]}
    values = [*used, *others]
    entry = {
        "setting": "my_api",
        "used": used,
        "kinds": {value: required[value][0] for value in values},
        "required": {value: required[value] for value in values},
        "install": {value: value.title() for value in values},
    }
    kinds = [text for value in used for text in required[value]]
    found = told(tmp_path, [node("a")], kinds=kinds, alternatives=[entry])
    assert found["my_api"] == (result, detail) and "kind" not in found
    only = {**entry, "kinds": {"here": "v1/Node"}}
    assert "my_api" not in told(tmp_path, [node("a")], alternatives=[only])


@pytest.mark.parametrize("status", [None, "text", {"hard": "all"}, {"hard": {"pods": None}}])
def test_a_quota_of_another_form_limits_nothing(status: Any) -> None:
    quotas = [{"metadata": {"name": "q"}, "status": status}]
    client = SimpleNamespace(kind=lambda *_names: "ResourceQuota", list=lambda *_arguments: (quotas, "1"))
    found = cluster_requirement_checks.CheckResults()
    cluster_requirement_checks._check_quotas(client, "ns", [], found)
    assert found.checks == []


@pytest.mark.parametrize("spec", [{}, None, {"containers": [{"resources": {"limits": [1]}}]}, {"containers": "none"}])
def test_a_pod_of_another_form_is_an_error_of_the_server(spec: Any) -> None:
    pods = [{"metadata": {"name": "p", "namespace": "n"}, "spec": spec}]
    client = SimpleNamespace(kind=lambda *_names: "Pod", list=lambda *_arguments, **_selectors: (pods, "1"))
    found = cluster_requirement_checks.CheckResults()
    with pytest.raises(AccessError, match="list of pods: the answer has an unexpected form"):
        cluster_requirement_checks._check_other_gpu_users(client, SimpleNamespace(heavy=[], exclusive=False), found)
