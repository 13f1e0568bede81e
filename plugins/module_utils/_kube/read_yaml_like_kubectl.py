# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads YAML as kubectl does, which turns each document into JSON.

kubectl's reader is neither YAML 1.1, which PyYAML reads, nor YAML 1.2: yes, no, on, off, y and n are truth values, 0755
and 0o755 are octal, but 1:30:00, a date and a single = are texts. Keys are texts, and 2.0 is the number 2.
"""

from __future__ import annotations

import base64
import functools
import math
import re
from collections.abc import Iterator
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    check_alias_expansion,
    check_number_of_yaml_values,
)

_TRUTHS = {
    word: truth
    for truth, words in ((True, "y yes true on"), (False, "n no false off"))
    for boolean in words.split()
    for word in (boolean, boolean.capitalize(), boolean.upper())
}
_BASES = {"0x": 16, "0o": 8, "0b": 2}
_DIGITS = {16: re.compile("[0-9a-fA-F]+"), 8: re.compile("[0-7]+"), 2: re.compile("[01]+")}
_DECIMAL = re.compile(r"0|[1-9][0-9]*")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
#: Whole numbers from which on a float is not written as an integer.
_LARGE = 1e21


def load_yaml_documents(text: str) -> list[Any]:
    """Return the documents of ``text``, without empty ones. Raises yaml.YAMLError."""
    import yaml

    try:
        check_number_of_yaml_values(text)
        return [document for document in yaml.load_all(text, Loader=_loader_class("*" in text)) if document is not None]
    except (RecursionError, ValueError) as error:
        raise yaml.YAMLError("it has too many levels" if isinstance(error, RecursionError) else str(error)) from error


def load_kubernetes_objects(text: str) -> list[Any]:
    """Return the objects of ``text``, those of a list of objects (kind: List) instead of it. Raises yaml.YAMLError."""
    return list(_flatten_lists(load_yaml_documents(text)))


def _flatten_lists(documents: list[Any]) -> Iterator[Any]:
    for document in documents:
        items = document.get("items", 0) if isinstance(document, dict) else 0
        if (items is None or isinstance(items, list)) and str(document.get("kind")).endswith("List"):
            yield from _flatten_lists(items or [])
        else:
            yield document


def load_first_document(text: str) -> Any:
    """Return the first document of ``text``, None if it is empty. Raises yaml.YAMLError."""
    import yaml

    loader = _loader_class("*" in text)(text)
    try:
        return loader.get_data() if loader.check_data() else None
    except RecursionError as error:
        raise yaml.YAMLError("it has too many levels") from error
    finally:
        loader.dispose()


def describe_yaml_error(error: Exception) -> str:
    """Return what is wrong in a text and in which line, without the text itself."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return f"line {mark.line + 1}: {problem or 'not YAML'}" if mark is not None else str(problem or error)


def parse_number_or_text(text: str) -> int | float | str:
    """Return the number that a plain scalar is, the text itself if it is none."""
    plain = text if text.startswith(".") else text.replace("_", "")
    sign, digits = (plain[:1], plain[1:]) if plain[:1] in ("+", "-") else ("", plain)
    value: int | None = None
    base = _BASES.get(digits[:2].lower())
    if base is not None and _DIGITS[base].fullmatch(digits[2:]):
        value = int(digits[2:], base)
    elif _DECIMAL.fullmatch(digits):
        value = int(digits) if len(digits) < 25 else None
    elif digits[:1] == "0" and _DIGITS[8].fullmatch(digits[1:]):
        value = int(digits[1:], 8)
    if value is not None:
        value = -value if sign == "-" else value
        if -(2**63) <= value < 2**63 or (not sign and value < 2**64):
            return value
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        if math.isfinite(number):
            return int(number) if number.is_integer() and abs(number) < _LARGE else number
    return text


def _invalid(node: Any, what: str) -> Exception:
    import yaml

    return yaml.constructor.ConstructorError(None, None, what, node.start_mark)


def _construct_mapping(loader: Any, node: Any) -> dict[str, Any]:
    loader.flatten_mapping(node)
    return {_construct_key(loader, key): loader.construct_object(value, deep=True) for key, value in node.value}


def _construct_key(loader: Any, node: Any) -> str:
    key = loader.construct_object(node, deep=True)
    if isinstance(key, bool):
        return "true" if key else "false"
    if not isinstance(key, (str, int, float)):
        raise _invalid(node, "a key must be a text")
    return str(key)


def _construct_scalar(loader: Any, node: Any) -> Any:
    return loader.construct_scalar(node)


def _construct_number(loader: Any, node: Any) -> Any:
    text = loader.construct_scalar(node)
    if _INFINITE.fullmatch(text):
        raise _invalid(node, f"{text} is no number that JSON has; put it into quotes")
    return parse_number_or_text(text)


def _construct_truth(loader: Any, node: Any) -> Any:
    text = loader.construct_scalar(node)
    return _TRUTHS.get(text, text)


def _construct_any(loader: Any, node: Any) -> Any:
    if node.id == "mapping":
        return _construct_mapping(loader, node)
    if node.id == "sequence":
        return [loader.construct_object(item, deep=True) for item in node.value]
    return loader.construct_scalar(node)


def _construct_binary(loader: Any, node: Any) -> str:
    try:
        return str(base64.b64decode(loader.construct_scalar(node), validate=False), "utf-8", "replace")
    except ValueError as error:
        raise _invalid(node, "it is not base64") from error


@functools.cache
def _loader_class(aliases: bool) -> Any:
    import yaml

    standard = "tag:yaml.org,2002:"
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class KubectlLoader(base):
        yaml_implicit_resolvers: dict[str, Any] = {}
        yaml_constructors: dict[Any, Any] = {}

        def construct_document(self, node: Any) -> Any:
            if aliases:
                check_alias_expansion(yaml, node)
            return super().construct_document(node)

    for tag, pattern, first in (
        ("bool", "|".join(_TRUTHS), "yYnNtTfFoO"),
        ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("merge", "<<", "<"),
        ("float", r"[-+.0-9][\s\S]*", "-+.0123456789"),
    ):
        KubectlLoader.add_implicit_resolver(standard + tag, re.compile(f"(?:{pattern})$"), list(first))
    constructors: dict[str, Any] = {
        "bool": _construct_truth,
        "null": lambda _loader, _node: None,
        "binary": _construct_binary,
        **dict.fromkeys(("float", "int"), _construct_number),
        **dict.fromkeys(("str", "timestamp", "merge", "value"), _construct_scalar),
    }
    for tag, constructor in constructors.items():
        KubectlLoader.add_constructor(standard + tag, constructor)
    KubectlLoader.add_constructor(None, _construct_any)  # mappings and sequences; other tags have no effect
    return KubectlLoader
