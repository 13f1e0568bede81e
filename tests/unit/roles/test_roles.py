# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The defaults of every role equal its argument_specs, and each entry point has tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import settings_catalogue

ROOT = Path(__file__).parents[3]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())


def load(path: Path) -> dict:
    return (files.read_yaml(path) or {}) if path.exists() else {}


#: Defaults that follow from other settings. antsibull-docs permits only a literal as default of a dictionary.
EXPRESSIONS = ["fine_tuning_hyper_parameters"]


@pytest.fixture(params=ROLES, ids=lambda path: path.name)
def role(request: pytest.FixtureRequest) -> Path:
    return request.param


def entries(role: Path) -> dict[str, dict]:
    return load(role / "meta" / "argument_specs.yml").get("argument_specs") or {}


def test_defaults_equal_argument_specs(role: Path) -> None:
    defaults = load(role / "defaults" / "main.yml")
    declared = {
        name: spec.get("default")
        for entry in entries(role).values()
        for name, spec in (entry.get("options") or {}).items()
        if not spec.get("required")
    }
    defaults.pop("cluster_acquired", None)  # the error message if the fact was never set
    defaults.update({name: {} for name in EXPRESSIONS if name in defaults})
    assert defaults == declared


def test_a_role_that_needs_a_cluster_reports_a_missing_one(role: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in role.glob("[dtv]*/*.yml")]
    if role.name != "cluster" and any("cluster_acquired." in text for text in texts):
        assert "needs a cluster, and there is none" in load(role / "defaults" / "main.yml")["cluster_acquired"]


def test_facts_of_a_run_are_not_rendered_while_arguments_are_validated(role: Path) -> None:
    path = role / "meta" / "argument_specs.yml"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if "cluster_acquired." in line and "default:" in line and "!unsafe" not in line]


def test_an_option_is_the_same_at_every_entry_point(role: Path) -> None:
    seen: dict[str, dict] = {}
    for entry in entries(role).values():
        for name, spec in (entry.get("options") or {}).items():
            assert seen.setdefault(name, spec) == spec, name


def test_options_carry_the_prefix_of_their_role_and_a_description(role: Path) -> None:
    for entry in entries(role).values():
        for name, spec in (entry.get("options") or {}).items():
            assert f"{name}_".startswith(f"{role.name}_") or name == "secrets_dir", name
            assert spec.get("description"), name
            assert spec.get("required") or "default" in spec, f"{name} is a setting and has no default"


def test_parameters_are_options_that_no_preset_sets(role: Path) -> None:
    path = role / "meta" / "parameters.yml"
    parameters = load(path) if path.exists() else []
    optional = {
        name
        for entry in entries(role).values()
        for name, spec in (entry.get("options") or {}).items()
        if not spec.get("required")
    }
    assert parameters == sorted(set(parameters) & optional)
    assert not set(parameters) & settings_catalogue.load_catalogue(ROOT).settings.keys()
    presets = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "group_vars").rglob("*.yml"))
    assert [name for name in parameters if f"{name}:" in presets] == []


def test_every_entry_point_has_its_tasks_and_a_description(role: Path) -> None:
    assert entries(role), "no argument_specs"
    for name, entry in entries(role).items():
        assert (role / "tasks" / f"{name}.yml").exists(), name
        assert entry.get("short_description"), name


def test_the_role_has_a_readme(role: Path) -> None:
    assert (role / "README.md").exists()


def test_requirements_of_a_role_have_the_format_that_doctor_reads(role: Path) -> None:
    needs = load(role / "meta" / "doctor.yml") if (role / "meta" / "doctor.yml").exists() else {}
    known = "workloads watches alternatives kinds namespaces storage_classes plan requests permissions nodes installs"
    assert set(needs) <= {*known.split()}
    for one in [*needs.get("permissions", ()), *needs.get("nodes", ())]:
        assert "{{" not in str(one.get("when", "")), f"'when' is an expression already: {one['when']}"


def test_settings_of_roles_that_install_one_operator_have_the_same_description() -> None:
    installers = [
        role for role in ROLES if "for_role" in "".join(p.read_text() for p in role.glob("tasks/install.yml"))
    ]
    assert len(installers) > 4
    texts: dict[str, set[str]] = {}
    for role in installers:
        for name, spec in entries(role)["install"]["options"].items():
            texts.setdefault(name.removeprefix(f"{role.name}_"), set()).add(str(spec["description"]))
    shared = ("catalog", "channel")
    assert {name: texts[name] for name in shared if len(texts[name]) > 1} == {}


def test_no_condition_of_a_block_changes_inside_of_it(role: Path) -> None:
    """Every task of a block has its condition, those of ``rescue`` too: after a fact has changed, they are skipped."""
    wrong = []
    for path in role.glob("tasks/**/*.yml"):
        for block in blocks(files.read_yaml(path) or []):
            inside = [task for part in ("block", "rescue", "always") for task in block.get(part) or []]
            facts = {name for task in inside for name in task.get("ansible.builtin.set_fact") or {}}
            wrong += [f"{path}: {name}" for name in facts if name in str(block.get("when", ""))]
    assert wrong == []


def blocks(tasks: list[dict]) -> Iterator[dict]:
    """Every block, also inside of others."""
    for task in tasks:
        if "block" in task:
            yield task
            yield from blocks([one for part in ("block", "rescue", "always") for one in task.get(part) or []])


def test_the_metadata_of_a_role_is_complete(role: Path) -> None:
    info = load(role / "meta" / "main.yml").get("galaxy_info") or {}
    assert {"author", "description", "license", "min_ansible_version"} <= {key for key, value in info.items() if value}
    assert (role / "README.md").exists()


def test_no_key_of_argument_specs_is_there_twice(role: Path) -> None:
    """Ansible warns of a key that a merge (``<<``) brings too, on each ``ansible-doc``."""
    path = role / "meta" / "argument_specs.yml"
    if path.exists():
        assert list(_twice(yaml.compose(path.read_text(encoding="utf-8")))) == []


def _twice(node: yaml.Node | None) -> Iterator[str]:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == "<<":
            own = {one.value for one, _value in node.value}
            yield from (one.value for one, _value in value.value if one.value in own)
        yield from _twice(value)


def test_a_name_on_the_command_line_does_not_name_each_cluster_of_a_run() -> None:
    """``-e rehearsal_name`` wins over the variables of an include, and a run may have several clusters."""
    folder = next(path for path in ROLES if path.name == "cluster") / "tasks" / "rehearsal"
    tasks = [task for path in folder.glob("*.yml") for task in load_tasks(path)]
    given = [task.get("vars") or {} for task in tasks if _included_role(task) == "perfscale.seatrial.rehearsal"]
    assert len(given) == 3, "acquire, nodes, release"
    assert all("__rehearsal_instance" in one for one in given)
    assert not any("rehearsal_name" in (task.get("vars") or {}) for task in tasks)


def _included_role(task: dict) -> str:
    return str((task.get("ansible.builtin.include_role") or {}).get("name") or "")


def load_tasks(path: Path) -> list[dict]:
    tasks = files.read_yaml(path)
    return [*tasks, *blocks(tasks)]
