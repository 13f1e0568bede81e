# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Presets over a tree: order, extends at its position, errors. The table is that of a system that teams know."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import (
    ResolvedSettings,
    SettingsError,
    apply_setting_changes,
    changes_of_layer,
    parse_preset_names,
    setting_changes_of_preset,
)
from hypothesis import given
from hypothesis import strategies as st

BASE = {"a": {"x": 0, "y": 0}, "list": [{"key": "k"}], "limits": {"nvidia.com/gpu": 0}}


def resolve(presets: dict, names: Sequence[str], overrides: dict) -> ResolvedSettings:
    changes = [change for name in names for change in setting_changes_of_preset(presets, name)]
    return apply_setting_changes(ResolvedSettings(dict(BASE)), [*changes, *changes_of_layer("overrides", overrides)])


def one(presets: dict, *names: str, overrides: dict | None = None) -> dict:
    return resolve(presets, names, overrides or {}).settings


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ({"extends": ["p"], "a.x": "child"}, "child"),
        ({"a.x": "child", "extends": ["p"]}, "p"),
        ({"extends": "p"}, "p"),
    ],
)
def test_extends_is_applied_at_its_position_and_the_last_write_wins(preset: dict, expected: str) -> None:
    assert one({"p": {"a.x": "p"}, "it": preset}, "it")["a"]["x"] == expected


def test_presets_apply_in_the_order_given() -> None:
    presets = {"one": {"a.x": 1}, "two": {"a.x": 2}}
    assert one(presets, "one", "two")["a"]["x"] == 2
    assert one(presets, "two", "one")["a"]["x"] == 1


def test_overrides_win_over_presets() -> None:
    assert one({"p": {"a.x": "p"}}, "p", overrides={"a.x": "own"})["a"]["x"] == "own"


def test_a_dictionary_value_replaces_the_whole_old_one_and_may_hold_new_keys() -> None:
    assert one({"p": {"a": {"x": 1, "fresh": 2}}}, "p")["a"] == {"x": 1, "fresh": 2}


def test_dotted_keys_reach_lists_and_names_with_dots() -> None:
    found = one({"p": {"list[0].key": "new", 'limits["nvidia.com/gpu"]': 8}}, "p")
    assert found["list"] == [{"key": "new"}]
    assert found["limits"] == {"nvidia.com/gpu": 8}


def test_the_base_is_left_untouched() -> None:
    one({"p": {"a.x": 1, "list[0].key": 2}}, "p")
    assert BASE == {"a": {"x": 0, "y": 0}, "list": [{"key": "k"}], "limits": {"nvidia.com/gpu": 0}}


def test_a_cycle_is_an_error_that_names_the_chain() -> None:
    presets = {"a": {"extends": ["b"]}, "b": {"extends": ["c"]}, "c": {"extends": ["b"]}}
    with pytest.raises(SettingsError, match="preset cycle: a -> b -> c -> b"):
        one(presets, "a")


@pytest.mark.parametrize("value", [None, 5, {"a": "b"}, [["p"]], [None], [5], True])
def test_extends_that_names_no_preset_is_one_error(value: object) -> None:
    with pytest.raises(SettingsError, match="preset it: extends needs the name of a preset or a list of names, got"):
        one({"p": {"a.x": 1}, "it": {"extends": value}}, "it")


def test_extends_takes_names_as_preset_does() -> None:
    assert one({"p": {"a.x": 1}, "q": {"a.y": 2}, "it": {"extends": "p, q"}}, "it")["a"] == {"x": 1, "y": 2}


def test_a_chain_of_presets_may_be_long() -> None:
    presets: dict = {f"p{number}": {"extends": f"p{number + 1}"} for number in range(1200)}
    assert one({**presets, "p1200": {"a.x": 1}}, "p0")["a"]["x"] == 1


def test_what_follows_extends_comes_after_it() -> None:
    presets = {"p": {"a.x": 1}, "q": {"a.x": 2}, "it": {"a.x": 0, "extends": ["p", "q"], "a.y": 3}}
    assert [change.value for change in resolve(presets, ["it"], {}).changes] == [0, 1, 2, 3]


def test_a_preset_may_be_extended_twice_without_being_a_cycle() -> None:
    presets = {
        "root": {"a.x": 1},
        "l": {"extends": "root"},
        "r": {"extends": "root", "a.y": 2},
        "top": {"extends": ["l", "r"]},
    }
    assert one(presets, "top")["a"] == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("presets", "names", "overrides", "words"),
    [
        ({"light": {}}, ["lihgt"], {}, ["unknown preset 'lihgt'", "did you mean 'light'?"]),
        ({"light": {}, "soak": {}}, ["smoke"], {}, ["unknown preset 'smoke' (it is now 'light'); known: light, soak"]),
        ({"p": {"extends": "gang"}, "light": {}}, ["p"], {}, ["'gang', extended by p (it is now 'light')"]),
        ({"soak": {}}, ["smoke"], {}, ["unknown preset 'smoke' (did you mean 'soak'?)"]),
        ({"p": {"extends": ["lihgt"]}, "light": {}}, ["p"], {}, ["unknown preset 'lihgt', extended by p", "'light'"]),
        ({"p": {"a.xx": 1}}, ["p"], {}, ["preset p sets the unknown key 'a.xx'", "did you mean 'x'?"]),
        (
            {"q": {"lisst": 1}, "p": {"extends": "q"}},
            ["p"],
            {},
            ["preset p -> q sets the unknown setting 'lisst'", "'list'"],
        ),
        ({}, [], {"zz": 1}, ["overrides sets the unknown setting 'zz'"]),
        ({"p": {"a..x": 1}}, ["p"], {}, ["preset p", "'a..x' is not a valid dotted key"]),
    ],
)
def test_what_is_unknown_is_named_with_its_chain_and_the_nearest_name(presets, names, overrides, words) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve(presets, names, overrides)
    for word in words:
        assert word in str(caught.value)


def test_every_change_is_kept_in_order() -> None:
    presets = {"p": {"extends": "q", "a.x": 2}, "q": {"a.x": 1}}
    found = resolve(presets, ["p"], {"a.x": 3})
    assert [(change.source, change.value) for change in found.changes] == [
        ("preset p -> q", 1),
        ("preset p", 2),
        ("overrides", 3),
    ]


def test_two_spellings_of_a_key_are_one_path() -> None:
    found = resolve({"p": {"limits['nvidia.com/gpu']": 1}}, ["p"], {'limits["nvidia.com/gpu"]': 2})
    assert {change.path for change in found.changes} == {("limits", "nvidia.com/gpu")}


@pytest.mark.parametrize("value", ["a,b", "a b", "a, b", ["a", "b"], ["a,b"], ("a", "b")])
def test_preset_names_mean_the_same_however_they_are_given(value) -> None:
    assert parse_preset_names(value) == ["a", "b"]


@given(st.lists(st.tuples(st.sampled_from(["a.x", "a.y", "list[0].key"]), st.integers()), max_size=8))
def test_the_last_write_of_each_key_stands(writes) -> None:
    presets = {f"p{number}": {key: value} for number, (key, value) in enumerate(writes)}
    found = resolve(presets, list(presets), {})
    for key, value in dict(writes).items():
        assert [change.value for change in found.changes if change.key == key][-1] == value
    last = dict(writes)
    assert found.settings["a"] == {"x": last.get("a.x", 0), "y": last.get("a.y", 0)}
