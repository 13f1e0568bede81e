# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks before a run of a project begins, with settings as ``-e`` gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    phase_preconditions,
    resolve_settings,
    setting_templates,
    settings_catalogue,
    settings_from_ansible,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import (
    RequestedSettings,
    SettingsLayer,
)

CATALOGUE = settings_catalogue.load_catalogue(phase_preconditions.ROOT)
DEFAULTS = settings_from_ansible.role_defaults(DataLoader(), CATALOGUE)
PHASES = ["settings", "lease", "cluster", "prepare", "test", "report", "cleanup", "release", "export"]


def preflight(
    chosen: list[str], *layers: SettingsLayer, project: str = "fine_tuning", **given: Any
) -> phase_preconditions.PreflightInput:
    """Return the checks of the phases ``chosen``. layers: below ``given``, which -e sets."""
    request = RequestedSettings(project, (), (*layers, SettingsLayer("extra", "-e", given)))
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {"playbook_dir": "/"})
    found = resolve_settings.resolve_request(request, CATALOGUE, DEFAULTS, render)
    return phase_preconditions.PreflightInput(request, found, CATALOGUE, render, chosen, {}, PHASES)


def check(chosen: list[str], run_dir: Path | None = None, *layers: SettingsLayer, **given: Any) -> None:
    """Raise InputError for what is refused. run_dir: of the run to continue."""
    preflight(chosen, *layers, **given).check(run_dir)
