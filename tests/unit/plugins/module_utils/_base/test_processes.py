"""Processes as the system shows them. All of them are real."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import ProcessReference
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import unblock_signals

SLEEP = os.path.realpath(str(shutil.which("sleep")))


def wait_for(truth: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not truth():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_name_with_parentheses_does_not_confuse_the_start_time(tmp_path: Path) -> None:
    odd = tmp_path / "a) R 1 (b"
    shutil.copy(SLEEP, odd)
    child = subprocess.Popen([str(odd), "60"])
    try:
        wait_for(lambda: processes.executable_of(child.pid) == str(odd))
        plain = subprocess.Popen([SLEEP, "60"])
        try:
            later = processes.start_ticks_of(plain.pid)
            found = processes.start_ticks_of(child.pid)
            assert found is not None and later is not None and 0 <= later - found < 100 * os.sysconf("SC_CLK_TCK")
        finally:
            plain.kill()
            plain.wait()
    finally:
        child.kill()
        child.wait()


def test_the_environment_of_a_program_that_is_just_being_started_is_complete(monkeypatch) -> None:
    """Popen returns inside execve(2), before the kernel has copied the environment."""
    monkeypatch.setenv("SEATRIAL_TEST", "1")
    for _again in range(100):
        child = subprocess.Popen([SLEEP, "60"])
        try:
            assert processes.environment_of(child.pid).get("SEATRIAL_TEST") == "1"
        finally:
            child.kill()
            child.wait()


def test_marked_processes_are_found_by_their_environment_while_they_run(tmp_path: Path) -> None:
    with subprocess.Popen([SLEEP, "60"], env={"SEATRIAL_TEST": str(tmp_path), "A": "b"}) as child:
        assert processes.find_by_environment_variable("SEATRIAL_TEST", str(tmp_path)) == {
            child.pid: {"SEATRIAL_TEST": str(tmp_path), "A": "b"}
        }
        child.kill()
        wait_for(lambda: not processes.find_by_environment_variable("SEATRIAL_TEST", str(tmp_path)))


def test_a_started_program_leads_a_session_and_appends_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    code = "import os; print(os.getcwd(), os.getsid(0) == os.getpid(), sorted(os.environ)[0])"
    child = processes.start_in_new_session([sys.executable, "-c", code], tmp_path, {"A": "b"}, log, "title\n")
    assert child.wait(120) == 0
    assert log.read_text() == f"before\ntitle\n{tmp_path} True A\n"


#: Its first thread ends at once (exit(2)), another one only when its input does.
WITHOUT_LEADER = "import ctypes, sys, threading; threading.Thread(target=sys.stdin.read).start(); " + (
    "ctypes.CDLL(None).syscall({number}, 0)"
)


def test_a_process_whose_first_thread_has_ended_lives_until_the_others_have() -> None:
    number = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
    code = WITHOUT_LEADER.format(number=number)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
        process, stat = ProcessReference.of(child.pid), Path(f"/proc/{child.pid}/stat")
        wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
        assert process.lives() and process.ticks
        assert child.stdin
        child.stdin.close()
        wait_for(lambda: not process.lives())


def test_a_process_lives_until_it_ends_and_is_not_a_later_one_with_its_number() -> None:
    child = subprocess.Popen([SLEEP, "60"])
    try:
        found = ProcessReference.of(child.pid)
        assert found.lives() and ProcessReference(**found.record()).lives()
        assert not ProcessReference(found.pid, found.ticks - 1).lives()
        assert (
            processes.terminate_processes([ProcessReference(found.pid, found.ticks - 1)], 0.1) == []
            and child.poll() is None
        )
        assert processes.terminate_processes([found], 10.0) == []
        assert not found.lives() and not ProcessReference.of(child.pid).lives()
    finally:
        child.kill()
        child.wait()


def test_the_kill_of_a_session_reaches_a_child_that_is_deaf_too(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    leads = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {deaf!r}]).pid, flush=True)"
    said = tmp_path / "said"
    with open(said, "w") as stream:
        child = subprocess.Popen([sys.executable, "-c", f"{leads}; {deaf}"], stdout=stream, start_new_session=True)
    try:
        wait_for(lambda: said.read_text().count("on") == 2)
        below = ProcessReference.of(int(said.read_text().split()[0]))
        assert below.lives()
        assert processes.terminate_processes([ProcessReference.of(child.pid)], 0.3, session=True) == []
        wait_for(lambda: not below.lives())
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()


def test_an_independent_program_gets_no_setting_of_ansible(monkeypatch) -> None:
    monkeypatch.setenv("ANSIBLE_CONFIG", "/x")
    monkeypatch.setenv("SEATRIAL_TEST", "1")
    found = processes.environment_without_ansible()
    assert "ANSIBLE_CONFIG" not in found and found["SEATRIAL_TEST"] == "1"


def test_a_completed_program_has_no_input_and_returns_its_output_as_text(tmp_path: Path) -> None:
    program = (
        "import os, sys; print(sys.stdin.read() + os.getcwd() + os.environ['A']); sys.stderr.write('one\\ntwo\\n')"
    )
    done = processes.run_to_completion([sys.executable, "-c", program + "; sys.exit(3)"], 60, tmp_path, {"A": "b"})
    assert (done.code, done.output, done.errors) == (3, f"{tmp_path}b\n", "one\ntwo\n")
    assert done.last_line == "two"


def test_output_that_is_not_text_is_no_error() -> None:
    done = processes.run_to_completion(["printf", "a\\377b"], 60)
    assert done.output == "a\ufffdb" and done.last_line == "a\ufffdb"


def test_a_program_that_hangs_or_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(WaitTimeout, match=r"sleep 60 has not ended after 0\.1 s"):
        processes.run_to_completion([SLEEP, "60"], 0.1)
    with pytest.raises(ProcessError, match="/no/such can't be started: No such file"):
        processes.run_to_completion(["/no/such"], 1)


def test_a_forked_process_gets_a_signal_that_came_before_its_handlers() -> None:
    ready_in, ready_out = os.pipe()

    def run(report: int, _end: int) -> int:
        os.write(ready_out, b"x")
        os.read(go_in, 1)  # the signal is sent meanwhile
        signal.signal(signal.SIGTERM, lambda number, _frame: os.write(report, str(number).encode()))
        unblock_signals()
        return 0

    go_in, go_out = os.pipe()
    noted: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: noted.append(number))
    try:
        pid, report, end = processes.fork_reporting_process(run, lambda: None)
    finally:
        signal.signal(signal.SIGTERM, before)
    os.read(ready_in, 1)
    os.kill(pid, signal.SIGTERM)
    os.write(go_out, b"x")
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(report, 100) == b"15"
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    for descriptor in (ready_in, ready_out, go_in, go_out, report, end):
        os.close(descriptor)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read the environment of other users")
def test_processes_of_another_user_are_not_found_by_their_environment() -> None:
    marked = {**os.environ, "SEATRIAL_TEST_MARK": f"of {os.getpid()}"}
    children = [subprocess.Popen([SLEEP, "60"], env=marked, user=user) for user in (65534, None)]
    try:
        found = processes.find_by_environment_variable("SEATRIAL_TEST_MARK", f"of {os.getpid()}")
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert list(found) == [children[1].pid]
