# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The points that TOPSAIL makes of test settings: lists are dimensions, and conditions leave points out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError

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


def expanded(tests: Mapping[str, Any], varied: bool) -> list[dict[str, Any]]:
    """Return the points of test settings: each list is a dimension. Raises InputError for a list in a single test."""
    flat = {key: value for key, value in tests.items() if key != HYPER}
    hyper = tests[HYPER]
    places = [("", key) for key, value in flat.items() if isinstance(value, list) and key != "use_secondary_nic"]
    places += [(HYPER, key) for key, value in hyper.items() if isinstance(value, list)]
    if places and not varied:
        raise InputError(f"{places[0][1]} is a list, and matbenchmarking is not enabled")
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
