"""A JSON document with very many levels is no traceback: who expects one that can't be read, expects this one too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PLUGINS = Path(__file__).parents[3] / "plugins"


def caught_names(block: ast.Try) -> set[str]:
    """Return the names of the exceptions that a block catches."""
    types = [handler.type or ast.Name("BaseException") for handler in block.handlers]
    nodes = [node for each in types for node in (each.elts if isinstance(each, ast.Tuple) else [each])]
    return {node.id if isinstance(node, ast.Name) else ast.unparse(node) for node in nodes}


def blocks_that_parse_json(tree: ast.AST) -> Iterator[ast.Try]:
    for block in ast.walk(tree):
        if isinstance(block, ast.Try):
            calls = [call for part in block.body for call in ast.walk(part) if isinstance(call, ast.Call)]
            if any(ast.unparse(call.func) in ("json.loads", "json.load") for call in calls):
                yield block


def test_who_catches_what_is_no_json_catches_too_many_levels() -> None:
    """json raises RecursionError for them, which is no ValueError."""
    blocks = [
        (path, block) for path in PLUGINS.rglob("*.py") for block in blocks_that_parse_json(ast.parse(path.read_text()))
    ]
    assert len(blocks) > 20
    wrong = [
        f"{path.relative_to(PLUGINS)}:{block.lineno}"
        for path, block in blocks
        if "ValueError" in (caught := caught_names(block))
        and not caught & {"RecursionError", "Exception", "BaseException"}
    ]
    assert not wrong
