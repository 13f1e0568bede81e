# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Surveys that AWX accepts, of the settings and presets of a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awx_survey_rules
import pytest
from ansible.parsing.dataloader import DataLoader
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import awx
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role, settings_catalogue

CATALOGUE = settings_catalogue.load_catalogue(project_role.ROOT)
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


#: What Ansible makes of a text that AWX writes with !unsafe -> the text that was answered.
LOADED = {"007": 7, "yes": True, "no": False, "0x10": 16, "1e3": 1000.0, "~": None, "null": None, "2026-11-26": "x"}


@pytest.mark.parametrize("answer", LOADED)
@pytest.mark.parametrize("name", ["fine_tuning_cpu", "run_name", "a_setting_of_another_collection"])
def test_a_text_answer_keeps_its_text(tmp_path: Path, name: str, answer: str) -> None:
    (tmp_path / "extravars").write_text(f"!unsafe '{name}': !unsafe '{answer}'\nother: 3\n", encoding="utf-8")
    extra = {name: LOADED[answer], "other": 3}
    awx.restore_original_answer_texts(extra, [f"@{tmp_path}/extravars", "other=3"], CATALOGUE)
    assert extra == {name: answer, "other": 3}


def test_an_empty_answer_is_none_and_others_keep_their_type(tmp_path: Path) -> None:
    (tmp_path / "extravars").write_text(
        "!unsafe 'fine_tuning_cpu': !unsafe ''\n!unsafe 'run_name': !unsafe \"\"\nfine_tuning_count: 3\n"
        "!unsafe 'fine_tuning_preload': !unsafe 'true'\n!unsafe 'preset':\n- !unsafe '007'\n- !unsafe 'light'\n"
        "fine_tuning_memory: '5'\n",
        encoding="utf-8",
    )
    extra = {
        "fine_tuning_cpu": None,
        "run_name": None,
        "fine_tuning_count": 3,
        "fine_tuning_preload": True,
        "preset": [7, "light"],
        "fine_tuning_memory": "5",
    }
    awx.restore_original_answer_texts(extra, [f"@{tmp_path}/extravars"], CATALOGUE)
    assert extra == {
        "fine_tuning_count": 3,
        "fine_tuning_preload": True,
        "preset": ["007", "light"],
        "fine_tuning_memory": "5",
    }


@pytest.mark.parametrize("content", ["", "- a\n", "x: [!unsafe '1'", "$ANSIBLE_VAULT;1.1;AES256\n3635\n"])
def test_a_file_that_is_no_survey_changes_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "extravars").write_text(content, encoding="utf-8")
    extra = {"x": 1}
    awx.restore_original_answer_texts(extra, [f"@{tmp_path}/extravars", f"@{tmp_path}/none", "@"], CATALOGUE)
    assert extra == {"x": 1}
