# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Surveys that AWX accepts, of the settings and presets of a project."""

from __future__ import annotations

from typing import Any

import awx_survey_rules
import pytest
from ansible.parsing.dataloader import DataLoader
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import awx
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role, settings_catalogue

PROJECTS = ["fine_tuning", "scheduler", "users", "workload_scale"]


def survey(project: str, settings: list[str] | None = None) -> dict[str, Any]:
    role = project_role.find_role(project)
    catalogue = settings_catalogue.load_catalogue(project_role.ROOT, role)
    return awx.project_survey_spec(role, catalogue, awx.presets_by_name(role, {}, DataLoader()), settings)


@pytest.mark.parametrize("project", PROJECTS)
def test_awx_accepts_the_survey_of_each_project(project: str) -> None:
    made = survey(project)
    assert awx_survey_rules.refused(made) == ""
    names = [question["variable"] for question in made["spec"]]
    assert names[0] == "preset" and f"{project}_count" in names
    assert awx_survey_rules.errors(made, {}) == [], "a launch without an answer is possible"


@pytest.mark.parametrize("project", PROJECTS)
def test_no_question_has_a_default_because_it_would_override_every_preset(project: str) -> None:
    assert not [question for question in survey(project)["spec"] if "default" in question]


def test_questions_have_the_type_the_choices_and_the_default_of_the_setting_in_words() -> None:
    spec = {question["variable"]: question for question in survey("fine_tuning")["spec"]}
    assert "light" in spec["preset"]["choices"] and spec["preset"]["type"] == "multiselect"
    assert spec["fine_tuning_count"]["type"] == "integer"
    assert (spec["fine_tuning_count"]["min"], spec["fine_tuning_count"]["max"]) == (0, 1_000_000)
    assert (spec["fine_tuning_timeout"]["min"], spec["fine_tuning_timeout"]["max"]) == (0, 1_000_000_000)
    assert all("max" in one for one in spec.values() if one["type"] in ("integer", "float"))
    assert "Default: 4, unless a preset sets it" in spec["fine_tuning_count"]["question_description"]
    assert (spec["fine_tuning_flavour"]["type"], spec["fine_tuning_flavour"]["choices"]) == (
        "multiplechoice",
        ["fms", "ilab", "ray"],
    )
    assert spec["fine_tuning_timeout"]["type"] == "float" and spec["fine_tuning_memory"]["type"] == "text"
    assert "V(0)" not in spec["fine_tuning_rate"]["question_description"]


def test_a_boolean_is_a_choice_of_texts() -> None:
    (question,) = survey("scheduler", ["scheduler_fair_sharing"])["spec"][1:]
    assert (question["type"], question["choices"]) == ("multiplechoice", ["true", "false"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fine_tuning_cuont", "unknown setting.*fine_tuning_count"),
        ("fine_tuning_model_token", "a secret, which belongs in a credential"),
        ("fine_tuning_tolerations", "is a list, which a survey can't ask for"),
    ],
)
def test_what_a_survey_cannot_ask_for_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        survey("fine_tuning", [name])
