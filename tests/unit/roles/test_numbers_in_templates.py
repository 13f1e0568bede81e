"""Numbers, nulls and JSON in templates of tasks: what ansible-core 2.16 to 2.18 turn into another type.

There, a template that is one expression is text where newer versions return a number, an empty text where they return
null, and a list where they return JSON. Inside a larger expression each keeps its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from jinja2 import Environment, TemplateError, nodes

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("roles/*/tasks", "roles/*/vars", "playbooks", "skeletons/*/roles/*/tasks", "skeletons/*/roles/*/vars")
FILES = [path for one in FOLDERS for folder in sorted(ROOT.glob(one)) for path in sorted(folder.rglob("*.yml"))]
JINJA = Environment()
NUMBER_FILTERS = {"int", "float", "round", "length", "count", "sum", "abs"}

#: Dictionaries of which a module converts the values, because their types are in its argument spec.
CONVERTED = {"__node_scaling_single", "__gpu_operator_expect", "__nfd_nodes"}
#: Texts that are quantities of Kubernetes.
QUANTITIES = {"__scheduler_simulated_capacity"}


class Value(NamedTuple):
    """A text in a YAML file: where it is, the variable that it is part of, and how deep in it; "" for no variable."""

    place: str
    variable: str
    depth: int
    text: str


class Loader(yaml.SafeLoader):
    """Reads texts that are !unsafe, or of any other tag, as null."""


Loader.add_multi_constructor("!", lambda *_: None)


def values(node: Any, place: str, variable: str = "", depth: int = 0, names: bool = False) -> Iterator[Value]:
    """Yield all texts. names: whether the keys of the node are names of variables."""
    if isinstance(node, dict):
        for key, entry in node.items():
            inside = names or bool(variable)
            name = str(key) if names else variable
            of_names = key in ("vars", "ansible.builtin.set_fact") and not inside
            yield from values(entry, f"{place}.{key}", name, depth + 1 if inside and not names else 0, of_names)
    elif isinstance(node, list):
        for number, entry in enumerate(node):
            yield from values(entry, f"{place}[{number}]", variable, depth + 1 if variable else 0)
    elif isinstance(node, str):
        yield Value(place, variable, depth, node)


def all_values() -> list[Value]:
    found = []
    for path in FILES:
        place = str(path.relative_to(ROOT))
        document = yaml.load(path.read_text(encoding="utf-8"), Loader)
        found += values(document, place, names=path.parent.name == "vars")
    return found


def only_expression(text: str) -> nodes.Expr | None:
    """Return the expression of a template that is nothing else."""
    if "{{" not in text:
        return None
    try:
        body = JINJA.parse(text.strip()).body
    except TemplateError:
        return None
    if len(body) == 1 and isinstance(body[0], nodes.Output) and len(body[0].nodes) == 1:
        return body[0].nodes[0]
    return None


def changes_type(node: nodes.Node | None) -> bool:
    """Return whether an expression is a number or null, or may be one."""
    match node:
        case nodes.Const():
            return node.value is None or (isinstance(node.value, (int, float)) and not isinstance(node.value, bool))
        case nodes.Filter(name="default"):
            return changes_type(node.node) or any(map(changes_type, node.args[:1]))
        case nodes.Filter():
            return node.name in NUMBER_FILTERS
        case nodes.CondExpr():
            return changes_type(node.expr1) or changes_type(node.expr2)
        case nodes.Sub() | nodes.Mul() | nodes.Div() | nodes.FloorDiv() | nodes.Pow() | nodes.Neg():
            return True
        case nodes.Add() | nodes.Or() | nodes.And():
            return changes_type(node.left) or changes_type(node.right)
    return False


VALUES = all_values()


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("{{ x | int }}", True),
        ("{{ x | default(0) }}", True),
        ("{{ x if y else none }}", True),
        ("{{ x | int * 2 }}", True),
        ("{{ -1 }}", True),
        ("{{ x | int > 2 }}", False),
        ("{{ x | int }}s", False),
        ("{{ {'a': x | int} }}", False),
        ("{{ x | int | string }}", False),
        ("{{ x + [1] }}", False),
        ("{{ true }}", False),
    ],
)
def test_an_expression_that_changes_its_type_is_known(text: str, changed: bool) -> None:
    assert changes_type(only_expression(text)) is changed


def test_the_places_of_values_are_found() -> None:
    document = [{"name": "n", "vars": {"a": {"b": ["{{ 1 }}"]}, "c": "{{ 2 }}"}, "mod": {"o": {"p": "{{ 3 }}"}}}]
    found = {value.text: (value.variable, value.depth) for value in values(document, "f")}
    assert found == {"n": ("", 0), "{{ 1 }}": ("a", 2), "{{ 2 }}": ("c", 0), "{{ 3 }}": ("", 0)}
    assert len(VALUES) > 2000


def test_a_number_or_null_in_a_variable_is_part_of_an_expression_that_is_the_whole_variable() -> None:
    wrong = [
        f"{value.place}: {value.text}"
        for value in VALUES
        if value.depth and value.variable not in CONVERTED | QUANTITIES and changes_type(only_expression(value.text))
    ]
    assert wrong == [], "write the dictionary as one expression: ansible-core 2.16 to 2.18 return text here"


def test_a_variable_that_is_a_number_is_converted_where_it_is_used() -> None:
    numbers = {
        value.variable
        for value in VALUES
        if value.variable.startswith("__") and not value.depth and changes_type(only_expression(value.text))
    }
    assert "__workload_scale_whole" in numbers
    used = re.compile(rf"(?<!~ )\b({'|'.join(sorted(numbers))})\b(?! *\| *(?:int|float|string)\b)")
    wrong = [
        f"{value.place}: {found[1]}"
        for value in VALUES
        if ("{{" in value.text or "{%" in value.text or ".when" in value.place or ".that" in value.place)
        and (found := used.search(value.text))
        and only_expression(value.text) != nodes.Name(found[1], "load")  # handed on as it is
    ]
    assert wrong == []


def test_no_variable_is_compared_with_null_or_read_as_json() -> None:
    """A variable that a task or vars/ sets by a template: what a module returned is as it was."""
    templates = {value.variable for value in VALUES if value.variable and not value.depth and "{" in value.text}
    pattern = re.compile(r"([a-z_]\w*) (?:is (?:not )?none\b|\| from_json\b)")
    wrong = [f"{value.place}: {name}" for value in VALUES for name in pattern.findall(value.text) if name in templates]
    assert wrong == []
