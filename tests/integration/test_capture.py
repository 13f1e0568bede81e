# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The captured state of a real API server: what is kept of a run, within its limits, and without secrets."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import dynamic_client_objects, object_snapshots
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.capture_cluster import (
    CaptureSpec,
    capture_cluster_state,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

CANARY = f"canary-{secrets.token_hex(8)}"
STAGES = {
    "api_version": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "stages": [
        {"name": "created", "field": "metadata.creationTimestamp", "writer": "api-server"},
        {"name": "succeeded", "condition": "Succeeded", "writer": "controller", "ends": "succeeded"},
        {"name": "failed", "condition": "Failed", "writer": "controller", "ends": "failed"},
    ],
}


@pytest.fixture
def run_id(client: Client) -> Iterator[str]:
    """A run with a namespace and a node, which are gone afterwards."""
    name = f"k-{secrets.token_hex(4)}"
    meta = {"name": name, "labels": labels(name)}
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    status = {"allocatable": {"cpu": "4", "nvidia.com/gpu": "8"}}
    client.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"unschedulable": True}, "status": status}
    )
    yield name
    kinds = [client.kind("v1", kind) for kind in ("Node", "Namespace")]
    for kind in kinds:
        client.delete(kind, name)
    deadline = time.monotonic() + 120
    while any(client.get(kind, name) is not None for kind in kinds):
        assert time.monotonic() < deadline, f"node or namespace {name} still exists after 120 s"
        time.sleep(0.2)


def labels(run: str) -> dict[str, str]:
    return {"perfscale.seatrial/run": run, "perfscale.seatrial/point": "001", "perfscale.seatrial/index": "0"}


def job(client: Client, run: str, name: str) -> None:
    container = {
        "name": "pytorch",
        "image": "none",
        "env": [
            {"name": "HUB_TOKEN", "value": f"hub-{CANARY}"},
            {"name": "ARGUMENTS", "value": f"--user x --{CANARY} https://me:{CANARY}@example.com/x"},
            {"name": "EPOCHS", "value": "3"},
        ],
    }
    # Suspended, so that no pod begins: such a job has not ended, at any speed of the machine.
    spec = {
        "runPolicy": {"suspend": True},
        "pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": {"spec": {"containers": [container]}}}},
    }
    meta = {"name": name, "namespace": run, "labels": labels(run)}
    client.create({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta, "spec": spec})


def point_of(top: Path, run: str) -> None:
    folder = top / "points" / "001"
    folder.mkdir(parents=True)
    template = {"name": "t", "kind": "PyTorchJob", "namespace": run}
    header = {"type": "header", "run": run, "point": "001", "templates": [template]}
    files.write_json_lines(folder / "plan.jsonl", [header])
    files.write_json_lines(folder / "observations.jsonl", [{"type": "stages", "kinds": {STAGES["kind"]: STAGES}}])


def everything(top: Path) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in top.rglob("*") if path.is_file())


def test_a_capture_keeps_what_explains_a_point_and_no_secret(
    client: Client, rehearsal: Any, run_id: str, tmp_path: Path
) -> None:
    point_of(tmp_path, run_id)
    for number in range(2):
        job(client, run_id, f"{run_id}-{number}")
    meta = {"name": "canary", "namespace": run_id, "labels": labels(run_id)}
    client.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"word": CANARY}})
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": run_id},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": run_id},
        "type": "Warning",
        "reason": "Failed",
        "message": f"the password is {CANARY}",
    }
    client.create(event)
    spec = CaptureSpec(
        rehearsal.kubeconfig, str(tmp_path), run_id, point="001", why="after point 001", secrets={"word": CANARY}
    )
    result = capture_cluster_state(spec)
    assert result["warnings"] == []
    folder = tmp_path / "capture" / "01-point-001"
    assert result["path"] == str(folder)
    index = files.read_json(tmp_path / "capture" / "index.json")
    files.validate_schema_if_enabled("capture/1", index)
    written = {one["file"]: one for one in index["captures"][0]["files"]}
    workloads = list(files.read_json_lines(folder / "workloads-pytorchjob.jsonl"))
    assert {one["metadata"]["name"] for one in workloads} == {f"{run_id}-0", f"{run_id}-1"}
    assert written["workloads-pytorchjob.jsonl"]["of"] == 2
    container = workloads[0]["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    values = {one["name"]: one["value"] for one in container["env"]}
    assert (values["HUB_TOKEN"], values["EPOCHS"]) == ("<secret>", "3"), "values are masked one by one"
    state = files.read_json(folder / "state.json")
    assert state["versions"]["kubernetes"].startswith("v1.")
    assert (state["nodes"][run_id]["gpus"], state["nodes"][run_id]["schedulable"]) == (8, False)
    assert any(
        one["message"] == "the password is <secret>" for one in files.read_json_lines(folder / f"events-{run_id}.jsonl")
    )
    assert files.read_json(tmp_path / "points" / "001" / "ran.json")["nodes"]["count"] == len(state["nodes"])
    text = everything(tmp_path / "capture")
    assert CANARY not in text and '"kind":"Secret"' not in text
    again = capture_cluster_state(spec)
    assert Path(again["path"]).name == "02-point-001"


def test_limits_cut_a_capture_and_are_noted(client: Client, rehearsal: Any, run_id: str, tmp_path: Path) -> None:
    point_of(tmp_path, run_id)
    job(client, run_id, f"{run_id}-0")
    result = capture_cluster_state(
        CaptureSpec(rehearsal.kubeconfig, str(tmp_path), run_id, point="001", why="x", limit_bytes=10)
    )
    written = {one["file"]: one for one in files.read_json(tmp_path / "capture/index.json")["captures"][0]["files"]}
    assert written["state.json"]["bytes"] > 10, "the state is always whole"
    assert (written["workloads-pytorchjob.jsonl"]["objects"], written["workloads-pytorchjob.jsonl"]["of"]) == (0, 1)
    late = capture_cluster_state(
        CaptureSpec(rehearsal.kubeconfig, str(tmp_path), run_id, point="001", why="x", seconds=0.000001)
    )
    assert any("the time of the capture, 1e-06 s, is over" in one for one in late["warnings"]), late["warnings"]
    assert result["ran"]["nodes"]["count"] > 0
    capture_cluster_state(
        CaptureSpec(rehearsal.kubeconfig, str(tmp_path), run_id, why="after a failure", cluster="driver")
    )
    entry = files.read_json(tmp_path / "capture/index.json")["captures"][-1]
    assert (entry["folder"], entry["cluster"]) == ("03-after-a-failure-driver", "driver")


def test_the_dynamic_client_reads_any_kind_and_says_why_it_cannot(rehearsal: Any, tmp_path: Path) -> None:
    deadline = time.monotonic() + 60
    with dynamic_client_objects.open_dynamic_client(rehearsal.kubeconfig, "", deadline) as dynamic:
        namespaces = [one["metadata"]["name"] for page in dynamic.pages("v1", "Namespace") for one in page]
        assert "kube-system" in namespaces
        assert list(dynamic.pages("example.com/v1", "Nothing")) == [[]]
    broken = tmp_path / "kubeconfig"
    text = Path(rehearsal.kubeconfig).read_text(encoding="utf-8")
    broken.write_text(text.replace("server: https://127.0.0.1:", "server: https://127.0.0.1:1"), encoding="utf-8")
    with pytest.raises(SeatrialError), dynamic_client_objects.open_dynamic_client(str(broken), "", deadline) as dynamic:
        list(dynamic.pages("v1", "Namespace"))


def test_what_a_run_left_is_named_and_what_is_put_back_is_not(
    client: Client, rehearsal: Any, run_id: str, tmp_path: Path
) -> None:
    other = f"{run_id}-x"
    kind = client.kind("v1", "ConfigMap")

    def config(name: str, data: str, **more: Any) -> dict[str, Any]:
        meta = {"name": name, "namespace": run_id, **more}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": data}}

    for name in ("same", "changed", "gone", "again"):
        client.create(config(f"{other}-{name}", "1"))
    assert object_snapshots.write_snapshot_before_run(client, str(tmp_path), run_id)["changed"]
    assert not object_snapshots.write_snapshot_before_run(client, str(tmp_path), run_id)["changed"], (
        "an earlier session's stays"
    )
    client.delete(kind, f"{other}-gone", run_id)
    client.delete(kind, f"{other}-again", run_id)
    client.create(config(f"{other}-again", "1"))
    client.apply(config(f"{other}-changed", "2"))
    client.create(config(f"{other}-left", "1", labels=labels(run_id)))
    result = object_snapshots.compare_with_snapshot_before(client, str(tmp_path), run_id, timeout=0)
    document = files.read_json(tmp_path / "run_diff.json")
    found = {
        name: {one["name"].removeprefix(other): one for one in document[name] if one["name"].startswith(other)}
        for name in ("left", "gone", "changed")
    }
    assert {name: sorted(each) for name, each in found.items()} == {
        "left": ["-left"],
        "gone": ["-gone"],
        "changed": ["-again", "-changed"],
    }
    assert found["changed"]["-again"]["again"] and not found["changed"]["-changed"]["again"]
    assert found["left"]["-left"]["ours"] and "of the run" in result["summary"]
