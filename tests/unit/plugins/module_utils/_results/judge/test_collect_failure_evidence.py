# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of a run that may say why it failed, whatever its files have."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import collect_failure_evidence
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from hypothesis import given, settings
from hypothesis import strategies as st

KEYS = ("name", "uid", "state", "lastState", "terminated", "exitCode", "reason", "ready", "conditions", "a")
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
STATUS = st.fixed_dictionaries(
    {"phase": st.just("Running") | ANY, "conditions": ANY, "containerStatuses": ANY, "initContainerStatuses": ANY}
)
OBJECTS = st.fixed_dictionaries(
    {
        "kind": st.just("Pod") | ANY,
        "metadata": ANY,
        "status": STATUS | ANY,
        "involvedObject": ANY,
        "nodes": ANY,
        "stack": ANY,
    }
)


@settings(max_examples=100, deadline=None)
@given(OBJECTS, st.sampled_from(["pods.jsonl", "events-ns.jsonl", "state.json", "stack.jsonl"]))
def test_no_captured_object_of_whatever_shape_ends_the_search(captured: dict[str, Any], name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "capture" / "001-failed"
        capture.mkdir(parents=True)
        (Path(folder) / "run.yml").write_text("{id: r, phases: {}}")
        (capture / name).write_text(json.dumps(captured) + "\n")
        for text in collect_failure_evidence.texts_to_search_for_causes(run_reader.read_run_directory(Path(folder))):
            assert "\n" not in text.text


def test_containers_and_conditions_of_a_pod_are_read_beside_what_has_another_form(tmp_path: Path) -> None:
    waiting = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such\nimage"}}}
    status = {"phase": "Pending", "conditions": 5, "containerStatuses": ["x", {"state": [1]}, waiting]}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "status": status}
    (tmp_path / "capture" / "001-failed").mkdir(parents=True)
    (tmp_path / "run.yml").write_text("{id: r, phases: {}}")
    (tmp_path / "capture" / "001-failed" / "pods.jsonl").write_text(json.dumps(pod))
    found = [
        text
        for text in collect_failure_evidence.texts_to_search_for_causes(run_reader.read_run_directory(tmp_path))
        if text.place == "pods"
    ]
    assert [text.text for text in found] == ["Pending", "container main waiting: ImagePullBackOff: no such image"]
    assert {(text.about, text.line) for text in found} == {("Pod p", 1)}


def write_files(top: Path, **texts: Any) -> Path:
    """Write files of a run by path: a text, or objects as lines of JSON."""
    for name, value in {"run.yml": "{id: r, phases: {}}", **texts}.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        lines = value if isinstance(value, str) else "".join(json.dumps(item) + "\n" for item in value)
        (top / name).write_text(lines)
    return top


def texts_of(top: Path, place: str) -> list[tuple[str, str]]:
    """Return file and text of each text of a place."""
    found = collect_failure_evidence.texts_to_search_for_causes(run_reader.read_run_directory(top))
    return [(text.file, text.text) for text in found if text.place == place]


def attempt(outcome: str) -> dict[str, Any]:
    return {"type": "attempt", "kind": "Job", "name": "a", "status": 500, "outcome": outcome, "message": outcome}


def test_of_the_answers_to_requests_only_final_refusals_are_read(tmp_path: Path) -> None:
    rows = [attempt(outcome) for outcome in ("retry", "ambiguous", "created", "refused", "already_mine")]
    top = write_files(tmp_path, **{"points/001/ledger.jsonl": rows})
    assert texts_of(top, "requests") == [("points/001/ledger.jsonl", "500: refused")]


def pod(name: str, phase: str, namespace: str = "load") -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"namespace": namespace, "name": name, "uid": name}, "status": {"phase": phase}}


def test_ledgers_leave_room_for_pods_and_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = write_files(
        tmp_path,
        **{"points/001/ledger.jsonl": [attempt("refused")] * 100, "capture/01-after/pods.jsonl": [pod("a", "Pending")]},
    )
    ledger = (top / "points" / "001" / "ledger.jsonl").stat().st_size
    monkeypatch.setattr(collect_failure_evidence, "ALL_BYTES", ledger)
    monkeypatch.setattr(collect_failure_evidence, "LEDGER_BYTES", ledger // 4)
    assert len(texts_of(top, "requests")) == 25
    assert texts_of(top, "pods") == [("capture/01-after/pods.jsonl", "Pending")]
    assert collect_failure_evidence.ALL_BYTES >= 4 * collect_failure_evidence.LEDGER_BYTES


READY, NOT_READY = {"ready": True}, {"ready": False}
STACK = [
    {
        "kind": "ClusterServiceVersion",
        "metadata": {"namespace": "gpus", "name": "gpu-operator"},
        "spec": {"customresourcedefinitions": {"owned": [{"kind": "ClusterPolicy"}]}},
    },
    {"kind": "ClusterPolicy", "metadata": {"name": "policy"}},
    {"kind": "ClusterServiceVersion", "metadata": {"namespace": "serving", "name": "serving-operator"}},
    {
        "kind": "ClusterOperator",
        "metadata": {"name": "etcd"},
        "status": {"relatedObjects": [{"resource": "namespaces", "name": "openshift-etcd"}]},
    },
]
TITLES = (
    "ClusterServiceVersion gpus/gpu-operator",
    "ClusterPolicy policy",
    "ClusterServiceVersion serving/serving-operator",
    "ClusterOperator etcd",
)


@pytest.mark.parametrize(
    ("unready", "expected"),
    [
        ("", []),
        ("ClusterPolicy policy", ["gpus"]),
        ("ClusterServiceVersion serving/serving-operator", ["serving"]),
        ("ClusterOperator etcd", ["openshift-etcd"]),
    ],
)
def test_logs_of_a_capture_are_read_of_what_is_not_well(tmp_path: Path, unready: str, expected: list[str]) -> None:
    folder = "capture/01-after"
    logs = {
        f"{folder}/logs/{namespace}_{name}_main.log": namespace
        for namespace, name in (
            *((namespace, "a-0") for namespace in ("gpus", "serving", "openshift-etcd", "kube-system")),
            *(("load", name) for name in ("failed", "good", "left-out")),
        )
    }
    states = {title: NOT_READY if title == unready else READY for title in TITLES}
    files = {
        f"{folder}/pods.jsonl": [pod("failed", "Failed"), pod("good", "Succeeded")],
        f"{folder}/stack.jsonl": STACK,
        f"{folder}/state.json": [{"stack": states}],
        "capture/02-before-the-test/logs/load_failed_main.log": "before",
    }
    read = texts_of(write_files(tmp_path, **logs, **files), "logs")
    ours = [f"{folder}/logs/load_{name}_main.log" for name in ("failed", "left-out")]
    assert [file for file, _text in read if file.partition("/logs/")[2].startswith("load_")] == ours
    assert sorted(text for file, text in read if file not in ours) == expected
