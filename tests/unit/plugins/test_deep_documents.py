"""A JSON document with very many levels is no traceback: who expects one that can't be read, expects this one too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import untrusted_input

PLUGINS = Path(__file__).parents[3] / "plugins"


def direct_calls(path: Path) -> list[str]:
    """Return the places where a file calls the json package to parse."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        f"{path.relative_to(PLUGINS)}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("json.loads", "json.load")
    ]


def test_plugins_parse_json_by_the_one_function_that_refuses_too_many_levels() -> None:
    """json raises RecursionError for them, which is no ValueError."""
    places = [place for path in PLUGINS.rglob("*.py") for place in direct_calls(path)]
    own = [place for place in places if place.startswith("module_utils/_base/untrusted_input.py:")]
    plain = [place for place in places if place.startswith("module_utils/_base/files.py:")]
    assert own and len(plain) == 1, "files.to_plain_types parses what it has written itself"
    assert sorted(places) == sorted([*own, *plain])


@pytest.mark.parametrize("parse", [untrusted_input.parse_json, untrusted_input.parse_finite_json])
@pytest.mark.parametrize("level", [b"[", b'{"a":', b"[[{}],"])
def test_a_document_with_very_many_levels_is_a_value_error(parse, level: bytes) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse(level * 100_000)
