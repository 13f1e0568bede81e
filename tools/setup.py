"""Complete the virtual environment .venv: setup.py user|test

``complete.json`` in it is written last and names what was installed from which files, so a second call does
nothing, an interrupted one is done again from the start, and a changed requirements file is noticed.

What is installed is pinned: tools/locks has the version and the hashes of each package, which pip checks. make lock
writes these files from the requirements files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import leftovers
from common import CACHE, ROOT, VENV, check_home, check_space, locked, run, run_logged, say, stop, tail

LEVELS = {"user": ("requirements-pypi.txt",), "test": ("requirements-pypi.txt", "test-requirements.txt")}
DONE = VENV / "complete.json"
BUSY = VENV / "installing"

#: Measured on 2 cores: GB on disk, minutes with a cold package cache.
VENV_GB, VENV_MINUTES = 1.0, 2

#: Files that nothing here imports, as a pattern for compileall.
OTHERS = "ansible_collections/(?!kubernetes/core/)|/tests/|ansible_test/_data"

#: Seconds until pip is given up; on a slow line the packages are 150 MB. And until making an empty environment is.
PIP_LIMIT, VENV_LIMIT = 1800.0, 300.0


def lock_of(level: str) -> str:
    """The file with the versions and hashes that a level installs."""
    return f"tools/locks/{level}.txt"


def with_included(name: str) -> list[str]:
    """A requirements file and those that it includes by ``-r`` or ``-c``, each once."""
    found = [name]
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if line.startswith(("-r ", "-c ")):
            found += [one for one in with_included(line.split()[1]) if one not in found]
    return found


def wanted(level: str) -> dict[str, str]:
    """File → SHA-256 for all requirement files of a level."""
    locks = [lock_of(other) for other, needed in LEVELS.items() if set(needed) <= set(LEVELS[level])]
    names = sorted({*locks, *(part for name in LEVELS[level] for part in with_included(name))})
    return {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in names}


def installed() -> dict[str, Any]:
    """Content of ``complete.json``; empty if the environment is incomplete or was moved here."""
    try:
        record = json.loads(DONE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    whole = record.get("where") == str(VENV) and (VENV / "bin" / "python").exists() and not BUSY.exists()
    return record if whole else {}


def is_complete(level: str) -> bool:
    """Whether the environment is complete for ``level``."""
    record = installed()
    files = record.get("files", {})
    # With a constraint, other versions are installed than those that are pinned.
    same = record.get("constraint", "") == os.environ.get("PIP_CONSTRAINT", "")
    return same and bool(files) and all(files.get(name) == digest for name, digest in wanted(level).items())


def create() -> None:
    """Create .venv with pip, over an existing one. If Python can't, ends the tool with what to install."""
    log = CACHE / "setup-venv.log"
    if run_logged([sys.executable, "-m", "venv", str(VENV)], log, "venv", VENV_LIMIT) == 0:
        return
    shutil.rmtree(VENV)
    said = log.read_text(encoding="utf-8", errors="replace")
    if "ensurepip" in said or "No module named venv" in said:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        stop(
            f"{sys.executable} can't make virtual environments. Install its venv module "
            f"(Debian, Ubuntu: apt-get install python{version}-venv), or name another Python: make PYTHON=..."
        )
    stop(f"creating {VENV} failed: {said.strip()}")


def make_venv() -> None:
    """Update a complete .venv; create it from scratch after an interrupted attempt or if it was moved."""
    record = json.loads(DONE.read_text(encoding="utf-8")) if DONE.exists() else {}
    if BUSY.exists() or (record and record.get("where") != str(VENV)):
        say("an earlier set-up was interrupted or moved: starting from scratch")
        shutil.rmtree(VENV)
    VENV.mkdir(exist_ok=True)
    BUSY.touch()
    DONE.unlink(missing_ok=True)
    create()


def install(level: str) -> None:
    """Install the packages of ``level`` with pip."""
    log = CACHE / "setup-pip.log"
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    # Most of the packages' files are collections of others that are never imported: see compile_used().
    command += ["--no-compile", "--progress-bar", "off"]
    if os.environ.get("PIP_CONSTRAINT"):  # versions of the caller, as of make versions, contradict the pinned ones
        say("PIP_CONSTRAINT is set: installing versions within the bounds, without hashes")
        command += [word for name in LEVELS[level] for word in ("-r", name)]
        code, hint = run_logged(command, log, "pip", PIP_LIMIT), ""
    else:
        code = run_logged([*command, "--require-hashes", "-r", lock_of(level)], log, "pip", PIP_LIMIT)
        hint = "\nWith other versions, without hashes: PIP_CONSTRAINT=constraints.txt make setup"
    if code:
        stop(f"pip ended with {code}; the end of {log.relative_to(ROOT)}:\n{tail(log, 8)}{hint}")


def compile_used() -> None:
    """Compile imported modules, on all cores: else the first start compiles them, or every one on a read-only disk."""
    site = next(VENV.glob("lib/python*/site-packages"))
    command = [str(VENV / "bin" / "python"), "-m", "compileall", "-q", "-j", "0", "-x", OTHERS, str(site)]
    run_logged(command, CACHE / "setup-compile.log", "compiling", 600)  # a file that can't be compiled is no failure


def main(level: str) -> None:
    """Complete the environment for ``level``, once, also if two makes request it at the same time."""
    if level not in LEVELS:
        stop(f"setup.py takes one of {', '.join(LEVELS)}, not '{level}'")
    check_home()
    if is_complete(level):
        return
    with locked("setup", "setting up"):
        if is_complete(level):
            return
        if not installed():
            problems = check_space([("Python packages", VENV, VENV_GB)])
            if problems:
                stop("; ".join(problems))
        began = time.monotonic()
        say(f"setting up Python packages for '{level}' in {VENV.relative_to(ROOT)} (once, about {VENV_MINUTES} min)")
        files = wanted(level)
        leftovers.sweep(clusters=False)  # of a set-up that was killed, which would go on to write into .venv
        with leftovers.begun():
            make_venv()
            install(level)
            compile_used()
        BUSY.unlink()
        record = {
            "where": str(VENV),
            "python": sys.version.split()[0],
            "level": level,
            "files": files,
            "constraint": os.environ.get("PIP_CONSTRAINT", ""),
        }
        temporary = Path(f"{DONE}.new")
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        temporary.rename(DONE)
        say(f"Python packages are set up ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    run(partial(main, sys.argv[1] if len(sys.argv) > 1 else "user"))
