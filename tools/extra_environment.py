"""Virtual environments for what neither users nor tests need, each with a lock in tools/locks."""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

from common import CACHE, ROOT, check_space, locked, run_logged, say, stop, tail
from setup import PIP_LIMIT, VENV_LIMIT, lock_of

#: GB of the largest one.
SIZE = 0.5


def programs(name: str) -> Path:
    """Return the folder of the programs of an environment, which has what the lock of this name pins."""
    folder, lock = CACHE / "environments" / name, ROOT / lock_of(name)
    done, digest = folder / "complete", hashlib.sha256(lock.read_bytes()).hexdigest()
    with locked(f"environment-{name}", f"setting up {folder.name}"):
        if done.exists() and done.read_text(encoding="utf-8") == f"{folder} {digest}":
            return folder / "bin"
        if problems := check_space([(f"Python packages of {name}", CACHE, SIZE)]):
            stop("; ".join(problems))
        say(f"setting up Python packages for '{name}' in {folder.relative_to(ROOT)} (once, about 1 min)")
        shutil.rmtree(folder, ignore_errors=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        log = CACHE / f"setup-{name}.log"
        for command, limit in (
            ([sys.executable, "-m", "venv", str(folder)], VENV_LIMIT),
            ([*pip, "--progress-bar", "off", "--require-hashes", "-r", str(lock)], PIP_LIMIT),
        ):
            if code := run_logged(command, log, name, limit):
                stop(f"{' '.join(command[:4])} ended with {code}; the end of {log.relative_to(ROOT)}:\n{tail(log, 8)}")
        done.write_text(f"{folder} {digest}", encoding="utf-8")
    return folder / "bin"
