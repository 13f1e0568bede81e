# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible knows of the settings: defaults, inventory, presets and ``-e`` as layers, tags, and what renders them.

A run and the doctor resolve their settings alike.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.compat import ansible_core

from . import (
    convert_setting_values,
    presets_from_variables,
    project_role,
    resolve_settings,
    secrets_inside_settings,
    setting_templates,
    settings_catalogue,
    settings_layers,
    settings_naming_programs,
)
from .setting_templates import Render, looks_like_template, mark_unsafe
from .settings_catalogue import RESERVED, RESERVED_VARIABLES, Catalogue
from .settings_layers import (
    RequestedSettings,
    SettingsError,
    SettingsLayer,
    file_origins_by_key,
    parse_preset_names,
    presets_with_extended,
    setting_changes_of_preset,
)

#: Special tags of Ansible, and a tag that Molecule always skips.
TAG_WORDS = ("all", "always", "never", "tagged", "untagged", "notest", "molecule-notest")


def raw_variable_value(value: Any) -> Any:
    """Return a variable's raw value as plain data; text that is not a trusted template becomes UnsafeText."""
    return mark_unsafe(value, ansible_core.is_template_text)


def with_absolute_paths(values: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """Return raw values with absolute paths: a later session may have another working directory."""
    return {
        name: convert_setting_values.absolute_paths(value)
        if name in catalogue.settings and catalogue.settings[name].is_path and not looks_like_template(str(value))
        else value
        for name, value in values.items()
    }


def role_defaults(loader: Any, catalogue: Catalogue) -> dict[str, Any]:
    """Return the raw default of every setting except secrets, from the roles' defaults/main.yml."""
    defaults: dict[str, Any] = {}
    for folder in catalogue.roles.values():
        path = folder / "defaults" / "main.yml"
        if path.exists():
            defaults.update(raw_variable_value(ansible_core.load_yaml_file(loader, str(path)) or {}))
    known = {name: setting.default for name, setting in catalogue.settings.items() if not setting.secret}
    return {name: defaults.get(name, default) for name, default in known.items()}


def inventory_layer(
    variables: Mapping[str, Any], base: Mapping[str, Any], extra: Mapping[str, Any], catalogue: Catalogue
) -> SettingsLayer:
    """Return the layer of values from inventories and the play: neither defaults nor ``-e``."""
    given_values = {name: variables[name] for name in catalogue.settings if name in variables and name not in extra}
    given_values |= {name: value for name, value in _below_extra(variables).items() if name in extra}
    values: dict[str, Any] = {}
    for name, setting in catalogue.settings.items():
        if name in given_values and not setting.secret:
            value = raw_variable_value(given_values[name])
            if value != base.get(name):
                values[name] = value
    return SettingsLayer(
        "inventory",
        "inventory",
        with_absolute_paths(values, catalogue),
        file_origins_by_key({name: given_values[name] for name in values}),
    )


def _below_extra(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables that the inventory gives to this host, also those that ``-e`` replaces; empty if unknown."""
    # Private, but what it returns is only shown.
    manager: Any = copy.copy(getattr(variables.get("hostvars"), "_variable_manager", None))
    try:
        manager._extra_vars = {}
        host = manager._inventory.get_host(variables["inventory_hostname"])
        return dict(manager.get_vars(host=host, include_hostvars=False))
    except (AttributeError, KeyError, TypeError):
        return {}


def preset_layers(
    names: list[str], known: Mapping[str, Mapping[str, Any]], catalogue: Catalogue
) -> list[SettingsLayer]:
    """Return the layers of these presets and of all presets that they extend.

    Raises SettingsError for one that edits another.
    """
    for name in presets_with_extended(known, names):
        _refuse_edited_presets(f"preset {name}", known[name], known, catalogue)
    return [
        SettingsLayer(
            "preset",
            name,
            with_absolute_paths(raw_variable_value(known[name]), catalogue),
            file_origins_by_key(known[name]),
        )
        for name in presets_with_extended(known, names)
    ]


def _refuse_edited_presets(
    source: str, values: Mapping[str, Any], presets: Mapping[str, Any], catalogue: Catalogue
) -> None:
    """Raise SettingsError for a key that reaches into a preset, such as ``light.fine_tuning_count``."""
    for key in values:
        preset, _dot, rest = str(key).partition(".")
        if presets_from_variables.project_of_presets_variable(preset):
            preset, _dot, rest = rest.partition(".")
        if rest and preset in presets and preset not in catalogue.settings:
            raise SettingsError(
                f"{source} sets '{key}', and nothing can change another preset: extend it in a preset that you name, "
                f"and set the value there: {{extends: [{preset}], {rest}: <value>}}",
                key,
                source,
            )


def _is_usable_preset(name: str, known: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether a preset exists, and all that it extends."""
    try:
        list(setting_changes_of_preset(known, name))
    except SettingsError:
        return False
    return True


def request_of_new_run(
    project: str, variables: Mapping[str, Any], extra: Mapping[str, Any], base: Mapping[str, Any], catalogue: Catalogue
) -> RequestedSettings:
    """Return the request of a new run. Raises SettingsError for an unknown preset and for a preset cycle."""
    names = parse_preset_names(variables.get("preset"))
    known = presets_from_variables.usable_presets(variables, project)
    for name in names:
        try:
            list(setting_changes_of_preset(known, name))  # raises an error that can name all known presets
        except SettingsError as error:
            asked = variables["preset"] if error.at == name else error.at
            others = presets_from_variables.projects_of_preset(variables, name) if name not in known else []
            hint = f"; project {' and '.join(others)} has a preset of this name" if others else ""
            raise SettingsError(f"{error}{hint}", asked, error.source) from error
    layers = [inventory_layer(variables, base, extra, catalogue), *preset_layers(names, known, catalogue)]
    words = {word: variables[word] for word in RESERVED if word in variables}
    overrides = variables.get("overrides") or {}
    if not isinstance(overrides, Mapping):
        example = '-e \'{"overrides": {"dotted.key": "value"}}\''
        raise SettingsError(f"overrides needs a dictionary, got '{overrides}'; give it as JSON: {example}", overrides)
    _refuse_edited_presets("overrides", overrides, known, catalogue)
    if overrides:
        layers.append(
            SettingsLayer(
                "overrides",
                "overrides",
                with_absolute_paths(raw_variable_value(overrides), catalogue),
                file_origins_by_key(overrides),
            )
        )
    layers.append(extra_layer(extra, catalogue, words))
    return RequestedSettings(
        project, tuple(names), tuple(layer for layer in layers if layer.values or layer.kind == "preset")
    )


def extra_layer(extra: Mapping[str, Any], catalogue: Catalogue, words: Mapping[str, Any]) -> SettingsLayer:
    """Return the layer of ``-e``: all settings except secrets, and ``words`` (matrix, pre_cleanup) as written."""
    values = {
        name: raw_variable_value(value)
        for name, value in extra.items()
        if name in catalogue.settings and not catalogue.settings[name].secret
    }
    return SettingsLayer(
        "extra",
        "-e",
        {**with_absolute_paths(values, catalogue), **raw_variable_value(words)},
        file_origins_by_key({**extra, **words}),
    )


def phases_selected_by_tags(phases: list[str], run_tags: list[str], skip_tags: list[str]) -> list[str]:
    """Return the phases that the tags select. Raises InputError for a tag that is not a phase of this playbook."""
    for option, tags in (("--tags", run_tags), ("--skip-tags", skip_tags)):
        for tag in tags:
            if tag not in phases and tag not in TAG_WORDS:
                raise InputError(
                    f"{option} {tag}: no phase has this name{suggest_similar_name(tag, phases)}; phases:"
                    f" {', '.join(phases)}"
                )
    every = not run_tags or any(tag in run_tags for tag in ("all", "tagged"))
    return [phase for phase in phases if (every or phase in run_tags) and phase not in skip_tags]


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
        role = project_role.find_role(project)
        catalogue = settings_catalogue.load_catalogue(ROOT, role)
        defaults = role_defaults(loader, catalogue)
        variables = {**presets_from_variables.presets_missing_from_variables(role, variables, loader), **variables}
        others = {name: value for name, value in variables.items() if name not in defaults} | more
        render = setting_templates.create_template_renderer(templar, others)
        return cls(role, variables, extra, catalogue, defaults, render)

    @property
    def project(self) -> str:
        """The name of the project."""
        return self.role.project

    @secrets_inside_settings.mask_secrets_in_errors
    def request(self) -> RequestedSettings:
        """Return the request of a new run. Raises InputError for an unknown name in ``-e`` or an unknown preset."""
        self.check_names()
        profiles = self.render(self.variables.get("cluster_profiles") or {}, self.defaults)[0]
        presets_from_variables.check_cluster_profiles(
            profiles, presets_from_variables.preset_names_of_all(self.variables)
        )
        return request_of_new_run(self.project, self.variables, self.extra, self.defaults, self.catalogue)

    def settings_to_find_run(self, gives_back: bool) -> dict[str, Any]:
        """Return the settings of a session that knows the name of its run, but not its folder.

        A session that only gives back leaves out presets that are refused, and does not check profiles: the run may
        have been opened by an earlier version. Any other raises InputError for them.
        """
        if not gives_back:
            return self.effective(self.request()).settings
        known = presets_from_variables.usable_presets(self.variables, self.project)
        names = [name for name in parse_preset_names(self.variables.get("preset")) if _is_usable_preset(name, known)]
        variables = {**self.variables, "preset": names}
        request = request_of_new_run(self.project, variables, self.extra, self.defaults, self.catalogue)
        return self.effective_of_known(request)[0].settings

    def templates(self) -> dict[str, set[str]]:
        """Return the templates that role defaults, the inventory, presets and ``-e`` give to each setting."""
        known: dict[str, set[str]] = {}
        for values in self.trusted_values():
            setting_templates.add_templates(known, values)
        return known

    def programs(self) -> set[str]:
        """Return the texts with which role defaults, the inventory, presets and ``-e`` name programs to run here."""
        return set().union(*map(settings_naming_programs.programs_named_by_trusted_values, self.trusted_values()))

    def trusted_programs(self) -> set[str]:
        """Return the same texts, and those that a new run of this session would have instead of templates."""
        return self.programs() | settings_naming_programs.programs_named_by_trusted_values(
            self.effective(self.request()).settings
        )

    def trusted_values(self) -> Iterator[Mapping[str, Any]]:
        """Yield what role defaults, the inventory, presets and ``-e`` set: setting, or dotted key of one -> value."""
        variables = self.variables
        names = [*self.catalogue.settings, *RESERVED]
        presets = presets_from_variables.common_and_project_presets(variables, self.project)
        sources: list[Any] = [
            self.defaults,
            *({name: values[name] for name in names if name in values} for values in (variables, self.extra)),
            *({name: values[name] for name in names if name in values} for values in [_below_extra(variables)]),
            *(preset.values for preset in presets),
            *(values for values in [variables.get("overrides")] if isinstance(values, Mapping)),
        ]
        yield from (values if values is self.defaults else raw_variable_value(values) for values in sources)

    def preset_list(self) -> list[str]:
        """Return the list of all presets if ``-e preset=list`` asks for it."""
        asked = settings_layers.parse_preset_names(self.variables.get("preset"))
        return (
            presets_from_variables.preset_listing_of_all_projects(self.variables, self.project)
            if asked == [presets_from_variables.LIST]
            else []
        )

    def preset_layers(self, names: list[str]) -> list[SettingsLayer]:
        """Return the layers of these presets and of all presets that they extend."""
        known = presets_from_variables.usable_presets(self.variables, self.project)
        return preset_layers(names, known, self.catalogue)

    def replaced(self, request: RequestedSettings) -> list[str]:
        """Return a sentence for each preset of a request that replaces another one of the same name."""
        return presets_from_variables.describe_replaced_presets(
            presets_from_variables.common_and_project_presets(self.variables, self.project), request.presets_to_apply()
        )

    def describe_misnamed_extra_vars(self) -> list[str]:
        """Return a sentence for each name in ``-e`` that is the end of a setting's: only templates see its value."""
        others = [name for name in self.extra if name not in (*self.catalogue.settings, *RESERVED_VARIABLES)]
        roles = (self.project, "cluster", "workload")
        known = self.catalogue.settings
        meant = {name: next((f"{role}_{name}" for role in roles if f"{role}_{name}" in known), "") for name in others}
        return [
            f"-e {name} is no setting, so only a template that names it sees it (did you mean '{setting}'?)"
            for name, setting in meant.items()
            if setting
        ]

    def check_names(self) -> None:
        """Raise InputError for an unknown name in ``-e``, and for a part without a name."""
        if left := self.extra.get(LEFT_OVER):
            raise InputError(
                f"-e: '{left}' belongs to no variable: Ansible splits -e at blanks. Separate presets by commas, "
                """-e preset=a,b, and quote another value twice, -e 'name="a b"'"""
            )
        self.catalogue.check_names(self.extra, self.project, "-e")

    @secrets_inside_settings.mask_secrets_in_errors
    def effective(self, request: RequestedSettings) -> resolve_settings.EffectiveSettings:
        """Resolve a request. Raises SettingsError, with file and line of the value where they are known."""
        try:
            return self._resolve(request)
        except SettingsError as error:
            where = request.where(error.source, error.at)
            raise SettingsError(settings_layers.error_message_with_origin(error, where)) from error

    def _resolve(self, request: RequestedSettings) -> resolve_settings.EffectiveSettings:
        effective = resolve_settings.resolve_request(request, self.catalogue, self.defaults, self.render)
        self._refuse_undefined(effective)
        return effective

    def effective_of_known(self, request: RequestedSettings) -> tuple[resolve_settings.EffectiveSettings, list[str]]:
        """Resolve a request without what this version refuses in it; return a sentence for each value left out.

        For a session that only gives back: a run may have been opened by an earlier version, with settings or presets
        that exist no more. What ``-e`` of this session sets is refused as ever.
        """
        left_out: list[str] = []
        while True:
            try:
                return self._resolve(request), left_out
            except SettingsError as error:
                smaller = request.without(error.source, error.at)
                if smaller == request or (error.source == "-e" and error.at in self.extra):
                    return self.effective(request), left_out  # raises the error, with its origin
                left_out.append(f"{error}; it is left out, because this session only gives back")
                request = smaller

    def _refuse_undefined(self, effective: resolve_settings.EffectiveSettings) -> None:
        """Raise SettingsError for a value that waits for something that not even the run defines."""
        last = {str(change.path[0]): change for change in effective.resolved.changes}
        for name in effective.late:
            change = last.get(name)
            if change is None or not self.render(change.value, effective.settings)[1]:
                continue
            missing = setting_templates.first_undefined_name(change.value, effective.settings, self.variables)
            if missing is not None:
                why = f"nothing defines '{missing}'" if missing else "it names a part of a variable that does not exist"
                like = suggest_similar_name(missing, [*effective.settings, *setting_templates.OF_RUN])
                raise SettingsError(
                    f"{change.source}: {name} is '{change.value}', and {why}{like}", change.key, change.source
                )
