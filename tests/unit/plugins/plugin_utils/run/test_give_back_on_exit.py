# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a run that is not closed when ansible-playbook exits."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import (
    give_back_on_exit,
    run_record,
    terminal_output,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role

PROJECT = ["settings", "lease", "cluster", "prepare", "test", "report", "cleanup", "release", "export"]
CLUSTER = {"provider": "rehearsal", "name": "one", "owned": True, "state": "acquired"}


@pytest.mark.parametrize(
    ("chosen", "settings", "expected"),
    [
        (PROJECT, {}, ["cleanup", "release"]),
        (PROJECT, {"cleanup_keep": True}, ["release"]),
        (PROJECT, {"cluster_keep": True, "cleanup_keep": True}, []),
        (PROJECT, {"quads_lease_keep": True}, ["cleanup"]),
        (["cluster", "prepare", "test"], {}, []),
        (["test", "cleanup"], {}, ["cleanup"]),
        (["cleanup", "release"], {}, []),
        (["report"], {}, []),
    ],
)
def test_only_what_the_session_would_have_given_back_is_given_back(
    chosen: list[str], settings: dict[str, bool], expected: list[str]
) -> None:
    assert give_back_on_exit.phases_that_release_resources(chosen, PROJECT, settings) == expected


def test_a_playbook_that_takes_what_stays_gives_nothing_back() -> None:
    every = ["settings", "acquire", "info", "release", "reap"]
    assert give_back_on_exit.phases_that_release_resources(every, every, {}) == []


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    arguments = run_record.CommandLine(["ansible-playbook", "x.yml"], {}, [])
    record = run_record.new_record("t1121-abcdef", project_role.find_role("fine_tuning"), [], ["001"], arguments)
    phase = {"status": "running", "started": record["started"], "ended": None, "seconds": None, "error": None}
    run_record.write_record(tmp_path, {**record, "give_back": "THE COMMAND", "phases": {"test": phase}})
    return tmp_path


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def watch(said: list[str]) -> Iterator[give_back_on_exit.RunWatch]:
    before = {number: signal.getsignal(number) for number in give_back_on_exit.SIGNALS}
    made = give_back_on_exit.RunWatch(said.append, take_over=3600.0)
    made.install()
    yield made
    atexit.unregister(made.end)
    for number, handler in before.items():
        signal.signal(number, handler)


def opened(run_dir: Path, **more: Any) -> dict[str, Any]:
    return {"run_dir": str(run_dir), "only_settings": False, "beside": False, "gives_back": [], **more}


def test_a_run_that_was_closed_is_left_alone(watch: give_back_on_exit.RunWatch, run_dir: Path, said: list[str]) -> None:
    watch.note(give_back_on_exit.OPENS, opened(run_dir))
    watch.note(give_back_on_exit.CLOSES, {"failures": []})  # not the final one
    watch.note(give_back_on_exit.CLOSES, {"closed": str(run_dir)})
    for more in ({"only_settings": True}, {"beside": True}):
        watch.note(give_back_on_exit.OPENS, opened(run_dir, **more))
    watch.end()
    assert said == []


def test_the_last_line_is_the_command_that_gives_back(
    watch: give_back_on_exit.RunWatch, run_dir: Path, said: list[str]
) -> None:
    clusters_of_run.update_host_records(run_dir, ["sutest", "driver"], CLUSTER)
    watch.note(give_back_on_exit.OPENS, opened(run_dir))
    watch.end()
    assert said[-2:] == ["  held      rehearsal cluster one", "  give back THE COMMAND"]
    record = files.read_yaml(run_dir / "run.yml")
    assert (record["status"], record["phases"]["test"]["status"]) == ("interrupted", "interrupted")
    assert [one["what"] for one in record["held"]] == ["rehearsal cluster one"]


def test_a_damaged_record_does_not_keep_the_command_from_the_screen(
    watch: give_back_on_exit.RunWatch, run_dir: Path, said: list[str]
) -> None:
    watch.note(give_back_on_exit.OPENS, opened(run_dir))
    (run_dir / "run.yml").write_text("]", encoding="utf-8")
    watch.end()
    assert "could not be ended in order" in said[0]
    assert said[-1] == f"  give back {run_dir / 'GIVE_BACK'}"


def test_without_the_directory_of_the_run_it_is_said_how_to_give_back(
    watch: give_back_on_exit.RunWatch, run_dir: Path, said: list[str]
) -> None:
    watch.note(give_back_on_exit.OPENS, opened(run_dir))
    shutil.rmtree(run_dir)
    watch.end()
    assert "its directory is gone, and GIVE_BACK with it: playbooks/cluster.yml --tags reap" in said[-1]


def test_a_signal_reaches_the_workers_and_ends_the_play_once(watch: give_back_on_exit.RunWatch, run_dir: Path) -> None:
    watch.note(give_back_on_exit.OPENS, opened(run_dir))
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)  # the same, passed on by timeout or make
    assert worker.wait(timeout=120) == -signal.SIGTERM


def test_a_signal_reaches_a_module_whose_worker_ends_before_it_passes_it_on(
    watch: give_back_on_exit.RunWatch, run_dir: Path, tmp_path: Path
) -> None:
    module = "import signal, time; signal.signal(2, lambda *_: open('noted', 'w').close()); print(); time.sleep(30)"
    worker = f"""
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
module = subprocess.Popen([sys.executable, "-c", {module!r}], stdout=subprocess.PIPE)
module.stdout.readline()
print(module.pid, flush=True)
module.wait()
"""
    command = [sys.executable, "-c", worker]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        module_pid = int(child.stdout.readline())
        try:
            watch.note(give_back_on_exit.OPENS, opened(run_dir))
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                child.wait(timeout=120)
            child.wait(timeout=120)
            deadline = time.monotonic() + 120
            while not (tmp_path / "noted").exists():
                assert time.monotonic() < deadline, "the module was not signalled"
                time.sleep(0.05)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(module_pid, signal.SIGKILL)


#: The environment of a program that imports the collection.
IMPORTS = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

STUCK = """
import multiprocessing, os, pathlib, signal, sys, time
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import give_back_on_exit

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever started the tests with nohup ignores it
watch = give_back_on_exit.RunWatch(print, take_over=1.0)
watch.install()
watch.note(give_back_on_exit.OPENS, {"run_dir": sys.argv[1], "gives_back": []})
lock = multiprocessing.get_context("fork").Lock()

def work():
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: None)
    works.set()
    while True:
        lock.acquire()

give_back_on_exit.PATIENCE = 1.0
lock.acquire()
works = multiprocessing.get_context("fork").Event()
worker = multiprocessing.get_context("fork").Process(target=work)
worker.start()
works.wait()
told = False
while True:
    try:
        if not told:  # in here, because the signal may follow at once
            told = True
            print("ready", worker.pid, flush=True)
        lock.acquire()  # as Ansible does for its queue of results
    except KeyboardInterrupt:
        pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_thread_ends_the_run_if_ansible_waits_for_ever(number: signal.Signals, run_dir: Path) -> None:
    command = [sys.executable, "-c", STUCK, str(run_dir)]
    with subprocess.Popen(command, env=IMPORTS, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline().split()[1])
        try:
            process.send_signal(number)
            said, _none = process.communicate(timeout=120)
        finally:
            process.kill()  # otherwise a failure waits for it
    assert process.returncode == give_back_on_exit.INTERRUPTED
    assert "Ansible has not ended" in said and said.splitlines()[-1] == "  give back THE COMMAND"
    assert processes.start_ticks_of(worker) is None
    assert files.read_yaml(run_dir / "run.yml")["status"] == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_worker_is_ended_while_it_writes_to_the_queue(number: signal.Signals) -> None:
    """Without the lock held by the one that signals, this fails in most turns."""
    script = """
import multiprocessing, os, signal, threading
from ansible.executor.task_queue_manager import FinalQueue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import give_back_on_exit

class Manager:
    def __init__(self):
        self._final_q = FinalQueue()
    def run(self):
        try:
            threading.Event().wait(0.2)
            os.kill(os.getpid(), int(os.environ["NUMBER"]))
            threading.Event().wait(60)
        except KeyboardInterrupt:
            pass
    def work(self):
        os.setsid()
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, lambda *_: os._exit(1))  # as Ansible's worker
        while True:
            self._final_q.put("x" * 100)
    def read(self):
        while self._final_q.get():
            pass

manager = Manager()
watch = give_back_on_exit.RunWatch(print, take_over=3600.0)
watch.install()
multiprocessing.get_context("fork").Process(target=manager.work).start()
threading.Thread(target=manager.read, daemon=True).start()
manager.run()
assert manager._final_q._wlock.acquire(timeout=5), "locked for ever"
"""
    environment = {**IMPORTS, "NUMBER": str(int(number))}
    for _turn in range(5):
        subprocess.run([sys.executable, "-c", script], env=environment, timeout=120, check=True)


def has_ended(pid: int) -> bool:
    """Wait up to 20 s for the end of a process, which is killed then; return whether it ended by itself."""
    deadline = time.monotonic() + 20
    while processes.start_ticks_of(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    left = processes.start_ticks_of(pid) is not None
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return not left


def test_a_worker_whose_result_nobody_reads_ends_when_ansible_is_killed(tmp_path: Path) -> None:
    number = tmp_path / "worker"
    program = f"""
import multiprocessing, os, pathlib
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import give_back_on_exit
give_back_on_exit.RunWatch(print).install()
queue = multiprocessing.get_context("fork").SimpleQueue()
def work():
    path = pathlib.Path({str(number)!r})
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    queue.put("x" * 1_000_000)  # more than a pipe holds
worker = multiprocessing.get_context("fork").Process(target=work)
worker.start()
worker.join()
"""
    with subprocess.Popen([sys.executable, "-c", program], env=IMPORTS) as process:
        deadline = time.monotonic() + 60
        while not number.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        worker = int(number.read_text())
        assert processes.parent_pid_of(worker) == process.pid
        process.kill()
    assert has_ended(worker)


def test_a_worker_that_is_forked_while_ansible_is_killed_ends_too(tmp_path: Path) -> None:
    number = tmp_path / "worker"
    program = f"""
import multiprocessing, os, pathlib, signal, time
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import give_back_on_exit
prctl, parent = give_back_on_exit._prctl, os.getpid()
def prctl_too_late(*given):
    path = pathlib.Path({str(number)!r})
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    os.kill(parent, signal.SIGKILL)
    while os.getppid() == parent:
        time.sleep(0.01)
    return prctl(*given)
give_back_on_exit._prctl = prctl_too_late
give_back_on_exit.RunWatch(print).install()
worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
worker.start()
worker.join()
"""
    subprocess.run([sys.executable, "-c", program], env=IMPORTS, timeout=60, check=False)
    worker = int(number.read_text())
    assert has_ended(worker)


def test_a_terminal_that_takes_no_output_does_not_stop_giving_back(run_dir: Path) -> None:
    script = """
import sys
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import give_back_on_exit
watch = give_back_on_exit.RunWatch(print, take_over=3600.0)
watch.note(give_back_on_exit.OPENS, {"run_dir": sys.argv[1], "gives_back": []})
watch.end()
"""
    command = [sys.executable, "-c", script, str(run_dir)]
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    try:
        subprocess.run(command, env=IMPORTS, stdout=writer, timeout=120, check=True)
    finally:
        os.close(reader)
        os.close(writer)
    assert files.read_yaml(run_dir / "run.yml")["status"] == "interrupted"


def test_a_hang_up_that_was_turned_off_stays_off(watch: give_back_on_exit.RunWatch, run_dir: Path) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watch.install()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_a_give_back_that_a_second_interrupt_ends_does_not_say_again_what_is_held(tmp_path: Path) -> None:
    script = """
import signal, time
def ended(*_):
    print("  held      one", flush=True)
    raise SystemExit
signal.signal(signal.SIGTERM, ended)
print("phase cleanup", flush=True)
time.sleep(60)
"""
    said: list[str] = []
    watch = give_back_on_exit.RunWatch(said.append)

    def say(line: str) -> None:
        said.append(line)
        watch._enough = True  # the second Ctrl-C arrives

    watch._print = say
    log = tmp_path / "log"
    with open(log, "wb") as stream:
        process = subprocess.Popen([sys.executable, "-c", script], stdout=stream)
    watch._follow(process, terminal_output.ProgressTail(str(log)))
    assert "held" in log.read_text() and said == ["phase cleanup"]


def test_the_time_of_a_give_back_counts_from_the_session_that_started_it(run_dir: Path) -> None:
    began = run_record.started_of_process(os.getpid())
    script = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        alone = run_record.session_start_time(run_dir, child.pid)
        mine = {
            "started": run_record.format_utc_timestamp(),
            "command": "x",
            "tags": [],
            "pid": os.getpid(),
            "began": began,
        }
        earlier = {**mine, "began": began - 1000}  # of another process, which had our id
        run_record.update_record(run_dir, lambda record: record.update(sessions=[earlier, mine]))
        both = run_record.session_start_time(run_dir, child.pid)
        child.stdin.close()
    assert both == began < alone


def test_the_session_that_starts_a_give_back_does_not_stand_in_its_way() -> None:
    above = run_record.process_and_ancestor_ids(os.getpid())
    assert {os.getpid(), os.getppid()} <= above
    assert (
        processes.parent_pid_of(os.getpid()) == os.getppid() and processes.process_group_of(os.getpid()) == os.getpgrp()
    )
