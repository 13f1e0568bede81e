# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LeaderWorkerSets and sandboxes under their real controllers: stages against the API server's audit log.

The log has no contents. So a stage must meet a write that its writer made of this object, and one that the first or the
last of them makes must meet that one.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import audit_truth
import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import conditions_by_type
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_files, workload_kinds
from load_world import World, world_on

POD = """{% macro pod(container, restart_policy="", starts=true, namespace="") -%}
metadata:
  labels: {{ labels | to_json }}
spec:
  tolerations: [{operator: Exists}]
  containers: [{name: {{ container }}, image: i, resources: {limits: {cpu: 10m}}}]
{%- endmacro %}
"""
#: Kind -> its resource, the user of its controller; stage -> what is written, and which of these writes makes it.
SET = ("leaderworkersets", "seatrial:leader-worker-set")
SANDBOX = ("sandboxes", "seatrial:agent-sandbox")
KINDS: dict[str, tuple[tuple[str, str], dict[str, tuple[str, int | None]]]] = {
    "LeaderWorkerSet": (
        SET,
        {
            "created": ("create", 0),
            "accepted": ("status", 0),
            "leaders_created": ("status", None),
            "group_ready": ("status", None),
            "ready": ("status", -1),
        },
    ),
    "Sandbox": (SANDBOX, {"created": ("create", 0), "scheduled": ("status", None), "ready": ("status", None)}),
}
COMPONENT = {"LeaderWorkerSet": "leader-worker-set", "Sandbox": "agent-sandbox"}


def writes_of(audit: Path, run: str, resource: str, controller: str) -> dict[str, dict[str, list[audit_truth.Window]]]:
    """Return name of an object -> create, status -> when each write was received and answered, in order."""
    found: dict[str, dict[str, list[audit_truth.Window]]] = defaultdict(lambda: defaultdict(list))
    for raw in audit.read_text(encoding="utf-8").splitlines():
        if run not in raw:
            continue
        record = json.loads(raw)
        ref = record.get("objectRef") or {}
        if ref.get("resource") != resource or not 200 <= record.get("responseStatus", {}).get("code", 0) < 300:
            continue
        window = (audit_truth.moment(record["requestReceivedTimestamp"]), audit_truth.moment(record["stageTimestamp"]))
        if record["verb"] == "create" and "dryRun" not in record["requestURI"]:
            found[ref["name"]]["create"].append(window)
        elif ref.get("subresource") == "status" and record["user"]["username"] == controller:
            found[ref["name"]]["status"].append(window)
    return {name: {what: sorted(windows) for what, windows in of.items()} for name, of in found.items()}


def submit_kind(world: World, kind: str, count: int, rate: float, pods: int = 3) -> dict[str, Any]:
    """Submit workloads of a kind with its own template, and wait until all are ready."""
    parameters = {"metadata": {"labels": {}}, "pods": pods, "suspend": False, "backoff_limit": 0}
    options = workload_files.submit_options_with_content(
        {"stages": [kind, "Pod"], "templates": [{"kind": kind, "content": POD, "parameters": parameters}]},
        lambda _where, name: name,
        [],
    )
    return world.submit(count=count, arrival={"rate": rate}, wait=True, timeout=300, settle=2, in_flight=32, **options)


def check_stages(world: World, audit: Path, kind: str, count: int) -> str:
    """Assert that each stage of each workload meets a write of its writer; return a line for each stage."""
    (resource, controller), stages = KINDS[kind]
    table = timeline_builder.build_timeline(world.point_dir, world.run_id, "001")
    truth = writes_of(audit, world.run_id, resource, controller)
    assert len(truth) == count
    assert not table.contradictions
    lines = []
    for stage, (what, number) in stages.items():
        widths = []
        for row, name in enumerate(table.name):
            interval = (table.earliest[stage][row], table.latest[stage][row])
            windows = truth[name][what] if number is None else [truth[name][what][number]]
            met = [window for window in windows if interval[0] <= window[1] and interval[1] >= window[0]]
            assert met, f"{stage} of {name}: {interval} meets none of {windows}"
            widths.append(interval[1] - interval[0])
        widths.sort()
        lines.append(f"{kind} {stage}: median width {widths[len(widths) // 2] * 1e3:.0f} ms, all {count} meet")
    return "\n".join(lines)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_stages_of_a_short_load_meet_the_audit_log(own_instance: Any, tmp_path: Path, kind: str) -> None:
    measure(own_instance, tmp_path, kind, 20, 20)


@pytest.mark.long
@pytest.mark.parametrize("rate", [20, 100])
@pytest.mark.parametrize("kind", list(KINDS))
def test_the_stages_meet_the_audit_log(own_instance: Any, tmp_path: Path, kind: str, rate: int) -> None:
    measure(own_instance, tmp_path, kind, rate, 300)


def measure(own_instance: Any, folder: Path, kind: str, rate: float, count: int) -> None:
    info = cluster_lifecycle.present(own_instance("sets", components=[COMPONENT[kind]]), support.quiet)
    with world_on(info["kubeconfig"], folder) as world:
        fake_nodes.present(world.client, fake_nodes.NodePoolSpec(20), 120, support.quiet)
        found = submit_kind(world, kind, count, rate)
        assert found["counts"]["succeeded"] == count, found
        print(check_stages(world, Path(info["cluster"]["audit_log"]), kind, count))


def test_a_group_whose_pod_was_deleted_is_made_again_and_the_set_says_so(own_instance: Any, tmp_path: Path) -> None:
    info = cluster_lifecycle.present(own_instance("sets", components=["leader-worker-set"]), support.quiet)
    with world_on(info["kubeconfig"], tmp_path) as world:
        fake_nodes.present(world.client, fake_nodes.NodePoolSpec(2), 120, support.quiet)
        submit_kind(world, "LeaderWorkerSet", 1, 1)
        pods = world.client.kind("v1", "Pod")
        before, _version = world.client.list(pods, world.namespace, "leaderworkerset.sigs.k8s.io/name")
        # What the webhook of pods gives them.
        assert [pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"] for pod in before] == ["0"] * 3
        names = {entry["name"] for pod in before for entry in pod["spec"]["containers"][0]["env"]}
        assert {"LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"} <= names
        worker = max(before, key=lambda pod: str(pod["metadata"]["name"]))
        world.client.delete(pods, worker["metadata"]["name"], world.namespace)
        old = {pod["metadata"]["uid"] for pod in before}
        kind = stage_definitions.compile_kind(workload_kinds.load_kind("LeaderWorkerSet").definition)
        sets = world.client.kind("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
        said = False
        deadline = time.monotonic() + 120
        while True:
            (found,), _version = world.client.list(sets, world.namespace)
            values = dict(zip(kind.names, kind.values(found, conditions_by_type(found)), strict=True))
            said = said or bool(values["interrupted"]) and not values["ready"]
            now, _version = world.client.list(pods, world.namespace, "leaderworkerset.sigs.k8s.io/name")
            if len(now) == 3 and not old & {pod["metadata"]["uid"] for pod in now}:
                break
            assert time.monotonic() < deadline, "the group was not made again"
            time.sleep(0.05)
        assert said, "the set never said that it was interrupted"
