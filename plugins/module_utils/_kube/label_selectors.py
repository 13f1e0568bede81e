# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label selectors of requests, applied again to what was listed: only objects that we asked for are acted on.

Grammar and meaning: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_REQUIREMENT = re.compile(
    r"\s*(?:(?P<absent>!)\s*)?(?P<key>[^\s!=,()]+)\s*"
    r"(?:(?P<operator>!=|==?)\s*(?P<value>[^\s,()]*)\s*|(?P<set>in|notin)\s*\((?P<values>[^()]*)\)\s*)?(?:,|$)"
)
#: Key, values, and whether an object needs to have one of them (else: none of them); no values: any value.
_Requirement = tuple[str, frozenset[str], bool]


def is_selected(selector: str, item: Mapping[str, Any]) -> bool:
    """Return whether a label selector selects an object. An API server refuses a selector without a meaning (400)."""
    labels = item["metadata"].get("labels")
    labels = labels if isinstance(labels, dict) else {}
    return all(
        (key in labels and (not values or str(labels[key]) in values)) == wanted
        for key, values, wanted in _requirements(selector)
    )


@lru_cache(maxsize=256)
def _requirements(selector: str) -> tuple[_Requirement, ...]:
    requirements: list[_Requirement] = []
    position = 0
    while position < len(selector):
        part = _REQUIREMENT.match(selector, position)
        if part is None:
            return tuple(requirements)
        if part["operator"]:
            values, wanted = frozenset([part["value"]]), part["operator"] != "!="
        elif part["set"]:
            values, wanted = frozenset(value.strip() for value in part["values"].split(",")), part["set"] == "in"
        else:
            values, wanted = frozenset(), not part["absent"]
        requirements.append((part["key"], values, wanted))
        position = part.end()
    return tuple(requirements)
