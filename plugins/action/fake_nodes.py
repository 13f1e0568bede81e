# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run module fake_nodes and show what it says meanwhile."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.progress_action import ProgressAction


class ActionModule(ProgressAction):
    """Module fake_nodes, followed."""
