# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is undone of failures when requests fail, objects are gone, or an injection does not end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    DataError,
    InputError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import run_cleanup
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures import (
    failure_actions,
    failure_injector,
    failure_ledger,
    failure_schedule,
)
from failing_cluster import (
    NodeServer,
    inject_all,
    injector,
    node,
    plan,
    pod,
    point,
    rows,
    wait_for_row,
)
from scripted_server import Asked

MARK = run_labels.FAILURE


def write_row(folder: Path, number: int, target: str, server: str, kind: str = "gpu_lost") -> None:
    """Leave what a process killed between this row and the change leaves."""
    before = {"capacity": "8", "allocatable": "8"} if kind == "gpu_lost" else {"unschedulable": False}
    row = {"type": "inject", "number": number, "kind": kind, "target": target, "mark": f"failing-001-{number}"}
    more = {"server": server, "duration": 60, "before": before, "pods": []}
    with open(point(folder) / failure_ledger.FILE, "a", encoding="utf-8") as stream:
        stream.write(json.dumps({**row, **more}) + "\n")


def of_node(name: str) -> Callable[[Asked], int]:
    return lambda asked: 403 if asked.method == "PATCH" and f"/nodes/{name}" in asked.path else 0


def test_an_undo_that_is_refused_stops_no_other_one_and_is_reported(cluster: NodeServer, tmp_path: Path) -> None:
    cluster.add(node("a"), node("b"), pods=(pod("p", "a"), pod("q", "b")))
    found = inject_all(cluster, tmp_path, plan(count=2), 2)
    assert all(cluster.node(name)["spec"].get("unschedulable") for name in "ab")
    cluster.refuse = of_node("a")
    with pytest.raises(ApiError) as refused:
        found.close()
    assert refused.value.status == 403
    assert not cluster.node("b")["spec"].get("unschedulable") and cluster.node("a")["spec"]["unschedulable"]
    assert [row["target"] for row in rows(tmp_path, "undone")] == ["b"] and rows(tmp_path, "end")
    with pytest.raises(ApiError):
        failure_ledger.undo_open_failures(cluster.client, point(tmp_path), lambda text: None)
    cluster.refuse = lambda asked: 0
    assert failure_ledger.undo_open_failures(cluster.client, point(tmp_path), lambda text: None) == 1
    assert not cluster.node("a")["spec"].get("unschedulable")


def test_a_node_that_was_deleted_in_between_needs_no_undo(cluster: NodeServer, tmp_path: Path) -> None:
    cluster.add(node("a"), node("b"), pods=(pod("p", "a"), pod("q", "b")))
    found = inject_all(cluster, tmp_path, plan(count=2), 2)

    def delete_after_get(asked: Asked) -> None:
        if asked.method == "PATCH":
            cluster.objects.pop("/api/v1/nodes/a", None)

    cluster.before_answer = delete_after_get
    found.close()
    assert {row["target"]: row["changed"] for row in rows(tmp_path, "undone")} == {"a": False, "b": True}


def test_a_kill_between_the_row_and_the_change_leaves_a_node_as_it_is(cluster: NodeServer, tmp_path: Path) -> None:
    cluster.add(node("a", gpus=5))
    write_row(tmp_path, 0, "a", cluster.client.access.server)
    assert failure_ledger.undo_open_failures(cluster.client, point(tmp_path), lambda text: None) == 0
    assert cluster.changes == [] and [row["changed"] for row in rows(tmp_path, "undone")] == [False]
    assert failure_ledger.failures_not_undone(failure_ledger.read_failures(point(tmp_path) / failure_ledger.FILE)) == []


def test_failures_of_another_server_are_left_to_it(cluster: NodeServer, tmp_path: Path) -> None:
    cluster.add(node("a", **{MARK: "failing-001-0"}))
    write_row(tmp_path, 0, "a", "https://another.example")
    assert failure_ledger.undo_open_failures(cluster.client, point(tmp_path), lambda text: None) == 0
    found = injector(cluster, tmp_path, [])
    found.open()
    found.close()
    assert rows(tmp_path, "undone") == [] and cluster.changes == []


def test_an_injection_that_does_not_end_is_not_recorded_as_undone(
    cluster: NodeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_injector, "_TIMEOUT", 20.0)
    cluster.add(node("a"), pods=(pod("p", "a"),))
    arrived, go_on = threading.Event(), threading.Event()

    def hold(asked: Asked) -> None:
        if asked.method == "PATCH" and not go_on.is_set():
            arrived.set()
            go_on.wait(60)

    cluster.before_answer = hold
    found = injector(cluster, tmp_path, plan())
    found.open()
    found.begin(time.monotonic())
    assert arrived.wait(30)
    monkeypatch.setattr(failure_injector, "_TIMEOUT", 0.2)
    with pytest.raises(WaitTimeout, match="failure 0 of a is still being injected"):
        found.close()
    assert rows(tmp_path, "inject") and rows(tmp_path, "undone") == [] and rows(tmp_path, "end")
    go_on.set()
    deadline = time.monotonic() + 30
    while not cluster.node("a")["spec"].get("unschedulable"):
        assert time.monotonic() < deadline, "the change has not arrived"
        time.sleep(0.02)
    assert failure_ledger.undo_open_failures(cluster.client, point(tmp_path), lambda text: None) == 1
    assert not cluster.node("a")["spec"].get("unschedulable")


def test_pods_that_a_budget_keeps_are_recorded_and_said(cluster: NodeServer, tmp_path: Path) -> None:
    cluster.add(node("a"), pods=(pod("p", "a"),))
    cluster.refuse = lambda asked: 429 if asked.path.endswith("/eviction") else 0
    said: list[str] = []
    found = injector(cluster, tmp_path, plan(duration=0.1), said)
    found.open()
    found.begin(time.monotonic())
    wait_for_row(tmp_path, "injected")
    found.close()
    assert rows(tmp_path, "injected")[0]["left"] == ["ns/p"]
    assert said == ["node_drained of a: not evicted in time: ns/p"]


@pytest.mark.parametrize(
    ("kind", "made", "policy", "reason"),
    [
        ("node_drained", node("a", ready="Unknown"), "Never", "no node that is Ready and has no failure runs a pod"),
        ("node_drained", node("a", **{MARK: "other-001-4"}), "Never", "no node that is Ready and has no failure"),
        ("gpu_lost", node("a", gpus=0), "Never", "no simulated node with GPUs that is Ready"),
        (
            "container_oom",
            node("a"),
            "OnFailure",
            "no pod of the load and restartPolicy Never runs on a simulated node",
        ),
    ],
)
def test_what_cannot_fail_now_is_skipped_with_a_reason(
    cluster: NodeServer, tmp_path: Path, kind: str, made: dict[str, Any], policy: str, reason: str
) -> None:
    cluster.add(made, pods=(pod("p", "a", policy),))
    said: list[str] = []
    found = injector(cluster, tmp_path, plan(kind, at=[0.0, 0.1]), said)
    found.open()
    found.begin(time.monotonic())
    wait_for_row(tmp_path, "skipped", 2)
    found.close()
    assert reason in rows(tmp_path, "skipped")[0]["reason"]
    assert rows(tmp_path, "inject") == [] and found.summary() == {"skipped": 2}
    assert len(said) == 1 and said[0].startswith(f"{kind} at 0 s is skipped: no ")


def test_failures_that_were_not_due_before_the_end_are_counted(cluster: NodeServer, tmp_path: Path) -> None:
    cluster.add(node("a"), pods=(pod("p", "a"),))
    found = inject_all(cluster, tmp_path, plan("pod_killed", at=[0.0, 500.0, 600.0]), 1)
    found.close()
    assert found.summary() == {"pod_killed": 1, "not_due": 2}


def test_a_gpu_that_a_health_agent_reports_as_lost_is_a_condition_and_a_taint_until_it_is_undone(
    cluster: NodeServer, tmp_path: Path
) -> None:
    tolerating = pod("t", "a")
    tolerating["spec"]["tolerations"] = [{"operator": "Exists"}]
    cluster.add(node("a"), pods=(pod("p", "a"), pod("q", "a"), tolerating))
    other = {"key": "example.com/other", "effect": "NoSchedule"}
    cluster.node("a")["spec"]["taints"] = [other]
    marks = {"condition": "GPUHealthy=False", "taint": "example.com/gpu-lost=true:NoExecute"}
    planned = plan("gpu_lost", **marks)
    failure_actions.check_failures_are_possible(cluster.client, planned)
    found = inject_all(cluster, tmp_path, planned, 1)
    marked = cluster.node("a")
    lost = {"key": "example.com/gpu-lost", "value": "true", "effect": "NoExecute"}
    assert marked["spec"]["taints"] == [other, lost] and failure_actions.count_gpus(marked) == 8
    assert [(row["type"], row["status"]) for row in marked["status"]["conditions"]] == [
        ("Ready", "True"),
        ("GPUHealthy", "False"),
    ]
    assert [place["name"] for place in rows(tmp_path, "inject")[0]["pods"]] == ["p", "q"], "t tolerates the taint"
    found.close()
    assert cluster.node("a")["spec"]["taints"] == [other]
    assert [row["type"] for row in cluster.node("a")["status"]["conditions"]] == ["Ready"]
    assert [row["changed"] for row in rows(tmp_path, "undone")] == [True]


def test_a_taint_that_another_writes_at_the_same_time_is_kept(cluster: NodeServer, tmp_path: Path) -> None:
    cluster.add(node("a"), pods=(pod("p", "a"),))
    other = {"key": "example.com/other", "effect": "NoSchedule"}

    def conflict_once(asked: Asked) -> int:
        if asked.method != "PATCH" or b"taints" not in asked.body or cluster.node("a")["spec"].get("taints"):
            return 0
        cluster.node("a")["spec"]["taints"] = [other]
        return 409

    cluster.refuse = conflict_once
    found = inject_all(cluster, tmp_path, plan("gpu_lost", taint="example.com/gpu-lost:NoSchedule"), 1)
    taints = cluster.node("a")["spec"]["taints"]
    assert [taint["key"] for taint in taints] == ["example.com/other", "example.com/gpu-lost"]
    found.close()
    assert cluster.node("a")["spec"]["taints"] == [other]


def test_the_program_whose_gpu_is_lost_fails_if_that_is_wanted(cluster: NodeServer, tmp_path: Path) -> None:
    cluster.add(node("a"), pods=(pod("p", "a"), pod("q", "a")))
    inject_all(cluster, tmp_path, plan("gpu_lost", pod_fails=True), 1).close()
    # Which of them follows from the seed and their names.
    assert [place["name"] for place in rows(tmp_path, "inject")[0]["pods"]] == ["q"]
    phases = [cluster.objects[f"/api/v1/namespaces/ns/pods/{name}"]["status"]["phase"] for name in "pq"]
    assert phases == ["Running", "Failed"]


@pytest.mark.parametrize("kind", failure_schedule.OF_CONTROL_PLANE)
def test_the_control_plane_of_a_cluster_that_is_none_of_ours_is_left_alone(cluster: NodeServer, kind: str) -> None:
    with pytest.raises(InputError, match=f"{kind} is possible only on a rehearsal cluster that this user has started"):
        failure_actions.check_failures_are_possible(cluster.client, plan(kind))


def test_a_continued_load_counts_what_earlier_sessions_injected(cluster: NodeServer, tmp_path: Path) -> None:
    cluster.add(node("a"), pods=(pod("p", "a"),))
    inject_all(cluster, tmp_path, plan(), 1).close()
    again = injector(cluster, tmp_path, plan())
    again.open()
    again.close()
    assert again.summary() == {"node_drained": 1}
    assert len(rows(tmp_path, "inject")) == 1


def test_other_failures_or_another_seed_are_refused_for_the_same_point(cluster: NodeServer, tmp_path: Path) -> None:
    planned = plan()
    failure_ledger.check_schedule_is_unchanged(point(tmp_path), planned, 1)
    found = injector(cluster, tmp_path, planned)
    found.open()
    found.close()
    failure_ledger.check_schedule_is_unchanged(point(tmp_path), planned, 1)
    with pytest.raises(InputError, match="those of an earlier call"):
        failure_ledger.check_schedule_is_unchanged(point(tmp_path), plan(duration=5.0), 1)
    with pytest.raises(InputError, match="with seed 1, and seed is 2"):
        failure_ledger.check_schedule_is_unchanged(point(tmp_path), planned, 2)


def test_a_row_that_cannot_be_written_ends_the_load(
    cluster: NodeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = injector(cluster, tmp_path, [])
    found.open()

    def refuse(self: files.JsonlAppender, record: dict[str, Any]) -> None:
        raise DataError("no space left")

    with monkeypatch.context() as full:
        full.setattr(files.JsonlAppender, "write", refuse)
        cluster.add(node("a"))  # the list after the watch that broke finds it
        deadline = time.monotonic() + 30
        with pytest.raises(DataError, match="no space left"):
            while time.monotonic() < deadline:
                found.check()
                time.sleep(0.02)
    found.close()


def test_a_node_that_a_list_finds_changed_has_no_resource_version(cluster: NodeServer, tmp_path: Path) -> None:
    found = injector(cluster, tmp_path, [])
    found.open()
    cluster.add(node("a"))
    wait_for_row(tmp_path, "node")
    found.close()
    assert rows(tmp_path, "node")[0]["resource_version"] == ""


def lease(name: str, **spec: Any) -> dict[str, dict[str, Any]]:
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
    return {path: {"metadata": {"name": name}, "spec": spec}}


def test_what_no_node_can_have_is_refused_before_the_load(cluster: NodeServer) -> None:
    cluster.add(node("a", gpus=0), node("b"))
    failure_actions.check_failures_are_possible(
        cluster.client, [*plan("gpu_lost"), *plan("pod_killed", selector="role=worker")]
    )
    cluster.objects |= lease("a", renewTime="2026-01-01T00:00:00.000000Z")
    with pytest.raises(InputError, match="b can't be lost"):
        failure_actions.check_failures_are_possible(cluster.client, plan("node_lost"))
    cluster.objects |= lease("b", holderIdentity="b")
    with pytest.raises(InputError, match="b can't be lost"):
        failure_actions.check_failures_are_possible(cluster.client, plan("node_lost"))
    cluster.objects |= lease("b", renewTime="2026-01-01T00:00:00.000000Z")
    failure_actions.check_failures_are_possible(cluster.client, plan("node_lost"))
    del cluster.objects["/api/v1/nodes/b"]
    with pytest.raises(InputError, match="no simulated node offers a GPU"):
        failure_actions.check_failures_are_possible(cluster.client, plan("gpu_lost"))
    cluster.refuse = lambda asked: 400 if "labelSelector" in asked.path else 0
    with pytest.raises(InputError, match="selector 'a b' of a pod_killed is no label selector"):
        failure_actions.check_failures_are_possible(cluster.client, plan("pod_killed", selector="a b"))


def test_a_cleanup_tries_every_point_and_sweeps_before_it_fails(
    cluster: NodeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = cluster.client.access.server
    cluster.add(node("a", **{MARK: "failing-001-0"}), node("b", **{MARK: "failing-001-1"}))
    for number, name in enumerate(("a", "b", "c")):
        write_row(tmp_path, number, name, server if name != "c" else "https://another.example", "node_drained")
    cluster.objects |= {"/version": {}}
    swept, said = [], []

    def sweep(spec: Any, sweep: Any, say: Any) -> dict[str, Any]:
        swept.append(spec)
        return {"changed": False}

    monkeypatch.setattr(run_cleanup, "_clean_reachable_cluster", sweep)
    monkeypatch.setattr(StepDirectory, "reporter", lambda *_more: said.append)
    spec = run_cleanup.CleanupSpec(cluster.kubeconfig, "failing", run_dir=str(tmp_path))
    cluster.refuse = of_node("a")
    with pytest.raises(ApiError):
        run_cleanup.clean_up_or_verify(spec, StepDirectory(None))
    assert len(swept) == 1 and MARK not in cluster.node("b")["metadata"]["annotations"]
    assert any("1 failure of this run on https://another.example not undone" in text for text in said)
    with pytest.raises(SeatrialError, match="still has failures that were not undone: node_drained of a"):
        run_cleanup.clean_up_or_verify(
            run_cleanup.CleanupSpec(cluster.kubeconfig, "failing", run_dir=str(tmp_path), verify=True),
            StepDirectory(None),
        )
    damaged = tmp_path / "points" / "000" / failure_ledger.FILE
    damaged.parent.mkdir()
    damaged.write_text('{"type":"inj\n{"type":"end","at":1}\n', encoding="utf-8")
    cluster.refuse = lambda asked: 0
    with pytest.raises(DataError, match="not a JSON record"):
        run_cleanup.clean_up_or_verify(spec, StepDirectory(None))
    assert len(swept) == 3 and MARK not in cluster.node("a")["metadata"]["annotations"]
    damaged.unlink()
    cluster.add(node("a", **{MARK: "failing-001-3"}))
    write_row(tmp_path, 3, "a", server, "node_drained")
    assert (
        run_cleanup.clean_up_or_verify(spec, StepDirectory(None))["changed"]
        and not run_cleanup.clean_up_or_verify(spec, StepDirectory(None))["changed"]
    )
