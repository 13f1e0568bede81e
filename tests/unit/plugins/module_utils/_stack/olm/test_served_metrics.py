"""Metrics of an exporter are read through the API server's proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm import operator_objects, operator_specs
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm.operator_specs import ReadyCondition
from scripted_server import Asked, ScriptedServer, reply, status_object

READY = ReadyCondition(metrics=("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE"))
SERVED = """# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 0
"""
MORE = 'DCGM_FI_PROF_SM_ACTIVE{gpu="0"} 0.1\nDCGM_EXPORTERS 1\n'


def pod(status: str = "True", **labels: str) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": "exporter-1", "namespace": "gpu", "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": status}]},
    }


def asked_of(tmp_path: Path, answer: Any, one: dict[str, Any]) -> tuple[str, list[str]]:
    """Return what the pod lacks if the server answers so, and the requested paths."""
    with ScriptedServer(lambda _asked: answer) as server:
        config = server.kubeconfig(tmp_path / "config")
        with Client.from_kubeconfig(config) as client:
            lack = operator_objects.metrics_missing_in_pod(client, one, READY)
        asked: list[Asked] = server.asked
        return lack, [each.path for each in asked]


def test_a_metric_without_a_sample_is_missing(tmp_path: Path) -> None:
    lack, paths = asked_of(tmp_path, reply(200, SERVED.encode()), pod())
    assert lack == " (not yet DCGM_FI_PROF_SM_ACTIVE)"
    assert paths == ["/api/v1/namespaces/gpu/pods/exporter-1:9400/proxy/metrics"]


def test_a_pod_that_serves_all_metrics_lacks_nothing(tmp_path: Path) -> None:
    assert asked_of(tmp_path, reply(200, (SERVED + MORE).encode()), pod())[0] == ""
    assert operator_objects.names_of_exposed_metrics(SERVED + MORE) == {*READY.metrics, "DCGM_EXPORTERS"}


def test_an_exporter_that_does_not_answer_is_named_with_the_reason(tmp_path: Path) -> None:
    lack, _paths = asked_of(tmp_path, reply(404, status_object(404, "NotFound", "no endpoint there")), pod())
    assert "no endpoint there" in lack


def test_a_pod_that_is_not_ready_or_is_simulated_is_not_queried(tmp_path: Path) -> None:
    assert asked_of(tmp_path, reply(200, SERVED.encode()), pod("False")) == (" (it is not Ready)", [])
    assert asked_of(tmp_path, reply(200, SERVED.encode()), pod(**{run_labels.SIMULATED: "true"})) == ("", [])


def test_readiness_by_metrics_excludes_other_conditions() -> None:
    def expect(**ready: Any) -> operator_specs.OperatorSpec:
        one = {"api_version": "v1", "kind": "Pod", "ready": ready}
        return operator_specs.read_operators([{"package": "gpu", "namespace": "gpu", "expect": [one]}])[0]

    assert expect(metrics=["A"], port=9400).expect[0].ready == ReadyCondition(metrics=["A"], port=9400)
    with pytest.raises(InputError, match="one of condition, field, available and metrics"):
        expect(metrics=["A"], condition="Ready")
    with pytest.raises(InputError, match="ready is missing"):
        expect(port=9400)
