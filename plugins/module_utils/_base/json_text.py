# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parsing JSON that others may have written: whatever is wrong with it is a ValueError, also too many levels."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isfinite
from typing import Any

#: A number that may be too large for a float, as 1e999.
_LARGE = re.compile(rb"[0-9][eE]\+?[0-9]{3,}\s*[,}\]]")


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON document. Raises ValueError."""
    return _without_recursion_error(json.loads, text)


def parse_finite_json(raw: bytes) -> Any:
    """Return the value of a JSON document. Raises ValueError also for NaN, Infinity, and what no float holds."""
    return _without_recursion_error(
        _decode_checking_numbers if _LARGE.search(raw) else _decode_without_constants, raw.decode()
    )


def _without_recursion_error(decode: Callable[[Any], Any], text: str | bytes) -> Any:
    try:
        return decode(text)
    except RecursionError as error:
        raise ValueError("the JSON document is nested too deeply") from error


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _refuse_constant(text)


_decode_without_constants = json.JSONDecoder(parse_constant=_refuse_constant).decode
_decode_checking_numbers = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode
