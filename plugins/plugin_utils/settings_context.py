# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the settings of a project are resolved from, as Ansible has it; a run and the doctor resolve them alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils import (
    collect_settings_layers,
    resolve_settings,
    settings_catalogue,
    source_locations,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.apply_settings_layers import SettingsError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.matrix_points import Render
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.requested_settings import RequestedSettings

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class SettingsContext:
    """Variables of the task, ``-e`` (``extra``), all settings, their raw defaults, and what renders templates."""

    project: str
    variables: Mapping[str, Any]
    extra: Mapping[str, Any]
    catalogue: settings_catalogue.Catalogue
    defaults: dict[str, Any]
    render: Render

    @classmethod
    def of(
        cls,
        project: str,
        variables: Mapping[str, Any],
        extra: Mapping[str, Any],
        loader: Any,
        templar: Any,
        **more: Any,
    ) -> SettingsContext:
        """Read the catalogue and the defaults. more: values of variables that otherwise only a run defines."""
        catalogue = settings_catalogue.load(ROOT)
        defaults = collect_settings_layers.defaults(loader, ROOT, catalogue)
        others = {name: value for name, value in variables.items() if name not in defaults} | more
        render = collect_settings_layers.renderer(templar, others)
        return cls(project, variables, extra, catalogue, defaults, render)

    def request(self) -> RequestedSettings:
        """Return the request of a new run. Raises InputError for an unknown name in ``-e`` or an unknown preset."""
        self.check_names()
        return collect_settings_layers.request(self.project, self.variables, self.extra, self.defaults, self.catalogue)

    def check_names(self) -> None:
        """Raise InputError for an unknown name in ``-e``."""
        self.catalogue.check_names(self.extra, self.project, "-e")

    def effective(self, request: RequestedSettings) -> resolve_settings.EffectiveSettings:
        """Resolve a request. Raises SettingsError, with file and line of the value where they are known."""
        try:
            return resolve_settings.effective(request, self.catalogue, self.defaults, self.render)
        except SettingsError as error:
            raise SettingsError(source_locations.placed(error, request.where(error.source, error.at))) from error
