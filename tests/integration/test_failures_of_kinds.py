# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A killed pod and a lost node under each kind of workload, with its real controller: stages against the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import read_workload_files, workload_kinds
from failing_load import BEGIN, check_stages, failing_cluster, nodes_are_whole, within_patience
from load_world import world_on

POD = """{% macro pod(container, restart_policy="", starts=true, namespace="") -%}
metadata:
  labels: {{ labels | to_json }}
  annotations: {perfscale.seatrial/run-seconds: "30"}
spec:
  restartPolicy: {{ restart_policy or "Always" }}
  tolerations:
    - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
  containers: [{name: {{ container }}, image: i, resources: {limits: {cpu: "10", nvidia.com/gpu: "1"}}}]
{%- endmacro %}
"""
RESTARTED = {"backoff_limit": 0, "max_restarts": 100, "restart_strategy": "Recreate"}
#: Way to recover -> kind, and parameters of its template.
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "Job": ("Job", {}),
    "JobSet": ("JobSet", {}),
    "JobSet that restarts as a whole": ("JobSet", RESTARTED),
    "JobSet that waits for its old Jobs": ("JobSet", {**RESTARTED, "restart_strategy": "BlockingRecreate"}),
    "TrainJob": ("TrainJob", {}),
    "TrainJob that restarts as a whole": ("TrainJob", RESTARTED),
    "LeaderWorkerSet": ("LeaderWorkerSet", {}),
    "Deployment": ("Deployment", {}),
    "AppWrapper": ("AppWrapper", {}),
}


@pytest.fixture(scope="module")
def cluster(rehearsal_folder: Path) -> Iterator[support.Rehearsal]:
    components = ["trainer", "leader-worker-set", "kueue", "appwrapper"]
    with failing_cluster(rehearsal_folder, "failures-of-kinds", components) as found:
        yield found


@pytest.mark.long
@pytest.mark.parametrize("way", list(WAYS))
def test_each_stage_of_a_recovery_meets_the_audit_log(cluster: support.Rehearsal, tmp_path: Path, way: str) -> None:
    kind, parameters = WAYS[way]
    loaded = workload_kinds.load_kind_by_name_or_path(kind)
    pods = {"metadata": {"labels": {}}, "pods": 3, "gpus": 1, "suspend": False, "backoff_limit": 100, "max_restarts": 0}
    options = read_workload_files.submit_options_with_content(
        {
            "stages": loaded.watched(workload_kinds.find_wrapped_kind(loaded)),
            "templates": [{"kind": kind, "content": POD, "parameters": {**pods, **parameters}}],
        },
        lambda _where, name: name,
        [],
    )
    # The pods of a LeaderWorkerSet have fixed names: those of a lost node are only replaced when it is back.
    failures = [{"kind": "node_lost", "at": [BEGIN], "duration": 25.0}, {"kind": "pod_killed", "at": [BEGIN + 1]}]
    endless = {"lifetime": {"type": "fixed", "mean": 90}} if loaded.endless else {}
    with world_on(cluster.kubeconfig, tmp_path) as world:
        found = world.submit(
            count=4,
            arrival={"rate": 4},
            wait=True,
            timeout=300,
            settle=1,
            canary_rate=20,
            failures=failures,
            seed=3,
            **options,
            **endless,
        )
        assert found["failures"] == {"node_lost": 1, "pod_killed": 1}, found
        seen = check_stages(world, Path(cluster.cluster["audit_log"]))
        assert {recovery.kind for recovery in seen.recoveries} == {"node_lost", "pod_killed"}
        assert within_patience(lambda: nodes_are_whole(world)), "a lost node did not come back"
