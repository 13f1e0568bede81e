# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect the layers of settings from Ansible: role defaults, inventory, presets, ``-e``; also tags and rendering."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleTemplateError, AnsibleUndefinedVariable
from ansible.template import is_trusted_as_template
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

from . import preset_definitions, user_path
from .apply_settings_layers import SettingsError, expand, preset_names
from .requested_settings import RequestedSettings, SettingsLayer, reachable
from .settings_catalogue import TREE_WORDS, Catalogue
from .source_locations import places
from .unsafe_text import looks_like_template, mark

#: Special tags of Ansible, and a tag that Molecule always skips.
TAG_WORDS = ("all", "always", "never", "tagged", "untagged", "notest", "molecule-notest")


def raw(value: Any) -> Any:
    """Return a variable's raw value as plain data; text that is not a trusted template becomes UnsafeText."""
    return mark(value, is_trusted_as_template)


def with_absolute_paths(values: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """Return raw values with absolute paths: a later session may have another working directory."""
    return {
        name: user_path.absolute_all(value)
        if name in catalogue.settings and catalogue.settings[name].is_path and not looks_like_template(str(value))
        else value
        for name, value in values.items()
    }


def defaults(loader: Any, catalogue: Catalogue) -> dict[str, Any]:
    """Return the raw default of every setting except secrets, from the roles' defaults/main.yml."""
    found: dict[str, Any] = {}
    for folder in catalogue.roles.values():
        path = folder / "defaults" / "main.yml"
        if path.exists():
            found.update(raw(loader.load_from_file(str(path), unsafe=True, trusted_as_template=True) or {}))
    known = {name: setting.default for name, setting in catalogue.settings.items() if not setting.secret}
    return {name: found.get(name, default) for name, default in known.items()}


def inventory(
    variables: Mapping[str, Any], base: Mapping[str, Any], extra: Mapping[str, Any], catalogue: Catalogue
) -> SettingsLayer:
    """Return the layer of values from inventories and the play: neither defaults nor ``-e``."""
    given = {name: variables[name] for name in catalogue.settings if name in variables and name not in extra}
    given |= {name: value for name, value in _below_extra(variables).items() if name in extra}
    values: dict[str, Any] = {}
    for name, setting in catalogue.settings.items():
        if name in given and not setting.secret:
            value = raw(given[name])
            if value != base.get(name):
                values[name] = value
    return SettingsLayer(
        "inventory",
        "inventory",
        with_absolute_paths(values, catalogue),
        places({name: given[name] for name in values}),
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
    for name in reachable(known, names):
        _refuse_edited_presets(f"preset {name}", known[name], known, catalogue)
    return [
        SettingsLayer("preset", name, with_absolute_paths(raw(known[name]), catalogue), places(known[name]))
        for name in reachable(known, names)
    ]


def _refuse_edited_presets(
    source: str, values: Mapping[str, Any], presets: Mapping[str, Any], catalogue: Catalogue
) -> None:
    """Raise SettingsError for a key that reaches into a preset, such as ``light.fine_tuning_count``."""
    for key in values:
        preset, _dot, rest = str(key).partition(".")
        if preset_definitions.project_of(preset):
            preset, _dot, rest = rest.partition(".")
        if rest and preset in presets and preset not in catalogue.settings:
            raise SettingsError(
                f"{source} sets '{key}', and nothing can change another preset: extend it in a preset that you name, "
                f"and set the value there: {{extends: [{preset}], {rest}: <value>}}",
                key,
                source,
            )


def request(
    project: str, variables: Mapping[str, Any], extra: Mapping[str, Any], base: Mapping[str, Any], catalogue: Catalogue
) -> RequestedSettings:
    """Return the request of a new run. Raises SettingsError for an unknown preset and for a preset cycle."""
    names = preset_names(variables.get("preset"))
    known = preset_definitions.by_name(preset_definitions.of(variables, project))
    for name in names:
        try:
            list(expand(known, name))  # raises an error that can name all known presets
        except SettingsError as error:
            asked = variables["preset"] if error.at == name else error.at
            raise SettingsError(str(error), asked, error.source) from error
    layers = [inventory(variables, base, extra, catalogue), *preset_layers(names, known, catalogue)]
    words = {word: variables[word] for word in TREE_WORDS if word in variables}
    overrides = variables.get("overrides") or {}
    if not isinstance(overrides, Mapping):
        example = '-e \'{"overrides": {"dotted.key": "value"}}\''
        raise SettingsError(f"overrides needs a dictionary, got '{overrides}'; give it as JSON: {example}", overrides)
    _refuse_edited_presets("overrides", overrides, known, catalogue)
    if overrides:
        layers.append(
            SettingsLayer("overrides", "overrides", with_absolute_paths(raw(overrides), catalogue), places(overrides))
        )
    layers.append(extra_layer(extra, catalogue, words))
    return RequestedSettings(project, tuple(names), tuple(one for one in layers if one.values or one.kind == "preset"))


def extra_layer(extra: Mapping[str, Any], catalogue: Catalogue, words: Mapping[str, Any]) -> SettingsLayer:
    """Return the layer of ``-e``: all settings except secrets, and ``words`` (matrix, pre_cleanup) as written."""
    values = {
        name: raw(value)
        for name, value in extra.items()
        if name in catalogue.settings and not catalogue.settings[name].secret
    }
    return SettingsLayer(
        "extra", "-e", {**with_absolute_paths(values, catalogue), **raw(words)}, places({**extra, **words})
    )


def chosen(phases: list[str], run_tags: list[str], skip_tags: list[str]) -> list[str]:
    """Return the phases that the tags select. Raises InputError for a tag that is not a phase of this playbook."""
    for option, tags in (("--tags", run_tags), ("--skip-tags", skip_tags)):
        for tag in tags:
            if tag not in phases and tag not in TAG_WORDS:
                raise InputError(
                    f"{option} {tag}: no phase has this name{nearest(tag, phases)}; phases: {', '.join(phases)}"
                )
    every = not run_tags or any(tag in run_tags for tag in ("all", "tagged"))
    return [phase for phase in phases if (every or phase in run_tags) and phase not in skip_tags]


def renderer(templar: Any, variables: Mapping[str, Any]) -> Any:
    """Return a function (value, tree) -> (rendered value, whether some name in it is not defined yet).

    A tree must not change between two calls with it.
    """
    from ansible.template import trust_as_template

    def trusted(value: Any) -> Any:
        from .unsafe_text import UnsafeText

        if isinstance(value, dict):
            return {key: trusted(one) for key, one in value.items()}
        if isinstance(value, list):
            return [trusted(one) for one in value]
        return trust_as_template(value) if isinstance(value, str) and not isinstance(value, UnsafeText) else value

    seen: list[Any] = [None, None]  # the last tree and its engine: the settings of a tree are rendered in succession

    def engine_for(tree: Mapping[str, Any]) -> Any:
        if seen[0] is not tree:
            names = {**variables, **{name: trusted(one) for name, one in tree.items()}}
            seen[:] = tree, templar.copy_with_new_env(available_variables=names)
        return seen[1]

    def render(value: Any, tree: Mapping[str, Any]) -> tuple[Any, bool]:
        engine = engine_for(tree)
        try:
            return mark(engine.template(trusted(value)), lambda _text: False), False
        except AnsibleUndefinedVariable:
            return value, True
        except AnsibleTemplateError as error:
            raise SettingsError(f"can't render '{value}': {error}", value) from error

    return render
