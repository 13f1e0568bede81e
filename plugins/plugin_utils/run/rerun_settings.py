# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings with which the run of a bundle can be run again, elsewhere: a file for ``-e @``.

A bundle may come from anybody. Its texts stay data: Ansible renders texts of such a file, so one with braces is left
out. So are paths other than those of files in the bundle, and what belongs to the place of the first run: clusters,
leases, exports, messages, histories.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_names import MASK
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role, setting_templates
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.roles_read import roles_read
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import (
    RESERVED,
    load_catalogue,
)

FILE = "rerun.yml"
#: Roles whose settings say where a run was, who may know of it, and what it was compared with.
_OF_A_PLACE = frozenset({"cluster", "quads_lease", "export", "notify", "ci", "awx_objects", "doctor", "cleanup"})
#: Further settings of that kind, by how their names begin.
_PLACE_SETTINGS = (
    *("run_", "results_history", "results_audit_log", "results_acknowledged", "rehearsal_name", "rehearsal_expires"),
    *("workload_run_on", "workload_driver_", "workload_collect_", "metrics_prometheus", "metrics_token"),
)


def write_rerun_file(top: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Write rerun.yml into an unpacked bundle; return its path, the playbook's name, and what is left out and why.

    Raises InputError if the project's role is not installed.
    """
    role = project_role.find_role(str(manifest["role"]))
    catalogue = load_catalogue(project_role.ROOT, role)
    read = set(roles_read(role, catalogue)["read"])
    copies = {str(entry["path"]): str(top / str(entry["file"])) for entry in manifest["user_files"]}
    plain: dict[str, Any] = {}
    dotted: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, value in manifest["settings"].items():
        setting = str(name).partition(".")[0].partition("[")[0]
        known = catalogue.settings.get(setting)
        own = _with_paths(value, copies)
        if setting not in RESERVED and known is None:
            left_out[name] = "no setting of this version"
        elif known is not None and (known.role in _OF_A_PLACE or setting.startswith(_PLACE_SETTINGS)):
            left_out[name] = "belongs to the place of the first run"
        elif known is not None and known.role not in read:
            left_out[name] = "not read by this project"
        elif (known is not None and known.secret) or MASK in json.dumps(value):
            left_out[name] = "a secret: give it again"
        elif setting_templates.has_template({name: own}) or setting_templates.has_template([str(name), *_keys(own)]):
            left_out[name] = "a template, which is never read from a bundle: give it again"
        elif known is not None and known.is_path and own and not _only_copies(own, copies):
            left_out[name] = "a path that is not in the bundle: give it again"
        else:
            (plain if setting == name else dotted)[name] = own
    values = {**plain, **({"overrides": dotted} if dotted else {})}
    head = f"---\n# Settings of run {_plain(manifest['run'])}, to run it again: -e @{FILE}\n"
    files.replace_text(top / FILE, head + setting_templates.dump_yaml(setting_templates.mark_unsafe(values, _never)))
    return {"path": str(top / FILE), "project": role.project, "settings": values, "left_out": left_out}


def _never(_text: Any) -> bool:
    return False


def _plain(value: Any) -> str:
    return "".join(sign for sign in str(value) if sign.isalnum() or sign in "-_")


def _with_paths(value: Any, copies: Mapping[str, str]) -> Any:
    """Return a value with the paths of the first run replaced by those of the files in the bundle."""
    if isinstance(value, dict):
        return {key: _with_paths(entry, copies) for key, entry in value.items()}
    if isinstance(value, list):
        return [_with_paths(entry, copies) for entry in value]
    return copies.get(value, value) if isinstance(value, str) else value


def _keys(value: Any) -> list[str]:
    """Return the keys of a value at any depth: Ansible renders them too."""
    if isinstance(value, dict):
        return [text for key, entry in value.items() for text in (str(key), *_keys(entry))]
    return [key for entry in value for key in _keys(entry)] if isinstance(value, list) else []


def _only_copies(value: Any, copies: Mapping[str, str]) -> bool:
    paths = value if isinstance(value, list) else [value]
    return all(path in copies.values() for path in paths)
