# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs from the servers of their publishers: the download, and the program in an archive."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ProcessError

from .http_client import HttpClient, HttpPolicy

#: Longest download of a program in seconds, and its largest size in bytes.
TOTAL, MOST_BYTES = 3600.0, 4 << 30


def download_url_to_file(url: str, path: Path, timeout: float = HttpPolicy.timeout, total: float = TOTAL) -> str:
    """Write the content of ``url`` to ``path``; return its SHA-256 in hexadecimal.

    Args:
        url: The address.
        path: The file.
        timeout: Seconds without any data.
        total: Seconds in all.

    Raises:
        ProcessError: It is not there, not complete, or too large.
    """
    try:
        return HttpClient("download", policy=HttpPolicy(timeout, total, max_bytes=MOST_BYTES)).download(url, path)
    except AccessError as error:
        raise ProcessError(str(error)) from error


def extract_program_from_archive(archive: Path, program: str, path: Path, url: str) -> None:
    """Write a program of an archive to ``path``. url: where the archive is from. Raises ProcessError."""
    try:
        with tarfile.open(archive) as members:
            matching = (member for member in members if member.isfile() and Path(member.name).name == program)
            member = next(matching, None)
            content = members.extractfile(member) if member else None
            if content is None:
                raise ProcessError(f"{url} does not contain {program}")
            with open(path, "wb") as target:
                shutil.copyfileobj(content, target)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ProcessError(f"{url} cannot be unpacked: {error}") from error
