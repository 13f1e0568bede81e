"""What runs of this machine hold, and what gives back what has expired."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.held import held_clusters

NOW = datetime.fromisoformat("2026-11-21T12:00:00Z").timestamp()
PAST, FUTURE = "2026-11-21T11:00:00.000Z", "2126-11-21T13:00:00.000Z"


def run_with(folder: Path, run: str, command: list[str] | None = None, **cluster: Any) -> Path:
    """A run directory with a cluster of its own."""
    directory = folder / run
    directory.mkdir(parents=True)
    kept = {
        "provider": "hive_pool",
        "state": "acquired",
        "owned": True,
        "simulated": False,
        "simulated_writers": [],
        "name": run,
        "owner": "ann",
        "purpose": "a test",
        "taken": PAST,
        "expires": FUTURE,
        **cluster,
    }
    clusters = {"sutest": kept, "driver": kept}
    files.write_yaml(directory / "cluster.yml", {"schema": "cluster/2", "clusters": clusters}, "cluster/2")
    files.write_yaml(directory / "run.yml", {"id": run})
    if command:
        (directory / "GIVE_BACK").write_text(shlex.join(command) + "\n", encoding="utf-8")
    return directory


def given(folder: Path) -> dict[str, Any]:
    return {
        "artifacts_dir": str(folder),
        "rehearsal_dir": str(folder / "none"),
        "components_dir": str(folder),
        "release_expired": True,
        "timeout": 30.0,
    }


def writes(path: Path, code: int = 0) -> list[str]:
    """A command that writes its arguments into a file."""
    script = f"import sys; open({str(path)!r}, 'w').write(' '.join(sys.argv[1:])); sys.exit({code})"
    return [sys.executable, "-c", script, "--tags", "release"]


def test_what_is_held_is_told_once_with_owner_and_end(tmp_path: Path) -> None:
    run_with(tmp_path, "t1121-abcdef")
    run_with(tmp_path, "t1121-released", state="released")
    run_with(tmp_path, "t1121-another", provider="existing", owned=False)
    [one] = held_clusters.find_held(tmp_path, tmp_path / "none", NOW)
    assert one.line() == f"hive_pool cluster t1121-abcdef: ann for a test since {PAST}, until {FUTURE}"
    assert not one.expired


def test_a_run_that_owns_its_cluster_is_named_once(tmp_path: Path) -> None:
    run_with(tmp_path, "t1121-aaaaaa", owner="t1121-aaaaaa")
    run_with(tmp_path, "t1121-bbbbbb", owner="t1121-bbbbbb", name="perf")
    lines = [one.line().partition(" since")[0] for one in held_clusters.find_held(tmp_path, tmp_path / "none", NOW)]
    assert lines == [
        "hive_pool cluster perf: run t1121-bbbbbb for a test",
        "hive_pool cluster t1121-aaaaaa: for a test",
    ]


def test_what_expired_comes_first_and_what_was_begun_counts(tmp_path: Path) -> None:
    run_with(tmp_path, "t1121-aaaaaa")
    run_with(tmp_path, "t1121-bbbbbb", expires=PAST, kept=True)
    run_with(tmp_path, "t1121-cccccc", expires=None, state="acquiring", owned=False)
    found = held_clusters.find_held(tmp_path, tmp_path / "none", NOW)
    assert [(one.name, one.expired) for one in found] == [
        ("t1121-bbbbbb", True),
        ("t1121-aaaaaa", False),
        ("t1121-cccccc", False),
    ]
    assert found[0].line().endswith(", kept - EXPIRED")


def test_only_what_expired_is_given_back_by_its_own_command(tmp_path: Path) -> None:
    told = tmp_path / "told"
    run_with(tmp_path, "t1121-aaaaaa", writes(tmp_path / "wrong"))
    run_with(tmp_path, "t1121-bbbbbb", writes(told), expires=PAST, kept=True)
    only_listed = held_clusters.list_and_release(
        {**given(tmp_path), "release_expired": False}, Step(None), lambda _text: None, check=False
    )
    assert only_listed["expired"] == ["t1121-bbbbbb"] and not only_listed["changed"] and not told.exists()
    dry = held_clusters.list_and_release(given(tmp_path), Step(None), lambda _text: None, check=True)
    assert dry["expired"] == ["t1121-bbbbbb"] and dry["changed"] and not told.exists()
    _held, listed = held_clusters.list_clusters_and_locks(tmp_path, tmp_path / "none")
    assert [one["expired"] for one in listed["held"]] == [True, False] and len(listed["lines"]) == 2
    assert not told.exists()
    done = held_clusters.list_and_release(given(tmp_path), Step(None), lambda _text: None, check=False)
    assert done["expired"] == ["t1121-bbbbbb"]
    assert told.read_text() == "--tags release"
    assert not (tmp_path / "wrong").exists()


def test_one_that_can_not_be_given_back_does_not_keep_the_others(tmp_path: Path) -> None:
    told = tmp_path / "told"
    run_with(tmp_path, "t1121-aaaaaa", writes(tmp_path / "first", code=3), expires=PAST)
    run_with(tmp_path, "t1121-bbbbbb", expires=PAST)
    run_with(tmp_path, "t1121-cccccc", writes(told), expires=PAST)
    with pytest.raises(ProcessError) as raised:
        held_clusters.list_and_release(given(tmp_path), Step(None), lambda _text: None, check=False)
    assert "cluster t1121-aaaaaa of run t1121-aaaaaa: its give-back command ended with exit code 3" in str(raised.value)
    assert "t1121-bbbbbb" in str(raised.value) and "GIVE_BACK" in str(raised.value)
    assert told.exists()


def test_a_command_brings_its_own_environment(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f"import os; open({str(told)!r}, 'w').write(os.environ['ANSIBLE_CONFIG'])"
    command = ["ANSIBLE_CONFIG=/some where/ansible.cfg", sys.executable, "-c", script]
    assert held_clusters.give_back(command, tmp_path / "log", 30, {}) == ""
    assert told.read_text() == "/some where/ansible.cfg"
