# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths into a tree of dictionaries and lists: ``a.b``, ``tolerations[0].key``, ``limits["nvidia.com/gpu"]``."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

Path = tuple[str | int, ...]

_STEP = re.compile(
    r"""\.?(?P<name>[^.\[\]"']+) | \[(?P<index>\d+)\] | \[(?P<quote>["'])(?P<quoted>.*?)(?P=quote)\]""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r"""^[^.\[\]"']+$""")


class PathError(InputError):
    """A path that can't be parsed, or that does not exist in this tree."""


def parse_dotted_path(text: str) -> Path:
    """Split a dotted key into its steps: names (str) and list positions (int).

    Raises PathError for invalid text: empty, an extra dot, an open bracket.
    """
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        first = at == 0
        if not match or (first and text.startswith(".")) or (not first and match["name"] and text[at] != "."):
            raise PathError(f"'{text}' is not a valid dotted key: it can't be parsed from '{text[at:]}' on")
        if match["index"] is not None:
            steps.append(int(match["index"]))
        else:
            steps.append(match["name"] if match["name"] is not None else match["quoted"])
        at = match.end()
    if not steps:
        raise PathError("an empty text is not a valid dotted key")
    return tuple(steps)


def format_dotted_path(path: Path) -> str:
    """Return the canonical text of a path, which provenance uses; parse(render(p)) == p."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.match(step):
            text += f".{step}" if text else step
        else:
            quote = "'" if '"' in step else '"'
            text += f"[{quote}{step}{quote}]"
    return text


def get_value(tree: Any, path: Path) -> Any:
    """Return the value at ``path``. Raises PathError naming the missing step and the nearest existing one."""
    here = tree
    for depth, step in enumerate(path):
        parent = format_dotted_path(path[:depth]) or "the settings"
        if isinstance(step, str) and isinstance(here, dict):
            if step not in here:
                raise PathError(f"no '{step}' in {parent}{suggest_similar_name(step, here)}")
            here = here[step]
        elif isinstance(step, int) and isinstance(here, list):
            if step >= len(here):
                raise PathError(f"no [{step}] in {parent}: it has {len(here)} items")
            here = here[step]
        else:
            raise PathError(f"no '{step}' in {parent}: that is {_describe_value_type(here)}")
    return here


def with_value_replaced(tree: Any, path: Path, value: Any) -> Any:
    """Return a copy of ``tree`` with ``value`` at ``path``; all other branches are shared, not copied.

    The path must exist: a key is never created. Raises PathError as get_value().
    """
    get_value(tree, path)
    return _copy_with_value(tree, path, value)


def with_value_created(tree: Any, path: Path, value: Any) -> Any:
    """Return what with_value_replaced() does, after creating the keys of dictionaries that are missing on the path."""
    if not path or not isinstance(tree, dict):
        return with_value_replaced(tree, path, value)
    return {**tree, path[0]: with_value_created(tree.get(path[0], {}), path[1:], value)}


def _copy_with_value(tree: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    copy = tree.copy()
    copy[step] = _copy_with_value(tree[step], rest, value)
    return copy


def _describe_value_type(value: Any) -> str:
    names: dict[type, str] = {
        dict: "a dictionary",
        list: "a list",
        type(None): "null",
        bool: "a truth value",
        str: "text",
    }
    return next((text for kind, text in names.items() if isinstance(value, kind)), "a number")
