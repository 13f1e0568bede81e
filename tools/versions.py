"""Run the tests under each supported version of ansible-core: versions.py [VERSION ...] [PART ...] [-- COMMAND ...]

ansible-core 2.20 and newer need a newer Python than many machines have, so they run in a root of Debian trixie
(trixie.py), each with its own virtual environment; 2.19 runs in .venv of this clone. The versions before it have small
virtual environments (quick_versions.py), because some unit tests use what came with 2.19: there sanity and the main job
run. Everything else is this clone's: what is edited here is tested there. With COMMAND only that runs, in each version
named.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import leftovers
import quick_versions
import setup
import trixie
from common import (
    CACHE,
    ROOT,
    VENV,
    check_space,
    locked,
    quiet_environment,
    run,
    run_logged,
    say,
    seatrial_cache,
    stop,
    tail,
)

#: ansible-core -> (Ansible's community package with it, whether it runs in the root of trixie). The packages of older
#: versions have a kubernetes.core that is too old, so they are not used.
VERSIONS = {
    "2.16": ("", False),
    "2.18": ("", False),
    "2.19": ("12", False),
    "2.20": ("13", True),
    "2.21": ("14", True),
}

PYTHON = ".venv/bin/python"
SHOW = (
    "import platform, ansible.release as core;"
    "print('ansible-core', core.__version__, 'Python', platform.python_version())"
)
#: Part -> (command, seconds until it is ended).
PARTS: dict[str, tuple[list[str], float]] = {
    "unit": ([PYTHON, "-m", "pytest", "-q", "-ra", "--color=no", "-n", "2", "tests/unit"], 2400),
    "sanity": ([PYTHON, "tools/sanity.py"], 1800),
    "trial": (["make", "trial"], 900),
}

#: The same without the packages of test-requirements.txt. {bin}: the programs of the version's virtual environment.
SMALL_PARTS: dict[str, tuple[list[str], float]] = {
    "sanity": ([PYTHON, "tools/sanity.py", "--programs", "{bin}"], 1800),
    "trial": (["{bin}/ansible-playbook", *quick_versions.MAIN_JOB], 900),
}

#: GB of a version's virtual environment and home folder.
SIZE = 2.0


@dataclass(frozen=True)
class Cell:
    """One version of ansible-core and where it runs."""

    version: str
    package: str
    in_root: bool

    @property
    def parts(self) -> dict[str, tuple[list[str], float]]:
        """Part -> (command, seconds until it is ended)."""
        return PARTS if self.package else SMALL_PARTS

    @property
    def place(self) -> Path:
        """Folder of what belongs to this version of this clone: virtual environment, caches, home, results."""
        return CACHE / "versions" / self.version

    def lacking(self) -> str:
        """Why this machine can't run this version; empty if it can."""
        if self.in_root:
            return trixie.unavailable()
        return "" if self.package else next(iter(quick_versions.environments([self.version])[1]), "")

    def log(self, part: str) -> Path:
        """Path of the log of a part."""
        return self.place / "logs" / f"{part}.log"

    def run(self, label: str, command: list[str], limit: float, log: Path | None = None) -> int:
        """Run a command in the clone's folder with this version; return its exit code (124 after ``limit`` seconds).

        log: file for the output, else it goes to the terminal.
        """
        with tempfile.TemporaryDirectory(prefix="seatrial-versions-") as scratch:
            env = quiet_environment(ARTIFACT_DIR=str(Path(scratch) / "artifacts"))
            if self.in_root:
                command = trixie.entering(trixie.folder(), self._binds(Path(scratch)), command)
                exact = f"{trixie.INSIDE}/.cache/constraints"
                env = trixie.environment(ARTIFACT_DIR="/tmp/artifacts", PIP_CONSTRAINT=exact)
            elif not self.package:
                small = self._small()
                command = [word.replace("{bin}", str(small.bin)) for word in command]
                env["PATH"] = f"{small.bin}{os.pathsep}{env['PATH']}"
            if log is None:
                return subprocess.run(command, cwd=ROOT, env=env).returncode
            return run_logged(command, log, f"{self.version} {label}", limit, env=env)

    def _small(self) -> quick_versions.Environment:
        usable, lacking = quick_versions.environments([self.version])
        if lacking:
            stop(lacking[0])
        return usable[0]

    def _binds(self, scratch: Path) -> list[tuple[Path, str]]:
        home, programs, inside = self.place / "home", seatrial_cache() / "rehearsal", trixie.INSIDE
        wheels = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pip"
        for one in (self.place / "venv", self.place / "cache", home, programs, wheels, scratch / "tmp"):
            one.mkdir(parents=True, exist_ok=True)
        exact = f"ansible-core=={self.version}.*\nansible=={self.package}.*\n"
        (self.place / "cache" / "constraints").write_text(exact, encoding="utf-8")
        return [
            *trixie.shared(),
            (ROOT, inside),
            (self.place / "venv", f"{inside}/.venv"),
            (self.place / "cache", f"{inside}/.cache"),
            (scratch / "tmp", "/tmp"),
            (home, trixie.HOME),
            (programs, f"{trixie.HOME}/.cache/seatrial/rehearsal"),
            (wheels, f"{trixie.HOME}/.cache/pip"),
        ]

    def prepare(self) -> None:
        """Complete its virtual environment. Ends the tool if that fails or if another version is in it."""
        log = self.log("setup")
        if self.in_root:
            trixie.create(log)
            code = self.run("set-up", ["python3", "tools/setup.py", "test"], setup.PIP_LIMIT, log)
            if code:
                stop(f"{self.version}: the set-up ended with {code}; the end of {log}:\n{tail(log, 12)}")
        if not self.package:
            small = self._small()
            what = f"ansible-core-{self.version}"  # all clones share the environment
            with locked(what, f"checking ansible-core {self.version}", small.folder.parent):
                failed = small.prepare(log)
            if failed:
                stop(f"{self.version}: {failed}")
        python = PYTHON if self.package else "{bin}/python"
        if self.run("version", [python, "-c", SHOW], 60, log):
            stop(f"{self.version}: ansible-core can't be imported; the end of {log}:\n{tail(log, 8)}")
        found = tail(log, 1)
        if not found.startswith(f"ansible-core {self.version}."):
            remedy = "" if self.in_root else f": remove {VENV} and set PYTHON to one of version 3.11"
            stop(f"{self.version}: the environment has {found}{remedy}")
        say(f"{self.version}: {found}")


def chosen(words: list[str]) -> tuple[list[Cell], list[str], list[str]]:
    """Return cells, parts and the command that the arguments name. Ends the tool at an unknown word."""
    at = words.index("--") if "--" in words else len(words)
    names, command = words[:at], words[at + 1 :]
    for name in names:
        if name not in VERSIONS and name not in PARTS:
            stop(f"'{name}' is neither a version ({', '.join(VERSIONS)}) nor a part ({', '.join(PARTS)})")
    versions = [name for name in VERSIONS if name in names] or list(VERSIONS)
    parts = [name for name in PARTS if name in names] or list(PARTS)
    cells = [Cell(name, *VERSIONS[name]) for name in versions]
    return cells, parts, command


def run_cell(cell: Cell, parts: list[str]) -> dict[str, int]:
    """Prepare a version and run these parts of the tests; return their exit codes."""
    cell.prepare()
    codes = {}
    for part in parts:
        if part not in cell.parts:
            say(f"  {cell.version} {part}: not run, it needs ansible-core 2.19 or newer")
            continue
        command, limit = cell.parts[part]
        began = time.monotonic()
        codes[part] = cell.run(part, command, limit, cell.log(part))
        say(f"  {cell.version} {part}: {'ok' if codes[part] == 0 else 'FAILED'} ({time.monotonic() - began:.0f} s)")
        if codes[part]:
            say(tail(cell.log(part), 60))
    return codes


def main(words: list[str]) -> None:
    """Run what the arguments name; exit with 1 if anything failed."""
    cells, parts, command = chosen(words)
    for cell, why in [(cell, cell.lacking()) for cell in cells]:
        if why and (command or len(cells) == 1):
            stop(why)
        if why:
            say(f"not run: {why}")
            cells.remove(cell)
    new = [cell for cell in cells if cell.in_root and not cell.place.exists()]
    problems = check_space([(f"ansible-core {cell.version}", CACHE, SIZE) for cell in new])
    if problems:
        stop("; ".join(problems))
    with locked("versions", "testing versions of ansible-core"), leftovers.begun():
        if command:
            for cell in cells:
                cell.prepare()
                if code := cell.run("command", command, 3600):
                    sys.exit(code)
            return
        failed = [f"{cell.version} {part}" for cell in cells for part, code in run_cell(cell, parts).items() if code]
    passed = sum(part in cell.parts for cell in cells for part in parts)
    say(f"FAILED: {', '.join(failed)}" if failed else f"{passed} passed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    run(partial(main, sys.argv[1:]))
