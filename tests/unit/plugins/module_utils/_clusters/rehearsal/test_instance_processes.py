"""Processes: found again after whatever happened, and nobody else's ever signalled. All of them are real."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import instance_processes

SLEEP = os.path.realpath(str(shutil.which("sleep")))


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "inst"
    (folder / "pids").mkdir(parents=True)
    yield folder
    for one in instance_processes.list_running_processes(folder):
        os.kill(one.pid, signal.SIGKILL)


@pytest.fixture
def start(instance: Path) -> Callable[..., subprocess.Popen]:
    def run(name: str = "a", command: list[str] | None = None) -> subprocess.Popen:
        child = instance_processes.start_instance_process(
            instance, instance / "pids", name, command or [SLEEP, "60"], {"X": "1"}, instance / f"{name}.log", "r"
        )
        wait_for(lambda: processes.executable_of(child.pid) != sys.executable)
        return child

    return run


def wait_for(truth: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not truth():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_started_process_is_found_with_its_record(instance: Path, start) -> None:
    child = start()
    (found,) = instance_processes.list_running_processes(instance)
    assert (found.name, found.pid, found.program) == ("a", child.pid, SLEEP)
    assert instance_processes.is_recorded_process(found, instance_processes.read_process_record(instance / "pids", "a"))


def test_it_leads_a_session_and_inherits_little_of_our_environment(instance: Path, start, monkeypatch) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "x")
    child = start()
    assert os.getsid(child.pid) == child.pid
    environment = processes.environment_of(child.pid)
    assert environment["X"] == "1" and environment["HOME"] == str(instance)
    assert "SECRET_OF_MINE" not in environment


def test_a_process_without_a_record_is_found(instance: Path, start) -> None:
    """We were killed after it was started and before it was recorded."""
    child = start()
    (instance / "pids" / "a.json").unlink()
    assert [one.pid for one in instance_processes.list_running_processes(instance)] == [child.pid]


def test_the_intent_is_written_before_the_process_is_started(instance: Path, start) -> None:
    with pytest.raises(ProcessError, match="a: /no/such/program can't be started: No such file"):
        start(command=["/no/such/program"])
    record = instance_processes.read_process_record(instance / "pids", "a")
    assert record is not None and record.pid == 0 and record.recipe == "r"


def test_a_process_of_another_instance_is_not_found(instance: Path, start, tmp_path: Path) -> None:
    start()
    assert instance_processes.list_running_processes(tmp_path / "inst2") == []
    assert instance_processes.list_running_processes(tmp_path) == []


def test_a_program_that_inherited_our_environment_is_not_ours(instance: Path) -> None:
    """Such as the shell of somebody who looks into a component's environment."""
    marked = {
        instance_processes.INSTANCE: str(instance),
        instance_processes.NAME: "a",
        instance_processes.PROGRAM: "/usr/bin/other",
    }
    child = subprocess.Popen([SLEEP, "60"], env=marked)
    try:
        wait_for(lambda: processes.executable_of(child.pid) == SLEEP)
        assert processes.environment_of(child.pid)[instance_processes.INSTANCE] == str(instance)
        assert instance_processes.list_running_processes(instance) == []
    finally:
        child.kill()
        child.wait()


def test_a_record_of_an_earlier_process_with_the_same_pid_does_not_count(instance: Path, start) -> None:
    start()
    (found,) = instance_processes.list_running_processes(instance)
    record = instance_processes.read_process_record(instance / "pids", "a")
    assert record is not None
    assert not instance_processes.is_recorded_process(found, replace(record, ticks=record.ticks - 1))
    assert not instance_processes.is_recorded_process(found, replace(record, boot="before"))
    assert not instance_processes.is_recorded_process(found, None)


def test_stopping_never_signals_a_pid_that_was_used_again(instance: Path, start) -> None:
    child = start()
    (found,) = instance_processes.list_running_processes(instance)
    instance_processes.stop_instance_processes(instance, [replace(found, ticks=found.ticks - 1)], grace=0.1)
    instance_processes.stop_instance_processes(instance, [replace(found, name="b")], grace=0.1)
    assert child.poll() is None


def test_stopping_never_signals_a_process_of_others(instance: Path) -> None:
    child = subprocess.Popen([SLEEP, "60"])
    try:
        ticks = processes.start_ticks_of(child.pid)
        assert ticks is not None
        instance_processes.stop_instance_processes(
            instance, [instance_processes.RunningProcess("a", child.pid, ticks, SLEEP)], grace=0.1
        )
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_stopping_ends_what_ends_by_itself_and_kills_what_does_not(instance: Path, start) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    python = os.path.realpath(sys.executable)
    start("deaf", [python, "-c", code])
    start("tame")
    wait_for(lambda: "on" in (instance / "deaf.log").read_text().splitlines())
    wait_for(lambda: len(instance_processes.list_running_processes(instance)) == 2)
    instance_processes.stop_instance_processes(instance, instance_processes.list_running_processes(instance), grace=0.3)
    assert instance_processes.list_running_processes(instance) == []


def test_a_zombie_does_not_run(instance: Path, start) -> None:
    child = start()
    os.kill(child.pid, signal.SIGKILL)
    wait_for(lambda: processes.start_ticks_of(child.pid) is None)
    assert instance_processes.list_running_processes(instance) == []
    child.wait()


def test_a_program_replaced_on_disk_is_still_recognized(instance: Path, start, tmp_path: Path) -> None:
    own = tmp_path / "program"
    shutil.copy(SLEEP, own)
    child = start(command=[str(own), "60"])
    own.unlink()
    assert [one.pid for one in instance_processes.list_running_processes(instance)] == [child.pid]


def test_a_torn_record_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"name": "a", "pro')
    (tmp_path / "b.json").write_text('{"unknown": 1}')
    assert instance_processes.read_process_record(tmp_path, "a") is None
    assert instance_processes.read_process_record(tmp_path, "b") is None
    assert instance_processes.read_process_record(tmp_path, "c") is None


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(f"line {number}\n" for number in range(5000)))
    assert instance_processes.last_log_lines(log, 2) == "    line 4998\n    line 4999"
    assert instance_processes.last_log_lines(tmp_path / "none") == "    (no log)"
