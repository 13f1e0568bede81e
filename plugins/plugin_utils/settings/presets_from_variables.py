# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The presets that variables define, their list, and the presets that cluster profiles name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.cluster_properties import KINDS
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.compat import ansible_core

from . import project_role, settings_layers
from .settings_layers import SettingsError, parse_preset_names, suggest_preset

#: ``-e preset=list`` shows all presets.
LIST = "list"
COMMON = "common"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_VARIABLE = re.compile(r"(?P<project>.+?)_presets(_.+)?")

Values = Mapping[str, Any]


@dataclass(frozen=True)
class PresetDefinition:
    """One entry of a variable with presets. ``where`` is its file and line, if known."""

    name: str
    variable: str
    values: Values
    where: str | None

    @property
    def description(self) -> str:
        """What the preset does, in one line; without a description, what it extends and sets."""
        if text := " ".join(str(self.values.get("description") or "").split()):
            return text
        parents = self.values.get("extends")
        parts = [f"extends {parents if isinstance(parents, str) else ', '.join(map(str, parents))}"] if parents else []
        keys = [str(key) for key in self.values if key not in ("extends", "heavy")]
        parts += [f"sets {', '.join(keys)}"] if keys else []
        return "; ".join(parts) or "sets nothing"


def project_of_presets_variable(variable: str) -> str:
    """Return the project whose presets a variable of this name contains, an empty string for another variable."""
    match = _VARIABLE.fullmatch(variable)
    return match["project"] if match else ""


def common_and_project_presets(variables: Mapping[str, Any], project: str) -> list[PresetDefinition]:
    """Return the presets that a project can use: common ones, then its own. A later one of the same name is used.

    Raises SettingsError for a variable that is not a dictionary of presets, and for a name that can't be used.
    """
    return [*_presets_in_project_variables(variables, COMMON), *_presets_in_project_variables(variables, project)]


def _presets_in_project_variables(variables: Mapping[str, Any], project: str) -> Iterator[PresetDefinition]:
    own = f"{project}_presets"
    for variable in sorted(name for name in variables if name == own or name.startswith(f"{own}_")):
        presets = variables[variable]
        if presets is not None and not isinstance(presets, Mapping):
            raise SettingsError(f"{variable} is not a dictionary of presets", presets)
        for name, values in (presets or {}).items():
            if not _NAME.fullmatch(str(name)) or name == LIST:
                why = "-e preset=list lists the presets" if name == LIST else "use letters, digits, '_', '-' and '.'"
                raise SettingsError(f"{variable}: '{name}' can't be the name of a preset: {why}", name)
            if values is not None and not isinstance(values, Mapping):
                raise SettingsError(f"preset '{name}' is not a dictionary of settings", values)
            yield PresetDefinition(str(name), variable, values or {}, ansible_core.origin_of_value(name))


def presets_missing_from_variables(
    role: project_role.ProjectRole, variables: Mapping[str, Any], loader: Any
) -> dict[str, Any]:
    """Return the presets of the role's collection, and the common ones of ours, that no variable defines yet.

    Ansible reads only the group_vars beside the playbook that was started, which may be one of another collection.
    loader: Ansible's.
    """
    presets: dict[str, Any] = {}
    for project, root in ((COMMON, project_role.ROOT), (role.project, role.root)):
        if f"{project}_presets" in variables:
            continue
        folder = root / "playbooks" / "group_vars" / "all"
        for path in sorted(path for path in folder.glob("*") if path.suffix in (".yml", ".yaml", ".json")):
            values = ansible_core.load_yaml_file(loader, str(path)) or {}
            presets |= {name: value for name, value in values.items() if project_of_presets_variable(name) == project}
    return presets


def usable_presets(variables: Mapping[str, Any], project: str) -> dict[str, Values]:
    """Return the presets that a project can use: name -> settings. Raises as common_and_project_presets()."""
    return _values_by_name(common_and_project_presets(variables, project))


def _values_by_name(definitions: Iterable[PresetDefinition]) -> dict[str, Values]:
    return {definition.name: definition.values for definition in definitions}


def describe_replaced_presets(definitions: Sequence[PresetDefinition], names: Sequence[str]) -> list[str]:
    """Return a sentence for each of these presets, and each that they extend, that replaces another one."""
    notes = []
    for name in settings_layers.presets_with_extended(_values_by_name(definitions), names):
        *others, used = [definition for definition in definitions if definition.name == name]
        notes += [
            f"preset {name} of {_format_definition_source(used)} is used; it replaces that of"
            f" {_format_definition_source(other)}"
            for other in others
        ]
    return notes


def _format_definition_source(definition: PresetDefinition) -> str:
    return (
        f"{definition.variable} ({definition.where})"
        if definition.where and not definition.where.startswith("<")
        else definition.variable
    )


def preset_listing_of_all_projects(variables: Mapping[str, Any], project: str) -> list[str]:
    """Return a line for each preset of each project, those that this project can use first."""
    lines: list[str] = []
    for owner in dict.fromkeys([project, COMMON, *_projects_with_presets(variables)]):
        presets = {preset.name: preset for preset in _presets_in_project_variables(variables, owner)}
        width = max(map(len, presets), default=0)
        lines.append("Presets for all projects:" if owner == COMMON else f"Presets of {owner}:")
        lines += [f"  {name:<{width}}  {_format_preset_description(preset)}" for name, preset in presets.items()] or [
            "  none"
        ]
    return lines


def preset_names_of_all(variables: Mapping[str, Any]) -> set[str]:
    """Return the names of the presets of all projects."""
    return {
        preset.name
        for project in _projects_with_presets(variables)
        for preset in _presets_in_project_variables(variables, project)
    }


def projects_of_preset(variables: Mapping[str, Any], name: str) -> list[str]:
    """Return the projects that have a preset of this name."""
    return [
        project
        for project in _projects_with_presets(variables)
        if any(preset.name == name for preset in _presets_in_project_variables(variables, project))
    ]


def _projects_with_presets(variables: Mapping[str, Any]) -> list[str]:
    return sorted(
        {project_of_presets_variable(name) for name, value in variables.items() if _looks_like_presets(value)} - {""}
    )


def _looks_like_presets(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        preset is None or isinstance(preset, Mapping) for preset in value.values()
    )


def _format_preset_description(preset: PresetDefinition) -> str:
    return preset.description + (" (heavy)" if preset.values.get("heavy") else "")


def check_cluster_profiles(profiles: Any, presets: Collection[str]) -> None:
    """Raise SettingsError for profiles that are no dictionary, and for a preset that no project has."""
    if not isinstance(profiles, Mapping):
        raise SettingsError(f"cluster_profiles needs a dictionary, got {profiles!r}", profiles)
    for key, value in profiles.items():
        for name in parse_preset_names(value):
            if name not in presets:
                raise SettingsError(
                    f"cluster_profiles, {key}: no project has a preset '{name}'{suggest_preset(name, presets)}",
                    key,
                )


def matching_profiles(profiles: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the presets of the profiles that match a cluster, by key."""
    names = _cluster_profile_names(cluster)
    return {key: parse_preset_names(value) for key, value in profiles.items() if key in names}


def describe_cluster_without_profile(profiles: Mapping[str, Any], cluster: Mapping[str, Any]) -> list[str]:
    """Return what to say of a cluster that no profile matches: the names that a profile of it could have."""
    if not profiles:
        return []
    like = next((hint for key in profiles if (hint := suggest_similar_name(key, _cluster_profile_names(cluster)))), "")
    kind = cluster.get("kind") or "not known"
    return [
        f"No cluster profile matches; there are {', '.join(map(str, profiles))}. The API host of this cluster is "
        f"{cluster.get('api_host')}, its kind is {kind}{like}; kinds are {', '.join(KINDS)}."
    ]


def _cluster_profile_names(cluster: Mapping[str, Any]) -> list[str]:
    own = [cluster.get("api_host"), cluster.get("kind"), *(cluster.get("node_names") or [])]
    return [name for name in own if name]
