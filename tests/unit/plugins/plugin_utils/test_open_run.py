# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A session opens a run, continues it, reports beside another session, applies profiles; errors leave no file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.open_run import SettingsSession
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings_context import SettingsContext

pytestmark = pytest.mark.usefixtures("ansible_plugins")  # defaults look up the environment
LOADER = DataLoader()  # shared: it keeps the defaults of the roles that it has read
PHASES = ["settings", "lease", "cluster", "prepare", "test", "report", "cleanup", "release", "export"]
ARGV = ["/bin/ansible-playbook", "fine_tuning.yml"]
PRESETS = {
    "small": {"fine_tuning_count": 3, "fine_tuning_rate": 2.0},
    "matrix": {"matrix": {"fine_tuning_gpus": [1, 2]}},
    "big": {"fine_tuning_count": 7},
}


def session(tmp_path: Path, tags: list[str] | None = None, extra: dict[str, Any] | None = None, **more: Any) -> Any:
    given = {"run_artifacts_dir": str(tmp_path / "runs"), **(extra or {})}
    variables = {
        "playbook_dir": str(tmp_path),
        "fine_tuning_presets": PRESETS,
        "ansible_run_tags": tags or ["all"],
        **given,
        **more,
    }
    templar = Templar(loader=LOADER, variables=variables)
    context = SettingsContext.of("fine_tuning", variables, given, LOADER, templar)
    return SettingsSession(context, PHASES, LOADER, templar, ARGV, {}, [].append)


def lines(one: Any) -> list[str]:
    return one.say.__self__


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_a_new_run_has_its_settings_its_points_and_its_give_back_command(tmp_path: Path) -> None:
    one = session(tmp_path, preset="small,matrix")
    result = one.begin()
    directory = Path(result["run_dir"])
    assert (result["presets"], result["points"]) == (["small", "matrix"], ["001", "002"])
    assert result["gives_back"] == ["cleanup", "release"]
    assert load(directory / "settings.yml")["fine_tuning_count"] == 3
    assert [load(directory / "points" / name / "settings.yml")["fine_tuning_gpus"] for name in ("001", "002")] == [1, 2]
    record = run_record.read(directory)
    assert record["sessions"][0]["pid"] == os.getppid()
    assert f"run_dir={directory}" in record["give_back"]
    assert (directory / "GIVE_BACK").read_text() == record["give_back"] + "\n"
    assert f"Run {result['run_id']} in {directory}" in lines(one)


def test_the_settings_alone_are_shown_and_nothing_is_created(tmp_path: Path) -> None:
    one = session(tmp_path, ["settings"], preset="small")
    assert one.begin()["only_settings"]
    assert any("fine_tuning_count" in line and "preset small" in line for line in lines(one))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"preset": "smal"}, "unknown preset 'smal' .did you mean 'small'"),
        ({"extra": {"fine_tuning_cout": 1}}, "-e: 'fine_tuning_cout' is no setting of role fine_tuning"),
        ({"extra": {"run_dir": ""}}, "-e run_dir= is empty"),
        ({"tags": ["tset"]}, "--tags tset: no phase"),
        ({"extra": {"fine_tuning_model_token_required": True}}, "fine_tuning_model_token is needed by phase prepare"),
    ],
)
def test_an_error_in_the_input_leaves_no_file(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        session(tmp_path, **more).begin()
    assert list(tmp_path.iterdir()) == []


def opened(tmp_path: Path, **more: Any) -> Path:
    """A run whose session has ended."""
    directory = Path(session(tmp_path, preset="small", **more).begin()["run_dir"])
    run_record.change(directory, lambda record: record["sessions"][0].update(began=0.0))
    return directory


def test_a_run_goes_on_with_its_presets_and_the_new_extra_vars(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    (directory / "FINISHED").touch()
    extra = {"run_dir": str(directory), "fine_tuning_rate": "5"}
    result = session(tmp_path, ["cluster", "prepare"], extra).begin()
    assert (result["run_dir"], result["gives_back"]) == (str(directory), [])
    values = load(directory / "settings.yml")
    assert (values["fine_tuning_count"], values["fine_tuning_rate"]) == (3, 5.0)
    assert len(run_record.read(directory)["sessions"]) == 2
    assert not (directory / "FINISHED").exists()


def test_a_run_keeps_its_presets(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ran with small; a run keeps its presets"):
        session(tmp_path, ["report"], {"run_dir": str(opened(tmp_path))}, preset="big").begin()


def test_a_report_beside_a_session_that_works_changes_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = opened(tmp_path)
    before = (directory / "run.yml").read_text()
    monkeypatch.setattr(run_record, "at_work", lambda _directory: {"pid": 1})
    extra = {"run_dir": str(directory)}
    one = session(tmp_path, ["report"])
    one.context = SettingsContext(
        **{**vars(one.context), "extra": extra, "variables": {**one.context.variables, **extra}}
    )
    assert one.begin()["beside"]
    assert (directory / "run.yml").read_text() == before
    with pytest.raises(InputError, match="takes no settings by -e"):
        session(tmp_path, ["report"], {**extra, "fine_tuning_count": 9}).begin()


def test_the_profiles_of_a_cluster_add_presets_below_the_extra_vars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEATRIAL_FINE_TUNING_MODEL_TOKEN", "canary")
    directory = opened(tmp_path)
    profiles = {"h:6443": "big", "other": "matrix"}
    one = session(tmp_path, run_dir=str(directory), cluster_profiles=profiles)
    assert one.apply_profiles({"api_host": "nowhere"})["run_dir"] == str(directory)
    assert load(directory / "settings.yml")["fine_tuning_count"] == 3
    result = one.apply_profiles({"api_host": "h:6443"})
    assert (result["changed"], result["points"]) == (True, ["001"])
    assert load(directory / "settings.yml")["fine_tuning_count"] == 7
    provenance = load(directory / "provenance.yml")["settings"]
    assert provenance["fine_tuning_count"][-1]["source"].startswith("profile h:6443")
    assert provenance["fine_tuning_model_token"] == [{"source": "secret", "value": "<secret>"}]
    assert not one.apply_profiles({"api_host": "h:6443"})["changed"]


def test_a_template_in_extra_vars_is_kept_for_a_later_session(tmp_path: Path) -> None:
    directory = opened(tmp_path, extra={"fine_tuning_count": trust_as_template("{{ 2 + 2 }}")})
    assert load(directory / "settings.yml")["fine_tuning_count"] == 4
    assert "{{ 2 + 2 }}" in (directory / "request.yml").read_text()
    session(tmp_path, ["cluster"], {"run_dir": str(directory)}).begin()
    assert load(directory / "settings.yml")["fine_tuning_count"] == 4
