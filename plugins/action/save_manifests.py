# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Save the manifests that a role applies in the directory of its call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_files import Step
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.read_secret_settings import MASK


class ActionModule(SeatrialAction):
    """Write src/<name>.yml, without the data of Secrets."""

    ARGUMENTS = {
        "step_dir": {"type": "path", "required": True},
        "name": {"type": "str", "required": True},
        "definitions": {"type": "list", "elements": "dict", "required": True},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Write the file and return its path."""
        if not arguments["step_dir"]:
            raise InputError("step_dir is empty: pass the path that step_directory returned")
        kept = [_masked(_files.plain(one)) for one in arguments["definitions"]]
        step = Step(arguments["step_dir"])
        step.manifest(arguments["name"], kept)
        step.log(f"applies {', '.join(_title(one) for one in kept)}")
        return {"path": str(Path(arguments["step_dir"]) / "src" / f"{arguments['name']}.yml")}


def _masked(manifest: dict[str, Any]) -> dict[str, Any]:
    if manifest.get("kind") != "Secret":
        return manifest
    hidden = {part: dict.fromkeys(manifest[part], MASK) for part in ("data", "stringData") if manifest.get(part)}
    return {**manifest, **hidden}


def _title(manifest: dict[str, Any]) -> str:
    return f"{manifest.get('kind')} {(manifest.get('metadata') or {}).get('name')}"
