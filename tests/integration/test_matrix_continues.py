"""A run of five points is killed in its third one and goes on: measured points stay, the third is resumed; redo."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from playbook import begin, play, run_dirs

#: Each point is over in seconds; the load of one takes long enough to be killed in the middle.
POINTS = {
    "matrix": {"workload_scale_run_seconds": [1, 1.5, 2, 2.5]},
    "matrix_points": [{"workload_scale_run_seconds": 3}],
    "workload_scale_type": "training",
    "workload_scale_count": 5,
    "workload_scale_pvc": False,
    "workload_scale_arrival": {"type": "constant", "rate": 2},
}
NAMES = ["001", "002", "003", "004", "005"]


def words_for(rehearsal: support.Rehearsal, **more: Any) -> list[str]:
    data = Path(rehearsal.info["data_dir"])
    given = {
        **POINTS,
        "rehearsal_name": data.name,
        "rehearsal_data_dir": str(data.parent),
        "cleanup_keep": True,
        **more,
    }
    return ["-e", "preset=light", "-e", json.dumps(given)]


def kill_session(artifacts: Path) -> None:
    """Kill ansible-playbook and everything that it started, at once. Its workers have sessions of their own."""
    while found := [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if belongs(pid, artifacts)]:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def belongs(pid: int, artifacts: Path) -> bool:
    """Return whether a process was started for these artifacts. A process that has ended has no environment."""
    try:
        return f"ARTIFACT_DIR={artifacts}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def record(run_dir: Path, name: str) -> dict[str, Any]:
    return _files.read_yaml(run_dir / "points" / name / "point.yml")


def sent(run_dir: Path, name: str) -> list[str]:
    """The workloads of a point that were created, as the ledger has them."""
    path = run_dir / "points" / name / "ledger.jsonl"
    lines = _files.read_json_lines(path) if path.exists() else ()
    return [one["name"] for one in lines if one["type"] == "attempt" and one["outcome"] == "created"]


def files(run_dir: Path, name: str) -> dict[str, int]:
    folder = run_dir / "points" / name
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def decisions(run_dir: Path) -> list[list[str]]:
    """The attempts that each session decided to measure."""
    found: list[list[str]] = []
    for one in _files.read_json_lines(run_dir / "schedule.jsonl"):
        if one["type"] == "session":
            found.append([])
        elif one["type"] == "decided":
            found[-1].append(one["point"])
    return found


def killed_run(rehearsal: support.Rehearsal, tmp_path: Path, after: float | None = None) -> Path:
    """A run that was killed when its third point had sent two workloads, or ``after`` seconds of its first point."""
    log = tmp_path / "log"
    process = begin(
        *words_for(rehearsal), "--tags", "cluster,prepare,test", artifacts=tmp_path, log=log, project="workload_scale"
    )
    try:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and process.poll() is None:
            found = run_dirs(tmp_path)
            if found and after is None and len(sent(found[0], "003")) >= 2:
                break
            if found and after is not None and sent(found[0], "001"):
                time.sleep(after)
                break
            time.sleep(0.1)
    finally:
        kill_session(tmp_path)
        process.wait(timeout=120)
    assert run_dirs(tmp_path), log.read_text(errors="replace")[-5000:]
    return run_dirs(tmp_path)[0]


@pytest.mark.long
def test_a_run_killed_in_its_third_point_goes_on_and_a_point_is_measured_again(
    rehearsal: support.Rehearsal, tmp_path: Path
) -> None:
    run_dir = killed_run(rehearsal, tmp_path)
    assert [record(run_dir, name)["status"] for name in NAMES] == ["passed", "passed", "running", "planned", "planned"]
    before = {name: (files(run_dir, name), record(run_dir, name)) for name in NAMES}
    at_the_kill = sent(run_dir, "003")

    # From another folder, with a relative path.
    going_on = ["--tags", "test", "-e", f"run_dir={run_dir.name}"]
    done = play(*going_on, artifacts=tmp_path, project="workload_scale", cwd=tmp_path)
    assert done.code == 0, done.output[-6000:]
    for name in ("001", "002"):
        assert (files(run_dir, name), record(run_dir, name)) == before[name], "a passed point is left alone"
    assert [record(run_dir, name)["status"] for name in NAMES] == ["passed"] * 5
    assert record(run_dir, "003")["uuid"] == before["003"][1]["uuid"], "resumed in place"
    assert [name for name in NAMES if record(run_dir, name).get("resumed")] == ["003"]
    assert sent(run_dir, "003")[: len(at_the_kill)] == at_the_kill
    assert sorted(sent(run_dir, "003")) == sorted(set(sent(run_dir, "003"))), "no workload is sent twice"
    assert [len(sent(run_dir, name)) for name in NAMES] == [5] * 5
    assert decisions(run_dir) == [["001", "002", "003"], ["003", "004", "005"]]

    kept = {name: (files(run_dir, name), record(run_dir, name)) for name in NAMES}
    log = tmp_path / "redo.log"
    again = ["--tags", "test,report", "-e", f"run_dir={run_dir}", "-e", "redo=003"]
    process = begin(*again, artifacts=tmp_path, log=log, project="workload_scale")
    try:
        deadline = time.monotonic() + 120
        while not (run_dir / "points" / "003-2").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        second = play(*going_on, artifacts=tmp_path, project="workload_scale", cwd=tmp_path)
        assert second.code != 0
        assert "is still being worked on by process" in second.flat(), second.output[-3000:]
        assert process.wait(timeout=300) == 0, log.read_text(errors="replace")[-6000:]
    finally:
        kill_session(tmp_path)
    first, further = record(run_dir, "003"), record(run_dir, "003-2")
    for name in NAMES:
        had, old = kept[name]
        assert had.items() <= files(run_dir, name).items(), "what was measured does not change"
        assert record(run_dir, name) == old
    assert (further["status"], further["of"], further["attempt"]) == ("passed", "003", 2)
    assert further["uuid"] != first["uuid"] and further["started"] > first["ended"]
    assert len(sent(run_dir, "003-2")) == 5 and not set(sent(run_dir, "003-2")) & set(sent(run_dir, "003"))
    assert decisions(run_dir)[2:] == [["003-2"]]
    verdict = _files.read_json(run_dir / "verdict.json")
    assert {one["point"] for one in verdict["checks"] if one["point"]} == {"001", "002", "003-2", "004", "005"}
    assert verdict["verdict"] == "pass", verdict
    assert _files.read_json(run_dir / "points" / "003-2" / "kpis.json")["labels"]["attempt"] == {
        "point": "003",
        "number": 2,
    }
    assert "003-2" in (run_dir / "report" / "index.html").read_text(encoding="utf-8")
    assert "point 003-2" in (run_dir / "junit.xml").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_a_run_killed_at_any_moment_goes_on(rehearsal: support.Rehearsal, tmp_path: Path, seed: int) -> None:
    run_dir = killed_run(rehearsal, tmp_path, random.Random(seed).uniform(0.0, 40.0))
    passed = [name for name in NAMES if record(run_dir, name)["status"] == "passed"]
    before = {name: (files(run_dir, name), record(run_dir, name)) for name in passed}
    words = ["--tags", "test", "-e", f"run_dir={run_dir}"]
    done = play(*words, artifacts=tmp_path, project="workload_scale")
    assert done.code == 0, done.output[-6000:]
    assert {name: (files(run_dir, name), record(run_dir, name)) for name in passed} == before
    assert [len(set(sent(run_dir, name))) for name in NAMES] == [5] * 5
    assert [record(run_dir, name)["status"] for name in NAMES] == ["passed"] * 5
