# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A configuration of TOPSAIL, and what its presets make of it, by TOPSAIL's rules: values and points.

A preset is a list of assignments in the order of the file. ``extends`` applies other presets at its position, so the
last assignment counts. A key must exist; a dictionary replaces the whole previous one. A key may reach into another
preset (``ci_presets.light["a.b"]``), which changes that preset if it is applied later.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

PRESETS = "ci_presets"
HYPER = "hyper_parameters"
#: Entries of ci_presets that are no presets.
_WORDS = ("name", "names", "to_apply", "variable_overrides")
_STEP = re.compile(r"""\.?(?:\[(?P<quote>["'])(?P<key>.*?)(?P=quote)\]|\[(?P<index>\d+)\]|(?P<word>[^.\[\]]+))""")
_WHOLE = re.compile(r"@(?P<key>[^{}\s]+)\Z")
_PART = re.compile(r"\{@(?P<key>[^{}]+)\}")

Path: TypeAlias = "tuple[str | int, ...]"


def list_preset_names(config: Mapping[str, Any]) -> list[str]:
    """Return the names of all presets. Raises InputError for a file that has none."""
    section = config.get(PRESETS) if isinstance(config, Mapping) else None
    if not isinstance(section, Mapping):
        raise InputError(f"no configuration of TOPSAIL: it has no dictionary {PRESETS}")
    return [name for name, value in section.items() if isinstance(value, Mapping) and name not in _WORDS]


def parse_key_path(key: str) -> Path:
    """Return the parts of a key such as ``a.b[0]["c.d"]``. Raises InputError for another one."""
    parts: list[str | int] = []
    at = 0
    while at < len(key):
        step = _STEP.match(key, at)
        if step is None:
            raise InputError(f"key '{key}' cannot be read from '{key[at:]}' on")
        index = step["index"]
        parts.append(int(index) if index is not None else step["key"] if step["quote"] else step["word"])
        at = step.end()
    return tuple(parts)


def value_at_path(config: Any, path: Path) -> Any:
    """Return the value at a path. Raises InputError with the nearest key if there is none."""
    for number, part in enumerate(path):
        indexed = isinstance(config, list) and isinstance(part, int) and part < len(config)
        if indexed or (isinstance(config, dict) and part in config):
            config = config[part]
        else:
            where = ".".join(map(str, path[:number]))
            like = suggest_similar_name(str(part), map(str, config)) if isinstance(config, dict) else ""
            raise InputError(f"there is no key '{part}'{f' in {where}' if where else ''}{like}")
    return config


def apply_presets(config: Mapping[str, Any], names: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the configuration after these presets, with references resolved, and all keys that they assign.

    Raises InputError for an unknown preset, for presets that extend each other, and for a key that does not exist.
    """
    made = copy.deepcopy(dict(config))
    keys: list[str] = []
    for name in names:
        _apply_one_preset(made, name, (), keys)
    return made, list(dict.fromkeys(keys))


def _apply_one_preset(config: dict[str, Any], name: str, chain: tuple[str, ...], keys: list[str]) -> None:
    known = list_preset_names(config)
    if name in chain:
        raise InputError(f"presets extend each other: {' -> '.join([*chain, name])}")
    if name not in known:
        by = f"preset '{chain[-1]}' extends '{name}', which" if chain else f"preset '{name}'"
        raise InputError(f"{by} does not exist{suggest_similar_name(name, known)}")
    for key, value in list(config[PRESETS][name].items()):
        if key == "extends":
            for other in [value] if isinstance(value, str) else value:
                _apply_one_preset(config, other, (*chain, name), keys)
            continue
        path = parse_key_path(key)
        try:
            value_at_path(config, path)
        except InputError as error:
            raise InputError(f"preset '{name}' sets {key}: {error}") from error
        value_at_path(config, path[:-1])[path[-1]] = copy.deepcopy(value)
        keys.append(key)


def resolve_references(config: Mapping[str, Any], value: Any, seen: tuple[str, ...] = ()) -> Any:
    """Return a value with its references: ``@key`` is the value of a key, ``{@key}`` a part of a text.

    Raises InputError for a reference to no key, to itself, or to a secret.
    """
    if isinstance(value, Mapping):
        return {key: resolve_references(config, entry, seen) for key, entry in value.items()}
    if isinstance(value, list):
        return [resolve_references(config, entry, seen) for entry in value]
    if not isinstance(value, str):
        return value
    if value.startswith("*"):
        raise InputError(f"'{value}' refers to a secret")
    if whole := _WHOLE.match(value):
        return _resolve_referenced_key(config, whole["key"], seen)
    return _PART.sub(lambda part: str(_resolve_referenced_key(config, part["key"], seen)), value)


def _resolve_referenced_key(config: Mapping[str, Any], key: str, seen: tuple[str, ...]) -> Any:
    if key in seen:
        raise InputError(f"references lead in a circle: {' -> '.join([*seen, key])}")
    return resolve_references(config, value_at_path(config, parse_key_path(key)), (*seen, key))


# Points of test settings: lists are dimensions, and conditions leave points out.


def merge_extra_test_settings(tests: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
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
    return bool(_keys_with_list_values(merge_extra_test_settings(tests, {})))


def _keys_with_list_values(tests: Mapping[str, Any]) -> list[tuple[str, str]]:
    flat = {key: value for key, value in tests.items() if key != HYPER}
    places = [("", key) for key, value in flat.items() if isinstance(value, list) and key != "use_secondary_nic"]
    return places + [(HYPER, key) for key, value in tests[HYPER].items() if isinstance(value, list)]


def expand_test_points(tests: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the points of test settings: each list is a dimension."""
    flat = {key: value for key, value in tests.items() if key != HYPER}
    hyper = tests[HYPER]
    places = _keys_with_list_values(tests)
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
