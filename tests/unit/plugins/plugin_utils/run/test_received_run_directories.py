# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run directory that was copied, moved or received is reported on; a session that does more needs the user's word."""

from __future__ import annotations

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


def context_of(tmp_path: Path, tags: list[str], extra: dict[str, Any]) -> SettingsContext:
    asked = {"run_artifacts_dir": str(tmp_path / "runs"), **extra}
    variables = {"playbook_dir": str(tmp_path), "ansible_run_tags": tags, **asked}
    return SettingsContext.of("fine_tuning", variables, asked, LOADER, Templar(loader=LOADER, variables=variables))


def begin(tmp_path: Path, tags: list[str], extra: dict[str, Any]) -> Path:
    context = context_of(tmp_path, tags, extra)
    templar = Templar(loader=LOADER, variables=context.variables)
    argv = ["/bin/ansible-playbook", "fine_tuning.yml"]
    result = SettingsSession(context, PHASES, LOADER, templar, argv, {}, [].append).begin()
    directory = Path(result["run_dir"])
    run_record.update_record(directory, lambda record: record["sessions"][-1].update(began=0.0))  # it has ended
    return directory


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return begin(tmp_path, ["all"], {})


@pytest.fixture
def received(tmp_path: Path, own: Path) -> Path:
    return Path(shutil.copytree(own, tmp_path / "received"))


@pytest.mark.parametrize(
    "tags", [["all"], ["cluster"], ["cluster", "test"], ["cleanup", "release"], ["release"], ["report", "export"]]
)
def test_a_session_that_does_more_than_report_is_refused(
    tmp_path: Path, own: Path, received: Path, tags: list[str]
) -> None:
    (received / "request.yml").write_text("no request")  # none of its words is read
    before = {path: path.read_bytes() for path in received.rglob("*") if path.is_file()}
    for more in ({}, {"trust_run_dir": "no"}):
        with pytest.raises(InputError, match=r"received was copied, moved or received, .* '{\"trust_run_dir\": true}'"):
            begin(tmp_path, tags, {"run_dir": str(received), **more})
    assert before == {path: path.read_bytes() for path in received.rglob("*") if path.is_file()}
    assert begin(tmp_path, tags, {"run_dir": str(own)}) == own


def test_it_is_reported_on_without_trust(tmp_path: Path, received: Path) -> None:
    assert begin(tmp_path, ["report"], {"run_dir": str(received)}) == received


def test_only_the_command_line_can_trust(tmp_path: Path, received: Path) -> None:
    request = files.read_yaml(received / "request.yml")
    request["layers"][-1]["values"]["trust_run_dir"] = True
    files.write_yaml(received / "request.yml", request)
    with pytest.raises(InputError, match="received was copied, moved or received"):
        begin(tmp_path, ["cleanup", "release"], {"run_dir": str(received)})


@pytest.mark.parametrize("trust", [True, "true", "yes"])
def test_a_trusted_one_goes_on_and_its_give_back_command_trusts_it_again(
    tmp_path: Path, received: Path, trust: Any
) -> None:
    assert begin(tmp_path, ["all"], {"run_dir": str(received), "trust_run_dir": trust}) == received
    assert "trust_run_dir" in (received / "GIVE_BACK").read_text()


def test_trust_is_true_or_false(tmp_path: Path, received: Path) -> None:
    with pytest.raises(InputError, match="-e trust_run_dir is true or false, not 'perhaps'"):
        begin(tmp_path, ["all"], {"run_dir": str(received), "trust_run_dir": "perhaps"})


@pytest.mark.parametrize("folder", ["001__cleanup__main", "report", "export", "settings"])
def test_a_role_call_of_a_received_run_needs_trust(tmp_path: Path, own: Path, received: Path, folder: str) -> None:
    for directory in (own, received):
        step = directory / folder
        step.mkdir()
        (step / "arguments.yml").write_text("step_role: perfscale.seatrial.cleanup\nstep_entry: main\n")
    for extra, directory in (({}, own), ({"trust_run_dir": True}, received)):
        known = context_of(tmp_path, ["all"], extra)
        assert role_call_record.check_recorded_call(directory / folder, known)["entry"] == "main"
    with pytest.raises(InputError, match="received was copied, moved or received"):
        role_call_record.check_recorded_call(received / folder, context_of(tmp_path, ["all"], {}))
