"""Shapes of load on a real API server: arrivals, closed loops, mixed templates, parts found by their owners."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import drive_workload
import pytest
import rehearsal as support
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds
from load_world import SUSPENDED, World

REAL = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ name }}"}
spec:
  backoffLimit: 0
  template:
    metadata: {labels: {{ labels | to_json }}, annotations: {perfscale.seatrial/run-seconds: "{{ seconds }}"}}
    spec: {restartPolicy: Never, tolerations: [{operator: Exists}], containers: [{name: c, image: none}]}
"""
RELATED = """
apiVersion: v1
kind: Secret
metadata: {name: "{{ name }}-key"}
stringData: {token: t}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: "{{ name }}-data"}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
"""
#: Its pods carry no label of ours.
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ name }}"}
spec:
  replicas: 2
  selector: {matchLabels: {app: "{{ name }}"}}
  template:
    metadata: {labels: {app: "{{ name }}"}}
    spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: none}]}
"""


def shipped(*kinds: str, **changes: Any) -> list[dict[str, Any]]:
    return [{**workload_kinds.load_kind_by_name_or_path(kind).definition, **changes} for kind in kinds]


@pytest.fixture(scope="module")
def node(rehearsal: support.Rehearsal) -> Any:
    order = simulated_node_pool.NodePoolSpec(2, pool="load-shapes")
    with rehearsal.client() as client:
        fake_nodes.create_fake_nodes(client, order, 240, support.quiet)
        yield
        fake_nodes.remove_fake_nodes(client, order, 240, support.quiet)


def test_what_was_planned_is_when_it_is_sent_and_a_resumed_plan_is_the_same(world: World) -> None:
    load = {"count": 60, "arrival": {"type": "poisson", "timespan": 2.0}, "seed": 7}
    found = world.submit(**load)
    planned = {row["index"]: row["offset"] for row in world.rows("plan", "workload")}
    start = world.rows("ledger", "start")[0]["at"]
    intended = {row["index"]: row["intended"] for row in world.rows("ledger", "attempt")}
    assert intended == {index: pytest.approx(start + offset, abs=2e-6) for index, offset in planned.items()}
    assert len(set(planned.values())) == 60 and found["counts"]["created"] == 60
    again = world.submit(**load)
    assert (again["changed"], again["sessions"]) == (False, 2)
    other = world.submit(**{**load, "seed": 8})
    assert other["failed"] == "InputError" and "its seed is 7, now it would be 8" in other["msg"]


def test_a_load_without_a_seed_keeps_the_one_that_it_drew(world: World) -> None:
    first = world.submit(count=10, arrival={"type": "uniform", "timespan": 0.5})
    again = world.submit(count=10, arrival={"type": "uniform", "timespan": 0.5})
    assert (first["counts"]["created"], again["changed"], again.get("failed")) == (10, False, None)
    assert world.rows("plan", "header")[0]["seed"] is not None


def test_templates_mix_by_weight_and_bring_their_related_objects_along(world: World) -> None:
    found = world.submit(
        count=16,
        templates=[
            {"name": "plain", "content": SUSPENDED, "weight": 3},
            {"name": "with-data", "content": RELATED + SUSPENDED, "weight": 1},
        ],
    )
    assert found["counts"]["created"] == 16
    assert Counter(row["template"] for row in world.rows("plan", "workload")) == {"plain": 12, "with-data": 4}
    assert len(world.names("v1", "PersistentVolumeClaim")) == len(world.names("v1", "Secret")) == 4
    rows = world.rows("ledger", "attempt")
    for index in {row["index"] for row in rows if row["kind"] == "Secret"}:
        assert [row["kind"] for row in rows if row["index"] == index] == ["Secret", "PersistentVolumeClaim", "Job"]


def test_a_closed_loop_keeps_so_many_workloads_at_once(world: World, node: Any) -> None:
    template = {"name": "job", "content": REAL, "parameters": {"seconds": 0.5}}
    found = world.submit(
        count=12, arrival={"type": "closed", "at_once": 3}, templates=[template], wait=True, timeout=120
    )
    assert (found["counts"]["succeeded"], found["counts"]["unfinished"]) == (12, 0)
    made = sorted(row["sent"] for row in world.rows("ledger", "attempt"))
    ended = sorted(
        row["received"]
        for row in world.rows("observations", "event")
        if row["kind"] == "Job" and row["values"].get("succeeded")
    )
    for number, sent in enumerate(made):
        assert number - sum(one < sent for one in ended) < 3, "more than three were there at once"


def test_a_batch_waits_for_the_one_before_and_its_pause(world: World) -> None:
    world.submit(count=9, arrival={"type": "closed", "batch": 3, "delay": 0.4})
    rows = sorted(world.rows("ledger", "attempt"), key=lambda row: row["sent"])
    for before, after in ((rows[:3], rows[3:6]), (rows[3:6], rows[6:])):
        assert min(row["sent"] for row in after) - max(row["answered"] for row in before) >= 0.39


def test_parts_without_labels_are_found_by_their_owners_over_two_generations(world: World, node: Any) -> None:
    stages = [*shipped("deployment", "replicaset"), *shipped("pod", select="owners")]
    theirs = yaml.safe_load(DEPLOYMENT.replace("{{ name }}", "theirs"))
    world.client.create({**theirs, "metadata": {"name": "theirs", "namespace": world.namespace}})
    found = world.submit(
        count=4, templates=[{"name": "d", "content": DEPLOYMENT}], stages=stages, wait=True, timeout=120, settle=1
    )
    try:
        assert (found["counts"]["succeeded"], found["notes"]) == (4, [])
        rows = world.rows("observations", "event")
        uids = {
            kind: {(row["uid"], row["index"]) for row in rows if row["kind"] == kind} for kind in ("ReplicaSet", "Pod")
        }
        assert Counter(index for _uid, index in uids["ReplicaSet"]) == dict.fromkeys(range(4), 1)
        assert Counter(index for _uid, index in uids["Pod"]) == dict.fromkeys(range(4), 2)
        stores = {row["kind"]: row["ruler"] for row in world.rows("observations", "store")}
        assert stores == {"Deployment": True, "ReplicaSet": True, "Pod": True}
        table = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001")
        assert table.pods == [2] * 4 and table.seen("pods_running") == 4 and not table.contradictions
    finally:
        kind = world.client.kind("apps/v1", "Deployment")
        world.client.request("DELETE", kind.path(world.namespace), {"propagationPolicy": "Background"})


def test_a_sampler_joins_a_load_in_progress_that_does_not_sample_itself(world: World, node: Any) -> None:
    template = {"name": "job", "content": REAL, "parameters": {"seconds": 0.2}}
    refused = world.submit(count=3, sample=False, wait=True, templates=[template])
    assert refused["failed"] == "InputError" and "cannot be used with sample=false" in refused["msg"]
    load = world.start("submit", count=40, arrival={"rate": 20}, templates=[template], sample=False)
    deadline = time.monotonic() + 120
    while not (world.point_dir / "plan.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    sampled = drive_workload.result(world.start("sample", timeout=90))
    submitted = drive_workload.result(load)
    assert submitted["counts"]["created"] == 40 and submitted["events"] == 0
    assert (sampled["counts"]["seen"], sampled["counts"]["succeeded"], sampled["timed_out"]) == (40, 40, False)
    assert sampled["sampling"]["lag"]["n"] > 0
    before = (world.point_dir / "observations.jsonl").read_bytes().count(b'"type":"event"')
    again = drive_workload.result(world.start("sample", timeout=30))
    after = (world.point_dir / "observations.jsonl").read_bytes().count(b'"type":"event"')
    assert again["counts"]["succeeded"] == 40 and after == before, "what is known was written again"
