"""ansible-lint over the tree. What needs a collection that this version of the package ansible lacks is left out."""

from __future__ import annotations

import subprocess
import sys

from common import ROOT, VENV, run, say

COMMAND = [str(VENV / "bin" / "ansible-lint"), "--offline", "--strict", "-q", "--nocolor"]
#: Collection that only some versions of the package ansible have -> what uses its modules.
USERS = {"awx.awx": ["playbooks/awx.yml", "roles/awx_objects"]}


def has_collection(name: str) -> bool:
    """Return whether a collection is installed in the virtual environment."""
    folder = "/".join(["ansible_collections", *name.split(".")])
    return any(path.is_dir() for path in VENV.glob(f"lib/python*/site-packages/{folder}"))


def command() -> list[str]:
    """Return the command, and print what it leaves out."""
    missing = [name for name in USERS if not has_collection(name)]
    for name in missing:
        say(f"not checked, because collection {name} is not installed: {', '.join(USERS[name])}")
    return [*COMMAND, *(word for name in missing for path in USERS[name] for word in ("--exclude", path))]


if __name__ == "__main__":
    run(lambda: sys.exit(subprocess.run(command(), cwd=ROOT).returncode))
