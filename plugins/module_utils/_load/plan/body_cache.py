# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies of requests by index, on disk: there may be 100,000."""

from __future__ import annotations

import os
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Sequence


class BodyCache:
    """Byte strings by index in an unnamed temporary file, to save memory. Any thread may read.

    indices: of the bodies that will be added, ascending.
    """

    def __init__(self, indices: Sequence[int]) -> None:
        self._indices = indices
        self._stream = tempfile.TemporaryFile(prefix="seatrial-bodies-")  # noqa: SIM115  open as long as the cache exists
        self._ends = array("Q", [0])

    def append(self, body: bytes) -> None:
        """Add the next body. For one thread, before seal()."""
        self._stream.write(body)
        self._ends.append(self._ends[-1] + len(body))

    def seal(self) -> None:
        """Make the added bodies readable."""
        self._stream.flush()

    def __getitem__(self, index: int) -> bytes:
        """Return the body with this index. Raises KeyError."""
        place = bisect_left(self._indices, index)
        if place >= len(self._ends) - 1 or self._indices[place] != index:
            raise KeyError(index)
        return os.pread(self._stream.fileno(), self._ends[place + 1] - self._ends[place], self._ends[place])
