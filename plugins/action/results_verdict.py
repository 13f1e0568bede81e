# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run module results_verdict with the caller's paths."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils import user_path
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.in_place_module import InPlaceAction

PATHS = ("history", "definitions")


class ActionModule(InPlaceAction):
    """See the documentation of module results_verdict."""

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Make the paths absolute: the module runs in the playbook's folder."""
        return {name: user_path.absolute_all(value) if name in PATHS else value for name, value in arguments.items()}
