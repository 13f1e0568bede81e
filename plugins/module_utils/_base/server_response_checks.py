# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of servers that are JSON, but not of the form that the server's API documents.

Messages describe an answer and don't quote it: it may hold a secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .errors import AccessError

#: Keys of an answer in a message, and characters of each.
_KEYS, _LONGEST = 6, 40
#: What reading a document of another form raises: a missing key, another type, a text that is no number.
_FORM_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@contextmanager
def expect_documented_form(what: str, answer: Any) -> Iterator[None]:
    """Read an answer in the body; one of another form than expected is the server's error, not one of ours.

    Args:
        what: Server, method and path.
        answer: The document that the body reads.

    Raises:
        AccessError: The body met another form; it says what was found.
    """
    try:
        yield
    except _FORM_ERRORS as error:
        lacking = f" without {error}" if isinstance(error, KeyError) else ""
        raise AccessError(f"{what}: the answer has an unexpected form: {_described(answer)}{lacking}") from error


def require_json_object(what: str, answer: Any, lists: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return an answer that is a JSON object. Raises AccessError for another one.

    Args:
        what: Server, method and path.
        answer: The document.
        lists: Keys whose values, where they are given, are lists of objects.
    """
    if not isinstance(answer, dict):
        raise AccessError(f"{what}: the answer is not a JSON object but {_described(answer)}")
    for key in lists:
        require_list_of_json_objects(f"{what}: {key}", answer.get(key) or [])
    return answer


def require_list_of_json_objects(what: str, answer: Any) -> list[dict[str, Any]]:
    """Return an answer that is a list of JSON objects. Raises AccessError for another one."""
    if not isinstance(answer, list):
        raise AccessError(f"{what}: the answer is not a list of JSON objects but {_described(answer)}")
    for entry in answer:
        require_json_object(f"{what}: an entry of the list", entry)
    return answer


def _described(answer: Any) -> str:
    """Return what an answer is, without its values."""
    if isinstance(answer, dict):
        keys = [str(key)[:_LONGEST] for key in answer]
        more = ", …" if len(keys) > _KEYS else ""
        return f"an object with {', '.join(keys[:_KEYS])}{more}" if keys else "an empty object"
    if isinstance(answer, list):
        return f"a list of {len(answer)}"
    return {str: "text", bool: "true or false", type(None): "null"}.get(type(answer), "a number")
