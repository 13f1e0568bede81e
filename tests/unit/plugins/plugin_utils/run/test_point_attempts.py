# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of attempts and the decisions of the schedule, in sessions that are killed between any two writes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import choose_next_point
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import point_attempts

POINTS = {f"{number:03d}": {"count": number} for number in range(1, 4)}
KILLED = 9


def begin(run_dir: Path, points: dict[str, dict[str, Any]] | None = None, began: str = "1") -> None:
    """What opening a session of a run writes, as far as the schedule depends on it."""
    record = {"id": "t1122-abcdef", "started": began, "sessions": [{"started": f"2026-11-22T00:00:{began:0>2}Z"}]}
    files.write_yaml(run_dir / "run.yml", record)
    wanted = POINTS if points is None else points
    point_attempts.write_points(
        run_dir,
        [
            (name, values, "", lambda path: files.write_yaml(path, {"session": began}))
            for name, values in wanted.items()
        ],
        lambda _name, _path: None,
    )


def end(run_dir: Path, name: str, status: str) -> None:
    path = run_dir / "points" / name / "point.yml"
    files.write_yaml(path, {**files.read_yaml(path), "status": status}, "point/2")


def of(run_dir: Path) -> dict[str, str]:
    return {one.name: one.status for one in choose_next_point.read_attempts(run_dir)}


def documents(run_dir: Path, names: list[str]) -> dict[str, tuple[str, int]]:
    found = [run_dir / "points" / name / file for name in names for file in ("point.yml", "settings.yml")]
    return {str(path): (path.read_text(), path.stat().st_mtime_ns) for path in found}


def test_decisions_are_lines_of_one_session(tmp_path: Path) -> None:
    begin(tmp_path)
    first = point_attempts.next_attempt_module_result(tmp_path, False)
    assert (first["point"], first["attempt"], first["finished"], first["last"]) == ("001", 1, False, False)
    end(tmp_path, "001", "failed")
    assert point_attempts.next_attempt_module_result(tmp_path, True)["failures"] == [
        "point 001: no reason was recorded"
    ]
    begin(tmp_path, began="2")
    assert point_attempts.next_attempt_module_result(tmp_path, True)["point"] == "002", (
        "a failure of an earlier session stops nothing"
    )
    assert point_attempts.failures_of_points(tmp_path) == [
        "point 001: no reason was recorded (in an earlier session; -e redo=failed measures it again)"
    ]
    kinds = [(line["type"], line.get("point")) for line in choose_next_point.read_schedule_lines(tmp_path)]
    assert kinds == [("session", None), ("decided", "001"), ("finished", None), ("session", None), ("decided", "002")]


def test_points_that_have_ended_keep_their_files_and_others_get_the_new_settings(tmp_path: Path) -> None:
    begin(tmp_path)
    end(tmp_path, "001", "passed")
    end(tmp_path, "002", "running")
    kept = documents(tmp_path, ["001"])
    begin(tmp_path, began="2")
    assert documents(tmp_path, ["001"]) == kept
    for name in ("002", "003"):
        assert files.read_yaml(tmp_path / "points" / name / "settings.yml") == {"session": "2"}
    assert of(tmp_path)["002"] == "running"


def test_a_further_attempt_has_its_record_and_the_settings_of_its_point(tmp_path: Path) -> None:
    begin(tmp_path)
    end(tmp_path, "003", "passed")
    (wanted,) = choose_next_point.attempts_demanded_by_redo(
        ["003"], point_attempts.last_session_schedule_state(tmp_path)
    )
    point_attempts.create_attempt(tmp_path, wanted)
    first, further = (files.read_yaml(tmp_path / "points" / name / "point.yml") for name in ("003", "003-2"))
    assert (further["point"], further["of"], further["attempt"]) == ("003-2", "003", 2)
    assert (further["status"], further["settings"]) == ("planned", first["settings"])
    assert further["uuid"] != first["uuid"]
    assert (tmp_path / "points/003-2/settings.yml").read_text() == (tmp_path / "points/003/settings.yml").read_text()
    with pytest.raises(InputError, match="can't create .*003-2"):
        point_attempts.create_attempt(tmp_path, wanted)


def test_points_that_were_measured_neither_change_nor_go(tmp_path: Path) -> None:
    begin(tmp_path)
    end(tmp_path, "002", "passed")
    point_attempts.refuse_changed_points(tmp_path, {"002": {"count": 2}, "003": {"count": 3}})
    with pytest.raises(InputError, match="point 002 was measured with count=2, and now has count=3: a run keeps"):
        point_attempts.refuse_changed_points(tmp_path, {"002": {"count": 3}})
    with pytest.raises(InputError, match="point 002 was measured with count=2, and the matrix lacks it now"):
        point_attempts.refuse_changed_points(tmp_path, {"001": {"count": 1}})
    begin(tmp_path, {"001": {"count": 1}, "002": {"count": 2}, "006": {"count": 6}}, "2")
    assert of(tmp_path) == {"001": "planned", "002": "passed", "006": "planned"}


def run_session(run_dir: Path, number: int, asked: list[str], outcomes: list[str], writes: int) -> bool:
    """Run a session in a child that is killed before its ``writes``-th write; return whether it came to its end."""
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, KILLED)
        return code == 0
    left = iter(range(writes))

    def counted(function: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            if next(left, None) is None:
                os._exit(KILLED)
            return function(*arguments, **more)

        return call

    os.fsync = lambda _handle: None  # a process is killed here, not the machine
    os.rename, os.replace, os.write, os.mkdir = map(counted, (os.rename, os.replace, os.write, os.mkdir))
    code = 1
    try:
        begin(run_dir, began=str(number))
        for one in choose_next_point.attempts_demanded_by_redo(
            asked, point_attempts.last_session_schedule_state(run_dir)
        ):
            point_attempts.create_attempt(run_dir, one)
        for outcome in outcomes:
            found = point_attempts.next_attempt_module_result(run_dir, False)
            if found["finished"]:
                code = 0
                break
            end(run_dir, found["point"], "running")
            end(run_dir, found["point"], outcome)
    finally:
        os._exit(code)


@pytest.mark.parametrize("asked", [[], ["failed", "001"]], ids=["a first session", "a session with redo"])
def test_a_run_survives_a_kill_between_any_two_writes(tmp_path: Path, asked: list[str]) -> None:
    for writes in range(200):
        run_dir = tmp_path / str(writes)
        run_dir.mkdir()
        begin(run_dir, began="0")
        if asked:
            assert run_session(run_dir, 1, [], ["passed", "failed", "passed"] * 2, 10**6)
        ended = [name for name, status in of(run_dir).items() if status in ("passed", "failed")]
        kept = documents(run_dir, ended)
        whole = run_session(run_dir, 2, asked, ["passed"] * 9, writes)
        ended += [name for name, status in of(run_dir).items() if status == "passed" and name not in ended]
        kept = {**documents(run_dir, ended), **kept}
        assert run_session(run_dir, 3, asked if writes % 2 else [], ["passed"] * 9, 10**6)
        assert documents(run_dir, ended) == kept, "what has ended is not touched"
        check(run_dir)
        if whole:
            return
    pytest.fail("the session never came to its end")


def check(run_dir: Path) -> None:
    """Each attempt is whole, has ended, has a number and a uuid that no other has, and was decided once a session."""
    found = choose_next_point.read_attempts(run_dir)
    assert {path.name for path in (run_dir / "points").iterdir()} == {one.name for one in found}
    assert {one.status for one in found} <= {"passed", "failed"}
    assert all(one.record["point"] == one.name for one in found)
    assert len({one.record["uuid"] for one in found}) == len(found)
    for name in POINTS:
        numbers = [one.attempt for one in found if one.of == name]
        assert numbers == list(range(1, len(numbers) + 1))
    decided: list[Counter[str]] = []
    for line in choose_next_point.read_schedule_lines(run_dir):
        if line["type"] == "session":
            decided.append(Counter())
        elif line["type"] == "decided":
            decided[-1][line["point"]] += 1
    assert all(count == 1 for one in decided for count in one.values())
    assert {name for one in decided for name in one} == {one.name for one in found}


def test_a_torn_line_of_the_schedule_is_cut(tmp_path: Path) -> None:
    begin(tmp_path)
    point_attempts.next_attempt_module_result(tmp_path, False)
    with (tmp_path / choose_next_point.FILE).open("a") as stream:
        stream.write('{"type":"deci')
    assert point_attempts.next_attempt_module_result(tmp_path, False)["point"] == "002"
    assert [line["type"] for line in choose_next_point.read_schedule_lines(tmp_path)] == [
        "session",
        "decided",
        "decided",
    ]
