# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tar files that a stranger made to exhaust the memory."""

from __future__ import annotations

import tarfile


def giant_header(kind: bytes, size: int = 2**21) -> bytes:
    """Return a tar file that says that a long name or an extended header of ``size`` bytes follows.

    kind: GNUTYPE_LONGNAME or XHDTYPE of tarfile.
    """
    header, member = tarfile.TarInfo("header"), tarfile.TarInfo("run.yml")
    header.type, header.size = kind, size
    start = b"%d comment=" % size if kind == tarfile.XHDTYPE else b""
    content = start + b"a" * (size - len(start) - 1) + b"\n"
    return header.tobuf(tarfile.GNU_FORMAT) + content + member.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
