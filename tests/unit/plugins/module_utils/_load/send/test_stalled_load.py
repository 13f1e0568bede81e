"""When a load of which nothing runs can never run, and when it still may."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds.sampling_spec import SamplingSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import early_load_end
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.early_load_end import (
    why_no_workload_can_run,
)
from scripted_server import Asked, ScriptedServer, status_object

LABELS = {run_labels.RUN: "failing", run_labels.POINT: "001"}
NODES = [{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "nvidia.com/gpu": "8"}}}]


def pod(index: int, gpus: int, scheduled: str | None = "False", **spec: Any) -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
    said = [] if scheduled is None else [{"type": "PodScheduled", "status": scheduled}]
    return {
        "metadata": {"name": f"p-{index}", "labels": {**LABELS, run_labels.INDEX: str(index)}},
        "spec": {"containers": [{"resources": limits}], **spec},
        "status": {"phase": "Pending", "conditions": said},
    }


def test_pods_that_fit_nowhere_end_the_load_with_their_reason() -> None:
    told = "pod p-0 can never be scheduled: it asks for 16 nvidia.com/gpu, and the largest node has 8"
    assert why_no_workload_can_run([pod(0, 16), pod(1, 16)], NODES) == told


def test_one_pod_that_fits_nowhere_keeps_its_whole_workload_from_running() -> None:
    assert "p-0 can never" in why_no_workload_can_run([pod(0, 1), pod(0, 16)], NODES)


@pytest.mark.parametrize(
    "other", [pod(1, 8), pod(1, 16, "True"), pod(1, 16, None), pod(1, 16, schedulingGates=[{"name": "queue"}])]
)
def test_as_long_as_one_workload_may_run_it_goes_on(other: dict[str, Any]) -> None:
    assert why_no_workload_can_run([pod(0, 16), other], NODES) == ""


@pytest.mark.parametrize("failing", [True, False])
def test_what_a_failure_has_taken_from_a_node_does_not_end_the_load(
    failing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotations = {run_labels.FAILURE: "failing-001-0"} if failing else {}
    node = {**NODES[0], "metadata": {"name": "n", "annotations": annotations}}
    kinds = [("Node", "nodes", False), ("Pod", "pods", True)]

    def answer(asked: Asked) -> Any:
        path = urlsplit(asked.path).path
        if path == "/api/v1":
            found = [{"kind": kind, "name": name, "namespaced": inside} for kind, name, inside in kinds]
            return 200, {"resources": found}
        items = {"nodes": [node], "pods": [pod(0, 16)]}.get(path.rsplit("/", 1)[1])
        if items is None:
            return 404, status_object(404, "NotFound", "there is none")
        return 200, {"metadata": {"resourceVersion": "1"}, "items": items}

    monkeypatch.setattr(early_load_end, "FIRST_CHECK_AFTER", 0.0)
    with ScriptedServer(answer) as server:
        access = Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig")).access
        spec = SamplingSpec("failing", "001", tmp_path / "o", "ns", "ns", (), frozenset(), (), 0)
        stalled = early_load_end.StalledLoad(access, spec)
        for _look in range(2):
            stalled.look({"reasons": ["known"]}, 1)
    assert bool(stalled.unschedulable) is not failing, stalled.unschedulable
