# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading JSON and YAML that others have written, and a limit of processor time for their templates and texts.

Whatever is wrong with JSON is a ValueError, also too many levels. A YAML document of some hundred bytes can stand for
billions of values, because an alias repeats a whole part of it.
"""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any

from .errors import DataError, InputError

#: A number that may be too large for a float, as 1e999.
_LARGE = re.compile(rb"[0-9][eE]\+?[0-9]{3,}\s*[,}\]]")


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON document. Raises ValueError."""
    return _without_recursion_error(json.loads, text)


def parse_finite_json(raw: bytes) -> Any:
    """Return the value of a JSON document. Raises ValueError also for NaN, Infinity, and what no float holds."""
    return _without_recursion_error(
        _decode_checking_numbers if _LARGE.search(raw) else _decode_without_constants, raw.decode()
    )


def _without_recursion_error(decode: Callable[[Any], Any], text: str | bytes) -> Any:
    try:
        return decode(text)
    except RecursionError as error:
        raise ValueError("the JSON document is nested too deeply") from error


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _refuse_constant(text)


_decode_without_constants = json.JSONDecoder(parse_constant=_refuse_constant).decode
_decode_checking_numbers = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode


#: Values that a document may have with its aliases expanded, if aliases make it more than EXPANSION times as large.
MOST_VALUES, EXPANSION = 100_000, 10


def parse_yaml(text: str, where: str, unsafe: type[str] = str) -> Any:
    """Return the document of ``text``, None for an empty text.

    Args:
        text: YAML with one document.
        where: Where it is from, for messages.
        unsafe: The type of texts with the tag ``!unsafe``.

    Raises:
        DataError: It is not YAML, has several documents, or its aliases expand to too many values.
    """
    documents = parse_yaml_documents(text, where, unsafe)
    if len(documents) > 1:
        raise DataError(f"{where}: not readable as YAML: it has {len(documents)} documents, and one is expected")
    return documents[0] if documents else None


def parse_yaml_documents(text: str, where: str, unsafe: type[str] = str) -> list[Any]:
    """Return all documents of ``text``. Arguments and errors are those of parse_yaml."""
    import yaml

    try:
        return list(yaml.load_all(text, _limited_loader_class(yaml, unsafe, "*" in text)))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError) as error:
        why = "it has too many levels" if isinstance(error, RecursionError) else error
        raise DataError(f"{where}: not readable as YAML: {why}") from error


def _limited_loader_class(yaml: Any, unsafe: type[str], aliases: bool) -> Any:
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class LimitedLoader(base):
        """A separate class: its constructors must not change other loaders."""

        def construct_document(self, node: Any) -> Any:
            # Before anything is constructed: merge keys (<<) are expanded then.
            if aliases:
                check_alias_expansion(yaml, node)
            return super().construct_document(node)

    LimitedLoader.add_constructor("!unsafe", lambda loader, node: unsafe(loader.construct_scalar(node)))
    return LimitedLoader


def check_alias_expansion(yaml: Any, top: Any) -> None:
    """Raise YAMLError if the document has too many values, or a part that contains itself."""
    size_by_node: dict[int, int] = {}
    path: list[tuple[Any, bool]] = [(top, False)]
    being_counted: set[int] = set()
    while path:
        node, counted = path.pop()
        if id(node) in size_by_node:
            continue
        children = _child_nodes(yaml, node)
        if counted:
            size_by_node[id(node)] = 1 + sum(size_by_node[id(child)] for child in children)
            being_counted.discard(id(node))
            continue
        being_counted.add(id(node))
        path.append((node, True))
        for child in children:
            if id(child) in being_counted:
                raise yaml.YAMLError("an alias refers to a part that contains it")
            path.append((child, False))
    size = size_by_node[id(top)]
    if size > MOST_VALUES and size > EXPANSION * len(size_by_node):
        raise yaml.YAMLError(
            f"its aliases expand {len(size_by_node):,} values to {_short_number(size)}, more than {MOST_VALUES:,}"
        )


def _short_number(number: int) -> str:
    return f"{number:,}" if number < 10**15 else "over 10^15"


def _child_nodes(yaml: Any, node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


#: Why a regular expression takes long.
HINT = "; a repeat in a repeat, as in (a+)+, takes for ever"


@contextmanager
def limit_processor_time(seconds: float, what: str, hint: str = HINT) -> Iterator[None]:
    """Raise InputError in a block that has used ``seconds`` of the process's processor time.

    what: begin of the sentence that says what took too long. hint: its end. Only the main thread of a process can be
    interrupted, and elsewhere the block has no limit. Python's regular expressions look for signals while they search.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: object) -> None:
        raise InputError(f"{what} took more than {seconds:g} s of processor time{hint}")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
