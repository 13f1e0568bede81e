# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives with the files of a user, as the helper in the pod (roles/users/files/user.py) packs them."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError


def count_files(folder: Path) -> int:
    """Return the number of files below a folder."""
    return sum(one.is_file() for one in folder.rglob("*"))


def extract(archive: Path, to: Path, what: str) -> int:
    """Replace the folder ``to`` by the content of an archive; return the number of files. what: for errors.

    Nothing is replaced if the archive is damaged, or would write elsewhere: both raise DataError.
    """
    with tempfile.TemporaryDirectory(dir=to.parent) as aside:
        fresh = Path(aside) / "files"
        try:
            _verify(archive)
            with tarfile.open(archive) as content:
                # Refuses paths that lead out of the folder, and devices.
                content.extractall(fresh, filter="data")
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{what}: {error}") from error
        fresh.mkdir(exist_ok=True)  # of an archive without files
        shutil.rmtree(to, ignore_errors=True)
        fresh.replace(to)
    return count_files(to)


def _verify(archive: Path) -> None:
    """Read a compressed archive to its end, where its checksum is: tarfile does not."""
    with open(archive, "rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    if compressed:
        with gzip.open(archive) as content:
            while content.read(1 << 20):
                pass
