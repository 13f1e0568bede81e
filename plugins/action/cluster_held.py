# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run module cluster_held, show what it says meanwhile, and tell it where the components of rehearsal clusters lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.progress_action import ProgressAction

COMPONENTS = Path(__file__).parents[2] / "roles" / "rehearsal" / "files" / "components"


class ActionModule(ProgressAction):
    """Module cluster_held, followed."""

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Fill in the folder of the components: a module does not know where its collection lies."""
        return {**arguments, "components_dir": arguments.get("components_dir") or str(COMPONENTS)}
