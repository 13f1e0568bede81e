"""Build the collection and install it elsewhere, as a user of the published artefact would.

artefact.py build FOLDER     print the path of the built archive
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from common import ROOT, VENV, quiet_environment, say, stop

NAME = Path("ansible_collections/perfscale/seatrial")


def _galaxy(*arguments: str, cwd: Path) -> None:
    command = [str(VENV / "bin" / "ansible-galaxy"), "collection", *arguments]
    done = subprocess.run(
        command, cwd=cwd, env=quiet_environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900
    )
    if done.returncode:
        stop(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")


def build(folder: Path) -> Path:
    """Build the archive into ``folder`` and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    schemas = [str(VENV / "bin" / "python"), str(ROOT / "tools" / "generate.py"), "--schemas"]
    if (done := subprocess.run(schemas, capture_output=True, text=True, timeout=120)).returncode:
        stop(f"{' '.join(schemas)}: {done.stderr.strip()}")
    _galaxy("build", str(ROOT), "--output-path", str(folder), "--force", cwd=folder)
    return max(folder.glob("perfscale-seatrial-*.tar.gz"), key=lambda path: path.stat().st_mtime)


def install(archive: Path, folder: Path) -> Path:
    """Install ``archive`` below ``folder`` without downloads; return the folder of the collection.

    ``cwd`` must not be the clone: there Galaxy finds our own link and has "nothing to do".
    """
    folder.mkdir(parents=True, exist_ok=True)
    _galaxy("install", str(archive), "-p", str(folder), "--no-deps", "--offline", "--force", cwd=folder)
    return folder / NAME


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "build":
        stop("usage: artefact.py build FOLDER")
    say(str(build(Path(sys.argv[2]).resolve())))
