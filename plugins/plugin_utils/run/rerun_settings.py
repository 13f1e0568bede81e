# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings with which the run of a bundle can be run again, elsewhere: a file for ``-e @``.

A bundle may come from anybody. Its texts stay data: Ansible renders texts of such a file, so one with braces is left
out. So are paths other than those of files in the bundle, what this machine would build or start, servers that get
secrets, and what belongs to the place of the first run: clusters, leases, exports, messages, histories.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, untrusted_input
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_names import MASK
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    project_role,
    setting_templates,
    settings_naming_programs,
    settings_naming_servers,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.roles_read_by_project import (
    roles_read_and_others,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import (
    RESERVED,
    Catalogue,
    load_catalogue,
)

FILE = "rerun.yml"
#: Roles whose settings say where a run was, who may know of it, and what it was compared with.
_OF_A_PLACE = frozenset({"cluster", "quads_lease", "export", "notify", "ci", "awx_objects", "doctor", "cleanup"})
#: Further settings of that kind, by how their names begin.
_PLACE_SETTINGS = (
    *("run_", "results_history", "results_audit_log", "results_acknowledged", "rehearsal_name", "rehearsal_expires"),
    *("rehearsal_force", "rehearsal_owner", "rehearsal_fetch_published"),
    *("workload_run_on", "workload_driver_", "workload_collect_", "metrics_prometheus", "metrics_token"),
)


@dataclass(frozen=True)
class _RerunRules:
    """What of a bundle's settings is used again.

    read: roles of the project. copies: path -> file of the bundle. top: the unpacked bundle.
    """

    catalogue: Catalogue
    read: frozenset[str]
    copies: Mapping[str, str]
    top: Path

    def why_left_out(self, name: str, value: Any) -> str:
        """Return why a setting, or a value inside one, is left out; an empty string if it is used."""
        setting = name.partition(".")[0].partition("[")[0]
        known = self.catalogue.settings.get(setting)
        if setting in RESERVED:
            if name != setting and setting != "matrix":
                return f"a part of {setting}: give it again"
            why = next(
                filter(
                    None,
                    (
                        self.why_left_out(*inner)
                        for inner in settings_naming_programs.settings_set_by_keyword(name, value)
                    ),
                ),
                "",
            )
            return why or self._why_no_data(name, value)
        if known is None:
            return "no setting of this version"
        if known.role in _OF_A_PLACE or setting.startswith(_PLACE_SETTINGS):
            return "belongs to the place of the first run"
        if known.role not in self.read:
            return "not read by this project"
        if known.secret or MASK in json.dumps(value):
            return "a secret: give it again"
        if next(settings_naming_servers.addresses_receiving_secrets({name: value}), None):
            return "names a server to which secrets of yours would be sent: give it again"
        named = {name: value}
        if any(settings_naming_programs.programs_named_by_values(named)) or any(
            settings_naming_programs.settings_starting_real_node(named)
        ):
            return "says what this machine builds or starts: give it again"
        if known.is_path and value and not _only_copies(value, self.copies):
            return "a path that is not in the bundle: give it again"
        return self._why_no_data(name, value)

    def _why_no_data(self, name: str, value: Any) -> str:
        texts = list(setting_templates.texts_in_value({name: value}))
        if setting_templates.has_template(texts):
            return "a template, which is never read from a bundle: give it again"
        paths = (text for text in texts if text not in self.copies.values())
        return (
            "a path that is not in the bundle: give it again"
            if any(_is_path_here(text, self.top) for text in paths)
            else ""
        )


def _is_path_here(text: str, top: Path) -> bool:
    """Return whether a text names a file or folder of this machine or of the bundle, though its type is a text."""
    try:
        return "/" in text and any(os.path.exists(path) for path in (os.path.expanduser(text), top / text))
    except (OSError, ValueError):  # too long for a path, or with a null character
        return False


def write_rerun_file(top: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Write rerun.yml into an unpacked bundle; return its path, the playbook's name, and what is left out and why.

    Raises InputError if the project's role is not installed.
    """
    role = project_role.find_role(str(manifest["role"]))
    catalogue = load_catalogue(project_role.ROOT, role)
    copies = {str(entry["path"]): str(top / str(entry["file"])) for entry in manifest["user_files"]}
    rules = _RerunRules(catalogue, frozenset(roles_read_and_others(role, catalogue)["read"]), copies, top)
    plain: dict[str, Any] = {}
    dotted: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, value in manifest["settings"].items():
        own = _with_paths(value, copies)
        if why := rules.why_left_out(str(name), own):
            left_out[untrusted_input.escape_control_characters(str(name)).replace("\n", " ")] = why
        else:
            (dotted if "." in str(name) or "[" in str(name) else plain)[name] = own
    values = {**plain, **({"overrides": dotted} if dotted else {})}
    head = f"---\n# Settings of run {_plain(manifest['run'])}, to run it again: -e @{FILE}\n"
    files.replace_text(
        top / FILE,
        head + setting_templates.dump_yaml_with_unsafe(setting_templates.mark_unsafe(values, lambda _text: False)),
    )
    return {"path": str(top / FILE), "project": role.project, "settings": values, "left_out": left_out}


def _plain(value: Any) -> str:
    return "".join(sign for sign in str(value) if sign.isalnum() or sign in "-_")


def _with_paths(value: Any, copies: Mapping[str, str]) -> Any:
    """Return a value with the paths of the first run replaced by those of the files in the bundle."""
    if isinstance(value, dict):
        return {key: _with_paths(entry, copies) for key, entry in value.items()}
    if isinstance(value, list):
        return [_with_paths(entry, copies) for entry in value]
    return copies.get(value, value) if isinstance(value, str) else value


def _only_copies(value: Any, copies: Mapping[str, str]) -> bool:
    paths = value if isinstance(value, list) else [value]
    return all(path in copies.values() for path in paths)
