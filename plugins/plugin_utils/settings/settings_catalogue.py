# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of all settings: the options of all roles of this collection and of the project's role, from their
argument_specs.

meta/bounds.yml of a role has the least and the most value of its numeric settings: lists, objects and times are made
of these numbers, so one without a bound could take the memory of the machine.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

from .project_role import ProjectRole

#: Variables that a user may set and that are not settings.
RESERVED_VARIABLES = (
    *("preset", "overrides", "matrix", "matrix_points", "matrix_skip_if", "run_dir", "run_name", "redo"),
    *("pre_cleanup", "repeat", "cluster_profiles", "trust_run_dir"),
)

#: Keys that a preset may contain beside settings; they are resolved like settings.
RESERVED: dict[str, Any] = {
    "matrix": {},
    "matrix_points": [],
    "matrix_skip_if": [],
    "pre_cleanup": False,
    "repeat": {},
    "bisect": {},
}


#: Least and most value of a number without an entry in meta/bounds.yml: enough for 31 years in seconds. A setting
#: whose default is negative takes other negative numbers too.
BOUNDS = (0, 1_000_000_000)


@dataclass(frozen=True)
class Setting:
    """One option of a role. ``spec`` is its argument spec as Ansible's validator takes it.

    declared_bounds: least and most value of a number, None if its role declares none.
    """

    name: str
    role: str
    spec: dict[str, Any] = field(default_factory=dict)
    declared_bounds: Sequence[int] | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """Least and most value of a number."""
        least, most = self.declared_bounds or BOUNDS
        is_negative = isinstance(self.default, (int, float)) and self.default < 0
        return (-most if is_negative and not self.declared_bounds else least), most

    @property
    def type(self) -> str:
        """The declared type, ``str`` when none is declared."""
        return self.spec.get("type", "str")

    @property
    def is_path(self) -> bool:
        """Whether it is a path or a list of paths."""
        return "path" in (self.type, self.spec.get("elements"))

    @property
    def secret(self) -> bool:
        """Whether the value must never be written to a file or a screen."""
        return bool(self.spec.get("no_log"))

    @property
    def default(self) -> Any:
        """The default as declared; may be a Jinja expression."""
        return self.spec.get("default")


@dataclass(frozen=True)
class Catalogue:
    """All settings by name, folders of all roles, parameters of callers, conditions of secrets and files."""

    settings: dict[str, Setting]
    roles: Mapping[str, Path]
    parameters: frozenset[str] = frozenset()
    #: secret -> {"phases": [...], "when": Jinja expression}; what secret_entries says of a setting that contains some
    needs: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: setting that names a file or folder which must exist -> the same
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def secrets(self) -> list[str]:
        """Names of the secret settings."""
        return [name for name, setting in self.settings.items() if setting.secret]

    def role_of(self, name: str) -> str:
        """Return the role that a variable belongs to by its longest matching prefix, or an empty string."""
        return max((role for role in self.roles if name.startswith(f"{role}_")), key=len, default="")

    def is_presets(self, name: str, project: str) -> bool:
        """Return whether a variable of this name contains presets of the project."""
        return any(name == root or name.startswith(f"{root}_") for root in (f"{project}_presets", "common_presets"))

    def check_names(self, names: Iterable[str], project: str, where: str, known: Iterable[str] = ()) -> None:
        """Raise InputError, with the nearest setting, for a name that looks like one of our settings but is not.

        known: variables that a playbook has besides settings.
        """
        known = [*self.settings, *RESERVED_VARIABLES, *known]
        for name in names:
            if (
                name in self.settings
                or name in RESERVED_VARIABLES
                or self.is_presets(name, project)
                or name.startswith("ansible_")
            ):
                continue
            role = self.role_of(name)
            if not role and _is_given_by_awx(name):
                continue
            if name in self.parameters:
                raise InputError(f"{where}: '{name}' is set by the playbook itself and is not a setting")
            like = suggest_similar_name(name, known)
            if "." in name or "[" in name:
                raise InputError(
                    f"{where}: '{name}' reaches into a setting; write it as "
                    f'-e \'{{"overrides": {{"{name}": <value>}}}}\''
                )
            if role:
                raise InputError(f"{where}: unknown setting '{name}' of role {role}{like}")
            if like and _very_near(name, known):
                raise InputError(f"{where}: unknown setting '{name}'{like}")


def _is_given_by_awx(name: str) -> bool:
    """Return whether AWX may give a variable of this name to each of its jobs: all but those near to role awx_objects.

    AWX gives some 40 of them, as awx_* and tower_*, and new versions give more.
    """
    prefix, _separator, rest = name.partition("_")
    return prefix in ("awx", "tower") and not (prefix == "awx" and _very_near(rest.partition("_")[0], ["objects"]))


def _very_near(name: str, known: Iterable[str]) -> bool:
    """Return whether a name is almost certainly a typing error. Other variables are none of our concern."""
    import difflib

    return bool(difflib.get_close_matches(name, list(known), n=1, cutoff=0.85))


def load_catalogue(root: Path, project: ProjectRole | None = None) -> Catalogue:
    """Read the catalogue of the collection at ``root``, and the role of a project of another collection.

    An option with ``required: true``, or in meta/parameters.yml, is a parameter that callers pass, every other one a
    setting. The file of a secret (``<name>_file``) is a setting that every secret has implicitly. Raises InputError if
    a role here has the name of that role, or one of its settings.
    """
    return _read_catalogue(root, project if project and not project.ours else None)


@functools.cache
def _read_catalogue(root: Path, foreign: ProjectRole | None) -> Catalogue:
    from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files

    settings: dict[str, Setting] = {}
    parameters: set[str] = set()
    passed_by: dict[str, str] = {}  # a parameter to the role that has it
    needs: dict[str, dict[str, Any]] = {}
    files: dict[str, dict[str, Any]] = {}
    roles = {path.name: path for path in sorted((root / "roles").iterdir()) if path.is_dir()}
    if foreign:
        _refuse_taken_name(foreign, roles)
        roles[foreign.project] = foreign.folder
    for role, folder in roles.items():
        meta = folder / "meta"
        specs = _files.read_yaml(meta / "argument_specs.yml") if (meta / "argument_specs.yml").exists() else {}
        bounds = (_files.read_yaml(meta / "bounds.yml") or {}) if (meta / "bounds.yml").exists() else {}
        passed = (_files.read_yaml(meta / "parameters.yml") or []) if (meta / "parameters.yml").exists() else []
        for entry in (specs.get("argument_specs") or {}).values():
            for name, spec in (entry.get("options") or {}).items():
                if name in settings and settings[name].role != role:
                    raise InputError(f"{meta}/argument_specs.yml: '{name}' is a setting of role {settings[name].role}")
                if passed_by.get(name, role) != role:
                    raise InputError(f"{meta}/argument_specs.yml: '{name}' is a parameter of role {passed_by[name]}")
                if name in passed:
                    passed_by[name] = role
                if spec.get("required") or name in passed:
                    parameters.add(name)
                else:
                    settings[name] = Setting(name, role, spec, bounds.get(name))
        for name, conditions in (("secrets.yml", needs), ("files.yml", files)):
            if (meta / name).exists():
                conditions.update(_files.read_yaml(meta / name) or {})
    for name in [name for name, setting in settings.items() if setting.secret]:
        text = f"File that holds the value of {name}."
        settings[f"{name}_file"] = Setting(f"{name}_file", settings[name].role, {"type": "path", "description": text})
    return Catalogue(settings, roles, frozenset(parameters) - set(settings), needs, files)


def _refuse_taken_name(project: ProjectRole, roles: Mapping[str, Path]) -> None:
    if project.project in roles:
        raise InputError(
            f"role {project.name}: perfscale.seatrial has a role of this name, and settings {project.project}_* belong "
            "to it; give the role another name"
        )
