# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run module held_clusters with the commands that give back what runs hold."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible import context
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.module_actions import ProgressAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import held_resources
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role


class ActionModule(ProgressAction):
    """See the documentation of module held_clusters."""

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Add the folder of the components and the commands."""
        params = super().prepare(arguments, task_vars)
        artifacts = Path(str(params["artifacts_dir"])).expanduser()
        commands = held_resources.commands_by_run_directory(artifacts, sys.argv, context.CLIARGS)
        return {**params, "components_dir": str(project_role.COMPONENTS), "commands": commands}
