"""Causes of failures: every error class is sorted."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import run_checks

PLUGINS = Path(__file__).parents[6] / "plugins"


def error_classes() -> set[str]:
    """Names of SeatrialError and of all classes that derive from it."""
    bases: dict[str, set[str]] = {}
    for path in PLUGINS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                names = {getattr(one, "id", getattr(one, "attr", "")) for one in node.bases}
                bases.setdefault(node.name, set()).update(names)
    found = {"SeatrialError"}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found


def test_each_error_class_is_sorted_once():
    assert not run_checks.INFRASTRUCTURE & run_checks.OTHER
    assert sorted(run_checks.INFRASTRUCTURE | run_checks.OTHER) == sorted(error_classes())


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        ("AccessError", True), ("LockLost", True), ("LeaseLost", True), ("WaitTimeout", False), ("InputError", False),
        ("ApiError", False), ("SomethingNew", False), ("", False), (None, False),
    ],
)  # fmt: skip
def test_causes(cause, expected):
    assert run_checks.is_infrastructure_error(cause) is expected
