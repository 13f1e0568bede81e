"""Placeholders in component files."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.component_spec import (
    replace_placeholders,
)
from hypothesis import given
from hypothesis import strategies as st


def test_a_placeholder_becomes_its_value() -> None:
    assert replace_placeholders("--port=@{port.a.b} @{data}", {"port.a.b": 5, "data": "/x"}, "f") == "--port=5 /x"


def test_go_templates_and_shell_braces_are_left_alone() -> None:
    text = "{{ .name }} ${HOME} {a: 1} @ {x}"
    assert replace_placeholders(text, {}, "f") == text


def test_an_unknown_placeholder_names_file_and_nearest() -> None:
    with pytest.raises(InputError, match=r"kwok.yml: unknown placeholder '@\{date\}' \(did you mean 'data'\?\)"):
        replace_placeholders("@{date}", {"data": 1}, "kwok.yml")


@given(st.dictionaries(st.from_regex(r"[a-z][a-z.-]{0,8}", fullmatch=True), st.integers(), max_size=5))
def test_every_value_arrives_and_nothing_is_left(values: dict[str, int]) -> None:
    text = " ".join(f"@{{{name}}}" for name in values)
    assert replace_placeholders(text, values, "f").split() == [str(one) for one in values.values()]
