# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credentials are added to a pull secret and removed again, and the rest stays byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import pull_secret_content
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
VALUES = st.dictionaries(st.sampled_from(["auth", "email", 'o"dd']), st.text(max_size=8) | st.lists(st.integers()))
AUTHS = st.dictionaries(NAMES, VALUES, max_size=4)
SPACES = st.text(" \t\r\n", max_size=3)


@st.composite
def secrets(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A pull secret as somebody may have written it: any spaces, any further keys, any escapes."""
    known = draw(AUTHS)
    others = draw(st.dictionaries(NAMES.filter(lambda name: name != "auths"), VALUES, max_size=2))
    keys = draw(st.permutations(["auths", *others]))
    ascii_only = draw(st.booleans())
    space = [draw(SPACES) for _number in range(6)]

    def text(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii_only, indent=draw(st.none() | st.integers(0, 3)))

    inner = f",{space[0]}".join(f"{text(name)}{space[1]}:{space[2]}{text(value)}" for name, value in known.items())
    bracket = f"{{{space[5]}{inner}{space[0]}}}"
    parts = [f"{text(key)}{space[3]}:{space[4]}{bracket if key == 'auths' else text(others[key])}" for key in keys]
    return f"{space[1]}{{{space[2]}{f'{space[3]},{space[4]}'.join(parts)}{space[5]}}}{space[0]}", known


@settings(max_examples=40, deadline=None)
@given(secrets(), AUTHS)
def test_removing_is_the_exact_inverse_of_merging(secret: tuple[str, dict[str, Any]], wanted: dict[str, Any]) -> None:
    text, known = secret
    new = {name: value for name, value in wanted.items() if name not in known}
    result = pull_secret_content.merge_registry_credentials(text, new)
    assert json.loads(result) == {**json.loads(text), "auths": {**known, **new}}
    assert pull_secret_content.without_added_credentials(result, new) == text
    assert result.startswith(text[: text.index("{")]) and len(result) >= len(text)


@settings(max_examples=25, deadline=None)
@given(secrets(), AUTHS, AUTHS)
def test_two_merges_are_removed_together(
    secret: tuple[str, dict[str, Any]], first: dict[str, Any], second: dict[str, Any]
) -> None:
    text, known = secret
    first = {name: value for name, value in first.items() if name not in known}
    second = {name: value for name, value in second.items() if name not in {**known, **first}}
    result = pull_secret_content.merge_registry_credentials(
        pull_secret_content.merge_registry_credentials(text, first), second
    )
    assert pull_secret_content.without_added_credentials(result, [*second, *first]) == text


def test_what_is_there_is_not_added_and_other_credentials_are_not_replaced() -> None:
    text = '{"auths": {"quay.io": {"auth": "CANARY"}}}'
    assert pull_secret_content.merge_registry_credentials(text, {"quay.io": {"auth": "CANARY"}}) == text
    with pytest.raises(InputError, match="other credentials for quay.io.*such as quay.io/<organisation>") as caught:
        pull_secret_content.merge_registry_credentials(text, {"quay.io": {"auth": "x"}})
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "CANARY", "[]", '{"auth": {}}', '{"auths": []}', '{"auths": {"a": {}}'])
def test_what_is_no_pull_secret_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(InputError, match="it must be JSON with a dictionary auths") as caught:
        pull_secret_content.parse_registry_credentials(text, "x")
    assert "CANARY" not in str(caught.value)


def test_a_key_that_is_there_twice_is_refused() -> None:
    with pytest.raises(InputError, match="the key auths twice"):
        pull_secret_content.merge_registry_credentials('{"auths": {}, "auths": {"a": {}}}', {"b": {}})


def test_credentials_that_are_not_in_their_place_are_not_removed() -> None:
    with pytest.raises(ValueError, match="b is not where it was put"):
        pull_secret_content.without_added_credentials('{"auths":{"a":{},"b":{}}}', ["b"])
