# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions that record phases, points and role calls, and those that read settings and inventories."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.action import (
    doctor,
    open_run,
    openshift_inventory_info,
    record_run_state,
    rehearsal_cluster,
    run_bundle,
    step_directory,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions import action_base
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import cluster_requirements

NO_PHASE = {"ended": None, "seconds": None, "error": None}


def action(plugin: Any, transport: str = "local") -> Any:
    """An action as it is while its task runs; templates are returned as they are."""
    one = plugin.ActionModule.__new__(plugin.ActionModule)
    one._templar = SimpleNamespace(template=lambda text: text)
    one._connection = SimpleNamespace(transport=transport, become=None)
    one._loader = DataLoader()
    one._task = SimpleNamespace(_role=None)
    return one


@pytest.fixture
def phases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The phases of a run record, which the action changes."""
    record: dict[str, Any] = {"phases": {}}
    monkeypatch.setattr(run_record, "read_record", lambda _directory: record)
    monkeypatch.setattr(run_record, "write_record", lambda _directory, _record: None)
    return record["phases"]


def mark(tmp_path: Path, name: str | None, state: str, error: str | None = None, **variables: Any) -> dict[str, Any]:
    given = {"phase": name, "state": state, "error": error, "cause": "AccessError" if error else None}
    return action(record_run_state).act(given, {"run_dir": str(tmp_path), **variables})


def test_the_start_of_a_phase_ends_the_one_before(tmp_path: Path, phases: dict[str, Any]) -> None:
    mark(tmp_path, "report", "started")
    mark(tmp_path, "cleanup", "started")
    assert {name: one["status"] for name, one in phases.items()} == {"report": "passed", "cleanup": "running"}
    mark(tmp_path, "report", "started")
    assert list(phases) == ["cleanup", "report"], "in the order in which they last ran"


def test_a_failure_without_a_name_is_that_of_the_running_phase(tmp_path: Path, phases: dict[str, Any]) -> None:
    mark(tmp_path, "report", "started")
    mark(tmp_path, None, "failed", "disk full")
    assert (phases["report"]["status"], phases["report"]["error"]) == ("failed", "disk full")
    assert phases["report"]["cause"] == "AccessError"
    mark(tmp_path, "report", "skipped")
    assert phases["report"]["status"] == "failed", "only a running phase ends"


def test_a_failure_in_a_rescue_is_that_of_the_failed_task(tmp_path: Path, phases: dict[str, Any]) -> None:
    mark(tmp_path, "test", "started")
    task, result = {"name": "Measure", "action": "x.y.z"}, {"msg": "no nodes", "error": "CapacityError"}
    given = {"phase": None, "state": "failed", "error": None, "cause": None}
    variables: dict[str, Any] = {"run_dir": str(tmp_path), "ansible_failed_task": task, "ansible_failed_result": result}
    first = action(record_run_state).act(given, variables)
    assert (first["failures"], first["cause"]) == (["Measure: no nodes"], "CapacityError")
    assert (phases["test"]["error"], phases["test"]["cause"]) == ("Measure: no nodes", "CapacityError")
    # A fail task has neither a name that says something nor a class; the fact run_cause has it, for one failure.
    failing = {"ansible_failed_task": {"name": "Fail", "action": "ansible.builtin.fail"}}
    variables |= {
        **failing,
        "ansible_failed_result": {"msg": "no lease"},
        "run_failed": first,
        "run_cause": "LeaseError",
    }
    second = action(record_run_state).act(given, variables)
    assert (second["failures"], second["cause"]) == (["Measure: no nodes", "no lease"], "LeaseError")
    assert action(record_run_state).act(given, {**variables, "run_failed": second})["cause"] == ""


def test_a_report_beside_another_session_marks_nothing(tmp_path: Path, phases: dict[str, Any]) -> None:
    assert not mark(tmp_path, "report", "started", run_beside=True)["changed"]
    assert phases == {}


def write_settings(*folders: Path) -> None:
    """Write the settings of a run, and of a point that has no others."""
    for folder in folders:
        files.write_yaml(folder / "settings.yml", {"fine_tuning_count": 4})


def test_a_point_notes_its_start_and_its_end(tmp_path: Path) -> None:
    place = tmp_path / "points" / "001"
    place.mkdir(parents=True)
    planned = {"schema": "point/1", "point": "001", "uuid": "0", "status": "planned", "settings": {"a": 1}}
    files.write_yaml(place / "point.yml", planned)
    write_settings(tmp_path, place)
    variables = {"run_dir": str(tmp_path)}
    found = action(record_run_state).act({"point": "001", "state": "point_started"}, variables)
    assert found["settings_file"] == str(place / "settings.yml")
    assert files.read_yaml(place / "point.yml")["ended"] is None
    action(record_run_state).act(
        {"point": "001", "state": "point_failed", "error": "why", "cause": "LockLost"}, variables
    )
    record = files.read_yaml(place / "point.yml")
    assert (record["schema"], record["attempt"]) == ("point/2", 1), "an earlier version wrote point/1"
    assert (record["status"], record["exit_code"], record["error"]) == ("failed", 1, "why")
    assert record["cause"] == "LockLost"
    assert record["started"] <= record["ended"]
    with pytest.raises(InputError, match="has no point 002"):
        action(record_run_state).act({"point": "002", "state": "point_passed", "error": None, "cause": None}, variables)


def test_a_point_that_is_resumed_loses_the_figures_of_the_part_that_was_measured(tmp_path: Path) -> None:
    place = tmp_path / "points" / "001"
    place.mkdir(parents=True)
    killed = {"schema": "point/2", "point": "001", "attempt": 1, "uuid": "0", "status": "running", "settings": {}}
    files.write_yaml(place / "point.yml", killed)
    write_settings(tmp_path, place)
    for name in ("kpis.json", "ledger.jsonl"):
        (place / name).write_text("{}")
    given = {"point": "001", "error": None, "cause": None}
    action(record_run_state).act({**given, "state": "point_started"}, {"run_dir": str(tmp_path)})
    assert sorted(one.name for one in place.iterdir()) == ["ledger.jsonl", "point.yml", "settings.yml"]
    (place / "kpis.json").write_text("{}")
    action(record_run_state).act({**given, "state": "point_passed"}, {"run_dir": str(tmp_path)})
    assert (place / "kpis.json").exists()


def test_each_role_call_gets_the_next_numbered_directory(tmp_path: Path) -> None:
    given = {"role": "nfd", "entry": "install"}
    paths = [Path(action(step_directory).act(given, {"run_dir": str(tmp_path)})["path"]) for _number in range(2)]
    assert [path.name for path in paths] == ["001__nfd__install", "002__nfd__install"]
    assert "nfd install" in (paths[0] / "log").read_text()
    with pytest.raises(InputError, match="role nfd has no run directory"):
        action(step_directory).act(given, {})


INVENTORY = """
all:
  children:
    control:
      hosts:
        m1: {bmc_address: 10.0.0.1, bmc_password: canary, cluster_agent_role: x, other: 1}
    workers:
      hosts:
        w1: {macs: {eno1: "aa:bb"}}
"""


def machines(tmp_path: Path, control: str, worker: str = "workers", text: str = INVENTORY) -> dict[str, Any]:
    path = tmp_path / "hosts.yml"
    path.write_text(text)
    given = {"inventory": str(path), "control_plane_group": control, "worker_group": worker}
    found: dict[str, Any] = action(openshift_inventory_info).act(given, {})
    return found


@pytest.mark.usefixtures("ansible_plugins")
def test_machines_are_read_from_an_inventory_file_with_their_passwords_apart(tmp_path: Path) -> None:
    found = machines(tmp_path, "control")
    assert found["machines"] == [
        {"name": "m1", "role": "master", "vars": {"bmc_address": "10.0.0.1", "cluster_agent_role": "x"}},
        {"name": "w1", "role": "worker", "vars": {"macs": {"eno1": "aa:bb"}}},
    ]
    assert found["passwords"] == {"m1": "canary"}


@pytest.mark.usefixtures("ansible_plugins")
def test_a_group_that_is_missing_is_an_error_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no group controll .did you mean 'control'"):
        machines(tmp_path, "controll")
    with pytest.raises(InputError, match="has no hosts"):
        machines(tmp_path, "control", text="all: {children: {control: {}}}\n")
    (tmp_path / "hosts.yml").unlink()
    given = {"inventory": str(tmp_path / "hosts.yml"), "control_plane_group": "control", "worker_group": ""}
    with pytest.raises(InputError, match="cluster_agent_inventory: there is no"):
        action(openshift_inventory_info).act(given, {})


def remote_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any], transport: str = "local") -> Any:
    one = action(open_run, transport)
    monkeypatch.setattr(one, "get_shell_option", lambda _name, default: str(tmp_path / "file" / "tmp"), raising=False)
    return action_base.replacement_remote_tmp(one, extra)


def test_a_folder_for_modules_that_cannot_be_created_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remote_tmp(tmp_path, monkeypatch, {}) is None
    (tmp_path / "file" / "tmp").rmdir()
    (tmp_path / "file").rmdir()
    (tmp_path / "file").touch()
    assert action_base.why_folder_is_unusable(str(tmp_path / "file" / "tmp"))
    assert remote_tmp(tmp_path, monkeypatch, {}, "ssh") is None
    assert remote_tmp(tmp_path, monkeypatch, {}) == str(action_base.constants.DEFAULT_LOCAL_TMP)
    with pytest.raises(InputError, match="-e ansible_remote_tmp="):
        remote_tmp(tmp_path, monkeypatch, {"ansible_remote_tmp": "x"})


def test_the_doctor_of_a_run_examines_the_phases_that_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(cluster_requirements.ExaminedRun, "read", lambda *_args: "run")
    monkeypatch.setattr(
        cluster_requirements,
        "requirements_to_check",
        lambda _documents, run, phases, _find, _project: seen.append(phases) or {},
    )
    one = action(doctor)
    monkeypatch.chdir(tmp_path)
    given = {"kubeconfig": "k", "project": "none", "run_dir": str(tmp_path), "rbac_file": "", "context": ""}
    given |= {"phases": ["settings", "cluster", "prepare", "test", "cleanup"], "subject": ""}
    monkeypatch.setattr(one, "validate_argument_spec", lambda _spec: (None, dict(given)), raising=False)
    found = one.prepare(given, {"ansible_skip_tags": ["cleanup"]})
    assert seen == [["prepare", "test"]]
    assert (found["kubeconfig"], found["phases"]) == (f"{tmp_path}/k", ["prepare", "test"])
    assert found["requirements"] == {"others": False}
    assert "run_dir" not in found


@pytest.mark.parametrize(("state", "needed"), [("present", True), ("binaries", True), ("queried", False)])
def test_only_a_cluster_that_is_started_needs_the_folders_of_the_kinds(
    tmp_path: Path, state: str, needed: bool
) -> None:
    settings = {"workload_scale_kind": "/gone/kinds/x", "workload_scale_through": ""}
    files.write_yaml(tmp_path / "settings.yml", settings)
    variables = {"run_dir": str(tmp_path), "run_role": "workload_scale", "run_id": "r"}
    one = action(rehearsal_cluster)
    one._templar = Templar(loader=DataLoader(), variables=variables)
    arguments = {"state": state, "components": ["kueue"]}
    if needed:
        with pytest.raises(InputError, match="unknown kind of workload '/gone/kinds/x'"):
            one.prepare(arguments, variables)
    else:
        prepared = one.prepare(arguments, variables)
        assert (prepared["components"], prepared["user_pid"]) == (["kueue"], os.getppid())


@pytest.mark.parametrize("run_dir", ["artifacts/light-1/", "artifacts/light-1", "{here}/artifacts/light-1"])
def test_a_bundle_without_a_name_is_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_dir: str
) -> None:
    monkeypatch.chdir(tmp_path)
    prepared = action(run_bundle).prepare({"run_dir": run_dir.format(here=tmp_path)}, {})
    assert prepared["dest"] == str(tmp_path / "light-1.tar.gz")


def test_a_bundle_has_the_name_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert action(run_bundle).prepare({"run_dir": "run", "dest": "x.tar.gz"}, {})["dest"] == str(tmp_path / "x.tar.gz")
