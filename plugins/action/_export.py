# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Export a run. meta/runtime.yml lists the modules that use this action."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.export_action import ExportAction


class ActionModule(ExportAction):
    """See plugin_utils/run/export_action.py."""
