# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stranger's run directory reads and writes no file of this machine outside of it, and starts no real node."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import role_call_record, run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.open_run import SettingsSession
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext

pytestmark = pytest.mark.usefixtures("ansible_plugins")
LOADER = DataLoader()
PHASES = ["settings", "lease", "cluster", "prepare", "test", "report", "cleanup", "release", "export"]


def context_of(tmp_path: Path, tags: list[str], extra: dict[str, Any], **more: Any) -> SettingsContext:
    asked = {"run_artifacts_dir": str(tmp_path / "runs"), **extra}
    variables = {"playbook_dir": str(tmp_path), "ansible_run_tags": tags, **asked, **more}
    return SettingsContext.of("fine_tuning", variables, asked, LOADER, Templar(loader=LOADER, variables=variables))


def begin(tmp_path: Path, tags: list[str], extra: dict[str, Any], **more: Any) -> dict[str, Any]:
    context = context_of(tmp_path, tags, extra, **more)
    templar = Templar(loader=LOADER, variables=context.variables)
    argv = ["/bin/ansible-playbook", "fine_tuning.yml"]
    return SettingsSession(context, PHASES, LOADER, templar, argv, {}, [].append).begin()


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A run whose session has ended."""
    directory = Path(begin(tmp_path, ["all"], {})["run_dir"])
    run_record.update_record(directory, lambda record: record["sessions"][0].update(began=0.0))
    return directory


def received(own: Path, values: dict[str, Any]) -> Path:
    """Return the run directory, unpacked elsewhere, in which somebody has changed the request."""
    directory = Path(shutil.copytree(own, own.parents[1] / "received", dirs_exist_ok=True))
    request = files.read_yaml(directory / "request.yml")
    [layer] = [layer for layer in request["layers"] if layer["kind"] == "extra"]
    layer["values"] |= values
    files.write_yaml(directory / "request.yml", request)
    return directory


@pytest.mark.parametrize(
    ("setting", "phase"),
    [
        ("results_template", "report"),
        ("results_kpi_files", "report"),
        ("results_history", "report"),
        ("metrics_query_files", "report"),
        ("export_ca_file", "export"),
        ("export_otlp_token_file", "export"),
        ("export_textfile", "export"),
        ("export_junit", "export"),
        ("fine_tuning_files", "test"),
    ],
)
def test_a_file_outside_is_used_only_if_the_session_names_it(
    tmp_path: Path, own: Path, setting: str, phase: str
) -> None:
    private = tmp_path / "private"
    private.write_text("canary")
    as_list = setting in ("results_kpi_files", "results_history", "metrics_query_files")
    value = [str(private)] if as_list else str(private)
    directory = received(own, {setting: value})
    before = (directory / "run.yml").read_text()
    with pytest.raises(InputError, match=f"{setting} names {private} of this machine.*give {setting} again by -e"):
        begin(tmp_path, [phase], {"run_dir": str(directory)})
    assert (directory / "run.yml").read_text() == before and private.read_text() == "canary"


def test_settings_of_a_received_run_are_shown(tmp_path: Path, own: Path) -> None:
    directory = received(own, {"export_textfile": str(tmp_path / "profile"), "rehearsal_nodes_real": 1})
    assert begin(tmp_path, ["settings"], {"run_dir": str(directory)})["run_dir"] == str(directory)


@pytest.mark.parametrize(
    "values",
    [
        {"matrix": {"results_template": ["{path}"]}},
        {"overrides": {"results_template": "{path}"}},
        {"export_textfile": "../private"},
        {"export_textfile": "points/../../private"},
    ],
)
def test_a_file_outside_is_recognised_however_it_is_named(tmp_path: Path, own: Path, values: dict[str, Any]) -> None:
    private = tmp_path / "private"
    private.write_text("canary")
    directory = received(own, json.loads(json.dumps(values).replace("{path}", str(private))))
    with pytest.raises(InputError, match="of this machine"):
        begin(tmp_path, ["report", "export"], {"run_dir": str(directory)})


def test_a_file_that_the_session_names_and_those_of_the_run_are_used(tmp_path: Path, own: Path) -> None:
    template = tmp_path / "page.j2"
    template.write_text("page")
    values = {"results_template": str(template), "export_junit": "junit-copy.xml"}
    directory = received(own, values)
    named = {"run_dir": str(directory), "results_template": str(template)}
    assert begin(tmp_path, ["report", "export"], named)["run_dir"] == str(directory)


def test_an_own_run_keeps_its_files(tmp_path: Path, own: Path) -> None:
    request = files.read_yaml(own / "request.yml")
    [layer] = [layer for layer in request["layers"] if layer["kind"] == "extra"]
    layer["values"]["export_textfile"] = str(tmp_path / "metrics.prom")
    files.write_yaml(own / "request.yml", request)
    assert begin(tmp_path, ["export"], {"run_dir": str(own)})["run_dir"] == str(own)


@pytest.mark.parametrize(
    "values",
    [
        {"rehearsal_nodes_real": 1},
        {"rehearsal_components": ["node"]},
        {"rehearsal_components": ["registry"]},
        {"overrides": {"rehearsal_nodes_real": 1}},
        {"matrix": {"rehearsal_components": [["training-image"]]}},
    ],
)
def test_a_real_node_is_started_only_if_the_session_says_so(tmp_path: Path, own: Path, values: dict[str, Any]) -> None:
    directory = received(own, values)
    with pytest.raises(InputError, match=r"starts a real node.*give rehearsal_nodes_real=1"):
        begin(tmp_path, ["test"], {"run_dir": str(directory)})


def test_a_role_call_of_a_received_run_writes_no_file_outside(tmp_path: Path, own: Path) -> None:
    call = f"step_role: perfscale.seatrial.export\nstep_entry: main\nexport_textfile: {tmp_path}/profile\n"
    directory = received(own, {})
    for top in (own, directory):
        (top / "001__export__main").mkdir()
        (top / "001__export__main" / "arguments.yml").write_text(call)
    known = context_of(tmp_path, ["all"], {})
    assert role_call_record.check_recorded_call(own / "001__export__main", known)["entry"] == "main"
    with pytest.raises(InputError, match="export_textfile names .*profile of this machine"):
        role_call_record.check_recorded_call(directory / "001__export__main", known)


@pytest.mark.parametrize("name", ["ansible.log", "points/001/timeline.csv"])
def test_nothing_is_written_through_a_link(tmp_path: Path, own: Path, name: str) -> None:
    directory = received(own, {})
    (directory / name).parent.mkdir(parents=True, exist_ok=True)
    (directory / name).unlink(missing_ok=True)
    (directory / name).symlink_to(tmp_path / "private")
    with pytest.raises(InputError, match=f"{name} is a symbolic link"):
        begin(tmp_path, ["report"], {"run_dir": str(directory)})
    assert begin(tmp_path, ["settings"], {"run_dir": str(directory)})["run_dir"] == str(directory)
