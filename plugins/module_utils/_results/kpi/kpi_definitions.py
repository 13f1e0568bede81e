# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and validate KPI definitions (schema kpi_definitions/1).

A definition: name, unit, direction (higher, lower, none), help, source ({function: …, further arguments} or
{jmespath: …}), and optionally title, headline (shown first), answer (the sentence that a report leads with), labels,
and for_each ({word: list of values, or one of LOOKED_UP}), which creates one KPI for each combination; {word} in name,
title, help, answer, labels and the arguments is replaced by its value.
settings ({setting: value}): the KPI exists only at points that have this value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import yaml_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

REQUIRED = ("name", "unit", "direction", "help", "source")
OPTIONAL = ("title", "headline", "answer", "for_each", "labels", "settings")
ANSWER = ("text", "bound", "missed", "one", "one_bound", "names", "only_real")
#: Setting that names the KPI of the answer.
NAMED_ANSWER = "results_answer"
#: Label of a capacity without a value: the lowest rate of the load, which missed the objective too.
MISSED_AT = "missed_at"
DIRECTIONS = ("higher", "lower", "none")
#: Values of for_each that depend on the point.
LOOKED_UP = (
    "stages",
    "reasons",
    "queues",
    "priorities",
    "levels",
    "stepped",
    "scaled",
    "templates",
    "clients",
    "failures",
    "failed",
    "outages",
    "resumed",
    "evicted",
    "marked",
)
STAGES, REASONS, QUEUES, PRIORITIES, LEVELS, STEPPED, SCALED, TEMPLATES, CLIENTS, *OF_FAILURES = LOOKED_UP
FAILURES, FAILED, OUTAGES, RESUMED, EVICTED, MARKED = OF_FAILURES
JMESPATH = "jmespath"
#: The definitions in a folder.
IN_FOLDER = "kpis.yml"


#: Functions that a definition may name, by name.
Functions = Mapping[str, Callable[..., Any]]


def load_kpi_definitions(paths: Iterable[str], functions: Functions | None = None) -> list[dict[str, Any]]:
    """Read definitions from YAML files, in this order.

    Args:
        paths: The files. Of a folder, its ``kpis.yml`` is read, then those of the folders in it.
        functions: Those that the definitions may name; None if they have been checked, as when KPIs were computed.

    Raises:
        InputError: With file, KPI and error.
    """
    files = [file for path in paths for file in _find_definition_files(path)]
    check = partial(_check_kpi_definition, functions=functions)
    return yaml_definitions.read_yaml_definitions(
        files, "KPI", "KPI definitions", "kpi_definitions/1", REQUIRED, OPTIONAL, check
    )


def _find_definition_files(path: str) -> list[str]:
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    paths = sorted(folder.rglob(IN_FOLDER), key=lambda path: (len(path.parts), path))
    if not paths:
        raise InputError(f"{path}: a folder of KPI definitions has a {IN_FOLDER}, and this one has none")
    return [str(path) for path in paths]


def kpis_defined_for_settings(
    definitions: Iterable[Mapping[str, Any]], settings: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Return the KPIs of a point with these settings. A setting that its version did not know may have any value."""
    return [
        definition
        for definition in definitions
        if all(settings.get(name, value) == value for name, value in definition.get("settings", {}).items())
    ]


def _check_kpi_definition(entry: Mapping[str, Any], where: str, functions: Functions | None) -> None:
    if entry["direction"] not in DIRECTIONS:
        raise InputError(f"{where}: direction '{entry['direction']}' is none of {', '.join(DIRECTIONS)}")
    for key in ("labels", "settings"):
        if not isinstance(entry.get(key, {}), Mapping):
            raise InputError(f"{where}: {key} must be a dictionary")
    _check_for_each(entry.get("for_each") or {}, where)
    if "answer" in entry:
        _check_answer(entry["answer"], where)
    source = entry["source"]
    if not isinstance(source, Mapping) or ("function" in source) == (JMESPATH in source):
        raise InputError(f"{where}: source must be a dictionary with 'function' or '{JMESPATH}'")
    if JMESPATH in source:
        _check_path(source, where)
    elif functions is not None:
        _check_function(source, where, functions)


def _check_answer(answer: Any, where: str) -> None:
    if not isinstance(answer, Mapping) or not answer.get("text"):
        raise InputError(f"{where}: answer must be a dictionary with a 'text'")
    for key in answer:
        if key not in ANSWER:
            raise InputError(
                f"{where}: answer has no '{key}'{suggest_similar_name(key, ANSWER)}; it has {', '.join(ANSWER)}"
            )
    for key in ("text", "bound", "missed", "one", "one_bound"):
        if key in answer and "{value}" not in str(answer[key]):
            raise InputError(f"{where}: answer.{key} must contain {{value}} for the figure, not '{answer[key]}'")


def _check_for_each(words: Any, where: str) -> None:
    if not isinstance(words, Mapping):
        raise InputError(f"{where}: for_each must be a dictionary of words with their values")
    for word, values in words.items():
        if not isinstance(values, list) and values not in LOOKED_UP:
            raise InputError(
                f"{where}: for_each.{word} must be a list or one of {', '.join(LOOKED_UP)}, not {values!r}"
            )


def _check_path(source: Mapping[str, Any], where: str) -> None:
    import jmespath

    for key in source:
        if key != JMESPATH:
            raise InputError(f"{where}: a source with {JMESPATH} has no '{key}'")
    try:
        jmespath.compile(str(source[JMESPATH]))
    except jmespath.exceptions.JMESPathError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{where}: '{source[JMESPATH]}' is not a JMESPath expression: {reason}") from error


def _check_function(source: Mapping[str, Any], where: str, functions: Functions) -> None:
    function = functions.get(source["function"])
    if function is None:
        known = ", ".join(functions)
        raise InputError(
            f"{where}: unknown function"
            f" '{source['function']}'{suggest_similar_name(source['function'], functions)}; known: {known}"
        )
    parameters = list(inspect.signature(function).parameters.values())[1:]
    known_arguments = [parameter.name for parameter in parameters]
    for key in source:
        if key != "function" and key not in known_arguments:
            raise InputError(
                f"{where}: function {source['function']} has no argument"
                f" '{key}'{suggest_similar_name(key, known_arguments)}; "
                f"it has {', '.join(known_arguments) or 'none'}"
            )
    for parameter in parameters:
        if parameter.default is inspect.Parameter.empty and parameter.name not in source:
            raise InputError(f"{where}: function {source['function']} needs the argument '{parameter.name}'")
