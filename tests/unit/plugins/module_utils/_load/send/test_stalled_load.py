"""When a load of which nothing runs can never run, and when it still may."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.early_end import why_unschedulable

NODES = [{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "nvidia.com/gpu": "8"}}}]


def pod(index: int, gpus: int, scheduled: str | None = "False", **spec: Any) -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
    said = [] if scheduled is None else [{"type": "PodScheduled", "status": scheduled}]
    return {
        "metadata": {"name": f"p-{index}", "labels": {run_labels.INDEX: str(index)}},
        "spec": {"containers": [{"resources": limits}], **spec},
        "status": {"phase": "Pending", "conditions": said},
    }


def test_pods_that_fit_nowhere_end_the_load_with_their_reason() -> None:
    told = "pod p-0 can never be scheduled: it asks for 16 nvidia.com/gpu, and the largest node has 8"
    assert why_unschedulable([pod(0, 16), pod(1, 16)], NODES) == told


def test_one_pod_that_fits_nowhere_keeps_its_whole_workload_from_running() -> None:
    assert "p-0 can never" in why_unschedulable([pod(0, 1), pod(0, 16)], NODES)


@pytest.mark.parametrize(
    "other", [pod(1, 8), pod(1, 16, "True"), pod(1, 16, None), pod(1, 16, schedulingGates=[{"name": "queue"}])]
)
def test_as_long_as_one_workload_may_run_it_goes_on(other: dict[str, Any]) -> None:
    assert why_unschedulable([pod(0, 16), other], NODES) == ""
