"""What the tools of the Makefile share: paths, a lock, disk space, commands with progress lines.

Standard library only: it runs before there is a virtual environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
CACHE = ROOT / ".cache"

#: Commands that run now, so that an interrupt can end them all: they are in process groups of their own.
_RUNNING: set[subprocess.Popen[bytes]] = set()
_STOPPING = threading.Event()

#: Seconds between signs of life of a command whose output goes to a file.
HEARTBEAT = 20.0


def find_collection() -> None:
    """Make the collection importable, once: Ansible's loader refuses a package that is found in two places."""
    if (path := str(ROOT / "collections")) not in sys.path:
        sys.path.insert(0, path)


def say(text: str = "") -> None:
    """Print a line at once, also into a pipe."""
    print(text, flush=True)


def stop(message: str) -> None:
    """End with exit code 1 and one clear sentence."""
    sys.stdout.flush()
    raise SystemExit(f"error: {message}")


def user_name(number: int) -> str:
    """The name of a user, or the number if the system has no name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def home() -> Path:
    """The user's home folder. Ends the tool if there is none."""
    try:
        return Path.home()
    except RuntimeError:
        stop(f"HOME is not set and user {os.getuid()} has no home folder: set HOME to a folder of yours")
        raise


def check_home() -> None:
    """End the tool if the home folder is not writable: caches, clusters and Ansible's files are there."""
    folder, given = home(), os.environ.get("HOME")
    if given is not None and not os.path.isabs(given):
        stop(f"HOME='{given}' is not an absolute path: set HOME to a folder of yours")
    try:
        # Root may write to every folder, but creates none in /proc.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder):
            return
    except OSError:
        stop(
            f"{f'HOME={folder}' if given else f'the home folder {folder}'} can't be written to by user"
            f" {user_name(os.getuid())}: caches, rehearsal clusters and Ansible's own files go there;"
            " set HOME to a folder of yours"
        )


def visible(path: Path) -> Path:
    """``path``, or the nearest folder above it that this user can see."""
    while not os.path.exists(path):
        path = path.parent
    return path


def run(main: Callable[[], None]) -> None:
    """Run a tool's main function; an error that a user can correct becomes one sentence, Ctrl-C one word."""
    try:
        main()
    except PermissionError as error:
        path = Path(error.filename or ROOT)
        owner = user_name(visible(path.parent).stat().st_uid)
        stop(
            f"{path}: permission denied for user {user_name(os.getuid())}; its folder belongs to user {owner}."
            " Use a clone of your own, or have that user do it"
        )
    except KeyboardInterrupt:
        say("interrupted")
        raise SystemExit(130) from None


def seatrial_cache() -> Path:
    """The user's cache folder of this project: binaries of the rehearsal cluster and tools of tests."""
    base = os.environ.get("XDG_CACHE_HOME") or str(home() / ".cache")
    return Path(base) / "seatrial"


def existing_parent(path: Path) -> Path:
    """The nearest existing folder of ``path``."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def free_gb(path: Path) -> float:
    """Free space, in GB (10^9 bytes), on the file system that ``path`` is or will be on."""
    return shutil.disk_usage(existing_parent(path)).free / 1e9


def folder_gb(folder: Path) -> float:
    """Space that the files in a folder take, in GB; a file with several names counts once."""
    seen: dict[tuple[int, int], int] = {}
    todo = [str(folder)]
    while todo:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    seen[found.st_dev, found.st_ino] = found.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
    return sum(seen.values()) / 1e9


def check_space(wanted: Sequence[tuple[str, Path, float]]) -> list[str]:
    """Sentences on what does not fit. ``wanted``: (what, where, GB); needs on one file system add up."""
    by_device: dict[int, list[tuple[str, Path, float]]] = {}
    for what, where, size in wanted:
        by_device.setdefault(existing_parent(where).stat().st_dev, []).append((what, where, size))
    problems = []
    for needs in by_device.values():
        total, free = sum(size for _, _, size in needs), free_gb(needs[0][1])
        if free < total:
            names = ", ".join(f"{what} {size:.1f} GB in {where}" for what, where, size in needs)
            problems.append(f"{total:.1f} GB of disk needed ({names}), {free:.1f} GB free")
    return problems


@contextlib.contextmanager
def locked(name: str, doing: str, folder: Path | None = None) -> Iterator[None]:
    """Hold the lock ``name`` of this clone, so that concurrent makes do the same thing one after the other.

    folder: where the lock is, if it is of more than this clone.
    """
    where = "in this clone" if folder is None else f"with {folder}"
    folder = folder or CACHE
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.lock", "a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            say(f"another make (process {stream.read().strip() or '?'}) is {doing} {where}: waiting for it")
            fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        stream.truncate()
        stream.write(f"{os.getpid()}\n")
        stream.flush()
        yield


def _report_progress(done: threading.Event, log: Path, label: str) -> None:
    began = time.monotonic()
    while not done.wait(HEARTBEAT):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
        last = lines[-1].strip()[:90] if lines else ""
        say(f"  {label}: {time.monotonic() - began:.0f} s  {last}")


def run_logged(
    command: Sequence[str],
    log: Path,
    label: str,
    limit: float,
    env: dict[str, str] | None = None,
    cwd: Path = ROOT,
    heartbeat: bool = True,
) -> int:
    """Run ``command`` with its output in ``log`` and progress lines; return its exit code.

    After ``limit`` seconds its whole process group is ended and the exit code is 124, as coreutils' timeout has it.
    The same on an interrupt, which then goes on upwards.
    """
    if _STOPPING.is_set():
        raise RuntimeError(f"{label}: not started, the run was interrupted")
    log.parent.mkdir(parents=True, exist_ok=True)
    done = threading.Event()
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        _RUNNING.add(process)
        watcher = threading.Thread(target=_report_progress, args=(done, log, label), daemon=True)
        if heartbeat:
            watcher.start()
        try:
            return process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            stream.write(f"\n{label}: not finished after {limit:.0f} s, ended\n".encode())
            return 124
        finally:
            done.set()
            end_group(process)
            _RUNNING.discard(process)


def end_all() -> None:
    """End every running command with its children, and let none start."""
    _STOPPING.set()
    for process in list(_RUNNING):
        end_group(process)


def end_group(process: subprocess.Popen[bytes], grace: float = 10.0) -> None:
    """End a process group that we started: SIGTERM, then SIGKILL after ``grace`` seconds."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=grace)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def tail(path: Path, lines: int) -> str:
    """The last ``lines`` lines of a log."""
    if not path.exists():
        return ""
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()[-lines:])


def quiet_environment(**more: str) -> dict[str, str]:
    """The environment for tools: the virtual environment first in PATH, nothing of the user's Ansible."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "MOLECULE_"))}
    kept["PATH"] = f"{VENV / 'bin'}{os.pathsep}{kept.get('PATH', os.defpath)}"
    kept.pop("VIRTUAL_ENV", None)
    return {**kept, **more}
