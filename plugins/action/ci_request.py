# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a CI job is to run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible.utils.vars import load_extra_vars
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import ci_request
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.run_directory import write_outcome_file
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.terminal_output import show_line
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext


class ActionModule(SeatrialAction):
    """See the documentation of module ci_request."""

    ARGUMENTS = {
        "engine": {"type": "str", "default": ""},
        "project": {"type": "str", "default": ""},
        "presets": {"type": "list", "elements": "str", "default": []},
        "test": {"type": "str", "default": ""},
        "event_file": {"type": "path"},
        "associations": {"type": "list", "elements": "str", "default": []},
        "users": {"type": "list", "elements": "str", "default": []},
        "permitted_presets": {"type": "list", "elements": "str", "default": []},
        "clusters": {"type": "dict", "default": {}},
        "variables": {"type": "dict", "default": {}},
        "export_url": {"type": "str", "default": ""},
        "read_pull_request": {"type": "bool", "default": False},
        "github": {"type": "dict", "default": {}, "no_log": True},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return project, presets, overrides and phases, and what is known of the job."""
        loader, templar, extra = self._loader, self._templar, load_extra_vars(self._loader)

        def find_context(project: str, words: Mapping[str, Any]) -> SettingsContext:
            return SettingsContext.of(project, {**task_vars, **words, **extra}, extra, loader, templar)

        try:
            request = ci_request.read_request(arguments, task_vars, os.environ, find_context)
        except (InputError, AccessError) as error:
            raise write_outcome_file(InputError(f"{error}\nNothing was created or changed.")) from error
        for line in [*request["notes"], *request["answer"].splitlines()]:
            show_line(line)
        return request if request["run"] else write_outcome_file(request)
