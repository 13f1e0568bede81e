# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run module cluster_lock and show its progress: the position in the queue, and who holds the lock."""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.module_actions import ProgressAction


class ActionModule(ProgressAction):
    """The lock ends with ansible-playbook."""

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Add the id of ansible-playbook, with which the lock ends: an action runs in a worker of it."""
        return {"caller_pid": os.getppid(), **arguments}
