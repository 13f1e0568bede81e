# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the variables of a command line."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.lookup import command_line_errors


@pytest.mark.parametrize(
    ("given", "known", "error"),
    [
        ({"rehearsal_stat": "absent"}, [], "unknown setting 'rehearsal_stat' of role rehearsal"),
        ({"compare_fail_om": "x"}, ["compare_fail_on"], "(did you mean 'compare_fail_on'?)"),
        ({"results_histroy": []}, [], "(did you mean 'results_history'?)"),
        ({"overrides.x": 1}, [], "'overrides.x' reaches into a setting"),
        ({"source": "x", "rehearsal_name": "a", "ansible_python_interpreter": "p"}, ["source"], ""),
        ({"fine_tuning_presets": [], "my_variable": 1, "awx_job_id": 3}, [], ""),
    ],
)
def test_a_mistyped_variable_is_told_with_the_nearest_one(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, object], known: list[str], error: str
) -> None:
    monkeypatch.setattr(command_line_errors, "load_extra_vars", lambda _loader: given)
    found = command_line_errors.LookupModule().run(known)
    assert len(found) == bool(error) and error in "".join(found)


@pytest.mark.parametrize(
    ("name", "role", "error"),
    [
        ("project", "doctor", "unknown setting 'project' (did you mean 'doctor_project'?)"),
        ("kubeconfig", "doctor", "unknown setting 'kubeconfig' (did you mean 'cluster_kubeconfig'?)"),
        ("my_variable", "doctor", ""),
        ("project", "", ""),
    ],
)
def test_the_end_of_a_settings_name_is_told_to_a_playbook_of_one_role(
    monkeypatch: pytest.MonkeyPatch, name: str, role: str, error: str
) -> None:
    monkeypatch.setattr(command_line_errors, "load_extra_vars", lambda _loader: {name: "x"})
    found = command_line_errors.LookupModule().run([], role=role)
    assert len(found) == bool(error) and error in "".join(found)


def test_a_setting_of_a_role_of_an_installed_collection_is_accepted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"workload_llm_seed": 3}
    monkeypatch.setattr(command_line_errors, "load_extra_vars", lambda _loader: given)
    (error,) = command_line_errors.LookupModule().run([])
    assert "unknown setting 'workload_llm_seed' of role workload" in error
    # The folder "workload" is also the name of a role here: its settings are ours.
    for role in ("workload_llm", "workload"):
        (tmp_path / "me" / "bench" / "roles" / role).mkdir(parents=True)
    package = importlib.import_module("ansible_collections")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    assert command_line_errors.LookupModule().run([]) == []
    given["workload_sed"] = 3
    (error,) = command_line_errors.LookupModule().run([])
    assert "did you mean 'workload_seed'?" in error
