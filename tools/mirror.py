"""A folder with all that a set-up needs, for machines without network (docs/offline.md).

`make mirror MIRROR=<folder>` fills it, on a machine of the same kind; `make setup MIRROR=<folder>` takes from it.
Standard library only: it is used before there is a virtual environment.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from common import CACHE, ROOT, VENV, check_space, folder_gb, run_logged, say, seatrial_cache, stop, tail
from setup import PIP_LIMIT, lock_of

#: Folders in the mirror, and the repository as one file that git clones from.
WHEELS, PROGRAMS, BUNDLE = "wheels", "rehearsal", "seatrial.bundle"


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder, which appears complete or not at all; one that is there is kept."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.new-") as fresh:
        copy = Path(fresh) / target.name
        shutil.copytree(source, copy, symlinks=True)
        copy.rename(target)


def collect(folder: Path, entries: Iterable[Path]) -> None:
    """Fill the mirror: the packages that are pinned for users, programs of the rehearsal cluster, the repository."""
    if problems := check_space([("the mirror", folder, 1.0)]):
        stop("; ".join(problems))
    wheels, log = folder / WHEELS, CACHE / "mirror.log"
    wheels.mkdir(parents=True, exist_ok=True)
    pip = [
        str(VENV / "bin" / "python"),
        "-m",
        "pip",
        "download",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
    ]
    commands = [[*pip, "--require-hashes", "-r", lock_of("user"), "-d", str(wheels)]]
    if (ROOT / ".git").exists():
        commands.append(["git", "bundle", "create", str(folder / BUNDLE), "HEAD"])
    for command in commands:
        if code := run_logged(command, log, Path(command[0]).name, PIP_LIMIT):
            stop(f"{' '.join(command[:4])} ended with {code}; the end of {log.relative_to(ROOT)}:\n{tail(log, 8)}")
    for entry in entries:
        copy_folder(entry, folder / PROGRAMS / entry.name)
    say(f"{folder} has what make setup MIRROR={folder} needs ({folder_gb(folder):.1f} GB)")


def use(folder: Path) -> None:
    """Make a set-up of this process take packages and programs from the mirror, and nothing from the network."""
    if not folder.is_absolute():
        stop(f"MIRROR={folder} is not an absolute path")
    if missing := [name for name in (WHEELS, PROGRAMS) if not (folder / name).is_dir()]:
        stop(f"MIRROR={folder} has no folder {missing[0]}; with a network, make mirror MIRROR=<folder> makes it")
    os.environ.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=(folder / WHEELS).as_uri())  # pip splits at blanks
    for entry in sorted((folder / PROGRAMS).glob("[!.]*")):  # others are halves of a set-up that was killed
        copy_folder(entry, seatrial_cache() / "rehearsal" / entry.name)
