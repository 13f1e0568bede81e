"""No code decides by the wording of an error: what it depends on is the class of the error or an attribute of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "plugins").rglob("*.py"))
#: Methods and functions that ask what a text contains.
ASKING = ("startswith", "endswith", "find", "index", "count", "match", "search", "fullmatch", "findall", "finditer")
#: Texts of other programs that have no attribute for it: place -> why.
ALLOWED: dict[str, str] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def errors_of(function: Function) -> set[str]:
    """Names of errors in a function: those that it catches, and parameters that are annotated as one."""
    caught = {node.name for node in ast.walk(function) if isinstance(node, ast.ExceptHandler) and node.name}
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return caught | {
        one.arg
        for one in arguments
        if one.annotation and any(word in ast.unparse(one.annotation) for word in ("Error", "Exception"))
    }


def is_text(node: ast.AST, errors: set[str]) -> bool:
    """Whether an expression is the text of an error, such as str(error).lower()."""
    match node:
        case ast.Name(id=name):
            return name in errors
        case ast.JoinedStr(values=parts):
            return any(isinstance(part, ast.FormattedValue) and is_text(part.value, errors) for part in parts)
        case ast.Call(func=ast.Name(id="str" | "repr"), args=[argument, *_]):
            return is_text(argument, errors)
        case ast.Call(func=ast.Attribute(value=value)):
            return not isinstance(value, ast.Name) and is_text(value, errors)
        case ast.Subscript(value=ast.Attribute(value=value, attr="args")) | ast.Subscript(value=value):
            return is_text(value, errors)
    return False


def decisions(tree: ast.AST) -> Iterator[int]:
    """Lines of comparisons with the text of an error."""
    for function in (node for node in ast.walk(tree) if isinstance(node, Function)):
        errors, texts = errors_of(function), set[str]()
        for node in ast.walk(function) if errors else ():
            if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Name) and is_text(node.value, errors):
                texts |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        for node in ast.walk(function) if errors else ():
            parts: list[ast.expr] = []
            if isinstance(node, ast.Compare) and not isinstance(node.ops[0], ast.Is | ast.IsNot):
                parts = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ASKING:
                parts = [node.func.value, *node.args]
            inner = [each for part in parts for each in ast.walk(part)]
            if any(
                each.id in texts if isinstance(each, ast.Name) else isinstance(each, ast.expr) and is_text(each, errors)
                for each in inner
            ):
                yield node.lineno


@pytest.mark.parametrize(
    "code",
    [
        "if 'refused' in str(error): return 1",
        "return 'refused' not in str(error).lower()",
        "if str(error).startswith('x'): return 1",
        "return re.search('x', str(error))",
        "return error.args[0] == 'x'",
        "text = str(error).lower()\n        return 'x' in text",
        "text = f'{error}'\n        return text == 'x'",
        "return next((one for one in NAMES if one in str(error)), '')",
    ],
)
def test_a_decision_by_the_wording_of_an_error_is_found(code: str) -> None:
    function = f"def f():\n    try:\n        g()\n    except ValueError as error:\n        {code}\n"
    assert list(decisions(ast.parse(function)))


@pytest.mark.parametrize(
    "code",
    [
        "raise InputError(f'x: {error}') from error",
        "return error.status == 404",
        "return isinstance(error, OSError)",
        "notes.append(str(error))",
        "text = str(error)\n        return text",
        "return error.strerror or str(error)",
    ],
)
def test_a_message_with_the_text_of_an_error_is_allowed(code: str) -> None:
    function = f"def f():\n    try:\n        g()\n    except ValueError as error:\n        {code}\n"
    assert not list(decisions(ast.parse(function)))


def test_no_code_decides_by_the_wording_of_an_error() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in SOURCES
        for line in decisions(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    }
    assert sorted(one for one in found if one.rpartition(":")[0] not in ALLOWED) == []
    assert {one.rpartition(":")[0] for one in found} >= set(ALLOWED), "what is allowed is needed"
