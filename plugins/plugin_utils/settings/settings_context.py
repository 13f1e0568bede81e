# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the settings of a project are resolved from, as Ansible has it; a run and the doctor resolve them alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

from . import (
    apply_settings_layers,
    cluster_profiles,
    collect_settings_layers,
    preset_definitions,
    project_role,
    resolve_settings,
    settings_catalogue,
    source_locations,
    template_names,
)
from .apply_settings_layers import SettingsError
from .matrix_points import Render
from .requested_settings import RequestedSettings, SettingsLayer

#: Variable in which Ansible keeps the parts of ``-e`` without an equals sign.
LEFT_OVER = "_raw_params"
ROOT = project_role.ROOT


@dataclass(frozen=True)
class SettingsContext:
    """Variables of the task, ``-e`` (``extra``), all settings, their raw defaults, and what renders templates."""

    role: project_role.ProjectRole
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
        """Read the catalogue, the defaults, and the presets that are installed with the roles.

        project: name of its role, in full for one of another collection. more: values of variables that otherwise only
        a run defines. Raises InputError for a role that is not installed.
        """
        role = project_role.find(project)
        catalogue = settings_catalogue.load(ROOT, role)
        defaults = collect_settings_layers.defaults(loader, catalogue)
        variables = {**preset_definitions.installed(role, variables, loader), **variables}
        others = {name: value for name, value in variables.items() if name not in defaults} | more
        render = collect_settings_layers.renderer(templar, others)
        return cls(role, variables, extra, catalogue, defaults, render)

    @property
    def project(self) -> str:
        """The name of the project."""
        return self.role.project

    def request(self) -> RequestedSettings:
        """Return the request of a new run. Raises InputError for an unknown name in ``-e`` or an unknown preset."""
        self.check_names()
        profiles = self.render(self.variables.get("cluster_profiles") or {}, self.defaults)[0]
        cluster_profiles.check(profiles, preset_definitions.names(self.variables))
        return collect_settings_layers.request(self.project, self.variables, self.extra, self.defaults, self.catalogue)

    def preset_list(self) -> list[str]:
        """Return the list of all presets if ``-e preset=list`` asks for it."""
        asked = apply_settings_layers.preset_names(self.variables.get("preset"))
        return preset_definitions.listing(self.variables, self.project) if asked == [preset_definitions.LIST] else []

    def preset_layers(self, names: list[str]) -> list[SettingsLayer]:
        """Return the layers of these presets and of all presets that they extend."""
        known = preset_definitions.by_name(preset_definitions.of(self.variables, self.project))
        return collect_settings_layers.preset_layers(names, known, self.catalogue)

    def replaced(self, request: RequestedSettings) -> list[str]:
        """Return a sentence for each preset of a request that replaces another one of the same name."""
        return preset_definitions.replaced(preset_definitions.of(self.variables, self.project), request.names())

    def check_names(self) -> None:
        """Raise InputError for an unknown name in ``-e``, and for a part without a name."""
        if left := self.extra.get(LEFT_OVER):
            raise InputError(
                f"-e: '{left}' belongs to no variable: Ansible splits -e at blanks. Separate presets by commas, "
                """-e preset=a,b, and quote another value twice, -e 'name="a b"'"""
            )
        self.catalogue.check_names(self.extra, self.project, "-e")

    def effective(self, request: RequestedSettings) -> resolve_settings.EffectiveSettings:
        """Resolve a request. Raises SettingsError, with file and line of the value where they are known."""
        try:
            found = resolve_settings.effective(request, self.catalogue, self.defaults, self.render)
            self._refuse_undefined(found)
            return found
        except SettingsError as error:
            raise SettingsError(source_locations.placed(error, request.where(error.source, error.at))) from error

    def _refuse_undefined(self, found: resolve_settings.EffectiveSettings) -> None:
        """Raise SettingsError for a value that waits for something that not even the run defines."""
        last = {str(change.path[0]): change for change in found.resolved.changes}
        for name in found.late:
            change = last.get(name)
            if change is None or not self.render(change.value, found.settings)[1]:
                continue
            missing = template_names.undefined(change.value, found.settings, self.variables)
            if missing is not None:
                why = f"nothing defines '{missing}'" if missing else "it names a part of a variable that does not exist"
                like = nearest(missing, [*found.settings, *template_names.OF_RUN])
                raise SettingsError(
                    f"{change.source}: {name} is '{change.value}', and {why}{like}", change.key, change.source
                )
