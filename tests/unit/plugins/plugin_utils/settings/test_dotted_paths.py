# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dotted keys: reading, writing back, reaching into a tree."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import dotted_paths
from hypothesis import given
from hypothesis import strategies as st

names = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=8).filter(
    lambda text: not ("'" in text and '"' in text)
)
trees = st.recursive(
    st.integers() | st.none() | st.text(max_size=3),
    lambda inner: st.dictionaries(names, inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=12,
)


def leaves(tree: Any, above: dotted_paths.Path = ()) -> Iterator[tuple[dotted_paths.Path, Any]]:
    """Yield the path and the value of every leaf; an empty dictionary or list is a leaf."""
    if isinstance(tree, dict) and tree:
        for name, value in tree.items():
            yield from leaves(value, (*above, name))
    elif isinstance(tree, list) and tree:
        for number, value in enumerate(tree):
            yield from leaves(value, (*above, number))
    else:
        yield above, tree


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a", ("a",)),
        ("fine_tuning_hyper_parameters.r", ("fine_tuning_hyper_parameters", "r")),
        ("tolerations[0].key", ("tolerations", 0, "key")),
        ('limits["nvidia.com/gpu"]', ("limits", "nvidia.com/gpu")),
        ("limits['nvidia.com/gpu'].x", ("limits", "nvidia.com/gpu", "x")),
        ("a[1][2]", ("a", 1, 2)),
    ],
)
def test_a_dotted_key_is_split_into_its_steps(text: str, steps: tuple) -> None:
    assert dotted_paths.parse_dotted_path(text) == steps


@pytest.mark.parametrize("text", ["", ".a", "a.", "a..b", "a[", "a[x]", "a[-1]", 'a["b"', "a]b", "a[0]b"])
def test_what_is_no_dotted_key_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(dotted_paths.PathError, match="dotted key"):
        dotted_paths.parse_dotted_path(text)


@given(st.lists(names.filter(lambda name: True), min_size=1, max_size=4).map(tuple))
def test_rendered_paths_parse_back_to_the_same_steps(steps: tuple) -> None:
    assert dotted_paths.parse_dotted_path(dotted_paths.format_dotted_path(steps)) == steps


@given(trees.filter(lambda tree: isinstance(tree, dict) and tree))
def test_putting_changes_one_leaf_and_leaves_the_original_alone(tree: dict) -> None:
    before = copy.deepcopy(tree)
    for path, _value in list(leaves(tree)):
        changed = dotted_paths.with_value_replaced(tree, path, "new")
        assert dotted_paths.get_value(changed, path) == "new"
        assert tree == before
        others = {p: v for p, v in leaves(tree) if p != path}
        assert {p: v for p, v in leaves(changed) if p != path} == others


@given(trees.filter(lambda tree: isinstance(tree, dict)), st.lists(names, min_size=1, max_size=4).map(tuple))
def test_created_keys_keep_all_others(tree: dict, path: tuple) -> None:
    before = copy.deepcopy(tree)
    try:
        changed = dotted_paths.with_value_created(tree, path, "new")
    except dotted_paths.PathError as error:
        assert "that is" in str(error)  # a leaf on the way
    else:
        assert dotted_paths.get_value(changed, path) == "new"
        apart = {p: v for p, v in leaves(tree) if p[: len(path)] != path and p != path[: len(p)]}
        assert apart.items() <= dict(leaves(changed)).items()
    assert tree == before


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("hyper.rr", "no 'rr' in hyper (did you mean 'r'?)"),
        ("list[3]", "no [3] in list: it has 1 items"),
        ("hyper.r.x", "no 'x' in hyper.r: that is a number"),
        ("nothing.x", "no 'x' in nothing: that is null"),
        ("hyper[0]", "no '0' in hyper: that is a dictionary"),
    ],
)
def test_a_key_is_never_created_and_the_message_says_what_is_there(path: str, message: str) -> None:
    tree = {"hyper": {"r": 4}, "list": [1], "nothing": None}
    with pytest.raises(dotted_paths.PathError) as caught:
        dotted_paths.with_value_replaced(tree, dotted_paths.parse_dotted_path(path), 1)
    assert str(caught.value).startswith(message)
