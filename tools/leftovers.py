"""End the processes of a tool after it has ended, also if it was killed: leftovers.py NAME | --ended

The tests (pytest, and `make test` around several) and the set-up begin() a run, named by its process, <pid>-<ticks>.
What a run starts carries its name in the environment (SEATRIAL_STARTED_BY), clusters included; .cache/runs/<name> holds
its data. With NAME this is the watcher of a run: it waits until the run's process has ended, however that came about,
and ends what is left of it. With --ended it does the same for all runs of this clone that have ended without their
watcher doing so, and prints the names of those that are under way.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import CACHE, ROOT, find_collection


def _load_processes() -> Any:
    """Load the file by its path: in the Python of the set-up, another ansible_collections may hide ours."""
    path = ROOT / "plugins" / "module_utils" / "_base" / "processes.py"
    spec = importlib.util.spec_from_file_location("_seatrial_processes", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look it up there
    spec.loader.exec_module(module)
    return module


processes = _load_processes()

RUNS = CACHE / "runs"
MARK = "SEATRIAL_STARTED_BY"
#: In the environment of a rehearsal cluster's processes: its folder.
INSTANCE = "SEATRIAL_INSTANCE"
#: Seconds between SIGTERM and SIGKILL.
GRACE = 10.0
#: How often, and seconds apart, end() looks for processes that others have started meanwhile.
LOOKS, PAUSE = 3, 0.3


def name_of(pid: int) -> str:
    """The name of the run whose process is ``pid``."""
    return f"{pid}-{processes.start_ticks_of(pid)}"


def folder_of(pid: int) -> Path:
    """The folder of the run whose process is ``pid``."""
    return RUNS / name_of(pid)


def is_under_way(name: str) -> bool:
    """Whether the process of a run is running."""
    pid = name.partition("-")[0]
    return pid.isdigit() and name_of(int(pid)) == name


def begin() -> None:
    """Make this process a run: the processes that it starts from now on have its name and are ended after it."""
    name = name_of(os.getpid())
    (RUNS / name).mkdir(parents=True, exist_ok=True)
    unmarked = {key: value for key, value in os.environ.items() if key != MARK}
    with open(RUNS / f"{name}.log", "ab") as log:
        # What ends a tree of processes, such as a CI system, must not find it below this one: its parent ends at once.
        subprocess.run(
            [sys.executable, __file__, "--detached", name],
            env=unmarked,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            check=False,
        )
    os.environ[MARK] = name


@contextlib.contextmanager
def begun() -> Iterator[None]:
    """Be a run during the body; processes started afterwards do not belong to it."""
    before = os.environ.get(MARK)
    begin()
    try:
        yield
    finally:
        os.environ.pop(MARK)
        if before is not None:
            os.environ[MARK] = before


def await_end(name: str) -> None:
    """Return when the process of a run has ended."""
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
    """The running processes that a run started: pid -> environment."""
    return processes.find_by_environment_variable(MARK, name)


def end(name: str, clusters: bool = True) -> None:
    """End the processes of a run and remove its data. Without ``clusters`` its clusters and its name are kept.

    Raises RuntimeError, SeatrialError when something can't be ended.
    """
    for _look in range(LOOKS):
        left = marked(name)
        # Processes that might start a cluster end before the clusters.
        processes.terminate_processes(
            [processes.ProcessReference.of(pid) for pid, one in left.items() if INSTANCE not in one], GRACE
        )
        for path in sorted({Path(one[INSTANCE]) for one in left.values() if INSTANCE in one}) if clusters else []:
            remove(path.parent, path.name)
        time.sleep(PAUSE)
    left = marked(name)
    if stubborn := [pid for pid, one in left.items() if clusters or INSTANCE not in one]:
        raise RuntimeError(f"processes {stubborn} of run {name} can't be ended")
    if clusters:
        remove_all(RUNS / name)
    if not left:
        with contextlib.suppress(OSError):
            (RUNS / name).rmdir()
        (RUNS / f"{name}.log").unlink(missing_ok=True)


def remove(data_dir: Path, name: str) -> None:
    """Stop a rehearsal cluster, whoever owns it, and remove its data."""
    find_collection()
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle

    given: dict[str, Any] = {"data_dir": str(data_dir), "cache_dir": "", "force": True}
    components = str(ROOT / "roles" / "rehearsal" / "files" / "components")
    cluster_lifecycle.remove_instance(
        cluster_lifecycle.RehearsalOptions(name=name, components_dir=components, **given), lambda _line: None
    )


def remove_all(data_dir: Path) -> None:
    """Stop every rehearsal cluster in a folder, and remove the folder if nothing else is in it."""
    for entry in sorted(data_dir.glob("[!.]*")):
        if entry.is_dir():
            remove(data_dir, entry.name)
    for note in data_dir.glob(".*.gone"):
        note.unlink()
    with contextlib.suppress(OSError):
        data_dir.rmdir()


def sweep(clusters: bool = True) -> list[str]:
    """Call end() for each ended run of this clone; return the names of the running ones."""
    names = sorted(path.name for path in RUNS.glob("*-*") if path.is_dir())
    running = [name for name in names if is_under_way(name)]
    for name in names:
        if name not in running:
            end(name, clusters)
    return running


def main(arguments: list[str]) -> None:
    """Watch a run, or clean up after ended ones."""
    if arguments == ["--ended"]:
        print("\n".join(sweep()))
        return
    if arguments[0] == "--detached":
        if os.fork():
            return
        del arguments[0]
    await_end(arguments[0])
    end(arguments[0])


if __name__ == "__main__":
    main(sys.argv[1:])
