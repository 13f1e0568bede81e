"""Other Pythons of this machine, for tests under versions of ansible-core that need them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from common import home

#: Where pyenv and uv keep their Pythons, which they do not put into PATH.
MANAGED = (
    "{pyenv}/versions/{version}.*/bin/python{version}",
    "{home}/.local/share/uv/python/cpython-{version}.*/bin/python{version}",
)
#: That it runs, and that it can make a virtual environment with pip.
WORKS = "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != sys.argv[1])"


def find(versions: Sequence[str]) -> tuple[str, str]:
    """Return version and path of the first of these versions (such as 3.12) that this machine has; "" without one."""
    folders = {"pyenv": os.environ.get("PYENV_ROOT") or str(home() / ".pyenv"), "home": str(home())}
    for version in versions:
        candidates = [shutil.which(f"python{version}") or ""]
        for pattern in MANAGED:
            candidates += sorted(map(str, Path("/").glob(pattern.format(version=version, **folders).lstrip("/"))))
        for path in filter(None, candidates):
            if works(path, version):
                return version, path
    return "", ""


def works(path: str, version: str) -> bool:
    """Return whether a Python runs, has this version and can make virtual environments (pyenv's stand-ins can't)."""
    try:
        done = subprocess.run([path, "-c", WORKS, version], capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
