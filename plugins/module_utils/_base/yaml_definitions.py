# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read named definitions (KPIs, metrics, signatures of failures) from YAML files, of which a later one wins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .errors import InputError, suggest_similar_name
from .files import read_yaml, validate_schema_if_enabled


def read_yaml_definitions(
    paths: Iterable[str],
    noun: str,
    plural: str,
    schema: str,
    required: Sequence[str],
    optional: Sequence[str],
    check: Callable[[Mapping[str, Any], str], None],
) -> list[dict[str, Any]]:
    """Read the files in order; a later entry replaces an earlier one of the same name.

    check(entry, where) validates everything but the keys. Raises InputError naming file and entry.
    """
    definitions: dict[str, dict[str, Any]] = {}
    for path in paths:
        entries = read_yaml(path) or []
        if not isinstance(entries, list):
            raise InputError(f"{path}: a list of {plural} is expected, not {type(entries).__name__}")
        for number, entry in enumerate(entries, start=1):
            where = f"{path}: {noun} {number}"
            if not isinstance(entry, Mapping):
                raise InputError(f"{where}: a dictionary is expected, not {type(entry).__name__}")
            where = f"{where} ({entry.get('name', 'without name')})"
            _check_definition_keys(entry, where, required, optional)
            check(entry, where)
            definitions[entry["name"]] = dict(entry)
        validate_schema_if_enabled(schema, entries)
    return list(definitions.values())


def _check_definition_keys(
    entry: Mapping[str, Any], where: str, required: Sequence[str], optional: Sequence[str]
) -> None:
    for key in required:
        if key not in entry:
            raise InputError(f"{where}: '{key}' is missing")
    known = (*required, *optional)
    for key in entry:
        if key not in known:
            raise InputError(f"{where}: unknown key '{key}'{suggest_similar_name(key, known)}")
