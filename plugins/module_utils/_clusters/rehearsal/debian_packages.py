# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs from Debian packages, unpacked into a folder and never installed. The machine's apt verifies them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError

Say = Callable[[str], None]

#: Seconds for the download of one package.
PATIENCE = 300.0


def available() -> bool:
    """Return whether this machine has apt."""
    return shutil.which("apt-get") is not None and shutil.which("dpkg") is not None


def unpack(package: str, folder: Path, say: Say) -> str:
    """Unpack a package of the machine's apt sources into ``folder``; return its version. Raises ProcessError."""
    say(f"downloading Debian package {package}")
    folder.mkdir(parents=True, exist_ok=True)
    hint = "is it in the machine's apt sources? apt-get update fetches their lists"
    # As root, apt would warn that its own user can't write here.
    run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package], folder, PATIENCE, hint)
    found = sorted(folder.glob(f"{package}_*.deb"))
    if not found:
        raise ProcessError(f"apt-get downloaded no package {package}")
    run(["dpkg", "-x", found[0].name, "."], folder, PATIENCE)
    found[0].unlink()
    return found[0].name.split("_")[1].replace("%3a", ":")


def take(programs: Mapping[str, list[str]], fresh: Path, say: Say) -> str:
    """Write programs (name to package and path in it) into ``fresh``/bin; return their origin. Raises ProcessError."""
    versions = []
    for name, (package, path) in programs.items():
        version = unpack(package, fresh / "package", say)
        shutil.move(fresh / "package" / path, fresh / "bin" / name)
        shutil.rmtree(fresh / "package")
        versions.append(f"{package} {version}")
    return f"Debian package {', '.join(versions)}"


def archive() -> str:
    """Return the address of the machine's Debian archive, as its apt sources name it. Raises ProcessError."""
    rows = run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)"], Path("/"), PATIENCE)
    targets = (one.split("|", 2) for one in rows.splitlines())
    found = [uri for origin, label, uri in targets if origin == label == "Debian"]
    if not found:
        raise ProcessError("the machine's apt sources have no Debian archive")
    return found[0]


def run(command: list[str], folder: Path, timeout: float, hint: str = "", **more: str) -> str:
    """Run a program in ``folder`` with the variables ``more``; return its output.

    Raises ProcessError, which ends with ``hint``, and WaitTimeout.
    """
    done = processes.completed(command, timeout, folder, {**processes.environment(), "LC_ALL": "C", **more})
    if done.code:
        last = "; ".join(one.strip() for one in done.errors.splitlines()[-3:])
        raise ProcessError(f"{command[0]} ended with {done.code}: {last}{f' ({hint})' if hint else ''}")
    return done.output
