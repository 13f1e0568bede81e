# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run modules side by side and wait for all of them."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.parallel_module_calls import SideBySideAction


class ActionModule(SideBySideAction):
    """See the documentation of module side_by_side."""
