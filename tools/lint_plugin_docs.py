"""Check the documentation of plugins and roles with antsibull-docs, without downloads."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from artefact import build, install
from common import VENV, quiet_environment, say


def main() -> int:
    """Lint the documentation of the built artefact; kubernetes.core, to which it refers, is the one of the venv."""
    with tempfile.TemporaryDirectory(prefix="seatrial-docs-") as folder:
        place = Path(folder)
        collection = install(build(place), place)
        site = next(VENV.glob("lib/python*/site-packages/ansible_collections")).parent
        # It leaves a log in the home folder, whatever one asks for.
        env = quiet_environment(ANSIBLE_COLLECTIONS_PATH=f"{place}:{site}", HOME=folder)
        command = [str(VENV / "bin" / "antsibull-docs"), "lint-collection-docs", "--plugin-docs", "--skip-rstcheck"]
        done = subprocess.run([*command, str(collection)], env=env, cwd=place, stdin=subprocess.DEVNULL, timeout=240)
        say(f"antsibull-docs ended with {done.returncode}")
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
