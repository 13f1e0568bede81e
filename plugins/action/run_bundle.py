# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the bundle of a run, or unpack one and write the settings to run it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import ansible_errors
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import rerun_settings
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import convert_setting_values

from . import _without_secrets


class ActionModule(_without_secrets.ActionModule):
    """See the documentation of module run_bundle."""

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Make paths absolute; add the secrets that must not be in a bundle.

        A module runs in the folder of the playbook, so only the action knows the user's working directory.
        """
        if arguments.get("run_dir") and not arguments.get("dest"):
            run_dir = Path(convert_setting_values.absolute_path(arguments["run_dir"]))
            arguments = {**arguments, "dest": f"{run_dir.name}.tar.gz"}
        paths = {
            name: convert_setting_values.absolute_paths(arguments[name])
            for name in ("run_dir", "source", "dest")
            if arguments.get(name)
        }
        known = {**arguments, **paths}
        return super().prepare(known, task_vars) if known.get("run_dir") else known

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module; of an unpacked bundle, write the settings."""
        result = super().run(tmp, task_vars)
        if "manifest" in result and not result.get("failed"):
            with ansible_errors():
                result["rerun"] = rerun_settings.write_rerun_file(Path(result["path"]), result["manifest"])
        return result
