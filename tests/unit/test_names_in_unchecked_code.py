# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Code that mypy does not check uses names that the collection has: plugins beside playbooks, programs in texts."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = sorted((ROOT / "playbooks" / "callback_plugins").glob("*.py"))
COLLECTION = "ansible_collections.perfscale.seatrial."


def text_of(node: ast.AST) -> str:
    """Return a text of a source, with 0 where a value is put in; empty for what is no text."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "0" for part in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"\{\w+(![rs])?\}", "0", node.value)
    return ""


def programs() -> Iterator[tuple[str, str]]:
    """File and text of each program that a test starts and that imports of the collection."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if path == Path(__file__) or COLLECTION not in source:
            continue
        tree = ast.parse(source)
        parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            text = "" if id(node) in parts else text_of(node)
            if f"from {COLLECTION}" in text and "\n" in text:
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", textwrap.dedent(text)


PROGRAMS = dict(programs())


def names_used(source: str) -> list[tuple[str, object, str]]:
    """Return name, module and attribute of each use of a module of the collection. Raises ImportError."""
    tree = ast.parse(source)
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(COLLECTION):
            for name in node.names:
                package = importlib.import_module(str(node.module))
                modules[name.asname or name.name] = (
                    getattr(package, name.name)
                    if hasattr(package, name.name)
                    else importlib.import_module(f"{node.module}.{name.name}")
                )
    return [
        (node.value.id, modules[node.value.id], node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules
    ]


def names_that_are_missing(source: str) -> list[str]:
    return [f"{name}.{attribute}" for name, module, attribute in names_used(source) if not hasattr(module, attribute)]


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: path.name)
def test_what_a_plugin_uses_of_the_collection_exists(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert names_used(source)
    assert names_that_are_missing(source) == []


@pytest.mark.parametrize("place", PROGRAMS)
def test_what_a_program_in_a_text_uses_of_the_collection_exists(place: str) -> None:
    assert names_that_are_missing(PROGRAMS[place]) == []
