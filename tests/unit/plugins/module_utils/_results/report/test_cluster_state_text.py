# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section on the state of the cluster: what it was, and what changed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import run_facts

NODE = {
    "ready": True,
    "schedulable": True,
    "conditions": [],
    "kubelet": "v1.34.0",
    "system": "Linux",
    "runtime": "",
    "gpus": 8,
    "allocatable": {"cpu": "4"},
}
STATE: dict[str, Any] = {
    "schema": "captured_state/1",
    "run": "t1121-abcdef",
    "at": "2026-11-23T00:00:00Z",
    "versions": {"kubernetes": "v1.34.0"},
    "operators": {"nfd": "1"},
    "images": {"a:1": "sha256:1"},
    "nodes": {name: dict(NODE) for name in "abc"},
    "restarts": {"kube-system/etcd": 1},
    "stack": {"ClusterPolicy p": {"ready": True, "state": "ready", "version": ""}},
}


def test_equal_states_have_no_differences() -> None:
    assert run_facts.cluster_state_differences(STATE, copy.deepcopy(STATE)) == []


def test_restarts_versions_lost_nodes_and_the_stack_are_named() -> None:
    after = copy.deepcopy(STATE)
    del after["nodes"]["a"]
    after["nodes"]["b"]["ready"] = False
    after["nodes"]["c"]["gpus"] = 7
    after["nodes"]["d"] = NODE
    after["versions"]["kubernetes"] = "v1.34.1"
    after["operators"] = {}
    after["restarts"] = {"kube-system/etcd": 3, "nfd/worker": 1}
    after["images"] = {"a:1": "sha256:2", "new:1": "sha256:3"}
    after["stack"]["ClusterPolicy p"] = {"ready": False, "state": "notReady", "version": ""}
    assert run_facts.cluster_state_differences(STATE, after) == [
        "version of kubernetes: v1.34.0 → v1.34.1",
        "operator of nfd: 1 → none",
        "1 node lost: a",
        "1 node new: d",
        "1 node not ready any more: b",
        "1 node with another number of GPUs: c",
        "3 restarts of containers: kube-system/etcd (2), nfd/worker (1)",
        "1 image with another digest: a:1",
        "ClusterPolicy p: ready → notReady, not ready",
    ]


def test_the_section_reads_every_capture_and_names_damaged_files(tmp_path: Path) -> None:
    assert run_facts.cluster_state_section(tmp_path, []) is None
    captures = []
    for number, why in enumerate(("before the test", "after point 001", "broken"), 1):
        folder = tmp_path / "capture" / f"{number:02d}-x"
        folder.mkdir(parents=True)
        files.write_json(folder / "state.json", STATE)
        entry = {"folder": folder.name, "why": why, "at": STATE["at"], "seconds": 0.1, "bytes": 1234, "files": []}
        captures.append({**entry, "notes": []})
    (folder / "state.json").write_text("{", encoding="utf-8")
    files.write_json(
        tmp_path / "capture/index.json", {"schema": "capture/1", "run": STATE["run"], "captures": captures}, "capture/1"
    )
    notes: list[str] = []
    found = run_facts.cluster_state_section(tmp_path, notes)
    assert found is not None and found["compared"] and found["differences"] == []
    assert [one["why"] for one in found["captures"]] == ["before the test", "after point 001", "broken"]
    assert ("3 nodes", "Linux, kubelet v1.34.0, 8 GPUs") in found["facts"]
    assert len(notes) == 1 and "03-x/state.json" in notes[0]


def test_captures_of_the_driver_are_listed_and_not_compared(tmp_path: Path) -> None:
    captures = []
    for number, cluster in enumerate(({}, {}, {"cluster": "driver"}), 1):
        folder = tmp_path / "capture" / f"{number:02d}-x"
        folder.mkdir(parents=True)
        files.write_json(folder / "state.json", {**STATE, "versions": {"kubernetes": "v2"}} if cluster else STATE)
        entry = {"folder": folder.name, "why": "x", "at": STATE["at"], "seconds": 0.1, "bytes": 1, "files": []}
        captures.append({**entry, **cluster, "notes": []})
    document = {"schema": "capture/1", "run": STATE["run"], "captures": captures}
    files.write_json(tmp_path / "capture/index.json", document, "capture/1")
    found = run_facts.cluster_state_section(tmp_path, [])
    assert found is not None and found["differences"] == [] and ("Kubernetes", "v1.34.0") in found["facts"]
    assert [one["why"] for one in found["captures"]] == ["x", "x", "x, driver"]


def test_the_index_of_a_stranger_leads_to_no_state_elsewhere(tmp_path: Path) -> None:
    top, other = tmp_path / "run", tmp_path / "other"
    (top / "capture").mkdir(parents=True)
    other.mkdir()
    files.write_json(other / "state.json", STATE)
    entry = {"why": "x", "at": STATE["at"], "seconds": 0.1, "bytes": 1, "files": [], "notes": []}
    for folder in ("../../other", str(other)):
        files.write_json(top / "capture/index.json", {"captures": [{**entry, "folder": folder}]})
        found = run_facts.cluster_state_section(top, [])
        assert found is not None and found["facts"] == []
    notes: list[str] = []
    files.write_json(top / "capture/index.json", {"captures": [1]})
    assert run_facts.cluster_state_section(top, notes) is None and len(notes) == 1
