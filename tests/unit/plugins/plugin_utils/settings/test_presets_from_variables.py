# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which presets there are: names, descriptions, replaced ones, those that edit others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    presets_from_variables,
    settings_catalogue,
    settings_from_ansible,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import SettingsError

ROOT = Path(__file__).parents[5]
CATALOGUE = settings_catalogue.load_catalogue(ROOT)
SHIPPED = {"fine_tuning_presets": {"light": {"description": "All phases", "fine_tuning_count": 12}}}


def request(presets: dict[Any, Any], asked: str, **more: Any) -> Any:
    variables = {**SHIPPED, "fine_tuning_presets_lab": presets, "preset": asked, **more}
    return settings_from_ansible.request_of_new_run("fine_tuning", variables, {}, {}, CATALOGUE)


@pytest.mark.parametrize("nothing", [None, {}, {"description": "nothing"}])
def test_a_preset_that_sets_nothing_is_known(nothing: Any) -> None:
    found = request({"empty": nothing}, "empty")
    assert found.presets == ("empty",)
    assert "empty" in found.definitions_of_presets()


@pytest.mark.parametrize("name", ["a/b", "", "a b", "../up", "list", ".hidden"])
def test_a_name_that_no_directory_or_command_line_can_have_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=f"fine_tuning_presets_lab: '{name}' can't be the name of a preset"):
        request({name: {"extends": "light"}}, "light")


def test_a_number_is_a_name(tmp_path: Path) -> None:
    assert request({5: {"fine_tuning_count": 1}}, "5").presets == ("5",)


@pytest.mark.parametrize("key", ["light.fine_tuning_count", "fine_tuning_presets.light.fine_tuning_count"])
def test_a_preset_that_edits_another_is_told_what_to_write(key: str) -> None:
    words = r"nothing can change another preset.*\{extends: \[light\], fine_tuning_count: <value>\}"
    with pytest.raises(SettingsError, match=f"preset mine sets '{key}', and {words}"):
        request({"mine": {key: 3}}, "mine")
    with pytest.raises(SettingsError, match=f"overrides sets '{key}', and {words}"):
        request({}, "light", overrides={key: 3})


def test_a_preset_that_replaces_another_is_named_with_both_places() -> None:
    variables = {**SHIPPED, "fine_tuning_presets_lab": {"light": {}, "mine": {"extends": "light"}}}
    found = presets_from_variables.common_and_project_presets(variables, "fine_tuning")
    expected = "preset light of fine_tuning_presets_lab is used; it replaces that of fine_tuning_presets"
    assert presets_from_variables.describe_replaced_presets(found, ["mine"]) == [expected]
    assert presets_from_variables.describe_replaced_presets(found, ["none"]) == []


def test_the_list_shows_each_preset_of_each_project_in_one_line() -> None:
    variables = {
        **SHIPPED,
        "fine_tuning_presets_lab": {"mine": {"extends": ["light"], "fine_tuning_rate": 2}, "empty": None},
        "common_presets": {"keep": {"description": "Keep\nall", "heavy": True}},
        "other_presets_lab": {"x": {"other_count": 1}},
        "no_presets_at_all": "text",
    }
    assert presets_from_variables.preset_listing_of_all_projects(variables, "fine_tuning") == [
        "Presets of fine_tuning:",
        "  light  All phases",
        "  mine   extends light; sets fine_tuning_rate",
        "  empty  sets nothing",
        "Presets for all projects:",
        "  keep  Keep all (heavy)",
        "Presets of other:",
        "  x  sets other_count",
    ]


PRESET_FILES = sorted((ROOT / "group_vars" / "all").glob("*_presets*.yml"))


@pytest.mark.parametrize("path", PRESET_FILES, ids=lambda path: path.stem)
def test_each_shipped_preset_says_what_it_does(path: Path) -> None:
    presets = yaml.safe_load(path.read_text(encoding="utf-8"))[path.stem]
    assert {name for name, values in presets.items() if not 10 < len(values.get("description", "")) <= 130} == set()


def test_an_unknown_preset_that_another_project_has_is_named_with_that_project() -> None:
    variables = {"preset": "racks", "fine_tuning_presets": {"light": {}}, "scheduler_presets_lab": {"racks": {}}}
    with pytest.raises(SettingsError, match="unknown preset 'racks'.*; project scheduler has a preset of this name"):
        settings_from_ansible.request_of_new_run("fine_tuning", variables, {}, {}, CATALOGUE)
    with pytest.raises(SettingsError) as caught:
        settings_from_ansible.request_of_new_run("fine_tuning", {**variables, "preset": "none"}, {}, {}, CATALOGUE)
    assert "project scheduler" not in str(caught.value)
