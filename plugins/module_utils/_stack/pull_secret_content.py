# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credentials added to a dockerconfigjson and removed again, the rest untouched byte for byte. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"


def parse_registry_credentials(text: str, what: str) -> dict[str, Any]:
    """Return the credentials by registry. what: named in errors, which never quote the text. Raises InputError."""
    try:
        credentials = parse_json(text)["auths"]
    except (ValueError, TypeError, KeyError):
        credentials = None
    if not isinstance(credentials, dict):
        raise InputError(f"{what} is not a dockerconfigjson: it must be JSON with a dictionary auths")
    return credentials


def registries_without_credentials(text: str, wanted: Mapping[str, Any]) -> list[str]:
    """Return the registries of ``wanted`` that ``text`` lacks. Raises InputError if it has others for one of them."""
    known = parse_registry_credentials(text, "the pull secret of the cluster")
    for name, value in wanted.items():
        if name in known and known[name] != value:
            raise InputError(
                f"the pull secret of the cluster has other credentials for {name}: they are not replaced. Name the "
                f"repository, such as {name}/<organisation>, or remove them first"
            )
    return [name for name in wanted if name not in known]


def merge_registry_credentials(text: str, wanted: Mapping[str, Any]) -> str:
    """Return ``text`` with the credentials that it lacks.

    Raises InputError as registries_without_credentials() does.
    """
    names = registries_without_credentials(text, wanted)
    if not names:
        return text
    place = _start_of_auths(text)
    parts = [f"{_compact_json(name)}:{_compact_json(wanted[name])}" for name in names]
    comma = "" if text[_skip_whitespace(text, place)] == "}" else ","
    result = text[:place] + ",".join(parts) + comma + text[place:]
    if parse_registry_credentials(result, "the result") != {
        **parse_registry_credentials(text, "it"),
        **{name: wanted[name] for name in names},
    }:
        raise InputError("the pull secret of the cluster has the key auths twice: nothing was changed")
    return result


def without_added_credentials(text: str, names: Iterable[str]) -> str:
    """Return ``text`` without the credentials that merge_registry_credentials() added.

    Raises ValueError if they are not in their place.
    """
    place = _start_of_auths(text)
    end, first = place, True
    for name in names:
        head = ("" if first else ",") + f"{_compact_json(name)}:"
        if not text.startswith(head, end):
            raise ValueError(f"{name} is not where it was put")
        end, first = _DECODER.raw_decode(text, end + len(head))[1], False
    if not first and text[_skip_whitespace(text, end)] == ",":
        end += 1
    return text[:place] + text[end:]


def _compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _skip_whitespace(text: str, place: int) -> int:
    while place < len(text) and text[place] in _SPACE:
        place += 1
    return place


def _start_of_auths(text: str) -> int:
    """Return the position behind the bracket that opens the dictionary ``auths`` of valid JSON."""
    place = _skip_whitespace(text, 0) + 1
    while True:
        key, place = _DECODER.raw_decode(text, _skip_whitespace(text, place))
        place = _skip_whitespace(text, _skip_whitespace(text, place) + 1)
        if key == "auths":
            return place + 1
        place = _skip_whitespace(text, _DECODER.raw_decode(text, place)[1]) + 1
