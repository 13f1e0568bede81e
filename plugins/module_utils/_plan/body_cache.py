# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies of objects that had to be rendered one by one: there may be a hundred thousand."""

from __future__ import annotations

import os
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Sequence


class BodyCache:
    """Byte strings by index, in a file without a name: they take disk, not memory. Read by any thread.

    indices: of what will be added, rising.
    """

    def __init__(self, indices: Sequence[int]) -> None:
        self._indices = indices
        self._stream = tempfile.TemporaryFile(prefix="seatrial-bodies-")  # noqa: SIM115  open for as long as we are
        self._ends = array("Q", [0])

    def append(self, body: bytes) -> None:
        """Add the next one. For a single thread, before the first is read."""
        self._stream.write(body)
        self._ends.append(self._ends[-1] + len(body))

    def seal(self) -> None:
        """Make everything that was added readable."""
        self._stream.flush()

    def __getitem__(self, index: int) -> bytes:
        """Return the one with this index. Raises KeyError."""
        place = bisect_left(self._indices, index)
        if place >= len(self._ends) - 1 or self._indices[place] != index:
            raise KeyError(index)
        return os.pread(self._stream.fileno(), self._ends[place + 1] - self._ends[place], self._ends[place])
