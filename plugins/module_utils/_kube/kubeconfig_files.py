# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs and files that a kubeconfig names, and which of them one in a run directory may name.

A run directory is data, and may come from anybody: for a kubeconfig in it no program is run, and no file outside of it
is read, because the content of such a file would be sent to the server of the kubeconfig.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

#: Maximum size of a file with a token, a certificate or a key, in bytes.
MOST_BYTES = 2**20


def run_directory_of(where: Path) -> Path | None:
    """Return the run directory in which a kubeconfig is; None if it is in none."""
    return next(filter(_is_run_directory, where.resolve().parents), None)


def _is_run_directory(folder: Path) -> bool:
    """Return whether a folder has what a run, or one of its role calls, has written."""
    return (folder / "request.yml").is_file() or any(folder.glob("[0-9]*__*/arguments.yml"))


def refuse_program_of_run_directory(where: Path, source: str, way: str) -> None:
    """Raise InputError for a kubeconfig in a run directory, whose entry ``way`` names a program."""
    run = run_directory_of(where)
    if run is not None:
        raise InputError(
            f"{source}: '{way}' names a program, and the file is in the run directory {run}, of which nothing is "
            "executed: name the kubeconfig of the cluster by -e cluster_kubeconfig"
        )


def find_named_file(where: Path, key: str, name: str, source: str) -> Path:
    """Return the path of a file that entry ``key`` of a kubeconfig names, relative to the kubeconfig.

    Raises InputError for a kubeconfig in a run directory if the file is outside of it.
    """
    path = where.parent / name
    run = run_directory_of(where)
    if run is not None and not path.resolve().is_relative_to(run):
        raise InputError(
            f"{source}: {key} names {path}, which is outside of the run directory {run} that has the kubeconfig: name "
            "the kubeconfig of the cluster by -e cluster_kubeconfig"
        )
    return path


def read_named_file(path: Path) -> bytes:
    """Return the content of a regular file of at most 1 MiB. Raises OSError: any other one may have no end."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, "it has more than 1 MiB")
    return content
