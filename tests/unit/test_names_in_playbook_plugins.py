# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plugins beside playbooks, which mypy does not check, use only names that the modules of the collection have."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

PLUGINS = sorted((Path(__file__).resolve().parents[2] / "playbooks" / "callback_plugins").glob("*.py"))
COLLECTION = "ansible_collections.perfscale.seatrial."


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: path.name)
def test_what_a_plugin_uses_of_the_collection_exists(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
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
    used = [
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules
    ]
    assert used
    assert [f"{name}.{attribute}" for name, attribute in used if not hasattr(modules[name], attribute)] == []
