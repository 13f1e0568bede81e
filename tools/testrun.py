"""A test run ends what it started, also when it is killed: testrun.py NAME | --ended

A test run is a pytest, or the suites of `make test` around several. It is named by its process, ``<pid>-<ticks>``; what
it starts carries that name in its environment (SEATRIAL_STARTED_BY), clusters included, and .cache/tests/<name> holds
its data. With NAME this is the watcher of a run: it waits until the run's process has ended, however that came about,
and ends what is left of it. With --ended it does the same for all runs of this clone whose process and watcher are
gone, and prints the names of those that are under way.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from common import CACHE, ROOT

sys.path.insert(0, str(ROOT / "collections"))
from ansible_collections.perfscale.seatrial.plugins.module_utils import _proc

RUNS = CACHE / "tests"
MARK = "SEATRIAL_STARTED_BY"
#: Seconds that processes get to end by themselves.
GRACE = 10.0
#: So many looks, seconds apart: in the middle of its start (execve(2)) a process has no environment to be known by.
LOOKS, PAUSE = 3, 0.3


def name_of(pid: int) -> str:
    """The name of the test run whose process is ``pid``."""
    return f"{pid}-{_proc.ticks_of(pid)}"


def folder_of(pid: int) -> Path:
    """The folder of the test run whose process is ``pid``."""
    return RUNS / name_of(pid)


def is_under_way(name: str) -> bool:
    """Whether the process of a test run lives."""
    pid = name.partition("-")[0]
    return pid.isdigit() and name_of(int(pid)) == name


def begin() -> None:
    """Make this process a test run: what it starts from now on is known by its name, and ends with it."""
    name = name_of(os.getpid())
    (RUNS / name).mkdir(parents=True, exist_ok=True)
    unmarked = {key: value for key, value in os.environ.items() if key != MARK}
    with open(RUNS / f"{name}.log", "ab") as log:
        subprocess.Popen(
            [sys.executable, __file__, name],
            env=unmarked,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    os.environ[MARK] = name


def await_end(name: str) -> None:
    """Return when the process of a test run has ended."""
    try:
        handle = os.pidfd_open(int(name.partition("-")[0]))
    except (OSError, AttributeError):  # it has ended, or the kernel is older than 5.3
        while is_under_way(name):
            time.sleep(0.5)
        return
    try:
        if is_under_way(name):
            select.select([handle], [], [])  # readable when the process ends
    finally:
        os.close(handle)


def marked(name: str) -> dict[int, dict[str, str]]:
    """The living processes that a test run started: pid -> environment."""
    found = {pid: _proc.environment_of(pid) for pid in _proc.pids() if pid != os.getpid() and _proc.ticks_of(pid)}
    return {pid: environment for pid, environment in found.items() if environment.get(MARK) == name}


def end(name: str) -> None:
    """End what a test run left, whatever it is, and remove its data. Raises SeatrialError when something stays."""
    from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import ProcessError
    from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal import process

    for _look in range(LOOKS):
        left = marked(name)
        # Who might start a cluster ends before the clusters.
        _proc.end([_proc.Process.of(pid) for pid, one in left.items() if process.INSTANCE not in one], GRACE)
        for path in sorted({Path(one[process.INSTANCE]) for one in left.values() if process.INSTANCE in one}):
            remove(path.parent, path.name)
        time.sleep(PAUSE)
    if left := marked(name):
        raise ProcessError(f"processes {sorted(left)} of test run {name} can't be ended")
    remove_all(RUNS / name)
    (RUNS / f"{name}.log").unlink(missing_ok=True)


def remove(data_dir: Path, name: str) -> None:
    """Stop a rehearsal cluster, whoever owns it, and remove its data."""
    from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal import cluster

    given: dict[str, Any] = {"data_dir": str(data_dir), "cache_dir": "", "force": True}
    components = str(ROOT / "roles" / "rehearsal" / "files" / "components")
    cluster.absent(cluster.Options(name=name, components_dir=components, **given), lambda _line: None)


def remove_all(data_dir: Path) -> None:
    """Stop every rehearsal cluster in a folder, and remove the folder if nothing else is in it."""
    for entry in sorted(data_dir.glob("[!.]*")):
        if entry.is_dir():
            remove(data_dir, entry.name)
    for note in data_dir.glob(".*.gone"):
        note.unlink()
    with contextlib.suppress(OSError):
        data_dir.rmdir()


def sweep() -> list[str]:
    """End what ended test runs of this clone left; return the names of those that are under way."""
    names = sorted(path.name for path in RUNS.glob("*-*") if path.is_dir())
    running = [name for name in names if is_under_way(name)]
    for name in names:
        if name not in running:
            end(name)
    return running


def main(arguments: list[str]) -> None:
    """Watch a run, or look after those that have ended."""
    if arguments == ["--ended"]:
        print("\n".join(sweep()))
        return
    await_end(arguments[0])
    end(arguments[0])


if __name__ == "__main__":
    main(sys.argv[1:])
