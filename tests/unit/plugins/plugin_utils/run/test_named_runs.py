# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run whose name is known beforehand is opened once, and given back by that name in another job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.template import trust_as_template
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from settings_sessions import lines, session

pytestmark = pytest.mark.usefixtures("ansible_plugins")  # defaults look up the environment


def test_a_run_has_the_name_that_was_given_to_it_and_another_job_gives_it_back_by_that_name(tmp_path: Path) -> None:
    opened = session(tmp_path, extra={"run_name": "awx-42", "fine_tuning_count": 2}, preset="small").begin()
    assert Path(opened["run_dir"]) == tmp_path / "runs" / "fine_tuning-awx-42"
    back = session(tmp_path, ["cleanup", "release"], {"run_name": "awx-42"}, preset="small").begin()
    assert (back["run_dir"], back["run_id"]) == (opened["run_dir"], opened["run_id"])


@pytest.mark.parametrize(
    "presets", [{}, {"small": {"extends": "gone"}}, {"small": {"fine_tuning_cout": 1}}], ids=["gone", "extends", "sets"]
)
def test_a_run_is_given_back_by_its_name_although_its_preset_is_refused_today(
    tmp_path: Path, presets: dict[str, Any]
) -> None:
    opened = session(tmp_path, extra={"run_name": "awx-42"}, preset="small").begin()
    later = {"preset": "small", "fine_tuning_presets": presets, "cluster_profiles": {"metal": "gone"}}
    back = session(tmp_path, ["cleanup", "release"], {"run_name": "awx-42"}, **later).begin()
    assert (back["run_dir"], back["run_id"]) == (opened["run_dir"], opened["run_id"])
    with pytest.raises(InputError, match="no project has a preset 'gone'"):
        session(tmp_path, ["report"], {"run_name": "awx-42"}, **later).begin()


def test_a_run_that_is_given_back_by_its_name_is_sought_where_its_preset_puts_it(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()

    def beginning(tags: list[str], presets: dict[str, Any]) -> dict[str, Any]:
        one = session(tmp_path, tags, preset="mine", run_name="7", fine_tuning_presets=presets)
        one.context = replace(one.context, extra={})  # not even the folder
        return one.begin()

    presets = {"mine": {"run_artifacts_dir": str(tmp_path / "mine")}}
    opened = beginning(["all"], presets)
    assert Path(opened["run_dir"]).parent == tmp_path / "mine"
    assert beginning(["cleanup", "release"], presets)["run_id"] == opened["run_id"]
    with pytest.raises(InputError, match="unknown preset 'mine'"):  # and not: this run was never opened
        beginning(["cleanup", "release"], {})


def test_the_name_of_a_run_may_be_a_number_or_a_template(tmp_path: Path) -> None:
    opened = session(tmp_path, run_name=trust_as_template("{{ awx_workflow_job_id }}"), awx_workflow_job_id=7).begin()
    assert Path(opened["run_dir"]).name == "fine_tuning-7"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("27", "'27' is the number of this job itself"),
        ("99999", "'99999' is the number of no run"),
        ("7", "'7' is the number of no run"),
    ],
)
def test_a_job_of_awx_that_gives_back_alone_must_find_its_run(tmp_path: Path, name: str, words: str) -> None:
    given = {"awx_job_id": 27, "run_name": name, "run_artifacts_dir": str(tmp_path)}
    with pytest.raises(InputError, match=f"run_name {words}.*Answer run_name with the number of the workflow job"):
        session(tmp_path, ["cleanup", "release"], given, **given).begin()
    workflow = {**given, "awx_workflow_job_id": int(name)}
    assert session(tmp_path, ["cleanup", "release"], workflow, **workflow).begin()["only_settings"]


def test_a_run_that_was_never_opened_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    one = session(tmp_path, ["cleanup", "release"], {"run_name": "awx-43"})
    assert one.begin() == {"only_settings": True, "run_dir": None}
    assert lines(one)[-1].startswith("There is no run fine_tuning-awx-43 in ")
    given = {"run_name": "awx-43", "run_repeat_failure": trust_as_template("{{ awx_workflow_job_id is defined }}")}
    assert session(tmp_path, ["cleanup", "release"], given).begin()["only_settings"]
    with pytest.raises(InputError, match="it was never opened.*shows why"):
        session(tmp_path, ["cleanup", "release"], given, awx_workflow_job_id=7).begin()
    assert list((tmp_path / "runs").iterdir()) == []


def test_without_the_folder_of_the_runs_nobody_knows_what_a_run_holds(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"runs \(run_artifacts_dir\) does not exist"):
        session(tmp_path, ["cleanup", "release"], {"run_name": "awx-43"}).begin()


def test_a_name_is_used_once(tmp_path: Path) -> None:
    given = {"run_name": "awx-42"}
    first = session(tmp_path, extra=given).begin()
    with pytest.raises(InputError, match="run_name=awx-42: this run exists.*continue it with -e .*run_dir"):
        session(tmp_path, extra=given).begin()
    assert session(tmp_path, ["settings"], given).begin()["only_settings"]
    assert session(tmp_path, extra={**given, "run_dir": first["run_dir"]}).begin()["run_id"] == first["run_id"]


@pytest.mark.parametrize("name", ["../x", ".hidden", "a b", "a/b", "x" * 61])
def test_a_name_that_is_no_part_of_a_path_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="run_name '"):
        session(tmp_path, extra={"run_name": name}).begin()
    assert not (tmp_path / "runs").exists()
