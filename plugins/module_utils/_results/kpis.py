# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPIs: definitions that are data, and their values for one point.

A definition: name, unit, direction (higher, lower, none), help, source ({function: …, further arguments}), and
optionally title, headline (shown first) and for_each ({word: list of values, or "stages"}), which makes one KPI for
every combination, the words standing in braces in name, title, help and the arguments.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, nearest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.functions import FUNCTIONS, Data, Figure
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.table import Table

REQUIRED = ("name", "unit", "direction", "help", "source")
OPTIONAL = ("title", "headline", "for_each")
DIRECTIONS = ("higher", "lower", "none")
STAGES = "stages"


def load(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Read definitions from YAML files, in their order. Raises InputError naming file, KPI and what is wrong."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        entries = _files.read_yaml(path)
        if not isinstance(entries, list):
            raise InputError(f"{path}: a list of KPI definitions is expected, not {type(entries).__name__}")
        for number, entry in enumerate(entries):
            _check(entry, f"{path}: KPI {number + 1}")
            found[entry["name"]] = entry  # a project may define one anew: it keeps its place
    return list(found.values())


def _check(entry: Any, where: str) -> None:
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: a dictionary is expected, not {type(entry).__name__}")
    where = f"{where} ({entry.get('name', 'without name')})"
    for key in REQUIRED:
        if key not in entry:
            raise InputError(f"{where}: '{key}' is missing")
    for key in entry:
        if key not in REQUIRED + OPTIONAL:
            raise InputError(f"{where}: unknown key '{key}'{nearest(key, REQUIRED + OPTIONAL)}")
    if entry["direction"] not in DIRECTIONS:
        raise InputError(f"{where}: direction '{entry['direction']}' is none of {', '.join(DIRECTIONS)}")
    source = entry["source"]
    if not isinstance(source, Mapping) or "function" not in source:
        raise InputError(f"{where}: source must be a dictionary with 'function'")
    function = FUNCTIONS.get(source["function"])
    if function is None:
        known = ", ".join(FUNCTIONS)
        raise InputError(
            f"{where}: unknown function '{source['function']}'{nearest(source['function'], FUNCTIONS)}; known: {known}"
        )
    known_arguments = list(inspect.signature(function).parameters)[1:]
    for key in source:
        if key != "function" and key not in known_arguments:
            raise InputError(
                f"{where}: function {source['function']} has no argument '{key}'{nearest(key, known_arguments)}; "
                f"it has {', '.join(known_arguments) or 'none'}"
            )
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.default is inspect.Parameter.empty and parameter.name not in source:
            raise InputError(f"{where}: function {source['function']} needs the argument '{parameter.name}'")


def compute(
    table: Table, training: Sequence[Mapping[str, Any]], definitions: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the KPIs of a point, as in schema kpis/1."""
    data = Data(table, training)
    return [_kpi(entry, words, data) for one in definitions for entry, words in _expand(one, table)]


def _expand(entry: Mapping[str, Any], table: Table) -> Iterator[tuple[Mapping[str, Any], dict[str, str]]]:
    words = entry.get("for_each") or {}
    values = [_stages(table) if one == STAGES else list(one) for one in words.values()]
    for combination in itertools.product(*values):
        yield entry, dict(zip(words, (str(one) for one in combination), strict=True))


def _stages(table: Table) -> list[str]:
    """The stages whose durations every workload should have: not the first pod's, not the failure's."""
    return [one["name"] for one in table.stages if one["ends"] != "failed" and not one["name"].endswith("_first")]


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace("{" + word + "}", text)
        return value
    if isinstance(value, list):
        return [_filled(one, words) for one in value]
    return value


def _kpi(entry: Mapping[str, Any], words: Mapping[str, str], data: Data) -> dict[str, Any]:
    arguments = {key: _filled(value, words) for key, value in entry["source"].items() if key != "function"}
    figure: Figure = FUNCTIONS[entry["source"]["function"]](data, **arguments)
    name = _filled(entry["name"], words)
    kpi: dict[str, Any] = {
        "name": name,
        "title": _filled(entry.get("title", ""), words) or name.replace("_", " "),
        "value": figure.value,
        "unit": entry["unit"],
        "direction": entry["direction"],
        "help": " ".join(_filled(entry["help"], words).split()),
        "n": figure.n,
        "of": figure.of,
        "simulated": figure.simulated,
        "interval": list(figure.interval) if figure.interval else None,
        "labels": dict(figure.labels),
        "headline": bool(entry.get("headline", False)),
    }
    if figure.note:
        kpi["note"] = figure.note
    return kpi
