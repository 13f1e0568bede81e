"""Users in pods of a real node: released together, with their files, or never because too few are ready."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import suite_prerequisites
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from playbook import play, run_dirs

LACKING = suite_prerequisites.real_node_lacks()
#: Image python is made by the first run that uses it.
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(LACKING), reason=LACKING)]


def values(rehearsal_folder: Path, **more: Any) -> list[str]:
    return ["-e", "preset=light", "-e", json.dumps({"rehearsal_data_dir": str(rehearsal_folder), **more})]


def rows(point: Path, name: str) -> list[dict[str, Any]]:
    return list(files.read_json_lines(point / f"{name}.jsonl"))


def test_users_begin_after_their_release_and_their_files_come_back(rehearsal_folder: Path, tmp_path: Path) -> None:
    more = {
        "users_count": 4,
        "users_command": ["sh", "-c", "echo $SEATRIAL_INDEX > /data/a; sleep 1; exit $((SEATRIAL_INDEX == 3 ? 7 : 0))"],
        "users_release": {"type": "closed", "batch": 2, "delay": 1},
        "users_required": "75 %",
        "results_limits": {"workloads_failed": {"max": 1}},
    }
    done = play(*values(rehearsal_folder, **more), project="users", artifacts=tmp_path)
    assert done.code == 0, done.output
    (point,) = (run_dirs(tmp_path)[0] / "points").iterdir()
    told = files.read_json(point / "users" / "users.json")
    assert (told["count"], told["required"], told["succeeded"]) == (4, 3, 3)
    for index in range(4):
        folder = point / "users" / str(index)
        assert (folder / "files" / "a").read_text() == f"{index}\n"
        assert files.read_json(folder / "user.json")["exit_code"] == (7 if index == 3 else 0)
    releases = [row for row in rows(point, "ledger") if row["type"] == "release" and row["status"] == 200]
    assert [row["released"] for row in releases] == [2, 4]
    assert releases[1]["sent"] >= releases[0]["answered"] + 1
    for row in rows(point, "timeline"):
        if "index" not in row:
            continue
        stages, (first, last) = row["stages"], row["stages"]["released"]
        assert [first, last] == pytest.approx([releases[row["index"] // 2][one] for one in ("sent", "answered")])
        # Not before: the latest moment of a stage is not earlier than the earliest one of the stage before.
        order = ["created", "scheduled", "ready", "released", "begun", "command_ended"]
        for before, after in zip(order, order[1:], strict=False):
            assert stages[before][0] <= stages[after][1], (row["index"], before, after)
    kpis = {one["name"]: one for one in files.read_json(point / "kpis.json")["kpis"]}
    assert kpis["success_rate"]["value"] == 75
    assert kpis["release_to_begun_max"]["n"] == 4 and not kpis["release_to_begun_max"]["simulated"]
    assert kpis["release_spread"]["value"] <= kpis["release_to_begun_max"]["interval"][1]


def test_a_barrier_that_stays_closed_names_who_is_missing_and_why(rehearsal_folder: Path, tmp_path: Path) -> None:
    more = {"users_count": 2, "users_image": "localhost/seatrial/nothing:1", "users_ready_timeout": 10}
    done = play(*values(rehearsal_folder, **more), project="users", artifacts=tmp_path)
    assert done.code != 0
    text = " ".join(done.output.split())
    assert "after 10 s 0 of 2 were ready and 2 are required; missing: " in text
    assert "-001-0 (" in text and "-001-1 (" in text and "Image" in text
    (point,) = (run_dirs(tmp_path)[0] / "points").iterdir()
    assert [row for row in rows(point, "ledger") if row["type"] == "release"] == []
    assert {one.name for one in (point / "users").iterdir()} == {"0", "1", "users.json"}
