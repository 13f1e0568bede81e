"""Faults that a real server makes: too many requests, restarts, a history that is gone, a slow and broken line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import drive_workload
import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from breakable_cluster import BreakableCluster
from cutting_proxy import CuttingProxy
from load_world import CONFIG, World, final, wait_until_created, world_on

FLOW = "flowcontrol.apiserver.k8s.io/v1"
REAL = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ name }}"}
spec:
  backoffLimit: 0
  template:
    metadata: {labels: {{ labels | to_json }}, annotations: {perfscale.seatrial/run-seconds: "1"}}
    spec: {restartPolicy: Never, tolerations: [{operator: Exists}], containers: [{name: c, image: none}]}
"""


@pytest.fixture
def rejecting(world: World) -> Iterator[Callable[[], dict[str, str]]]:
    """Returns a function that makes the server reject ConfigMaps of the test's namespace, and gives the uids."""
    name = f"none-{world.namespace}"
    level = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    limited = {"type": "Limited", "limited": {**level, "limitResponse": {"type": "Reject"}}}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"], "namespaces": [world.namespace]}
    subject = {"kind": "Group", "group": {"name": "system:authenticated"}}
    flow = {
        "matchingPrecedence": 500,
        "priorityLevelConfiguration": {"name": name},
        "rules": [{"subjects": [subject], "resourceRules": [rule]}],
    }
    kinds = {"PriorityLevelConfiguration": limited, "FlowSchema": flow}

    def begin() -> dict[str, str]:
        found = {}
        for kind, spec in kinds.items():
            made = world.client.create({"apiVersion": FLOW, "kind": kind, "metadata": {"name": name}, "spec": spec})
            found[kind] = made["metadata"]["uid"]
        return found

    def end() -> None:
        for kind in ("FlowSchema", "PriorityLevelConfiguration"):
            world.client.delete(world.client.kind(FLOW, kind), name)

    begin.end = end  # type: ignore[attr-defined]
    yield begin
    end()


def wait_until_applied(world: World, uid: str) -> None:
    """Wait until the server assigns ConfigMaps of the namespace to this FlowSchema, of which it learns by a watch."""
    path = f"/api/v1/namespaces/{world.namespace}/configmaps"
    body = json.dumps({"metadata": {"name": "nobody"}}).encode()
    deadline = time.monotonic() + 120
    while world.client.raw("POST", path, body, query={"dryRun": "All"}).header("x-kubernetes-pf-flowschema-uid") != uid:
        assert time.monotonic() < deadline, "the FlowSchema is not applied"
        time.sleep(0.05)


def test_a_server_that_rejects_is_asked_again_until_it_does_not(world: World, rejecting: Any) -> None:
    # A level without seats still serves one request at a time, so they must come together.
    arrival = {"type": "burst", "rate": 20, "size": 20}
    load = {"count": 60, "arrival": arrival, "templates": [{"name": "cm", "content": CONFIG}], "stages": []}
    uids = rejecting()
    wait_until_applied(world, uids["FlowSchema"])
    process = world.start(**load)
    wait_until_created(world, 1)
    deadline = time.monotonic() + 120
    while not any(row["status"] == 429 for row in world.rows("ledger", "attempt")):
        assert time.monotonic() < deadline, "nothing was rejected"
        time.sleep(0.05)
    time.sleep(0.5)
    rejecting.end()
    found = drive_workload.result(process)
    assert (found["counts"]["created"], found["counts"]["refused"]) == (60, 0)
    rows = world.rows("ledger", "attempt")
    rejected = [row for row in rows if row["status"] == 429]
    assert found["repeated"] == {"429": len(rejected)} and found["counts"]["retries"] == len(rejected)
    assert {row["flow_schema"] for row in rejected} == {uids["FlowSchema"]}
    assert {row["priority_level"] for row in rejected} == {uids["PriorityLevelConfiguration"]}
    # The server asks for a second at least; nobody comes back earlier.
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["name"], []).append(row)
    waits = [
        after["sent"] - before["answered"]
        for attempts in by_name.values()
        for before, after in zip(attempts, attempts[1:], strict=False)
    ]
    assert waits and min(waits) >= 1.0
    assert set(final(rows).values()) == {1} and len(world.names("v1", "ConfigMap")) == 60


def test_a_slow_and_broken_line_loses_no_object_and_no_transition(world: World) -> None:
    access = world.client.access
    with CuttingProxy(access.host, access.port) as proxy:
        proxy.delay = 0.03
        process = world.start(count=80, arrival={"rate": 20}, kubeconfig=world.through(proxy.port), request_timeout=5)
        wait_until_created(world, 10)
        for _round in range(3):
            proxy.refusing = True
            proxy.cut()
            time.sleep(0.5)
            proxy.refusing = False
            time.sleep(0.5)
        found = drive_workload.result(process)
    counts = found["counts"]
    assert (counts["created"] + counts["already_mine"], counts["refused"], len(world.names())) == (80, 0, 80)
    assert set(final(world.rows("ledger", "attempt")).values()) == {1}
    seen = {row["index"] for row in world.rows("observations", "event") if row["kind"] == "Job"}
    assert seen == set(range(80))


@pytest.fixture
def breakable(own_instance: Any) -> BreakableCluster:
    return BreakableCluster(own_instance("breakable", components=[]))


def wait_until_watched(world: World, patience: float = 120.0) -> None:
    """Wait until the sampler has both its watches: what breaks before that is another test's."""
    deadline = time.monotonic() + patience
    path = world.point_dir / "observations.jsonl"
    while not path.exists() or path.read_bytes().count(b'"type":"watching"') < 2:
        assert time.monotonic() < deadline, "the sampler does not watch"
        time.sleep(0.05)


def test_restarts_of_the_api_server_and_a_compacted_history_lose_nothing_that_still_shows(
    breakable: BreakableCluster, tmp_path: Path
) -> None:
    with world_on(breakable.info["kubeconfig"], tmp_path) as world:
        order = simulated_node_pool.NodePoolSpec(4, pool="breakable")
        fake_nodes.create_fake_nodes(world.client, order, 240, support.quiet)
        access = world.client.access
        template = {"name": "job", "content": REAL}
        with CuttingProxy(access.host, access.port) as proxy:
            load = world.start("submit", count=200, arrival={"rate": 10}, templates=[template], sample=False)
            deadline = time.monotonic() + 120
            while not (world.point_dir / "plan.jsonl").exists():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            sampler = world.start("sample", timeout=400, kubeconfig=world.through(proxy.port))
            wait_until_watched(world)
            wait_until_created(world, 30)
            # One break that the server's memory bridges, although etcd has forgotten.
            proxy.refusing = True
            proxy.cut()
            breakable.compact()
            time.sleep(1.5)
            proxy.refusing = False
            wait_until_created(world, 80)
            # One that nobody bridges: neither etcd nor a server that has just started knows what happened.
            proxy.refusing = True
            proxy.cut()
            time.sleep(1.5)
            breakable.restart_api_server()
            breakable.compact()
            time.sleep(1)
            proxy.refusing = False
            submitted = drive_workload.result(load, timeout=600)
            sampled = drive_workload.result(sampler, timeout=600)
        counts = submitted["counts"]
        assert counts["created"] + counts["already_mine"] == 200 == len(world.names())
        assert set(final(world.rows("ledger", "attempt")).values()) == {1}
        assert (sampled["counts"]["succeeded"], sampled["timed_out"]) == (200, False)
        gaps = world.rows("observations", "gap")
        lost = {row["kind"] for row in gaps if row["reason"].startswith("relisted")}
        assert lost == {"Job", "Pod"}, gaps
        table = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001")
        # What ended in the gap is dated by the gap, and what no longer shows in between (running) is left out.
        assert table.seen("succeeded") == 200 and not table.contradictions
        widths = [
            last - first for first, last in zip(table.earliest["succeeded"], table.latest["succeeded"], strict=True)
        ]
        longest = max(row["to"] - row["from"] for row in gaps)
        assert longest > 1.0 and min(widths) < 1.0
        assert max(widths) <= longest + 1.0


def test_the_circuit_breaker_ends_a_load_and_waits_for_what_was_created(world: World) -> None:
    done = world.submit(
        count=400,
        arrival={"type": "constant", "rate": 20},
        templates=[{"name": "job", "content": REAL}],
        breaker_latency=0.000001,  # nobody answers that fast
        wait=True,
        timeout=1,
    )
    assert "3 probe requests in a row took" in done["stopped"] and done["stopped"] in done["msg"]
    counts = done["counts"]
    assert 0 < counts["created"] < 400 and counts["created"] + counts["lost"] + counts["unsent"] == 400
    assert len(world.names()) == counts["created"]
    assert world.rows("ledger", "end")[-1]["reason"].startswith("stopped: 3 probe")


@pytest.mark.long
def test_a_server_that_is_gone_for_good_is_an_access_error(breakable: BreakableCluster, tmp_path: Path) -> None:
    with world_on(breakable.info["kubeconfig"], tmp_path) as world:
        template = {"name": "cm", "content": CONFIG}
        load = world.start(count=1000, arrival={"rate": 20}, templates=[template], stages=[], breaker_latency=5)
        wait_until_created(world, 5)
        breakable.restart_api_server(lambda: load.wait(120))
        failed = drive_workload.result(load)
        assert failed["failed"] == "AccessError", failed
        assert "The circuit breaker ended the load" in failed["msg"] and "gave no answer: " in failed["msg"]
        assert world.rows("ledger", "end")[-1]["reason"].startswith("stopped: 3 probes")
