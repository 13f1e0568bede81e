# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every preset of every project resolves: its keys exist, its values have their types, its points are valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import (
    collect_settings_layers,
    point_load_estimates,
    resolve_settings,
    settings_catalogue,
)

ROOT = Path(__file__).parents[3]
LOADER = DataLoader()
VARIABLES: dict[str, Any] = {}
for file in sorted((ROOT / "group_vars" / "all").glob("*.yml")):
    VARIABLES.update(LOADER.load_from_file(str(file), trusted_as_template=True) or {})
PROJECTS = [name.removesuffix("_presets") for name in VARIABLES if name.endswith("_presets")]
OWN = [(project, name) for project in PROJECTS for name in VARIABLES[f"{project}_presets"] or {}]


@pytest.fixture(scope="module")
def known(ansible_plugins: None) -> tuple[settings_catalogue.Catalogue, dict[str, Any]]:
    """The settings that there are, and their defaults, which may look up the environment."""
    settings = settings_catalogue.load(ROOT)
    return settings, collect_settings_layers.defaults(LOADER, ROOT, settings)


@pytest.mark.parametrize(("project", "name"), OWN, ids=lambda value: value)
def test_the_preset_resolves_and_its_load_fits_on_its_simulated_nodes(
    project: str, name: str, known: tuple[settings_catalogue.Catalogue, dict[str, Any]]
) -> None:
    settings, base = known
    request = collect_settings_layers.request(project, {**VARIABLES, "preset": name}, {}, base, settings)
    render = collect_settings_layers.renderer(Templar(loader=LOADER), {})
    found = resolve_settings.effective(request, settings, base, render)
    assert found.points
    assert point_load_estimates.first_unfit(project, found.points, render) == ""


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
    assert [name for name in VARIABLES if not name.endswith("_presets") and name != "cluster_profiles"] == []
