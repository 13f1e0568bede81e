# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that may be set from outside: by a directive in a pull request, whose author may be anyone.

meta/outside.yml of a role lists them under ``settings``; a setting that it does not list can't be set from outside. An
entry is a setting or a dotted key. ``presets`` lists what a preset may set too that is asked for from outside. What a
preset does decides, not which role it belongs to: any other setting that it changes needs the permission of the lab.
``effects`` has words for what some of these do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import limit_processor_time
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    component_selection,
    component_spec,
)

from . import dotted_paths, matrix_points, project_role, setting_templates
from .settings_catalogue import RESERVED, Catalogue
from .settings_layers import setting_changes_of_preset

#: What a text from outside may be: a word, a number, a quantity. Nothing in it means anything to a template or a shell.
WORD = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
_LONGEST = 4096
#: Seconds of processor time for a pattern of the lab and a text of a stranger.
PATTERN_LIMIT = 2.0
ONLY_LAB = ", which only the lab decides"
#: What a preset does that sets the first depends on its values: a component may be what the second starts.
COMPONENTS, REAL_NODES = "rehearsal_components", "rehearsal_nodes_real"


@dataclass(frozen=True)
class OutsideSettings:
    """patterns: setting or dotted key -> regular expression that texts in its value must match.

    of_presets: settings that a preset may set too. effects: what other settings do.
    """

    patterns: Mapping[str, str]
    of_presets: frozenset[str] = field(default_factory=frozenset)
    effects: Mapping[str, str] = field(default_factory=dict)

    def permitting(self, more: Mapping[str, str | None], catalogue: Catalogue) -> OutsideSettings:
        """Return these and the keys that a lab permits. Raises InputError for a secret, a path or an unknown one."""
        for key, pattern in more.items():
            name = _setting_name_of_dotted_key(key, "ci_variables")
            if name not in catalogue.settings:
                raise InputError(
                    f"ci_variables: unknown setting '{key}'{suggest_similar_name(name, catalogue.settings)}"
                )
            if why := why_never_permitted(name, catalogue):
                raise InputError(f"ci_variables: '{key}' can't be permitted: {why}")
            try:
                re.compile(pattern or WORD)
            except re.error as error:
                raise InputError(
                    f"ci_variables: {key}: '{pattern}' is not a valid regular expression: {error}"
                ) from error
        return replace(self, patterns={**self.patterns, **{key: pattern or WORD for key, pattern in more.items()}})

    def why_preset_refused(
        self, name: str, definitions: Mapping[str, Mapping[str, Any] | None], catalogue: Catalogue
    ) -> str:
        """Return what a preset does, by itself or through those that it extends, that only the lab decides.

        An empty string if it only sets the load. What has its default in the end does nothing.
        """
        final = {change.path: change for change in setting_changes_of_preset(definitions, name)}
        for path, change in final.items():
            default = catalogue.settings[str(path[0])].default if path[0] in catalogue.settings else None
            if len(path) == 1 and change.value == default:
                continue
            for key, value in _settings_in_change(path, change.value):
                if what := self._why_not_of_presets(key, value):
                    preset = change.source.split(" ")[-1]
                    through = f"{name} extends {preset}, which" if preset != name else name
                    return f"{through} sets {key}{what}"
        return ""

    def _why_not_of_presets(self, setting: str, value: Any) -> str:
        """Return what a value does that only the lab decides, an empty string if a preset may set it."""
        if setting == COMPONENTS:
            return self._why_components_refused(list(setting_templates.texts_in_value(value)))
        if setting in RESERVED or setting in self.of_presets or self._is_listed(setting):
            return ""
        return f": {self.effects[setting]}" if setting in self.effects else ONLY_LAB

    def _why_components_refused(self, names: list[str]) -> str:
        """Components that simulate may be asked for: neither a real node nor programs of others."""
        for name in component_selection.names_with_required(project_role.COMPONENTS, names):
            if name == component_spec.REAL_NODE_COMPONENT:
                return f" to '{name}': {self.effects[REAL_NODES]}"
            if "/" in name or not (project_role.COMPONENTS / name / component_spec.FILE).is_file():
                return f" to '{name}'{ONLY_LAB}"
        return ""

    def _is_listed(self, setting: str) -> bool:
        return any(str(_parse_key(key)[0]) == setting for key in self.patterns)

    def check(self, values: Mapping[str, Any], origins: Mapping[str, str], catalogue: Catalogue) -> None:
        """Raise InputError for the first value that may not be set from outside."""
        for key, value in values.items():
            where = origins.get(key, "a directive")
            if key == matrix_points.MATRIX:
                if not isinstance(value, dict):
                    raise InputError(f"{where}: matrix needs settings with lists of values")
                for setting, choices in value.items():
                    self._check(str(setting), choices, where, catalogue)
            else:
                self._check(key, value, where, catalogue)

    def _check(self, key: str, value: Any, where: str, catalogue: Catalogue) -> None:
        name = _setting_name_of_dotted_key(key, where)
        if name not in catalogue.settings and name not in RESERVED:
            raise InputError(
                f"{where}: unknown setting '{key}'{suggest_similar_name(name, [*self.patterns, *catalogue.settings])}"
            )
        if why := why_never_permitted(name, catalogue):
            raise InputError(f"{where}: {name} can't be set from outside: {why}")
        pattern = self._pattern(dotted_paths.parse_dotted_path(key))
        if pattern is None:
            raise InputError(
                f"{where}: {key} can't be set from outside{suggest_similar_name(key, self.patterns)};"
                " meta/outside.yml of its role "
                "and the setting ci_variables list what can"
            )
        for text in setting_templates.texts_in_value(value):
            with limit_processor_time(PATTERN_LIMIT, f"{where}: {key}: comparing '{text[:60]}' with {pattern}"):
                matches = len(text) <= _LONGEST and re.fullmatch(pattern, text)
            if not matches:
                raise InputError(f"{where}: {key}: '{text[:60]}' does not match {pattern}, as texts from outside must")

    def _pattern(self, path: dotted_paths.Path) -> str | None:
        """Return the pattern of the entry that names this key or one around it."""
        keys = [key for key in self.patterns if path[: len(_parse_key(key))] == _parse_key(key)]
        return self.patterns[max(keys, key=len)] if keys else None


def why_never_permitted(name: str, catalogue: Catalogue) -> str:
    """Return why nobody outside may ever set this setting, empty if a declaration may permit it."""
    setting = catalogue.settings.get(name)
    if setting is None:
        return ""
    if setting.secret:
        return "it is a secret"
    if setting.is_path:
        return "it is a path on the machine that runs the playbook"
    if setting.role in ("ci", "notify", "export"):
        return f"it is a setting of role {setting.role}"
    return ""


@functools.cache
def load_role_declarations(root: Path) -> OutsideSettings:
    """Read the declarations of all roles of the collection at ``root``."""
    patterns: dict[str, str] = {}
    of_presets: set[str] = set()
    effects: dict[str, str] = {}
    for path in sorted((root / "roles").glob("*/meta/outside.yml")):
        declared = files.read_yaml(path)
        patterns |= dict.fromkeys(declared.get("settings") or [], WORD)
        of_presets |= set(declared.get("presets") or [])
        effects |= declared.get("effects") or {}
    return OutsideSettings(patterns, frozenset(of_presets), effects)


def _settings_in_change(path: dotted_paths.Path, value: Any) -> list[tuple[str, Any]]:
    """Return the settings that a change of a preset sets, and their values; those of a matrix are set at its points."""
    name = str(path[0])
    if name not in (matrix_points.MATRIX, matrix_points.POINTS):
        return [(name, value)]
    if len(path) > 1:
        return [(str(path[1]), value)]
    entries = value if isinstance(value, (list, tuple)) else [value]
    pairs = [(str(key), inner) for entry in entries if isinstance(entry, Mapping) for key, inner in entry.items()]
    return [(_setting_name_of_dotted_key(key, name), inner) for key, inner in pairs]


def _setting_name_of_dotted_key(key: str, where: str) -> str:
    try:
        return str(dotted_paths.parse_dotted_path(key)[0])
    except dotted_paths.PathError as error:
        raise InputError(f"{where}: {error}") from error


@functools.cache
def _parse_key(key: str) -> dotted_paths.Path:
    return dotted_paths.parse_dotted_path(key)
