# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An autoscaler removes the last server, and the endpoint picker holds the requests that come then."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import suite_prerequisites
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import conditions_by_type
from playbook import begin, run_dirs

LACKING = suite_prerequisites.real_node_lacks()
LEVEL, PAUSE = 20, 70  # seconds of the first two steps of the preset


def seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Observer:
    """What the API server said of the servers' pods, which are gone after the run."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.least = 1_000

    def look(self, folder: Path) -> None:
        """Look once at the pods of the cluster with the component, if it answers."""
        for kubeconfig in folder.glob("*/kubeconfig"):
            try:
                if "scale-from-zero" not in files.read_json(kubeconfig.parent / "instance.json")["components"]:
                    continue
                with Client.from_kubeconfig(str(kubeconfig)) as client:
                    selector = "perfscale.seatrial/part=server"
                    pods = client.list(client.kind("v1", "Pod"), "inference-gateway", selector)[0]
            except (SeatrialError, OSError):
                continue  # it starts or ends
            self.pods.update({pod["metadata"]["name"]: pod for pod in pods if _ready_since(pod)})
            self.least = min(self.least, len(pods)) if self.pods else self.least


def _ready_since(pod: dict[str, Any]) -> float:
    """Return when a pod became ready, rounded down to seconds as the kubelet does; 0 before."""
    condition = conditions_by_type(pod).get("Ready", {})
    return seconds(condition["lastTransitionTime"]) if condition.get("status") == "True" else 0.0


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
@pytest.mark.long
def test_requests_are_held_until_a_server_runs_again(rehearsal_folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    # How busy the machine is does not matter here.
    overrides = {"rehearsal_data_dir": str(rehearsal_folder), "serving_max_client_lag": 60, "workload_max_lateness": 60}
    command = ["-e", json.dumps({"preset": "light_scale_from_zero", "overrides": overrides})]
    process = begin(*command, artifacts=tmp_path / "runs", log=log, project="serving")
    observer, deadline = Observer(), time.monotonic() + 1200
    try:
        while process.poll() is None and time.monotonic() < deadline:
            observer.look(rehearsal_folder)
            time.sleep(0.5)
    finally:
        process.terminate()
        process.wait(120)
    output = " ".join(log.read_text(errors="replace").split())
    assert process.returncode == 0, output
    (run,) = run_dirs(tmp_path / "runs")
    (point,) = (run / "points").iterdir()
    kpis = {kpi["name"]: kpi for kpi in files.read_json(point / "kpis.json")["kpis"]}
    rows = [row for row in files.read_json_lines(point / "requests.jsonl") if row["type"] == "request"]
    assert [row["outcome"] for row in rows] == ["succeeded"] * len(rows) and len(rows) == 5 * LEVEL + 5 * 30

    # The last server was removed: nobody was there when the load rose.
    changes = [line for line in files.read_json_lines(point / "scale.jsonl") if line["type"] == "desired"]
    counts = [line["replicas"] for line in changes]
    assert counts[:2] == [1, 0] and counts[2] in (1, 2) and observer.least == 0
    rise = min(row["due"] for row in rows) + LEVEL + PAUSE
    assert changes[1]["at"] < rise < changes[2]["at"]

    # The pods' own status lies within the bounds: it is rounded down to seconds.
    later = [pod for pod in observer.pods.values() if seconds(pod["metadata"]["creationTimestamp"]) >= rise - 1]
    moments = {
        "created": min(seconds(pod["metadata"]["creationTimestamp"]) for pod in later),
        "started": min(
            seconds(status["state"]["running"]["startedAt"])
            for pod in later
            for status in pod["status"]["containerStatuses"]
        ),
        "ready": min(_ready_since(pod) for pod in later),
    }
    for stage, moment in moments.items():
        low, high = (rise + bound for bound in kpis[f"scale_up_{stage}"]["interval"])
        assert low < moment + 1 and moment < high, (stage, low, high, moment)

    # No token came before a pod was ready, and the requests that were due first waited for it.
    first = kpis["scale_up_first_token"]
    low, high = first["interval"]
    assert low <= first["value"] <= high and first["simulated"]
    tokens = [row["first_token"] for row in rows if row["due"] >= rise - 0.001]
    assert min(tokens) >= moments["ready"] and min(tokens) == pytest.approx(rise + first["value"], abs=0.01)
    assert kpis["scale_up_ready"]["interval"][0] < first["value"]
    assert kpis["servers_ready_max"]["value"] == max(counts)
    assert f"from 0 to {max(counts)} server" in output and "and the first token came after" in output
    assert "(SIMULATED)" in output
