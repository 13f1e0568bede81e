# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One exception type per cause.

They are raised wherever the cause is known, and turned into one ``fail_json`` or one AnsibleError at the
top of a module or action plugin. A message says what was tried, what came back and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class SeatrialError(Exception):
    """Base of all errors that a user is meant to read."""


class InputError(SeatrialError):
    """A value that the user gave can't be used. Raised before anything is touched."""


class AccessError(SeatrialError):
    """A server can't be reached or refuses our credentials."""


class ApiError(SeatrialError):
    """A Kubernetes API server refused a request.

    ``status`` is the HTTP status code, ``reason`` the machine-readable reason of the Status object.
    """

    def __init__(self, message: str, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    @property
    def busy(self) -> bool:
        """Whether the server is in trouble or has too much to do: the same request may be answered later."""
        return self.status == 429 or self.status >= 500


class WaitTimeout(SeatrialError):
    """A deadline passed; the message names what was still being waited for."""


class ProcessError(SeatrialError):
    """A program that we started failed or can't be started."""


class OwnershipError(SeatrialError):
    """Something that is not ours stands where we would have to change or remove it."""


class DataError(SeatrialError):
    """A file of a run directory is missing, torn or of an unknown schema version."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the name most like ``name``, or an empty string.

    Matching follows difflib.get_close_matches (Ratcliff and Obershelp, 1988).
    """
    found = difflib.get_close_matches(str(name), [str(one) for one in known], n=1, cutoff=0.6)
    return f" (did you mean '{found[0]}'?)" if found else ""


def nearest_file(path: Path) -> str:
    """Return " (did you mean 'x'?)" for the file beside ``path`` whose name is most like it, or an empty string."""
    try:
        beside = {one.name: str(one) for one in path.parent.iterdir()}
    except OSError:
        return ""
    found = difflib.get_close_matches(path.name, list(beside), n=1, cutoff=0.6)
    return f" (did you mean '{beside[found[0]]}'?)" if found else ""
