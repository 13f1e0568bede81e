# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that look like settings of ours and are none."""

from __future__ import annotations

import awx_survey_rules
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    project_role,
    settings_catalogue,
    settings_from_ansible,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import Catalogue, Setting

CATALOGUE = Catalogue(
    {
        name: Setting(name, role)
        for name, role in (("workload_rate", "workload"), ("workload_scale_count", "workload_scale"))
    },
    ("workload", "workload_scale"),
    frozenset({"workload_templates"}),
)


def test_a_variable_belongs_to_the_role_with_the_longest_prefix() -> None:
    assert CATALOGUE.role_of("workload_scale_x") == "workload_scale"
    assert CATALOGUE.role_of("workload_x") == "workload"
    assert CATALOGUE.role_of("other_x") == ""


@pytest.mark.parametrize(
    "name",
    [
        "workload_rate",
        "preset",
        "overrides",
        "matrix",
        "run_dir",
        "common_presets_lab",
        "fine_presets_mine",
        "ansible_user",
        "somebody_elses",
    ],
)
def test_settings_words_presets_and_others_variables_pass(name: str) -> None:
    CATALOGUE.check_names([name], "fine", "-e")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("workload_raet", "unknown setting 'workload_raet' of role workload (did you mean 'workload_rate'?)"),
        (
            "workload_scale_cuont",
            "unknown setting 'workload_scale_cuont' of role workload_scale (did you mean 'workload_scale_count'?)",
        ),
        ("workload_templates", "is set by the playbook itself"),
        ("presets", "unknown setting 'presets' (did you mean 'preset'?)"),
        ("workload_rate.x", '-e \'{"overrides": {"workload_rate.x": <value>}}\''),
    ],
)
def test_what_looks_like_a_setting_and_is_none_is_refused(name: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        CATALOGUE.check_names([name], "fine", "-e")
    assert words in str(caught.value)
    assert str(caught.value).startswith("-e: ")


def test_what_awx_gives_to_each_job_is_no_setting_and_none_of_ours_misspelt() -> None:
    known = settings_catalogue.load_catalogue(project_role.ROOT)
    given = {**awx_survey_rules.job_variables(35, workflow=34), "awx_a_later_version": 1, "tower_objects": 1}
    known.check_names(given, "fine_tuning", "-e")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("awx_objects_revison", "awx_objects_revision"),
        ("awx_object_revision", "awx_objects_revision"),
        ("awx_objetcs_image", "awx_objects_image"),
        ("awxobjects_projects", "awx_objects_projects"),
    ],
)
def test_a_misspelt_setting_of_the_role_for_awx_is_refused(name: str, meant: str) -> None:
    known = settings_catalogue.load_catalogue(project_role.ROOT)
    with pytest.raises(InputError, match=rf"did you mean '{meant}'"):
        known.check_names([name], "fine_tuning", "-e")


PHASES = ["settings", "prepare", "test", "cleanup"]


@pytest.mark.parametrize(
    ("run", "skip", "expected"),
    [
        (["all"], [], PHASES),
        (["settings"], [], ["settings"]),
        (["test", "prepare"], [], ["prepare", "test"]),
        (["all"], ["cleanup"], ["settings", "prepare", "test"]),
    ],
)
def test_tags_choose_phases(run: list, skip: list, expected: list) -> None:
    assert settings_from_ansible.phases_selected_by_tags(PHASES, run, skip) == expected


def test_a_tag_that_is_no_phase_is_refused() -> None:
    with pytest.raises(InputError, match=r"--tags tset: no phase has this name \(did you mean 'test'\?\)"):
        settings_from_ansible.phases_selected_by_tags(PHASES, ["tset"], [])
    with pytest.raises(InputError, match="--skip-tags cleanpu"):
        settings_from_ansible.phases_selected_by_tags(PHASES, ["all"], ["cleanpu"])


def test_a_name_in_capitals_is_recognised() -> None:
    assert suggest_similar_name("LIGHT", ["gpu", "light"]) == " (did you mean 'light'?)"
    assert suggest_similar_name("WORKLOAD_RATE", CATALOGUE.settings) == " (did you mean 'workload_rate'?)"
    assert suggest_similar_name("XYZ", ["gpu", "light"]) == ""


def test_tasks_with_and_without_a_project_of_ours_share_one_catalogue() -> None:
    ours = project_role.find_role("fine_tuning")
    assert settings_catalogue.load_catalogue(project_role.ROOT, ours) is settings_catalogue.load_catalogue(
        project_role.ROOT
    )
