# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module in place. meta/runtime.yml lists the modules that use this action."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.module_actions import InPlaceAction


class ActionModule(InPlaceAction):
    """The module gets the arguments of the task."""

    _supports_async = True  # it is then packed
