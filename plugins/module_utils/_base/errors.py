# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One exception type per cause.

They are raised where the cause is known and converted to one ``fail_json`` or one AnsibleError at the top of a module
or action plugin. A message states the attempt, the response and the remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class SeatrialError(Exception):
    """Base of all errors with messages for users.

    Code that decides by an error reads its attributes, never its message.

    Attributes:
        permanent: Whether the same attempt can't succeed later, so that waiting is useless.
        setting: Name of the setting whose value caused the error; empty if there is none.
    """

    def __init__(self, message: str = "", *, permanent: bool = False, setting: str = "") -> None:
        super().__init__(message)
        self.permanent = permanent
        self.setting = setting

    @property
    def error_kind(self) -> str:
        """The kind of the error, in results of modules and in the record of a run."""
        return type(self).__name__


class InputError(SeatrialError):
    """A value from the user is invalid. Raised before anything is changed."""


class AccessError(SeatrialError):
    """A server is unreachable or refuses our credentials."""


class ApiError(SeatrialError):
    """A Kubernetes API server refused a request.

    Attributes:
        status: HTTP status code; 0 if the server sent none, or a 404 although the resource may exist.
        reason: Machine-readable reason of the Status object, such as ``AlreadyExists``.
        resource: Resource that the Status object is about, such as ``namespaces``.
        name: Name of the object that the Status object is about.
    """

    def __init__(self, message: str, status: int = 0, reason: str = "", *, resource: str = "", name: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.resource = resource
        self.name = name
        self.permanent = status != 0 and not self.busy

    @property
    def busy(self) -> bool:
        """Whether the server failed or is overloaded, so that the same request may succeed later."""
        return self.status == 429 or self.status >= 500


class WaitTimeout(SeatrialError):
    """A timeout expired; the message names the unmet condition."""


class ProcessError(SeatrialError):
    """A program that we started failed or could not be started."""


class OwnershipError(SeatrialError):
    """An object that is not ours would have to be changed or deleted."""


class DataError(SeatrialError):
    """A file of a run directory is missing, truncated or of an unknown schema version."""


#: Letters of a message that are shown of its begin, and of its end, where a remedy and the source of a value are.
_BEGIN, _END = 3000, 1000


def shorten_error_message(error: object) -> str:
    """Return the message of an error, without the middle of one that repeats a value of millions of letters."""
    text = str(error)
    left_out = len(text) - _BEGIN - _END
    return text if left_out <= 0 else f"{text[:_BEGIN]} … ({left_out:,} letters) … {text[-_END:]}"


def suggest_similar_name(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the name most similar to ``name``, or an empty string.

    Matching follows difflib.get_close_matches (Ratcliff and Obershelp, 1988).
    """
    candidates = [str(candidate) for candidate in known]
    matches = difflib.get_close_matches(str(name), candidates, n=1, cutoff=0.6)
    if not matches:  # all in capitals, a name has no letter in common with what is meant
        matches = [candidate for candidate in candidates if candidate.lower() == str(name).lower()][:1]
    return f" (did you mean '{matches[0]}'?)" if matches else ""


def suggest_nearest_file(path: Path) -> str:
    """Return " (did you mean 'x'?)" for the file beside ``path`` with the most similar name, or an empty string.

    What exists, and is of the wrong type, is named as a folder or a file.
    """
    try:
        if path.exists():
            return " (it is a folder)" if path.is_dir() else " (it is a file)"
        beside = {sibling.name: str(sibling) for sibling in path.parent.iterdir()}
    except OSError:
        return ""
    matches = difflib.get_close_matches(path.name, list(beside), n=1, cutoff=0.6)
    return f" (did you mean '{beside[matches[0]]}'?)" if matches else ""
