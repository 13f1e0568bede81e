# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every preset of every project resolves: its keys exist, its values have their types, its points are valid."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import custom_resources
import pytest
import training_objects
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    checks_declared_by_roles,
    point_loads,
    resolve_settings,
    setting_templates,
    settings_catalogue,
    settings_from_ansible,
)

ROOT = Path(__file__).parents[3]
LOADER = DataLoader()
VARIABLES: dict[str, Any] = {}
for file in sorted((ROOT / "group_vars" / "all").glob("*.yml")):
    VARIABLES.update(LOADER.load_from_file(str(file), trusted_as_template=True) or {})
PROJECTS = [name.removesuffix("_presets") for name in VARIABLES if name.endswith("_presets")]
OWN = [
    (project, name)
    for project in PROJECTS
    for variable, presets in VARIABLES.items()
    if re.fullmatch(rf"{project}_presets(_\w+)?", variable)
    for name in presets or {}
]

Known = tuple[settings_catalogue.Catalogue, dict[str, Any]]


@pytest.fixture(scope="module")
def known(ansible_plugins: None) -> Known:
    """The settings that there are, and their defaults, which may look up the environment."""
    settings = settings_catalogue.load_catalogue(ROOT)
    return settings, settings_from_ansible.role_defaults(LOADER, settings)


#: What simulated nodes never have.
LACKING = {"ilab_2x8xh100_sriov_rdma": "a pod asks for 1 rdma/shared_ib, and no node has any"}
#: What a user must add to a preset.
ADDED = {
    "ray": {"fine_tuning_command": ["python", "train.py"]},
    "notebooks_100": {"users_image": "registry.example.com/python:3"},
    "pipelines_50": {"users_image": "registry.example.com/python:3"},
    "kueue_change": {"scheduler_checkout": str(ROOT)},
}


#: Its load is long and thin, so a lab marks it for nobody; from outside it needs a permission all the same.
HEAVY_BY_ITS_LENGTH = {"soak"}

RESOLVED: dict[tuple[str, str], tuple[resolve_settings.EffectiveSettings, Any]] = {}


def resolved(project: str, name: str, known: Known) -> tuple[resolve_settings.EffectiveSettings, Any]:
    """Resolve a preset, once for all tests of a process."""
    if (project, name) not in RESOLVED:
        RESOLVED[project, name] = resolve(project, name, known)
    return RESOLVED[project, name]


def resolve(project: str, name: str, known: Known) -> tuple[resolve_settings.EffectiveSettings, Any]:
    settings, base = known
    added = ADDED.get(name.split("_")[0], {})
    request = settings_from_ansible.request_of_new_run(project, {**VARIABLES, "preset": name}, added, base, settings)
    render = setting_templates.create_template_renderer(Templar(loader=LOADER), {})
    return resolve_settings.resolve_request(request, settings, base, render), render


def check_heavy(project: str, name: str, effective: resolve_settings.EffectiveSettings, render: Any) -> None:
    """Check that a preset is marked heavy if its load is."""
    heavy = point_loads.first_heavy_load(ROOT / "roles" / project, effective.measured, render)
    marked = any(
        (presets or {}).get(name, {}).get("heavy")
        for variable, presets in VARIABLES.items()
        if re.fullmatch(rf"({project}|common)_presets(_\w+)?", variable)
    )
    assert bool(heavy) is (marked or name in HEAVY_BY_ITS_LENGTH), heavy


#: 72 points, half a minute; the next test resolves it too.
LARGE = {"dgx_single_full"}


@pytest.mark.parametrize(
    ("project", "name"),
    [pytest.param(*one, marks=[pytest.mark.long] if one[1] in LARGE else []) for one in OWN],
    ids=lambda value: value,
)
def test_the_preset_resolves_fits_on_its_simulated_nodes_and_is_marked_if_it_is_heavy(
    project: str, name: str, known: Known
) -> None:
    found, render = resolved(project, name, known)
    assert found.points
    unfit = point_loads.first_point_that_cannot_run(ROOT / "roles" / project, found.points, render)
    assert unfit.endswith(LACKING.get(name, "")) and bool(unfit) == (name in LACKING)
    checks = checks_declared_by_roles.read_checks(ROOT / f"roles/{project}/meta/checks.yml")
    for point in found.measured:
        assert (
            checks_declared_by_roles.first_refused_setting(checks, {**point.settings, **ADDED.get(name, {})}, render)
            is None
        )
    if project == "fine_tuning" and name not in LACKING:
        costs = point_loads.describe_loads_of_points(ROOT / "roles" / project, found.measured, render)
        assert all("GPU hours" in costs[point.name] for point in found.measured)
    if project != "lease":
        check_heavy(project, name, found, render)


@pytest.fixture(scope="module")
def schemas() -> dict[tuple[str, str], Any]:
    return custom_resources.validator(["training-operator", "kuberay", "jobset", "trainer"])


@pytest.mark.parametrize("name", [name for project, name in OWN if project == "fine_tuning"])
def test_the_object_of_every_point_of_a_fine_tuning_preset_is_valid(
    name: str, known: Known, schemas: dict[tuple[str, str], Any]
) -> None:
    found = resolved("fine_tuning", name, known)[0]
    made: dict[str, list[dict[str, Any]]] = {}
    for point in found.measured:
        # Hyper-parameters are in a ConfigMap; the objects of flavour ilab have them as arguments.
        values = {key: one for key, one in point.settings.items() if key.startswith("fine_tuning_")}
        if values["fine_tuning_flavour"] == "fms":
            values.pop("fine_tuning_hyper_parameters")
        values.pop("fine_tuning_namespace")
        if str(values) not in made:
            objects = training_objects.rendered(values)
            made[str(values)] = [objects.workload.manifest(0), *objects.shared]
    for manifest in itertools.chain.from_iterable(made.values()):
        wrong = schemas[manifest["apiVersion"], manifest["kind"]].iter_errors(manifest)
        assert [one.message for one in wrong] == []


def test_there_are_projects_and_each_has_a_playbook() -> None:
    projects = [project for project in PROJECTS if project != "common"]
    assert projects
    for project in projects:
        assert (ROOT / "playbooks" / f"{project}.yml").exists()


def test_every_group_vars_file_is_linked_for_playbooks() -> None:
    """Playbook-adjacent group_vars are what is read from any inventory and from an installed collection."""
    for path in (ROOT / "group_vars" / "all").glob("*.yml"):
        link = ROOT / "playbooks" / "group_vars" / "all" / path.name
        assert link.is_symlink() and link.resolve() == path.resolve()


def test_group_vars_hold_presets_and_profiles_only() -> None:
    """A value there would silently beat a lab's inventory."""
    assert [name for name in VARIABLES if "_presets" not in name and name != "cluster_profiles"] == []
