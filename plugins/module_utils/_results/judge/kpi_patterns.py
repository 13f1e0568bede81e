# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns of KPI names in settings: which KPIs they match, and whether a run can have any of these."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

_WORD = re.compile(r"{[^{}]*}")


def names_of(definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that a KPI definition yields; ``*`` for a word whose values depend on the point."""
    words = definition.get("for_each") or {}
    listed = {word: values for word, values in words.items() if isinstance(values, list)}
    for values in itertools.product(*listed.values()):
        name = str(definition["name"])
        for word, value in zip(listed, values, strict=True):
            name = name.replace("{" + word + "}", str(value))
        yield _WORD.sub("*", name)


def overlap(one: str, other: str) -> bool:
    """Return whether a name exists that both patterns match; ``*`` matches any text."""

    @cache
    def from_(i: int, j: int) -> bool:
        if i == len(one) and j == len(other):
            return True
        if i < len(one) and one[i] == "*":
            return from_(i + 1, j) or (j < len(other) and from_(i, j + 1))
        if j < len(other) and other[j] == "*":
            return from_(i, j + 1) or (i < len(one) and from_(i + 1, j))
        return i < len(one) and j < len(other) and one[i] == other[j] and from_(i + 1, j + 1)

    return from_(0, 0)
