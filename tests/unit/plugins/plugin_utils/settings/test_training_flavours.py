# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flavours of fine-tuning as they are read from their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible_collections.perfscale.seatrial.plugins.lookup import training_flavour
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import kpi_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import (
    load_and_check_kpi_definitions,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import training_flavours, workload_kinds


@pytest.mark.parametrize("name", training_flavours.flavour_names())
def test_a_flavour_knows_what_it_sets_itself(name: str) -> None:
    flavour = training_flavours.load_flavour(name)
    if flavour.known:
        extra = flavour.without_gpus.get("hyper_parameters", {})
        assert {*flavour.hyper_parameters, *extra} <= set(flavour.known)
        assert not set(flavour.names.values()) & set(flavour.known), "these follow from settings"
    assert set(flavour.names) == {"model", "dataset", "output"}
    assert len(flavour.known) == len(set(flavour.known))


@pytest.mark.parametrize("name", training_flavours.flavour_names())
def test_the_kpis_of_a_flavour_exist_only_with_it_and_read_what_its_log_gives(name: str) -> None:
    path = training_flavours.FOLDER / name / kpi_definitions.IN_FOLDER
    if not path.exists():
        return
    steps = training_flavours.load_flavour(name).log_format.get("steps", {}).get("figures")
    for one in load_and_check_kpi_definitions([str(path)]):
        assert one["settings"] == {"fine_tuning_flavour": name}
        assert steps is None or one["source"]["figure"] in steps


def test_the_choices_of_the_setting_are_the_folders() -> None:
    specs = yaml.safe_load((training_flavours.ROLE / "meta/argument_specs.yml").read_text(encoding="utf-8"))
    setting = specs["argument_specs"]["main"]["options"]["fine_tuning_flavour"]
    assert sorted(setting["choices"]) == training_flavours.flavour_names()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(training_flavours, "FOLDER", tmp_path)
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def written(folder: Path, **changes: Any) -> None:
    given = yaml.safe_load((training_flavours.ROLE / "files/flavours/ilab/flavour.yml").read_text(encoding="utf-8"))
    changed = {key: value for key, value in {**given, **changes}.items() if value is not None}
    (folder / "flavour.yml").write_text(yaml.safe_dump(changed), encoding="utf-8")


def test_another_flavour_is_a_folder_with_the_names_of_kinds(folder: Path) -> None:
    written(folder, apis=["myjob"])
    training_flavours.load_flavour.cache_clear()
    assert training_flavours.load_flavour("mine").variables()["apis"] == ["myjob"]


@pytest.mark.parametrize("name", training_flavours.flavour_names())
def test_the_kinds_of_a_flavour_say_where_the_log_of_a_training_is(name: str) -> None:
    specs = yaml.safe_load((training_flavours.ROLE / "meta/argument_specs.yml").read_text(encoding="utf-8"))
    setting = specs["argument_specs"]["main"]["options"]["fine_tuning_api"]
    for api in training_flavours.load_flavour(name).apis:
        kind = workload_kinds.load_kind_by_name_or_path(api)
        assert api == kind.kind.lower() and api in setting["choices"]
        assert kind.log["pods"] and kind.log["container"] and kind.install and "kind:" in kind.template()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hyper_parametres": {}}, r"unknown key 'hyper_parametres' \(did you mean 'hyper_parameters'\?\)"),
        ({"configuration": "files"}, "configuration is 'files', not one of file, arguments"),
        ({"command": None}, "missing .*command"),
        ({"log_format": None}, "log_format describes neither a summary nor steps"),
        ({"log_format": {"sumary": {}}}, r"flavour.yml: log_format: unknown key 'sumary' \(did you mean 'summary'\?\)"),
        (
            {"progress": {"file": "f", "step": "s", "time": "t", "checkpoint": "checkpoint-[0-9]+"}},
            "flavour.yml: progress.checkpoint: 'checkpoint-.* has 0 groups",
        ),
        ({"progress": "training_logs.jsonl"}, "flavour.yml: progress is a str"),
    ],
)
def test_a_wrong_file_is_refused(folder: Path, changes: dict[str, Any], words: str) -> None:
    written(folder, **changes)
    training_flavours.load_flavour.cache_clear()
    with pytest.raises(DataError, match=words):
        training_flavours.load_flavour("mine")


def test_an_unknown_flavour_is_refused_with_the_nearest() -> None:
    training_flavours.load_flavour.cache_clear()
    with pytest.raises(InputError, match=r"fine-tuning 'ilb' .*did you mean 'ilab'\?\); there are fms, ilab, ray"):
        training_flavours.load_flavour("ilb")
    with pytest.raises(AnsibleLookupError, match="did you mean 'ilab'"):
        training_flavour.LookupModule().run(["ilb"])
