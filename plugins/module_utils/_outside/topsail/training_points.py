# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The points that TOPSAIL makes of test settings: lists are dimensions, and conditions leave points out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

HYPER = "hyper_parameters"


def merged(tests: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return test settings with those of one entry of test_extra_settings, whose keys may be dotted."""
    hyper = dict(tests.get(HYPER) or {})
    rest = {key: value for key, value in tests.items() if key != HYPER}
    for key, value in extra.items():
        first, _dot, name = key.partition(".")
        if first == HYPER and name:
            hyper[name] = value
        elif first == HYPER:
            hyper = dict(value or {})
        else:
            rest[key] = value
    return {**rest, HYPER: hyper}


def has_lists(tests: Mapping[str, Any]) -> bool:
    """Return whether test settings are those of more than one point."""
    return bool(_places(merged(tests, {})))


def _places(tests: Mapping[str, Any]) -> list[tuple[str, str]]:
    flat = {key: value for key, value in tests.items() if key != HYPER}
    places = [("", key) for key, value in flat.items() if isinstance(value, list) and key != "use_secondary_nic"]
    return places + [(HYPER, key) for key, value in tests[HYPER].items() if isinstance(value, list)]


def expanded(tests: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the points of test settings: each list is a dimension."""
    flat = {key: value for key, value in tests.items() if key != HYPER}
    hyper = tests[HYPER]
    places = _places(tests)
    lists = [hyper[key] if where else flat[key] for where, key in places]
    points = []
    for values in itertools.product(*lists):
        point, parameters = dict(flat), dict(hyper)
        for (where, key), value in zip(places, values, strict=True):
            (parameters if where else point)[key] = value
        points.append({**point, HYPER: parameters})
    return points


def is_skipped(point: Mapping[str, Any]) -> bool:
    """Return whether ``skip_if`` leaves a point out."""
    condition = point[HYPER].get("skip_if") or {}
    return bool(condition) and all(point[HYPER].get(key) == value for key, value in condition.items())
