"""Disk checks, commands with a limit."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import common
import pytest


def test_needs_on_one_file_system_add_up(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "free_gb", lambda path: 10.0)
    assert common.check_space([("a", tmp_path / "a", 6.0)]) == []
    (problem,) = common.check_space([("a", tmp_path / "a", 6.0), ("b", tmp_path / "b" / "c", 5.0)])
    assert problem.startswith("11.0 GB of disk needed") and "10.0 GB free" in problem


def test_a_command_that_does_not_end_is_ended_with_its_children(tmp_path):
    script = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); sys.stdin.read(); "
    script += "import time; time.sleep(60)"
    log = tmp_path / "log"
    assert common.run_logged([sys.executable, "-c", script], log, "sleeper", 1.0, cwd=tmp_path) == 124
    child = log.read_text().split()[0]
    stat = common.Path(f"/proc/{child}/stat")

    def ended() -> bool:
        try:
            return stat.read_text().split()[2] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    deadline = time.monotonic() + 120  # what was killed ends when it gets a processor
    while not ended():
        assert time.monotonic() < deadline, "the child lives on"
        time.sleep(0.02)
    assert "not finished after 1 s" in log.read_text()


def test_output_and_exit_code_of_a_command_are_kept(tmp_path):
    log = tmp_path / "deep" / "log"
    assert common.run_logged([sys.executable, "-c", "print('x'); raise SystemExit(3)"], log, "x", 30, cwd=tmp_path) == 3
    assert common.tail(log, 5) == "x"


def test_an_interrupt_ends_what_runs_and_lets_nothing_begin(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "_STOPPING", threading.Event())
    codes, began = [], tmp_path / "began"
    script = f"import pathlib, time; pathlib.Path({str(began)!r}).touch(); time.sleep(60)"
    arguments = ([sys.executable, "-c", script], tmp_path / "log", "sleeper", 60.0)
    thread = threading.Thread(target=lambda: codes.append(common.run_logged(*arguments, cwd=tmp_path)))
    thread.start()
    while not began.exists():
        assert thread.is_alive()
        time.sleep(0.01)
    common.end_all()
    thread.join(120)
    assert codes == [-15]
    with pytest.raises(RuntimeError, match="not started, the run was interrupted"):
        common.run_logged(*arguments, cwd=tmp_path)


def as_nobody(work: Callable[[], None]) -> str:
    """Call ``work`` as a user without rights, in a process of its own; return with what words it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            work()
        except SystemExit as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize(
    ("home", "message"),
    [
        ("", "error: HOME='' is not an absolute path: "),
        ("not/absolute", "error: HOME='not/absolute' is not an absolute path: "),
        ("/nonexistent", "error: HOME=/nonexistent can't be written to by user "),
        ("/proc/nope", "error: HOME=/proc/nope can't be written to by user "),
        ("/dev/null", "error: HOME=/dev/null can't be written to by user "),
    ],
)
def test_a_home_that_can_not_be_used_is_one_sentence(monkeypatch, home, message):
    monkeypatch.setenv("HOME", home)
    said = as_nobody(common.check_home)
    assert said.startswith(message) and said.endswith("set HOME to a folder of yours")


def test_a_home_in_which_even_root_can_not_write_is_one_sentence(monkeypatch):
    monkeypatch.setenv("HOME", "/proc/nope")
    with pytest.raises(SystemExit, match="HOME=/proc/nope can't be written to by user "):
        common.check_home()


def test_no_home_at_all_is_one_sentence(monkeypatch):
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(common.Path, "home", none)
    with pytest.raises(SystemExit, match="HOME is not set and user .* has no home folder"):
        common.check_home()


def test_what_belongs_to_another_user_is_one_sentence(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    theirs.chmod(0o700 if os.geteuid() == 0 else 0)  # closed to nobody, and to ourselves where we are no other user
    said = as_nobody(lambda: common.run(lambda: print((theirs / "complete.json").read_text())))
    assert said.startswith("error: ") and ": permission denied for user " in said and said.count("\n") == 0
