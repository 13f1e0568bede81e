# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lost node under Jobs that Kueue has admitted: its stages against the audit log."""

from __future__ import annotations

from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import (
    failure_recoveries,
    timeline_builder,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.recovery_stages import OF_QUEUE
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds
from failing_load import BEGIN, JOB, add_nodes, load, windows
from load_world import world_on

#: As component node-failures-fast, only faster: a lease is renewed every two seconds, a node is lost after six.
COMPONENT = """
about: Leases of nodes for tests of failures
adds_arguments:
  kwok: [--node-lease-duration-seconds=8]
  kube-controller-manager: [--node-monitor-grace-period=6s, --node-monitor-period=1s]
"""
#: A queue of Kueue in front of all nodes.
QUEUE = """
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: failing}, spec: {}}
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: ClusterQueue
  metadata: {name: failing}
  spec:
    namespaceSelector: {}
    resourceGroups:
      - coveredResources: [cpu, nvidia.com/gpu]
        flavors:
          - name: failing
            resources: [{name: cpu, nominalQuota: "300"}, {name: nvidia.com/gpu, nominalQuota: "24"}]
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: users}, spec: {clusterQueue: failing}}
"""


@pytest.mark.long
def test_each_stage_of_an_eviction_by_kueue_meets_the_audit_log(own_instance: Any, tmp_path: Path) -> None:
    folder = tmp_path / "quick-failures"
    folder.mkdir()
    (folder / "component.yml").write_text(COMPONENT, encoding="utf-8")
    components = ["kueue", "kueue-pods-ready", str(folder)]
    info = cluster_lifecycle.create_or_repair_instance(own_instance("queued", components=components), support.quiet)
    job = JOB.replace('{name: "{{ name }}"}', '{name: "{{ name }}", labels: {kueue.x-k8s.io/queue-name: users}}', 1)
    job = job.replace("  parallelism", "  suspend: true\n  parallelism", 1)
    with world_on(info["kubeconfig"], tmp_path / "world") as world:
        add_nodes(world.client)
        for entry in yaml.safe_load(QUEUE):
            place = {"namespace": world.namespace} if entry["kind"] == "LocalQueue" else {}
            world.client.create({**entry, "metadata": {**entry["metadata"], **place}})
        stages = workload_kinds.resolve_stage_definitions(["Job", "Workload", "Pod"], lambda _where, name: name)
        templates = [{"name": "job", "content": job, "parameters": {"seconds": 30}}]
        failure = {"kind": "node_lost", "at": [BEGIN], "duration": 40.0}
        found = world.submit(**{**load(30, failure), "templates": templates, "stages": stages})
        assert found["counts"]["succeeded"] == 4, found
        seen = failure_recoveries.read_point_failures(world.point_dir, world.run_id, "001")
        start = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001").header["start"]
        write = ("workloads/status", ("patch", "update"), "seatrial:kueue")
        written = windows(Path(info["cluster"]["audit_log"]), (world.run_id,), dict.fromkeys(OF_QUEUE, write))
    assert seen.recoveries
    for recovery in seen.recoveries:
        spans = [recovery.stages[stage] for stage in (*OF_QUEUE, "whole")]
        assert not any(isnan(first) for first, _last in spans), recovery
        assert all(one[0] <= other[1] for one, other in pairwise(spans)), spans
        for stage in OF_QUEUE:
            first, last = recovery.stages[stage][0] + start, recovery.stages[stage][1] + start
            assert [window for window in written[stage] if first <= window[1] and last >= window[0]], (stage, recovery)
