# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run module topsail_presets with the caller's paths."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.module_actions import InPlaceAction


class ActionModule(InPlaceAction):
    """See the documentation of module topsail_presets."""

    PATHS = ("src", "dest")
