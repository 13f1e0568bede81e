# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The members of a tar file that somebody else wrote, with bounds for their headers.

A header may say that a long name or an extended header of any size follows it, and tarfile reads that at once: 3 MB of
compressed data can take 12 GB of memory.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import IO

from .errors import DataError

#: Limits of the headers of one member, with its long name and extended headers, and of those of all members, in bytes.
MOST_OF_MEMBER, MOST_OF_ALL = 2**20, 2**29


class TarHeaderReader:
    """The stream of a tar file, which reads headers up to a limit."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        """Read from ``stream``; name: of the file, for errors."""
        self._stream, self._name = stream, name
        self._all, self._left = 0, MOST_OF_MEMBER
        self._is_content = False

    def opened(self) -> tarfile.TarFile:
        """Return the tar file, whose members are those of ``members``."""
        return tarfile.open(fileobj=self, mode="r:")  # type: ignore[call-overload]  # reads and seeks

    def members(self, tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
        """Yield the members; between two of them, contents can be read. Raises DataError for headers beyond a limit."""
        while (member := tar.next()) is not None:
            self._is_content = True
            yield member
            self._is_content, self._left = False, MOST_OF_MEMBER
        self._is_content = True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes. Raises DataError for a header beyond a limit."""
        if self._is_content:
            return self._stream.read(size)
        if not 0 <= size <= self._left or self._all > MOST_OF_ALL:
            limit = MOST_OF_ALL if self._all > MOST_OF_ALL else MOST_OF_MEMBER
            raise DataError(
                f"{self._name}: it has headers of more than {limit / 2**20:.0f} MiB, more than a run can have"
            )
        self._left -= size
        self._all += size
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a byte."""
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """Return the number of the next byte."""
        return self._stream.tell()

    def seekable(self) -> bool:
        """Return whether ``seek`` works."""
        return self._stream.seekable()
