# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What presets of TOPSAIL make of a configuration: values that TOPSAIL's own code gave."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.topsail import topsail_configuration

CONFIG: dict[str, Any] = {
    "ci_presets": {
        "name": None,
        "p": {"a.x": "p"},
        "first": {"extends": ["p"], "a.x": "child"},
        "last": {"a.x": "child", "extends": ["p"]},
        "left": {"extends": ["p"], "b[1]": "left"},
        "right": {"extends": ["p"], "a.y": "right"},
        "diamond": {"extends": ["left", "right"]},
        "again": {"extends": ["first", "right"]},
        "whole": {"a": {"x": 1, "fresh": 2}},
        "edits": {'ci_presets.p["a.x"]': "edited", "extends": ["p"]},
        "loop1": {"extends": ["loop2"]},
        "loop2": {"extends": ["loop1"]},
        "orphan": {"extends": ["pp"]},
        "unknown": {"a.newkey": 1},
        "typing": {"a.z.k": 1},
    },
    "a": {"x": "base", "y": None},
    "b": [0, 1, 2],
    "refers": "@a.x",
    "text": "x is {@a.x} and {@b[2]}",
    "chain": {"one": "@text", "many": ["@refers"]},
    "round": "@round",
    "secret": "*$@a.x",
}


def value(key: str, *names: str) -> Any:
    return topsail_configuration.value_at_path(
        topsail_configuration.configuration_with_presets(CONFIG, names)[0], topsail_configuration.parse_key_path(key)
    )


@pytest.mark.parametrize(
    ("names", "key", "expected"),
    [
        ((), "a.x", "base"),
        (("first",), "a.x", "child"),
        (("last",), "a.x", "p"),
        (("first", "p"), "a.x", "p"),
        (("p", "first"), "a.x", "child"),
        (("diamond",), "b", [0, "left", 2]),
        (("diamond",), "a.y", "right"),
        (("again",), "a.x", "p"),
        (("whole",), "a", {"x": 1, "fresh": 2}),
        (("edits",), "a.x", "edited"),
        (("edits", "first"), "a.x", "child"),
        (("p",), "a.x", "p"),
    ],
)
def test_the_last_assignment_counts_and_extends_acts_at_its_position(
    names: tuple[str, ...], key: str, expected: Any
) -> None:
    assert value(key, *names) == expected


def test_the_configuration_itself_stays_as_it_is() -> None:
    topsail_configuration.configuration_with_presets(CONFIG, ["edits", "whole"])
    assert CONFIG["a"] == {"x": "base", "y": None} and CONFIG["ci_presets"]["p"] == {"a.x": "p"}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["loop1"], "presets extend each other: loop1 -> loop2 -> loop1"),
        (["orphan"], r"preset 'orphan' extends 'pp', which does not exist"),
        (["frist"], r"preset 'frist' does not exist \(did you mean 'first'\?\)"),
        (["unknown"], "preset 'unknown' sets a.newkey: there is no key 'newkey' in a"),
        (["typing"], "preset 'typing' sets a.z.k: there is no key 'z' in a"),
    ],
)
def test_what_cannot_be_applied_is_refused(names: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        topsail_configuration.configuration_with_presets(CONFIG, names)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("@refers", "base"),
        ("@text", "x is base and 2"),
        ({"k": ["@b"]}, {"k": [[0, 1, 2]]}),
        ("@chain", {"one": "x is base and 2", "many": ["base"]}),
        ("me@example.com", "me@example.com"),
        (7, 7),
    ],
)
def test_references_are_resolved(given: Any, expected: Any) -> None:
    assert topsail_configuration.resolve_references(CONFIG, given) == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("@round", "references lead in a circle: round -> round"),
        ("@secret", "refers to a secret"),
        ("@no", "no key 'no'"),
    ],
)
def test_a_reference_that_has_no_value_is_refused(given: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        topsail_configuration.resolve_references(CONFIG, given)


@pytest.mark.parametrize(
    ("value", "factor", "words"),
    [("x", 10, "more than 10,000 references are needed for one value"), ("x" * 500_000, 3, "more than 1,000,000 char")],
)
def test_references_that_multiply_are_refused(value: str, factor: int, words: str) -> None:
    levels = {f"a{number}": f"{{@l.a{number - 1}}}" * factor for number in range(1, 10)}
    with pytest.raises(InputError, match=words):
        topsail_configuration.resolve_references({"l": {"a0": value, **levels}}, "@l.a9")


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("a.b", ("a", "b")),
        ("a[0].b", ("a", 0, "b")),
        ('a["k.with.dots"].c', ("a", "k.with.dots", "c")),
        ("a['k']", ("a", "k")),
        ("$.a.b", ("a", "b")),
    ],
)
def test_keys_are_read_with_their_brackets(key: str, parts: tuple[Any, ...]) -> None:
    assert topsail_configuration.parse_key_path(key) == parts


@pytest.mark.parametrize("given", [[], {"a": 1}, {"ci_presets": []}])
def test_another_file_is_no_configuration(given: Any) -> None:
    with pytest.raises(InputError, match="no configuration of TOPSAIL"):
        topsail_configuration.check_configuration(given)
