# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Directives: what texts ask for, by the grammar of TOPSAIL's, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci.pull_request_directives import (
    DEEPEST,
    LONGEST,
    MOST_ARGUMENTS,
    Directives,
    TextWithDirectives,
    is_comment_for_test,
    parse_directives,
)
from hypothesis import given
from hypothesis import strategies as st

NAME = "light"
STEPS = ("prepare", "test", "cleanup")


def asked(body: str = "", comment: str | None = None, test: str = NAME) -> Directives:
    texts = [TextWithDirectives("the text", body)]
    return parse_directives(
        [*texts, TextWithDirectives("the comment", comment, comment=True)] if comment is not None else texts, test
    )


# body, comment, what TOPSAIL's parser gives: arguments, variables, steps and whether only those, project, cluster.
SAMPLES: list[tuple[str, str | None, dict[str, Any]]] = [
    ("", "/test light", {}),
    ("", "/test light fine_tuning", {"arguments": ["fine_tuning"]}),
    ("", "/test light fine_tuning ibm_40gb_models", {"arguments": ["fine_tuning", "ibm_40gb_models"]}),
    ("", "/test light  fine_tuning   gpu ", {"arguments": ["fine_tuning", "gpu"]}),
    ("", "/test light a\n/test light b c", {"arguments": ["a", "b", "c"]}),
    ("", "/test other a\n/test light b", {"arguments": ["b"]}),
    ("", "/test lighter a", {}),
    ("", "say /test light a", {}),
    ("", " /test light a", {}),
    ("", "> /test light a", {}),
    ("", "/testing light a", {}),
    ("", "/test light a\r\n/var x: 1\r\n", {"arguments": ["a"], "variables": {"x": 1}}),
    ("/test light a", None, {}),
    ("/test light a", "/test light b", {"arguments": ["b"]}),
    ("/var x: 1", None, {"variables": {"x": 1}}),
    ("/var x: 1", "/test light\n/var x: 2", {"variables": {"x": 2}}),
    ("/var x: 1\n/var y: 2", "/test light\n/var x: 3", {"variables": {"x": 3, "y": 2}}),
    ("", "/var x: 1\n/var x: 2", {"variables": {"x": 2}}),
    ("", "/var x: 1.5", {"variables": {"x": 1.5}}),
    ("", "/var x: true", {"variables": {"x": True}}),
    ("", "/var x: false", {"variables": {"x": False}}),
    ("", "/var x: null", {"variables": {"x": None}}),
    ("", "/var x:", {"variables": {"x": None}}),
    ("", "/var x: text", {"variables": {"x": "text"}}),
    ("", '/var x: "1"', {"variables": {"x": "1"}}),
    ("", "/var x: '{{ y }}'", {"variables": {"x": "{{ y }}"}}),
    ("", "/var x: [2, 4]", {"variables": {"x": [2, 4]}}),
    ("", "/var a.b.c: [2, 4]", {"variables": {"a.b.c": [2, 4]}}),
    ("", '/var a["b.c"]: {d: 1}', {"variables": {'a["b.c"]': {"d": 1}}}),
    ("", "/var x: {a: 1, b: [c, 2]}", {"variables": {"x": {"a": 1, "b": ["c", 2]}}}),
    ("", "/var {x: 1, y: 2}", {"variables": {"x": 1, "y": 2}}),
    ("", "/var x: 1 # why", {"variables": {"x": 1}}),
    ("", "/var x: a: b", {"error": "is not valid YAML"}),
    ("", "/var x: 10Gi", {"variables": {"x": "10Gi"}}),
    ("", "/skip prepare", {"steps": {"prepare": False}}),
    ("", "/skip prepare cleanup", {"steps": {"prepare": False, "cleanup": False}}),
    ("", "/only test", {"steps": {"test": True}, "only": True}),
    ("", "/only prepare test", {"steps": {"prepare": True, "test": True}, "only": True}),
    ("/skip prepare", "/only prepare", {"steps": {"prepare": True}, "only": True}),
    ("/only prepare", "/skip prepare", {"steps": {"prepare": False}, "only": True}),
    ("/project a", None, {"project": "a"}),
    ("/project a", "/project b", {"project": "b"}),
    ("/cluster mac5", "/test light", {"cluster": "mac5"}),
    ("", "/cluster a\n/cluster b", {"cluster": "b"}),
    ("/lgtm\n/hold\n/retest\n/approve", "/test light a\n/cc @b", {"arguments": ["a"]}),
    ("/vars x: 1\n/skipping test\n/onlytest", None, {}),
    ("# Title\n\nText with /var x: 1 inside\n/var y: 1\n", None, {"variables": {"y": 1}}),
]


@pytest.mark.parametrize(("body", "comment", "expected"), SAMPLES)
def test_texts_ask_for_what_topsail_reads_in_them(body: str, comment: str | None, expected: dict[str, Any]) -> None:
    if "error" in expected:
        with pytest.raises(InputError, match=expected["error"]):
            asked(body, comment)
        return
    found = asked(body, comment)
    nothing: dict[str, Any] = {
        "arguments": [],
        "variables": {},
        "steps": {},
        "only": False,
        "project": "",
        "cluster": "",
    }
    assert {name: getattr(found, name) for name in nothing} == {**nothing, **expected}
    kinds = {name: type(value) for name, value in expected.get("variables", {}).items()}
    assert {name: type(value) for name, value in found.variables.items()} == kinds


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("", []),
        ("/skip prepare", ["prepare"]),
        ("/only test", ["prepare", "cleanup"]),
        ("/only test\n/skip cleanup", ["prepare", "cleanup"]),
        ("/only test cleanup\n/skip test", ["prepare", "test"]),
    ],
)
def test_steps_left_out(text: str, left_out: list[str]) -> None:
    assert asked(text).left_out(STEPS) == left_out


def test_without_a_name_of_the_test_every_line_counts_with_its_name() -> None:
    assert asked(comment="/test fine_tuning light", test="").arguments == ["fine_tuning", "light"]


def test_help_counts_in_a_comment_only() -> None:
    assert asked(comment="/help").help
    assert not asked(body="/help").help


def test_dates_stay_texts() -> None:
    assert asked(comment="/var x: 2026-11-22").variables == {"x": "2026-11-22"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/var", "/var in line 2 of the comment: '' is not of the form 'key: value'"),
        ("/var x", "'x' is not of the form 'key: value'"),
        ("/var [a]", "is not of the form 'key: value'"),
        ("/var x: [1", "is not valid YAML of one line"),
        ("/var x: {a: &a [1], b: *a}", "aliases are not accepted"),
        ("/var x: !!python/object/apply:os.system [id]", "is not valid YAML"),
        ("/var x: !!binary aGk=", "a bytes is not a valid value of a setting"),
        ("/var x: !!timestamp 2026-11-22", "a date is not a valid value of a setting"),
        ("/var x: !!set {a, b}", "a set is not a valid value of a setting"),
        ("/var x: !unsafe a", "is not valid YAML"),
        ("/var ? [a] : b", "is not valid YAML"),
        ("/var x: " + "9" * 5000, f"{LONGEST} are the most"),
        ("/var x: 0x" + "f" * 4000, "a number of 16000 bits; whole numbers are at most 9,223,372,036,854,775,807"),
        ("/var x: {a: [-0b" + "1" * 4000 + "]}", "whole numbers are at most"),
        ("/var x: .inf", "inf is not a finite number"),
        ("/var x: " + "[" * 1500 + "]" * 1500, "is not valid YAML"),
        ("/var x: " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), f"more than {DEEPEST} levels"),
        ("/var x: \x07", "is not valid YAML"),
        ("/skip", "/skip in line 2 of the comment: a step is missing"),
        ("/only ", "a step is missing"),
        ("/project", "a name is missing"),
        ("/cluster\t", "a name is missing"),
    ],
)
def test_an_incomplete_or_hostile_directive_is_refused_with_its_place(line: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        asked(comment=f"/test {NAME}\n{line}")
    assert words in str(caught.value) and "in line 2 of the comment" in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("content", "test", "expected"),
    [
        ("/test light a", "light", True),
        ("/test other", "light", False),
        ("/test other", "", True),
        ("/test", "", False),
        ("/help", "light", True),
        ("see /test light", "light", False),
        ("/var x: 1", "light", False),
    ],
)
def test_a_comment_addresses_a_test_by_its_name(content: str, test: str, expected: bool) -> None:
    assert is_comment_for_test(content, test) is expected


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=20)
KEYS = st.from_regex(r"[a-z_]{1,8}(\.[a-z]{1,5})?", fullmatch=True)
VALUES = st.recursive(
    SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_values_keep_their_types(values: dict[str, Any]) -> None:
    line = yaml.safe_dump(values, default_flow_style=True, width=float("inf"), allow_unicode=True).strip()
    assert asked(comment=f"/var {line}").variables == values


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_is_read_or_refused_with_an_input_error(body: str, comment: str) -> None:
    try:
        found = asked(body, comment)
    except InputError:
        return
    assert isinstance(found, Directives)


@given(
    st.lists(st.sampled_from(["/skip a", "/only b", "/var x: 1", "/project p", "text", "/test light z"]), max_size=8)
)
def test_other_lines_change_nothing(lines: list[str]) -> None:
    padded = [word for line in lines for word in (line, "nothing /var y: 2", " /skip c")]
    one, other = asked(comment="\n".join(lines)), asked(comment="\n".join(padded))
    one.origins.clear()
    other.origins.clear()
    assert one == other


def test_more_names_than_anyone_needs_are_refused() -> None:
    most = " ".join(["a"] * MOST_ARGUMENTS)
    assert len(asked(comment=f"/test light {most}").arguments) == MOST_ARGUMENTS
    with pytest.raises(InputError, match="/test in line 2 of the comment: 100 names are the most of all /test lines"):
        asked(comment=f"/test light {most}\n/test light b")
