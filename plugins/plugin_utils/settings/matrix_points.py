# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The points of a matrix: the product of its lists, further points, and conditions by which points are skipped."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import limit_processor_time

from . import dotted_paths, setting_templates
from .setting_templates import Render, looks_like_template
from .settings_layers import SettingsError

#: Words of this file, see settings_catalogue.RESERVED.
MATRIX, POINTS, SKIP_IF = "matrix", "matrix_points", "matrix_skip_if"
#: Most points of a run. Each has a folder, and its settings are resolved before the run begins.
MOST_POINTS = 500
#: Methods of texts, lists and dictionaries that a condition may call.
_METHODS = frozenset({"startswith", "endswith", "lower", "upper", "strip", "split", "get", "keys", "values", "items"})
#: Filters whose first argument, or second after an attribute, names a filter or a test.
_OF_ELEMENTS = frozenset({"map", "select", "reject", "selectattr", "rejectattr"})
#: Filters and tests of Ansible that read nothing but their input.
_OF_ANSIBLE = frozenset({"bool", "difference", "intersect", "union", "regex_search", "split", "ternary", "version"})
#: Filters that make a text or a list of any size, for which a condition has no use.
_GROWING = frozenset({"batch", "center", "format", "indent", "replace", "slice", "urlize", "wordwrap", "xmlattr"})
#: Largest number in a product, which would repeat a text.
_LARGEST_FACTOR = 1_000_000
#: Seconds of processor time for a condition at a point.
CONDITION_LIMIT = 2.0
_TESTS_OF_ANSIBLE = frozenset({"match", "search", "regex", "contains", "subset", "superset"})


@dataclass(frozen=True)
class SettingsMatrix:
    """lists: dotted key -> values. points: further points. skip_if: conditions on the settings of a point."""

    lists: dict[str, list[Any]]
    points: tuple[dict[str, Any], ...] = ()
    skip_if: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, Any], given_names: Collection[str]) -> SettingsMatrix:
        """Return the matrix of resolved settings. given_names: dotted keys that the command line sets.

        Raises SettingsError for a matrix that cannot be measured.
        """
        lists = settings[MATRIX]
        for key, values in lists.items():
            if not isinstance(values, list) or not values:
                raise SettingsError(f"matrix: {key} needs a list of values to vary over, got {values!r}", key, MATRIX)
            _refuse_given(MATRIX, key, f"varies {key} over {values}", given_names)
        points = settings[POINTS] or []
        for number, point in enumerate(points):
            where = f"{POINTS}[{number}]"
            if not isinstance(point, Mapping) or not point:
                raise SettingsError(
                    f"{where} needs a dictionary of settings and their values, got {point!r}", POINTS, POINTS
                )
            for key, value in point.items():
                _refuse_given(where, key, f"sets {key} to {value!r}", given_names)
        conditions = settings[SKIP_IF] or []
        for number, text in enumerate(conditions):
            if looks_like_template(str(text)):
                raise SettingsError(
                    f"{SKIP_IF}[{number}]: '{text}' is a condition: write it without braces", SKIP_IF, SKIP_IF
                )
        _refuse_too_many(lists, len(points))
        matrix = cls(lists, tuple(dict(point) for point in points), tuple(str(condition) for condition in conditions))
        _refuse_twice(matrix)
        return matrix

    def combinations(self) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Yield name, values and source of each point: the product, then further points; without both, one point."""
        product = itertools.product(*self.lists.values()) if self.lists or not self.points else ()
        values = [dict(zip(self.lists, combination, strict=True)) for combination in product]
        for number, point in enumerate([*values, *self.points], start=1):
            word = MATRIX if number <= len(values) else POINTS
            yield f"{number:03d}", point, f"{word}, point {number:03d}"


def _matrix_error(word: str, message: str) -> SettingsError:
    return SettingsError(message, word, word)


def _refuse_given(where: str, key: Any, what: str, given_names: Collection[str]) -> None:
    word = where.partition("[")[0]
    try:
        path = dotted_paths.parse_dotted_path(str(key))
    except dotted_paths.PathError as error:
        raise SettingsError(f"{where}: {error}", key, word) from error
    clash = [name for name in given_names if _do_paths_overlap(dotted_paths.parse_dotted_path(name), path)]
    if clash:
        who = "the matrix" if where == MATRIX else where
        empty = "{}" if word == MATRIX else "[]"
        message = (
            f"{clash[0]} was given on the command line, and {who} {what}: leave one of them out,"
            f""" {word} with -e '{{"{word}": {empty}}}'"""
        )
        raise SettingsError(message, key, word)


def _refuse_too_many(lists: Mapping[str, Sequence[Any]], further: int) -> None:
    """The points are counted before the first one is made."""
    number = (math.prod(len(values) for values in lists.values()) if lists else 0) + further
    if number > MOST_POINTS:
        word = MATRIX if lists else POINTS
        sizes = " x ".join(f"{len(values)} of {key}" for key, values in lists.items())
        raise _matrix_error(
            word,
            f"{word} has {f'{number:,}' if number < 10**15 else 'more than 10^15'} points"
            f"{f' ({sizes})' if sizes else ''}, and a run has at most {MOST_POINTS:,}: leave out values, or"
            " make several runs",
        )


def _do_paths_overlap(path: dotted_paths.Path, other: dotted_paths.Path) -> bool:
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter] and path[0] != MATRIX


def _refuse_twice(matrix: SettingsMatrix) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []
    for name, values, source in matrix.combinations():
        same = [other for other, had in seen if had == values]
        if same and source.startswith(POINTS):
            raise _matrix_error(POINTS, f"{POINTS}: point {name} has the same values as point {same[0]}")
        seen.append((name, values))


def why_point_skipped(
    conditions: Sequence[str], settings: Mapping[str, Any], late: Collection[str], render: Render
) -> str:
    """Return the condition by which a point is skipped, an empty string if it is measured.

    late: settings whose values only the run defines. Raises SettingsError for a condition that cannot be evaluated.
    """
    for number, text in enumerate(conditions):
        where = f"{SKIP_IF}[{number}]"
        for name in _variables_in_condition(where, text):
            if name in late:
                raise _matrix_error(SKIP_IF, f"{where}: '{text}' names {name}, whose value only the run knows")
            if name not in settings:
                near = [setting for setting in settings if setting.endswith(f"_{name}")]
                like = f" (did you mean '{near[0]}'?)" if len(near) == 1 else suggest_similar_name(name, settings)
                raise _matrix_error(SKIP_IF, f"{where}: '{text}' names the unknown setting '{name}'{like}")
        try:
            with limit_processor_time(CONDITION_LIMIT, f"'{text[:60]}'"):
                result, _late = render("{{ true if (" + text + ") else false }}", settings)
        except InputError as error:
            raise _matrix_error(SKIP_IF, f"{where}: {error}") from error
        if result is True:
            return f"{where}: {text}"
    return ""


def _variables_in_condition(where: str, text: str) -> list[str]:
    """Return the variables in a condition. Raises SettingsError for one that is more than an expression of these."""
    from jinja2 import TemplateError

    template = "{{ (" + text + ") }}"
    try:
        if what := _what_is_more_than_compared(template):
            raise _matrix_error(SKIP_IF, f"{where}: '{text}' {what}: a condition only compares settings")
        return sorted(setting_templates.names_in_template(template))
    except TemplateError as error:
        raise _matrix_error(SKIP_IF, f"{where}: '{text}' is not a valid condition: {error}") from error


def _what_is_more_than_compared(template: str) -> str:
    """Return what a condition does beside comparing values, an empty string for nothing.

    It may come from a run directory or a bundle of somebody else, and must not call anything there.
    """
    from jinja2 import Environment, nodes

    tree = Environment().parse(template)
    output = tree.body[0] if len(tree.body) == 1 else None
    if not isinstance(output, nodes.Output) or len(output.nodes) != 1:
        return "is not one expression"
    for call in tree.find_all(nodes.Call):
        if not isinstance(call.node, nodes.Getattr) or call.node.attr not in _METHODS:
            return f"calls {getattr(call.node, 'name', getattr(call.node, 'attr', 'a value'))}"
    for attribute in tree.find_all(nodes.Getattr):
        if attribute.attr.startswith("_"):
            return f"reads {attribute.attr}"
    for made in tree.find_all((nodes.Mul, nodes.Pow, nodes.Mod)):
        if isinstance(made, nodes.Pow) or _may_be_text(made.left) or _may_be_text(made.right):
            return "makes a text or a power"
    for used in tree.find_all((nodes.Filter, nodes.Test)):
        names = [used.name, *(_name_of_inner_filter(used) if used.name in _OF_ELEMENTS else ())]
        for name in names:
            if name.removeprefix("ansible.builtin.") not in _filters_and_tests():
                return f"uses {name}, which is no filter or test for conditions"
    return ""


def _may_be_text(node: Any) -> bool:
    """Return whether the operand of a product may be a text or a list, which it would repeat, or a large number."""
    from jinja2 import nodes

    if isinstance(node, nodes.Const):
        return not isinstance(node.value, (int, float)) or abs(node.value) > _LARGEST_FACTOR
    return isinstance(node, (nodes.Concat, nodes.List, nodes.Filter))


def _filters_and_tests() -> set[str]:
    from jinja2 import defaults

    return {*defaults.DEFAULT_FILTERS, *defaults.DEFAULT_TESTS, *_OF_ANSIBLE, *_TESTS_OF_ANSIBLE} - _GROWING - {"attr"}


def _name_of_inner_filter(used: Any) -> list[str]:
    """Return the name of the filter or test that ``map`` and its like apply; one that is no constant has no name."""
    from jinja2 import nodes

    place = 1 if used.name.endswith("attr") else 0
    return [
        str(argument.value) if isinstance(argument, nodes.Const) else "a computed name"
        for argument in used.args[place : place + 1]
    ]


def refuse_all_points_skipped(reasons: Sequence[str]) -> None:
    """Raise SettingsError if each point is skipped. reasons: of each point, empty if it is measured."""
    if all(reasons):
        raise _matrix_error(SKIP_IF, f"{SKIP_IF} leaves no point of {len(reasons)}; the first: {reasons[0]}")
