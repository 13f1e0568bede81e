# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file tree of an image: a Debian release, further packages of Debian and PyPI, and what a script adds."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError

from . import debian_packages
from .component_spec import ImageSpec

Say = Callable[[str], None]

#: Seconds that mmdebstrap may take.
PATIENCE = 1800.0
#: Files that no pod reads.
UNUSED = ("doc", "man", "locale", "info")
#: Oldest versions of the C library whose wheels a Debian release of today runs.
GLIBC = ("2_28", "2_27", "2_26", "2_17", "2014")


def make(image: ImageSpec, layer: Path, fresh: Path, say: Say) -> str:
    """Write the tree of ``image`` as the archive ``layer``; return its Debian packages with their versions.

    ``fresh``: a folder for temporary files. Raises ProcessError.
    """
    if not debian_packages.available():
        raise ProcessError(f"image {image.name} is made of Debian packages, which takes a machine with apt")
    if os.geteuid() != 0:
        raise ProcessError(f"image {image.name} is made by root only: copy {fresh.parent} from another machine")
    path = os.environ.get("PATH", "")
    if not shutil.which("mmdebstrap"):
        debian_packages.unpack("mmdebstrap", fresh / "tool", say)
        path = f"{fresh / 'tool' / 'usr' / 'bin'}:{path}"
    for one in ("tmp", "added"):
        (fresh / one).mkdir()
    if image.requirements:
        _install(image, fresh / "added", say)
    listed = fresh / "packages"
    program = shutil.which("mmdebstrap", path=path) or "mmdebstrap"
    command = [program, "--mode=root", "--variant=minbase", "--format=tar", "--quiet"]
    command += ['--aptopt=Acquire::Languages "none"', '--aptopt=APT::Install-Recommends "false"']
    command += [f"--dpkgopt=path-exclude=/usr/share/{one}/*" for one in UNUSED]
    command += [f"--dpkgopt=path-exclude={one}" for one in image.without]
    command += [f"--include={','.join(image.packages)}"] if image.packages else []
    command += [f"--customize-hook={one}" for one in _hooks(image, fresh / "added", listed)]
    command += [image.debian, str(fresh / "tree.tar"), debian_packages.archive()]
    debian_packages.run(command, fresh, PATIENCE, PATH=path, TMPDIR=str(fresh / "tmp"))
    own_by_root(fresh / "tree.tar", layer)
    (fresh / "tree.tar").unlink()
    packages = listed.read_text(encoding="utf-8")
    for one in ("tool", "tmp", "added"):
        shutil.rmtree(fresh / one, ignore_errors=True)
    listed.unlink()
    return packages


def _hooks(image: ImageSpec, added: Path, listed: Path) -> list[str]:
    """Return the shell commands that complete a tree, whose folder is their first argument."""
    hooks = [f'chroot "$1" dpkg-query -W > {shlex.quote(str(listed))}']
    if image.requirements:
        hooks.append(f'cp -r {shlex.quote(str(added))}/. "$1/"')
    if image.setup:
        script = shlex.quote(str(image.folder / image.setup))
        hooks.append(f'cp {script} "$1/tmp/setup.py" && chroot "$1" python3 /tmp/setup.py && rm "$1/tmp/setup.py"')
    return [*hooks, 'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*']


def _install(image: ImageSpec, added: Path, say: Say) -> None:
    """Install the pinned PyPI packages of an image below ``added``, by this machine's pip. Raises ProcessError."""
    say(f"installing {image.requirements} of image {image.name}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--target", str(added / f"usr/local/lib/python{image.python}/dist-packages")]
    # Compiled by the Python of the image, not by ours.
    command += ["--no-deps", "--no-compile", "--require-hashes", "--only-binary=:all:"]
    command += ["--implementation", "cp", "--python-version", image.python]
    command += [f"--platform=manylinux{'' if one == '2014' else '_'}{one}_{platform.machine()}" for one in GLIBC]
    command += ["-r", str(image.folder / image.requirements)]
    debian_packages.run(
        command,
        added,
        PATIENCE,
        f"pip of {sys.executable}; access to PyPI is required",
        TMPDIR=str(added.parent / "tmp"),
    )


def own_by_root(tree: Path, layer: Path) -> None:
    """Copy a tar archive: everything belongs to root, there are no devices, and no program changes its user.

    The user namespace of a node without root has one user, and may create no devices. The files lie in the cache of
    this machine, where a program with setuid would serve everybody.
    """
    with tarfile.open(tree) as source, tarfile.open(layer, "w") as target:
        for member in source:
            if member.isdev():
                continue
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode &= 0o1777
            target.addfile(member, source.extractfile(member) if member.isreg() else None)
