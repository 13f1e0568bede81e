"""Lines that a module appends are shown once each, whole, whoever ends first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.executor.process.worker import WorkerProcess
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions import module_actions
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import terminal_output
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(deadline=None)
@given(st.lists(st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp"))), max_size=20), st.data())
def test_every_line_is_read_once_however_it_is_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("tail") / "progress"
    content = "".join(f"{line}\n" for line in lines).encode()
    tail, found, at = terminal_output.ProgressTail(str(path)), [], 0
    assert tail.lines() == []
    while at < len(content):
        size = data.draw(st.integers(1, len(content) - at))
        with open(path, "ab") as stream:
            stream.write(content[at : at + size])
        at += size
        found += tail.lines()
    assert found == lines
    assert tail.lines() == []


def test_what_was_written_last_is_shown_before_the_module_is_done(tmp_path: Path) -> None:
    path, shown = tmp_path / "progress", []
    with module_actions.show_appended_lines(str(path), shown.append):
        path.write_text("one\ntwo\n")
    assert shown == ["one", "two"]


def test_lines_are_shown_while_the_module_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_actions, "INTERVAL", 0.01)
    path, seen = tmp_path / "progress", threading.Event()
    with module_actions.show_appended_lines(str(path), lambda line: seen.set()):
        path.write_text("one\n")
        assert seen.wait(120)


def fork(work: object) -> int:
    """Run ``work`` in a child that leads a group of its own, as Ansible's workers do."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            work()  # type: ignore[operator]
            status = 0
        finally:
            os._exit(status)
    return child


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def start_module(path: Path) -> None:
    """Start what stands for a module: a process of our group that says its id and then sleeps."""
    program = "import os, sys, time; open(sys.argv[1], 'w').write(f'{os.getpid()}\\n'); time.sleep(60)"
    subprocess.run([sys.executable, "-c", program, str(path)], check=False)


def wait_for(path: Path) -> int:
    deadline = time.monotonic() + 120
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < deadline, f"{path} was never written"
        time.sleep(0.02)
    return int(path.read_text())


def test_an_exception_in_the_worker_ends_the_module(tmp_path: Path) -> None:
    def work() -> None:
        def cut_short(*_args: object) -> None:
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, cut_short)  # as a task's timeout does
        try:
            with module_actions.show_appended_lines(None, print):
                start_module(tmp_path / "pid")
        except KeyboardInterrupt:
            (tmp_path / "survived").write_text("yes")

    worker = fork(work)
    module = wait_for(tmp_path / "pid")
    os.kill(worker, signal.SIGALRM)
    assert os.waitpid(worker, 0)[1] == 0
    assert gone(module) and (tmp_path / "survived").exists()


def test_the_death_of_the_main_process_ends_the_module(tmp_path: Path) -> None:
    def main() -> None:
        def work() -> None:
            with module_actions.show_appended_lines(None, print):
                start_module(tmp_path / "pid")

        fork(work)
        time.sleep(60)

    process = fork(main)
    module = wait_for(tmp_path / "pid")
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    assert gone(module)


@pytest.fixture
def busy() -> Iterator[None]:
    """A process for each processor that leaves it to nobody by itself, so that woken threads wait."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _one in range(os.cpu_count() or 1)]
    yield
    for one in spinning:
        one.kill()
        one.wait()


def test_none_of_fifty_interrupts_is_lost_on_a_busy_machine(tmp_path: Path, busy: None) -> None:
    """As Ansible does it: its own handler in the worker, which gets SIGINT and at once SIGTERM twice."""

    def work(path: Path) -> None:
        me = SimpleNamespace(pid=os.getpid())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda one, frame: WorkerProcess._term(me, one, frame))
        with (
            module_actions.show_appended_lines(None, print),
            subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE) as module,
        ):
            path.write_text(f"{module.pid}\n")
            module.communicate()

    lost = 0
    for turn in range(5):
        paths = [tmp_path / f"{turn}-{number}" for number in range(10)]
        workers = {fork(partial(work, path)): path for path in paths}
        modules = {worker: wait_for(path) for worker, path in workers.items()}
        for worker in workers:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTERM):
                os.kill(worker, number)
        for worker, module in modules.items():
            if not gone(module):
                lost += 1
                os.killpg(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
    assert lost == 0


def test_outside_of_a_group_of_its_own_nothing_is_signalled() -> None:
    if os.getpgrp() == os.getpid():
        pytest.skip("this process leads its group")
    module_actions.terminate_process_group()
