# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A configuration of TOPSAIL, and what its presets make of it, by TOPSAIL's rules: values and points.

A preset is a list of assignments in the order of the file. ``extends`` applies other presets at its position, so the
last assignment counts. A key must exist; a dictionary replaces the whole previous one. A key may reach into another
preset (``ci_presets.light["a.b"]``), which changes that preset if it is applied later.

Nothing here changes a configuration: each assignment returns a new one that shares all other values with it.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

PRESETS = "ci_presets"
TESTS = "tests.fine_tuning"
SETTINGS = f"{TESTS}.test_settings"
HYPER = "hyper_parameters"
TO_APPLY, OVERRIDES = f"{PRESETS}.to_apply", f"{PRESETS}.variable_overrides"
#: Entries of ci_presets that are no presets.
_RESERVED = ("name", "names", "to_apply", "variable_overrides")
#: TOPSAIL's configuration has 7 levels, a chain of 6 presets and a matrix of 72 points.
_MOST_LEVELS, _MOST_APPLIED, _MOST_POINTS, _MOST_REFERENCES = 50, 200, 2_000, 20
#: References of one value, with those in what they refer to, and characters of its texts.
_MOST_EXPANSIONS, _MOST_CHARACTERS = 10_000, 1_000_000
_STEP = re.compile(r"""\.?(?:\[(?P<quote>["'])(?P<key>.*?)(?P=quote)\]|\[(?P<index>\d+)\]|(?P<word>[^.\[\]*]+))""")
_WHOLE = re.compile(r"@(?P<key>[^{}\s]+)\Z")
_PART = re.compile(r"\{@(?P<key>[^{}]+)\}")

Path: TypeAlias = "tuple[str | int, ...]"


def check_configuration(config: Any) -> None:
    """Raise InputError unless this is a configuration of TOPSAIL's project fine_tuning."""
    if not isinstance(config, Mapping) or not isinstance(config.get(PRESETS), Mapping):
        raise InputError(
            f"no configuration of TOPSAIL: it has no dictionary {PRESETS}. Presets of FORGE and other files are not"
            " supported; name the config.yaml of TOPSAIL's project fine_tuning"
        )
    pending = [(config, 0)]
    while pending:
        value, depth = pending.pop()
        if depth > _MOST_LEVELS:
            raise InputError(f"it has more than {_MOST_LEVELS} levels")
        entries = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        pending += [(entry, depth + 1) for entry in entries]
    try:
        settings = value_at_path(config, parse_key_path(SETTINGS))
    except InputError:
        settings = None
    if not isinstance(settings, Mapping):
        raise InputError(
            f"it is not of TOPSAIL's project fine_tuning: it has no dictionary {SETTINGS}."
            " Presets of its other projects cannot be imported"
        )


def list_preset_names(config: Mapping[str, Any]) -> list[Any]:
    """Return the names of all presets as the file has them; a name that is no text cannot be applied."""
    return [name for name in config[PRESETS] if name not in _RESERVED]


def parse_key_path(key: str) -> Path:
    """Return the parts of a key such as ``a.b[0]["c.d"]``. Raises InputError for another one."""
    parts: list[str | int] = []
    at = 2 if key.startswith("$.") else 0
    while at < len(key) or not parts:
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
        if indexed or (isinstance(config, Mapping) and part in config):
            config = config[part]
        else:
            where = ".".join(map(str, path[:number]))
            like = suggest_similar_name(str(part), map(str, config)) if isinstance(config, Mapping) else ""
            raise InputError(f"there is no key '{part}'{f' in {where}' if where else ''}{like}")
    return config


def leaf_values(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Return the key of each value that is no dictionary, and the value."""
    if isinstance(value, Mapping) and value:
        for name, entry in value.items():
            yield from leaf_values(entry, f"{key}.{name}" if key else str(name))
    else:
        yield key, value


def configuration_with_presets(config: Mapping[str, Any], names: Sequence[str]) -> tuple[Mapping[str, Any], list[str]]:
    """Return the configuration of a run with these presets, and all keys that they assign.

    As in each run of TOPSAIL, ``ci_presets.to_apply`` and ``ci_presets.variable_overrides`` come first.

    Raises InputError for an unknown preset, for presets that extend each other, and for a key that does not exist.
    """
    always, overrides = config[PRESETS].get("to_apply") or [], config[PRESETS].get("variable_overrides") or {}
    if not isinstance(always, (str, list)) or not isinstance(overrides, Mapping):
        raise InputError(f"{TO_APPLY} is no list of presets, or {OVERRIDES} no dictionary")
    keys: list[str] = []
    applied: list[str] = []
    for name in [always] if isinstance(always, str) else always:
        config = _apply_one_preset(config, name, (), keys, applied)
    for key, value in overrides.items():
        config = _assign(config, OVERRIDES, key, value, keys)
    for name in names:
        config = _apply_one_preset(config, name, (), keys, applied)
    return config, list(dict.fromkeys(keys))


def _apply_one_preset(
    config: Mapping[str, Any], name: Any, chain: tuple[str, ...], keys: list[str], applied: list[str]
) -> Mapping[str, Any]:
    known = list_preset_names(config)
    if name in chain:
        raise InputError(f"presets extend each other: {' -> '.join([*chain, name])}")
    if name not in known or not isinstance(name, str):
        by = f"preset '{chain[-1]}' extends '{name}', which" if chain else f"preset '{name}'"
        raise InputError(f"{by} does not exist{suggest_similar_name(str(name), map(str, known))}")
    applied.append(name)
    if len(applied) > _MOST_APPLIED:
        raise InputError(f"more than {_MOST_APPLIED} presets are applied, among them '{name}'")
    preset = config[PRESETS][name]
    if not isinstance(preset, Mapping):
        raise InputError(f"preset '{name}' is no dictionary of keys and values")
    for key, value in preset.items():
        if key != "extends":
            config = _assign(config, f"preset '{name}'", key, value, keys)
            continue
        if not isinstance(value, (str, list)):
            raise InputError(f"preset '{name}': extends is no list of presets")
        for other in [value] if isinstance(value, str) else value:
            config = _apply_one_preset(config, other, (*chain, name), keys, applied)
    return config


def _assign(config: Mapping[str, Any], source: str, key: Any, value: Any, keys: list[str]) -> Mapping[str, Any]:
    try:
        path = parse_key_path(str(key))
        value_at_path(config, path)
    except InputError as error:
        raise InputError(f"{source} sets {key}: {error}") from error
    keys.append(str(key).removeprefix("$."))
    changed: Mapping[str, Any] = _with_value(config, path, value)
    return changed


def _with_value(node: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    changed = copy.copy(node)
    changed[path[0]] = _with_value(node[path[0]], path[1:], value)
    return changed


def resolve_references(config: Mapping[str, Any], value: Any) -> Any:
    """Return a value with its references: ``@key`` is the value of a key, ``{@key}`` a part of a text.

    Raises InputError for a reference to no key, to itself, or to a secret, and for too many of them.
    """
    return _ReferenceExpansion(config).resolve(value)


class _ReferenceExpansion:
    """The references of one value. A few short texts that refer to each other can stand for billions of characters."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._expansions = self._characters = 0

    def resolve(self, value: Any, seen: tuple[str, ...] = ()) -> Any:
        """Return a value with its references; ``seen``: the keys that led to it. Raises InputError."""
        if isinstance(value, Mapping):
            return {key: self.resolve(entry, seen) for key, entry in value.items()}
        if isinstance(value, list):
            return [self.resolve(entry, seen) for entry in value]
        if not isinstance(value, str):
            return value
        if value.startswith(("*$@", "*@")):
            raise InputError(f"'{value}' refers to a secret")
        if whole := _WHOLE.match(value):
            return self._value_of_key(whole["key"], seen)
        return _PART.sub(lambda part: self._text_of_key(part["key"], seen), value)

    def _text_of_key(self, key: str, seen: tuple[str, ...]) -> str:
        text = str(self._value_of_key(key, seen))
        self._characters += len(text)
        if self._characters > _MOST_CHARACTERS:
            raise InputError(
                f"the references by way of '{key}' make texts of more than {_MOST_CHARACTERS:,} characters"
            )
        return text

    def _value_of_key(self, key: str, seen: tuple[str, ...]) -> Any:
        if key in seen:
            raise InputError(f"references lead in a circle: {' -> '.join([*seen, key])}")
        if len(seen) == _MOST_REFERENCES:
            raise InputError(f"more than {_MOST_REFERENCES} references follow each other: {' -> '.join([*seen, key])}")
        self._expansions += 1
        if self._expansions > _MOST_EXPANSIONS:
            raise InputError(f"more than {_MOST_EXPANSIONS:,} references are needed for one value, among them '{key}'")
        return self.resolve(value_at_path(self._config, parse_key_path(key)), (*seen, key))


# Points of test settings: lists are dimensions, and conditions leave points out.


def merge_extra_test_settings(tests: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return test settings with those of one entry of test_extra_settings; ``hyper_parameters.x`` is one of its keys.

    A dictionary is merged with the previous one, any other value replaces it.
    """
    nested: dict[str, Any] = {HYPER: {}}
    for key, value in extra.items():
        first, _dot, name = str(key).partition(".")
        if first == HYPER and name:
            nested[HYPER] = _merged(nested[HYPER], {name: value})
        else:
            nested[key] = _merged(nested.get(key), value)
    merged: dict[str, Any] = _merged(tests, nested)
    return merged


def _merged(under: Any, over: Any) -> Any:
    if not isinstance(under, Mapping) or not isinstance(over, Mapping):
        return over
    return {**under, **{key: _merged(under.get(key), value) for key, value in over.items()}}


def expand_test_points(tests: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the points of test settings: each list is a dimension. Raises InputError for too many points, or none."""
    flat: dict[tuple[str, ...], Any] = {(key,): value for key, value in tests.items() if key != HYPER}
    flat |= {(HYPER, key): value for key, value in tests[HYPER].items()}
    lists = {place: value for place, value in flat.items() if isinstance(value, list)}
    if empty := [".".join(map(str, place)) for place, value in lists.items() if not value]:
        raise InputError(f"it has no point: {empty[0]} is an empty list")
    if (count := math.prod(map(len, lists.values()))) > _MOST_POINTS:
        raise InputError(f"it has {count:,} points, more than {_MOST_POINTS:,}")
    points = []
    for values in itertools.product(*lists.values()):
        point: dict[str, Any] = {HYPER: {}}
        for place, value in {**flat, **dict(zip(lists, values, strict=True))}.items():
            (point[HYPER] if len(place) > 1 else point)[place[-1]] = value
        points.append(point)
    return points


def hyper_parameters_of_point(point: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the hyperparameters of a point without nulls, and whether ``skip_if`` leaves it out.

    ``raw_lists`` has those whose values are lists. A point is left out if any entry of ``skip_if`` equals its value.
    """
    hyper = {key: value for key, value in point[HYPER].items() if value is not None}
    raw, condition = hyper.pop("raw_lists", {}), hyper.pop("skip_if", {})
    for name, value in (("raw_lists", raw), ("skip_if", condition)):
        if not isinstance(value, Mapping):
            raise InputError(f"{SETTINGS}.{HYPER}.{name} is no dictionary")
    hyper |= {key: value for key, value in raw.items() if value is not None}
    return hyper, any(hyper.get(key) == value for key, value in condition.items())
