# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a failure hits: pods of the same role in each run, pairs of one workload, whole racks."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures import (
    failure_actions,
    failure_ledger,
    failure_targets,
    kubelet_and_network_failures,
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


def test_all_nodes_of_a_rack_fail_together_also_those_without_pods(cluster: NodeServer, tmp_path: Path) -> None:
    cluster.add(node("a"), node("b"), node("c"), node("d"), pods=(pod("p", "a"), pod("q", "d")))
    for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2")):
        cluster.node(name)["metadata"]["labels"]["rack"] = rack
    failure_actions.check_failures_are_possible(cluster.client, plan(by="rack"))
    with pytest.raises(InputError, match="by of a node_drained is 'rakc', and no node has this label .*'rack'"):
        failure_actions.check_failures_are_possible(cluster.client, plan(by="rakc"))
    inject_all(cluster, tmp_path, plan(by="rack", count=9), 2).close()
    assert [row["target"] for row in rows(tmp_path, "inject")] == ["a", "b"], "r2 runs no pod, and d has no rack"


def made_pod(name: str, generated: str = "", run: str = "run", **labels: str) -> dict[str, Any]:
    made = pod(name, "a")
    more = {name.replace("_", "-"): labels[name] for name in labels}
    made["metadata"] |= {
        "generateName": generated,
        "labels": {**made["metadata"]["labels"], run_labels.RUN: run, **more},
    }
    return made


@pytest.mark.parametrize("kind", ["pod_killed", "gpu_lost"])
def test_the_pod_that_is_hit_has_the_same_role_in_each_run(cluster: NodeServer, kind: str) -> None:
    (failure,) = plan(kind, **({"pod_fails": True} if kind == "gpu_lost" else {}))
    hit = []
    for run in map("run-{}".format, range(8)):
        begins = [f"{run}-001-{index}-workers-0-{number}-" for index in range(3) for number in range(4)]
        made = [made_pod(f"{begin}{hashlib.sha256(begin.encode()).hexdigest()[:5]}", begin, run) for begin in begins]
        cluster.objects.clear()
        cluster.add(node("a"), pods=tuple(sorted(made, key=lambda item: item["metadata"]["name"][-5:])))
        pods = failure_targets.list_running_load_pods(cluster.client, failure, run, "001", {"ns"})
        (target,) = failure_targets.choose_failure_targets(cluster.client, failure, pods, set(), 1)
        hit += [row["role"] for row in failure_targets.pods_of_target(failure, target, pods, 1)]
    assert len(hit) == 8 and len(set(hit)) == 1 and re.fullmatch(r"[0-2]-workers-0-[0-3]", hit[0])


@pytest.mark.parametrize(
    ("made", "role"),
    [
        (made_pod("run-001-4-x7k2p", "run-001-4-"), "4"),
        (made_pod("run-001-4-86f5d-x7k2p", "run-001-4-86f5d-", pod_template_hash="86f5d"), "4"),
        (made_pod("run-001-4-0-3", "run-001-4-0-", **{"apps.kubernetes.io/pod_index": "3"}), "4-0-3"),
        (made_pod("a-pod-of-a-template"), "a-pod-of-a-template"),
    ],
)
def test_the_role_of_a_pod_is_its_name_without_what_differs_from_run_to_run(
    cluster: NodeServer, made: dict[str, Any], role: str
) -> None:
    cluster.add(node("a"), pods=(made,))
    assert [
        row["role"] for row in failure_targets.list_running_load_pods(cluster.client, plan()[0], "run", "001", {"ns"})
    ] == [role]


def test_a_network_is_cut_between_two_pods_of_one_workload_on_a_real_node(cluster: NodeServer) -> None:
    made = [pod(name, "a") for name in "pqrsth"] + [pod("far", "b")]
    for number, item in enumerate(made):
        index = {"p": "0", "q": "0", "r": "0", "s": "1"}.get(item["metadata"]["name"], "2")
        item["metadata"]["labels"] = {**item["metadata"]["labels"], run_labels.RUN: "run", run_labels.INDEX: index}
        item["status"]["podIP"] = f"10.0.0.{number}"
    made[4]["status"]["podIP"] = ""
    made[5]["spec"]["hostNetwork"] = True
    real = node("a")
    real["metadata"]["labels"] = {}
    cluster.add(real, node("b"), pods=tuple(made))
    (failure,) = plan("network_cut", duration=5.0)
    pods = failure_targets.list_running_load_pods(cluster.client, failure, "run", "001", {"ns"})
    assert [row["name"] for row in pods] == ["p", "q", "r"], "the others have no peer that has an address of its own"
    (target,) = failure_targets.choose_failure_targets(cluster.client, failure, pods, set(), 1)
    hit = failure_targets.pods_of_target(failure, target, pods, 1)
    assert len(hit) == 2 and failure_targets.target_name_of_pod(hit[0]) == target and hit[1] != hit[0]
    assert hit == failure_targets.pods_of_target(failure, target, list(reversed(pods)), 1)
    assert failure_targets.choose_failure_targets(cluster.client, failure, pods, {target}, 1) != [target]
    real["metadata"]["labels"] = {"perfscale.seatrial/simulated": "true"}
    assert failure_targets.choose_failure_targets(cluster.client, failure, pods, set(), 1) == []
    assert "no two pods of a workload run on one real node" in failure_targets.why_no_target(failure)


def pods_of_workload(cluster: NodeServer, names: str) -> None:
    """Add pods of one workload on a real node."""
    made = [pod(name, "a") for name in names]
    for number, item in enumerate(made):
        item["metadata"]["labels"] = {**item["metadata"]["labels"], run_labels.INDEX: "0"}
        item["status"]["podIP"] = f"10.0.0.{number}"
    real = node("a")
    real["metadata"]["labels"] = {}
    cluster.add(real, pods=tuple(made))


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks that are cut, without pods of a real node: what is chosen and recorded is real."""
    monkeypatch.setattr(kubelet_and_network_failures, "read_cluster_folder", lambda _server: {"instance": "none"})
    monkeypatch.setattr(kubelet_and_network_failures, "inject_pod_network_cut", lambda _row: None)
    monkeypatch.setattr(kubelet_and_network_failures, "undo_pod_network_cut", lambda _server, _row: True)


@pytest.mark.usefixtures("cuts")
def test_no_pod_is_cut_from_two_peers_at_once(cluster: NodeServer, tmp_path: Path) -> None:
    pods_of_workload(cluster, "pqrst")
    planned = plan("network_cut", at=[0.0, 0.1, 0.2], duration=60.0)
    found = injector(cluster, tmp_path, planned)
    found.open()
    found.begin(time.monotonic())
    wait_for_row(tmp_path, "skipped")
    found.close()
    hit = [place["name"] for row in rows(tmp_path, "inject") for place in row["pods"]]
    assert len(hit) == len(set(hit)) == 4, "the fifth pod has no free peer"
    assert found.summary() == {"network_cut": 2, "skipped": 1}


@pytest.mark.usefixtures("cuts")
def test_targets_of_one_failure_do_not_share_pods(cluster: NodeServer, tmp_path: Path) -> None:
    pods_of_workload(cluster, "pqrst")
    found = inject_all(cluster, tmp_path, plan("network_cut", count=3, duration=60.0), 2)
    wait_for_row(tmp_path, "skipped")
    found.close()
    cut = rows(tmp_path, "inject")
    hit = [place["name"] for row in cut for place in row["pods"]]
    assert len(hit) == len(set(hit)) == 4 and {row["number"] for row in cut} == {0}
    assert "has a failure that is not over" in rows(tmp_path, "skipped")[0]["reason"]


@pytest.mark.usefixtures("cuts")
def test_a_pod_that_ends_before_the_cut_does_not_end_the_load(
    cluster: NodeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inject(_row: Any) -> None:
        raise kubelet_and_network_failures.PodEnded("pod p has ended")

    monkeypatch.setattr(kubelet_and_network_failures, "inject_pod_network_cut", inject)
    pods_of_workload(cluster, "pq")
    found = injector(cluster, tmp_path, plan("network_cut", duration=60.0))
    found.open()
    found.begin(time.monotonic())
    wait_for_row(tmp_path, "undone")
    found.check()
    found.close()
    assert rows(tmp_path, "skipped")[0]["reason"] == "pod p has ended" and rows(tmp_path, "injected") == []
    assert failure_ledger.failures_not_undone(failure_ledger.read_failures(point(tmp_path) / failure_ledger.FILE)) == []
    assert len(rows(tmp_path, "undone")) == 1 and found.summary() == {"skipped": 1}


def test_a_network_is_not_cut_on_a_cluster_that_is_none_of_ours(cluster: NodeServer) -> None:
    with pytest.raises(InputError, match="network_cut is possible only on a real node of a rehearsal"):
        failure_actions.check_failures_are_possible(cluster.client, plan("network_cut"))


def test_a_pod_of_others_with_the_labels_of_the_load_draws_no_failure_to_its_node(cluster: NodeServer) -> None:
    foreign = pod("theirs", "b")
    foreign["metadata"]["namespace"] = "tenant"
    cluster.add(node("a"), node("b"), pods=(made_pod("ours"), foreign))
    (failure,) = plan("node_drained")
    foreign["metadata"]["labels"] = made_pod("x")["metadata"]["labels"]
    pods = failure_targets.list_running_load_pods(cluster.client, failure, "run", "001", {"ns", "ns-2"})
    assert [row["name"] for row in pods] == ["ours"]
    assert failure_targets.choose_failure_targets(cluster.client, failure, pods, set(), 1) == ["a"]
    both = failure_targets.list_running_load_pods(cluster.client, failure, "run", "001", {"ns", "tenant"})
    assert len(both) == 2
