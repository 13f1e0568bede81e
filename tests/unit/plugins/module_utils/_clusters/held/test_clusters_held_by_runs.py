"""What runs of this machine hold, and what gives back what has expired."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import recorded_path_and_inode
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.held import clusters_held_by_runs
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.instance_dir import (
    InstanceMarker,
    InstancePaths,
)

COMPONENTS = Path(__file__).parents[6] / "roles" / "rehearsal" / "files" / "components"
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
    files.write_yaml(directory / "run.yml", {"id": run, **recorded_path_and_inode(directory, directory)})
    if command:
        COMMANDS[str(directory)] = shlex.join(command)
    return directory


#: Run directory -> the command that the caller has built.
COMMANDS: dict[str, str] = {}


def given(folder: Path) -> dict[str, Any]:
    return {
        "artifacts_dir": str(folder),
        "rehearsal_dir": str(folder / "none"),
        "components_dir": str(folder),
        "commands": COMMANDS,
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
    [one] = clusters_held_by_runs.find_held_clusters(tmp_path, tmp_path / "none", NOW)
    assert one.line() == f"hive_pool cluster t1121-abcdef: ann for a test since {PAST}, until {FUTURE}"
    assert not one.expired


def test_a_run_that_owns_its_cluster_is_named_once(tmp_path: Path) -> None:
    run_with(tmp_path, "t1121-aaaaaa", owner="t1121-aaaaaa")
    run_with(tmp_path, "t1121-bbbbbb", owner="t1121-bbbbbb", name="perf")
    lines = [
        one.line().partition(" since")[0]
        for one in clusters_held_by_runs.find_held_clusters(tmp_path, tmp_path / "none", NOW)
    ]
    assert lines == [
        "hive_pool cluster perf: run t1121-bbbbbb for a test",
        "hive_pool cluster t1121-aaaaaa: for a test",
    ]


def test_what_expired_comes_first_and_what_was_begun_counts(tmp_path: Path) -> None:
    run_with(tmp_path, "t1121-aaaaaa")
    run_with(tmp_path, "t1121-bbbbbb", expires=PAST, kept=True)
    run_with(tmp_path, "t1121-cccccc", expires=None, state="acquiring", owned=False)
    found = clusters_held_by_runs.find_held_clusters(tmp_path, tmp_path / "none", NOW)
    assert [(one.name, one.expired) for one in found] == [
        ("t1121-bbbbbb", True),
        ("t1121-aaaaaa", False),
        ("t1121-cccccc", False),
    ]
    assert found[0].line().endswith(", kept - EXPIRED")


def test_only_what_expired_is_given_back_by_the_command_for_it(tmp_path: Path) -> None:
    told = tmp_path / "told"
    run_with(tmp_path, "t1121-aaaaaa", writes(tmp_path / "wrong"))
    run_with(tmp_path, "t1121-bbbbbb", writes(told), expires=PAST, kept=True)
    only_listed = clusters_held_by_runs.list_and_release_expired(
        {**given(tmp_path), "release_expired": False}, StepDirectory(None), lambda _text: None, check=False
    )
    assert only_listed["expired"] == ["t1121-bbbbbb"] and not only_listed["changed"] and not told.exists()
    dry = clusters_held_by_runs.list_and_release_expired(
        given(tmp_path), StepDirectory(None), lambda _text: None, check=True
    )
    assert dry["expired"] == ["t1121-bbbbbb"] and dry["changed"] and not told.exists()
    _held, listed = clusters_held_by_runs.list_clusters_and_locks(tmp_path, tmp_path / "none")
    assert [one["expired"] for one in listed["held"]] == [True, False] and len(listed["lines"]) == 3
    assert not told.exists()
    done = clusters_held_by_runs.list_and_release_expired(
        given(tmp_path), StepDirectory(None), lambda _text: None, check=False
    )
    assert done["expired"] == ["t1121-bbbbbb"]
    assert told.read_text() == "--tags release"
    assert not (tmp_path / "wrong").exists()


def test_one_that_can_not_be_given_back_does_not_keep_the_others(tmp_path: Path) -> None:
    told = tmp_path / "told"
    run_with(tmp_path, "t1121-aaaaaa", writes(tmp_path / "first", code=3), expires=PAST)
    run_with(tmp_path, "t1121-bbbbbb", writes(tmp_path / "second", code=4), expires=PAST)
    run_with(tmp_path, "t1121-cccccc", writes(told), expires=PAST)
    with pytest.raises(ProcessError) as raised:
        clusters_held_by_runs.list_and_release_expired(
            given(tmp_path), StepDirectory(None), lambda _text: None, check=False
        )
    assert "cluster t1121-aaaaaa of run t1121-aaaaaa: its give-back command ended with exit code 3" in str(raised.value)
    assert "t1121-bbbbbb" in str(raised.value) and "exit code 4" in str(raised.value)
    assert told.exists()


def test_the_command_of_a_run_with_several_clusters_runs_once(tmp_path: Path) -> None:
    counted = tmp_path / "counted"
    script = f"open({str(counted)!r}, 'a').write('x'); raise SystemExit(3)"
    directory = run_with(tmp_path, "t1121-aaaaaa", [sys.executable, "-c", script], expires=PAST)
    document = files.read_yaml(directory / "cluster.yml")
    sutest = document["clusters"]["sutest"]
    document["clusters"] |= {
        f"worker-{number}": {**sutest, "name": f"t1121-aaaaaa-worker-{number}"} for number in (1, 2)
    }
    files.write_yaml(directory / "cluster.yml", document, "cluster/2")
    with pytest.raises(ProcessError) as raised:
        clusters_held_by_runs.list_and_release_expired(
            given(tmp_path), StepDirectory(None), lambda _text: None, check=False
        )
    assert str(raised.value).count("ended with exit code 3") == 1
    assert counted.read_text() == "x"


def test_a_command_brings_its_own_environment(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f"import os; open({str(told)!r}, 'w').write(os.environ['ANSIBLE_CONFIG'])"
    command = ["ANSIBLE_CONFIG=/some where/ansible.cfg", sys.executable, "-c", script]
    assert clusters_held_by_runs.give_back(command, tmp_path / "log", 30, {}) == ""
    assert told.read_text() == "/some where/ansible.cfg"


def test_a_command_in_a_run_directory_is_never_run(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    directory = run_with(tmp_path, "t1121-aaaaaa", expires=PAST)
    (directory / "GIVE_BACK").write_text(f"A=b sh -c 'touch {proof}'\n", encoding="utf-8")
    done = clusters_held_by_runs.list_and_release_expired(
        given(tmp_path), StepDirectory(None), lambda _text: None, check=False
    )
    assert done["expired"] == [] and not proof.exists()
    assert done["lines"][1] == f"  stays, because the project of {directory} has no playbook here"


def test_a_replot_and_a_copy_hold_nothing_and_what_is_not_ours_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    original = run_with(tmp_path, "t1121-aaaaaa", writes(told))
    copy = run_with(tmp_path, "copied", writes(told), expires=PAST)
    files.write_yaml(copy / "run.yml", {"id": "t1121-aaaaaa", "directory": str(original)})
    replot = run_with(tmp_path, "replotted", writes(told), expires=PAST)
    files.write_yaml(replot / "run.yml", {"id": "t1121-aaaaaa", "replot": {"source": "x"}})
    assert [one.run_dir for one in clusters_held_by_runs.find_held_clusters(tmp_path, tmp_path / "none", NOW)] == [
        str(original)
    ]
    for record, words in (
        ({"directory": "/gone/t1121-aaaaaa"}, "its run was made in /gone/t1121-aaaaaa"),
        ({"directory": str(copy)}, """GIVE_BACK releases it, or add -e '{"cluster_name": "copied"}' to it"""),
        ({"directory": str(copy)}, "was copied, moved or received"),
        ({}, "does not say where the run was made"),
    ):
        files.write_yaml(copy / "run.yml", {"id": "t1121-aaaaaa", **record})
        done = clusters_held_by_runs.list_and_release_expired(
            given(tmp_path), StepDirectory(None), lambda _text: None, check=False
        )
        assert done["expired"] == [] and any(words in line for line in done["lines"]), done["lines"]
    files.write_yaml(copy / "run.yml", {"id": "t1121-aaaaaa", "directory": str(copy)})
    monkeypatch.setattr(clusters_held_by_runs.os, "geteuid", lambda: 12345)
    done = clusters_held_by_runs.list_and_release_expired(
        given(tmp_path), StepDirectory(None), lambda _text: None, check=False
    )
    assert done["expired"] == [] and any("belongs to another user" in line for line in done["lines"])
    assert not told.exists()


@pytest.mark.parametrize(("owner", "held"), [("t1121-aaaaaa", True), ("", False), ("t1121-other1", False)])
def test_a_run_holds_a_rehearsal_cluster_that_says_so(tmp_path: Path, owner: str, held: bool) -> None:
    """The default name of those that are started by hand is the same for all, so a name alone says nothing."""
    data, told = tmp_path / "data", tmp_path / "told"
    folder = InstancePaths(data, "default")
    folder.create(owner, [], None)
    run_with(
        tmp_path / "runs", "t1121-aaaaaa", writes(told), expires=PAST, provider="rehearsal", name="default",
        data_dir=str(folder.path),
    )  # fmt: skip
    asked = {**given(tmp_path / "runs"), "rehearsal_dir": str(data)}
    done = clusters_held_by_runs.list_and_release_expired(asked, StepDirectory(None), lambda _text: None, check=False)
    assert (done["expired"] == ["default"]) == held == told.exists()
    assert folder.path.is_dir()
    elsewhere = {**asked, "rehearsal_dir": str(tmp_path / "others")}
    done = clusters_held_by_runs.list_and_release_expired(
        elsewhere, StepDirectory(None), lambda _text: None, check=False
    )
    assert done["expired"] == [] and ('{"rehearsal_data_dir": ' in "".join(done["lines"])) == held


def test_an_expired_rehearsal_cluster_without_a_run_directory_is_removed_for_its_owner_only(tmp_path: Path) -> None:
    data = tmp_path / "data"
    folder = InstancePaths(data, "left")
    folder.create("t1121-aaaaaa", [], PAST)
    asked = {**given(tmp_path / "runs"), "rehearsal_dir": str(data), "components_dir": str(COMPONENTS)}
    [found] = clusters_held_by_runs.find_held_clusters(tmp_path / "runs", data, NOW)
    folder.update(InstanceMarker("left", "t1121-bbbbbb", PAST, [], PAST))
    assert "belongs to run t1121-bbbbbb" in clusters_held_by_runs.release_cluster(found, asked, StepDirectory(None))
    assert folder.path.is_dir()
    done = clusters_held_by_runs.list_and_release_expired(asked, StepDirectory(None), lambda _text: None, check=False)
    assert done["expired"] == ["left"] and not folder.path.exists()


@pytest.mark.parametrize("text", ["", "clusters: []\n", "clusters: {sutest: 5}\n", "clusters: {sutest: {}}\n", "{"])
def test_a_damaged_record_is_named_and_is_no_run_that_holds_nothing(tmp_path: Path, text: str) -> None:
    directory = run_with(tmp_path, "t1121-abcdef")
    (directory / "cluster.yml").write_text(text, encoding="utf-8")
    _held, result = clusters_held_by_runs.list_clusters_and_locks(tmp_path, tmp_path / "none")
    assert [line for line in result["lines"] if f"what the run of {directory} holds is unknown: " in line]
    assert "nothing is held" not in result["lines"]
