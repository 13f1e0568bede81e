"""The users of a point as the report shows them."""

from __future__ import annotations

from array import array
from math import nan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import point_details
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

#: Stage -> latest moment for each user.
LATEST = {
    "created": [101.0, 101.0, 101.0],
    "ready": [103.0, 103.0, nan],
    "released": [110.0, 110.0, nan],
    "begun": [110.5, 112.0, nan],
    "command_ended": [115.0, nan, nan],
    "succeeded": [116.0, nan, nan],
    "failed": [nan, 113.0, nan],
}


def table(copies: int = 1) -> TimelineTable:
    found = TimelineTable({"start": 100.0}, index=list(range(3 * copies)))
    found.outcome = ["succeeded", "failed", "deleted"] * copies
    for name, values in LATEST.items():
        found.latest[name] = array("d", values * copies)
        found.earliest[name] = array("d", [one - 0.5 for one in values] * copies)
    return found


def write(folder: Path, index: int, **fields: Any) -> None:
    path = folder / "users" / str(index) / "user.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(path, fields)


def summary(folder: Path, **fields: Any) -> None:
    (folder / "users").mkdir(exist_ok=True)
    files.write_json(folder / "users" / "users.json", {"count": 3, "required": 2, "succeeded": 1, **fields})


def test_without_reports_of_users_there_is_no_section(tmp_path: Path) -> None:
    assert point_details.section_of_simulated_users(tmp_path, table()) is None
    summary(tmp_path)
    assert point_details.section_of_simulated_users(tmp_path, None) is None


def test_each_user_has_its_moments_and_how_it_ended(tmp_path: Path) -> None:
    summary(tmp_path, operations={"count": 9, "succeeded": 6, "success_percent": 66.667})
    write(tmp_path, 0, node="n1", exit_code=0, why="", files={"count": 2})
    write(tmp_path, 1, node="n1", exit_code=7, why="exit code 7, Error", files={"count": 0, "left_out": 3})
    found = point_details.section_of_simulated_users(tmp_path, table())
    assert found is not None
    failed, deleted, good = found["rows"]
    assert [one["text"] for one in failed["moments"]] == ["1 s", "3 s", "10 s", "12 s", "13 s"]
    assert failed["moments"][3]["title"] == "between 11.5 s and 12 s"
    assert found["left_out"] == 3 and [one["left_out"] for one in found["rows"]] == [3, 0, 0]
    assert [one["after_release"] for one in found["rows"]] == ["2 s", "–", "500 ms"]
    assert (failed["exit_code"], failed["why"], failed["files"]) == (7, "exit code 7, Error", 0)
    assert [one["text"] for one in deleted["moments"]] == ["1 s", "–", "–", "–", "–"]
    assert (deleted["outcome"], deleted["exit_code"], deleted["node"]) == ("deleted", "", "")
    assert (good["index"], good["moments"][4]["text"], good["files"], good["exit_code"]) == (0, "15 s", 2, 0)
    assert found["operations"] == "They created 9 objects, of which 6 could be used (66.7 %)."
    assert (found["left"], found["required"], found["succeeded"], found["count"]) == (0, 2, 1, 3)


def test_of_many_users_those_that_need_a_look_are_shown(tmp_path: Path) -> None:
    summary(tmp_path)
    found = point_details.section_of_simulated_users(tmp_path, table(10))
    assert found is not None and len(found["rows"]) == point_details.MOST and found["left"] == 10
    assert {one["outcome"] for one in found["rows"]} == {"failed", "deleted"}
