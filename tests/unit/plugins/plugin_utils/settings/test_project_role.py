"""The role of a project may belong to any collection: its settings, presets and requirements are read from there."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.new_project import (
    NewProject,
    write_project_files,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    cluster_requirements,
    presets_from_variables,
    project_role,
    settings_catalogue,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext

ROOT = Path(__file__).resolve().parents[5]
LOADER = DataLoader()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The installed collection me.bench with a project of the skeleton, my_llm_test."""
    write_project_files(NewProject("my_llm_test", "me.bench", tmp_path), ROOT / "skeletons")
    package = ModuleType("ansible_collections.me.bench")
    package.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, package.__name__, package)
    return tmp_path


def test_a_short_name_is_a_role_of_this_collection() -> None:
    for name in ("fine_tuning", "perfscale.seatrial.fine_tuning"):
        found = project_role.find_role(name)
        assert (found.name, found.ours) == ("perfscale.seatrial.fine_tuning", True)
        assert found.folder.resolve() == ROOT / "roles" / "fine_tuning"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("me.bench.my_lm_test", r"has no role 'my_lm_test' \(did you mean 'my_llm_test'\?\); roles: my_llm_test"),
        ("me.missing.x", r"collection me\.missing is not installed"),
        ("me.bench", r"'me\.bench' is not a valid role: write <namespace>\.<collection>\.<role>"),
        ("me.bench.roles/x", "is not a valid role"),
    ],
)
def test_a_role_that_can_not_be_found_is_refused(bench: Path, name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        project_role.find_role(name)


def test_settings_presets_and_requirements_are_those_of_the_role(bench: Path, ansible_plugins: None) -> None:
    variables = {"preset": "light", "run_id": "t1"}
    context = SettingsContext.of("me.bench.my_llm_test", variables, {}, LOADER, Templar(loader=LOADER))
    assert "common_presets" in context.variables
    found = context.effective(context.request())
    assert (found.settings["my_llm_test_count"], found.settings["my_llm_test_gpus"]) == (5, 1)
    assert found.settings["fake_gpu_nodes"] == 2
    assert cluster_requirements.read_doctor_files("me.bench.my_llm_test", required=True)[-1]["workloads"] == ["Job"]
    with pytest.raises(InputError, match="did you mean 'my_llm_test_count'"):
        SettingsContext.of(
            "me.bench.my_llm_test", variables, {"my_llm_test_cuont": 1}, LOADER, Templar(loader=LOADER)
        ).request()


def test_other_entry_points_are_those_given_or_those_of_the_playbook_of_the_project(bench: Path) -> None:
    for name, expected in (("fine_tuning", ["prepare_beside"]), ("workload_scale", ["report"]), ("sample", [])):
        assert project_role.additional_entry_points(project_role.find_role(name), None) == expected
    role, path = project_role.find_role("me.bench.my_llm_test"), bench / "playbooks" / "my_llm_test.yml"
    assert project_role.additional_entry_points(role, None) == []
    path.write_text(path.read_text() + "    run_role_also: [prepare_beside]\n")
    with pytest.raises(InputError, match=r"role me\.bench\.my_llm_test has no entry point 'prepare_beside'"):
        project_role.additional_entry_points(role, None)
    (bench / "roles/my_llm_test/tasks/prepare_beside.yml").write_text("---\n")
    assert project_role.additional_entry_points(role, None) == ["prepare_beside"]
    assert project_role.additional_entry_points(role, []) == []
    with pytest.raises(InputError, match=r"'prepare_besides' is none of .* \(did you mean 'prepare_beside'\?\)"):
        project_role.additional_entry_points(role, ["prepare_besides"])


def test_presets_that_the_inventory_defines_are_not_replaced(bench: Path) -> None:
    role = project_role.find_role("me.bench.my_llm_test")
    assert set(presets_from_variables.presets_missing_from_variables(role, {}, LOADER)) == {
        "common_presets",
        "my_llm_test_presets",
    }
    given = {"common_presets": {}, "my_llm_test_presets": {}}
    assert presets_from_variables.presets_missing_from_variables(role, given, LOADER) == {}


def test_a_role_with_the_name_of_one_of_ours_or_with_one_of_its_settings_is_refused(bench: Path) -> None:
    (bench / "roles" / "my_llm_test").rename(bench / "roles" / "workload")
    with pytest.raises(InputError, match=r"perfscale\.seatrial has a role of this name"):
        settings_catalogue.load_catalogue(ROOT, project_role.find_role("me.bench.workload"))
    (bench / "roles" / "workload").rename(bench / "roles" / "another")
    specs = bench / "roles" / "another" / "meta" / "argument_specs.yml"
    text = specs.read_text(encoding="utf-8")
    for name, what in (("workload_in_flight", "setting"), ("workload_count", "parameter")):
        specs.write_text(text.replace("my_llm_test_count", name), encoding="utf-8")
        with pytest.raises(InputError, match=f"'{name}' is a {what} of role workload"):
            settings_catalogue.load_catalogue(ROOT, project_role.find_role("me.bench.another"))


def test_the_record_of_a_run_names_role_and_version(bench: Path) -> None:
    command = run_record.CommandLine(["ansible-playbook"], {}, [])
    record = run_record.new_record("t1121-abcdef", project_role.find_role("me.bench.my_llm_test"), [], ["001"], command)
    assert (record["project"], record["role"]) == ("my_llm_test", "me.bench.my_llm_test")
    assert record["versions"]["me.bench"] == "0.1.0"
