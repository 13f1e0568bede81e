# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capturing and comparing a cluster never fails, so that it hides no failure of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from role_lab import Lab
from scripted_server import ScriptedServer, status_object

CANARY = "canary-7f3a9c2e"


def test_a_capture_and_a_comparison_that_fail_are_shown_and_fail_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", "t1123-abcdef")
    (lab.run_dir / "capture").write_text("no folder can be made of this name", encoding="utf-8")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("[", encoding="utf-8")
    acquired = f'{{"cluster_acquired": {{"sutest": {{"kubeconfig": "{kubeconfig}"}}}}}}'
    words = ["-e", "role=run", "-e", "run_capture_why=test", "-e", "run_diff_moment=before", "-e", acquired]
    done = lab.run("capture,diff", *words)
    assert done.code == 0, done.output
    assert "The state of the cluster was not captured test: " in done.flat()
    assert "The cluster was not compared before the run: " in done.flat()
    without = lab.run("capture,diff", *words[:-1], "{}")
    assert without.code == 0 and "there is none" in without.flat(), without.output


def test_a_capture_and_a_comparison_write_their_files_without_secrets(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", "t1123-abcdef")
    (lab.run_dir / "points" / "001").mkdir(parents=True)
    lab.env = {"SEATRIAL_METRICS_TOKEN": CANARY}
    kinds = {"nodes": "Node", "pods": "Pod", "namespaces": "Namespace", "events": "Event"}
    resources = [
        {"name": name, "kind": kind, "namespaced": kind in ("Pod", "Event"), "verbs": ["list"]}
        for name, kind in kinds.items()
    ]
    meta = {"labels": {"perfscale.seatrial/run": lab.run_id}, "uid": "1"}
    message = {"metadata": {"name": "e", "namespace": "ours", "uid": "3"}, "type": "Warning", "message": f"no {CANARY}"}
    objects: dict[str, list[dict[str, Any]]] = {
        "nodes": [{"metadata": {"name": "n", "uid": "2"}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}}],
        "pods": [],
        "namespaces": [{"metadata": {**meta, "name": "ours"}}],
        "events": [message],
    }

    def answer(asked: Any) -> Any:
        path = asked.path.partition("?")[0]
        if path == "/version":
            return 200, {"gitVersion": "v1.34.0"}
        if path == "/api/v1":
            return 200, {"kind": "APIResourceList", "resources": resources}
        if path in ("/api", "/apis"):
            return 200, {"versions": ["v1"]} if path == "/api" else {"groups": []}
        name = path.rpartition("/")[2]
        if name in objects:
            return 200, {"metadata": {"resourceVersion": "7"}, "items": objects[name]}
        return 404, status_object(404, "NotFound", "not found")

    with ScriptedServer(answer) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        acquired = f'{{"cluster_acquired": {{"sutest": {{"kubeconfig": "{kubeconfig}"}}}}}}'
        words = ["-e", "role=run", "-e", "run_capture_why=test", "-e", "run_capture_point=001", "-e", acquired]
        words += ["-e", "run_capture_seconds=120"]
        first = lab.run("capture,diff", *words, "-e", "run_diff_moment=before")
        objects["nodes"] = []
        second = lab.run("diff", *words, "-e", "run_diff_moment=after", "-e", "run_diff_timeout=0")
    assert first.code == 0 and second.code == 0, first.output + second.output
    entry = files.read_json(lab.run_dir / "capture" / "index.json")["captures"][0]
    assert (entry["folder"], entry["notes"]) == ("01-point-001", []), first.output
    assert "no <secret>" in (lab.run_dir / "capture/01-point-001/events-ours.jsonl").read_text(encoding="utf-8")
    state = files.read_json(lab.run_dir / "capture" / "01-point-001" / "state.json")
    assert state["versions"] == {"kubernetes": "v1.34.0"} and state["nodes"]["n"]["gpus"] == 4
    assert files.read_json(lab.run_dir / "points" / "001" / "ran.json")["nodes"]["gpus"] == 4
    found = files.read_json(lab.run_dir / "run_diff.json")
    assert found["gone"] == [{"kind": "Node", "namespace": "", "name": "n", "ours": False}], second.output
    assert (found["left"], found["changed"], found["objects"]) == ([], [], 1)
    assert CANARY not in lab.everything()
