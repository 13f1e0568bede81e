# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A capture that cannot read the cluster is a warning and says so in its index."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.capture_cluster import (
    CaptureSpec,
    capture_cluster_state,
)
from scripted_server import RESET, ScriptedServer, status_object

RUN = "t1121-abcdef"


def captured(top: Path, kubeconfig: str, point: str = "001") -> dict[str, object]:
    (top / "points" / "001").mkdir(parents=True, exist_ok=True)
    return capture_cluster_state(CaptureSpec(kubeconfig, str(top), RUN, point=point, why="after point 001"))


def test_a_cluster_that_cannot_be_reached_is_a_warning_with_its_cause(tmp_path: Path) -> None:
    with ScriptedServer(lambda _asked: RESET) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        results = [captured(tmp_path, path) for path in (kubeconfig, "/nowhere/kubeconfig")]
    assert [one["cause"] for one in results] == ["AccessError", "InputError"]
    for result in results:
        assert result["ran"] == {} and str(result["reason"]) in str(result["warnings"])
    assert "/nowhere/kubeconfig" in str(results[1]["warnings"])
    assert not (tmp_path / "points/001/ran.json").exists()
    index = files.read_json(tmp_path / "capture/index.json")
    files.validate_schema_if_enabled("capture/1", index)
    assert [one["folder"] for one in index["captures"]] == ["01-point-001", "02-point-001"]
    assert all(one["notes"] for one in index["captures"])


def test_a_cluster_that_refuses_everything_leaves_a_whole_state(tmp_path: Path) -> None:
    def answer(asked: object) -> object:
        path = str(getattr(asked, "path", "")).partition("?")[0]
        if path == "/api/v1":
            names = {"nodes": "Node", "pods": "Pod", "namespaces": "Namespace", "events": "Event"}
            return 200, {"resources": [{"name": name, "kind": kind, "verbs": []} for name, kind in names.items()]}
        return 403, status_object(403, "Forbidden", "you may not")

    with ScriptedServer(answer) as server:
        result = captured(tmp_path, server.kubeconfig(tmp_path / "kubeconfig"))
    assert "cause" not in result and "you may not" in str(result["warnings"])
    state = files.read_json(tmp_path / "capture/01-point-001/state.json")
    files.validate_schema_if_enabled("captured_state/1", state)
    assert state["nodes"] == {}


def test_an_unknown_point_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no point 002"):
        captured(tmp_path, "/nowhere", "002")
    assert not (tmp_path / "capture").exists()


def test_a_folder_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "capture").write_text("in the way", encoding="utf-8")
    with pytest.raises(DataError, match="capture cannot be written"):
        captured(tmp_path, "/nowhere")
