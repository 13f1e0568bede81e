# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve the settings of a run and open its directory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible import context
from ansible.utils.vars import load_extra_vars
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module, errors
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions import action_base
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import role_call_record, terminal_output
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.open_run import SettingsSession
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.run_directory import write_outcome_file
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role, settings_layers
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.repeat_and_bisect_keywords import (
    bisect_keyword_of_playbook,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext


class ActionModule(SeatrialAction):
    """See the documentation of module open_run."""

    ARGUMENTS = {
        **ansible_module.PROJECT,
        "phases": {"type": "list", "elements": "str", "required": True},
        "skip": {"type": "list", "elements": "str", "default": []},
        **dict.fromkeys(("cluster", "bisect"), {"type": "dict"}),
        "predicts": {"type": "bool", "default": False},
        "also": {"type": "list", "elements": "str"},
        "step_dir": {"type": "path"},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Open a new run, continue an earlier one, or apply the profiles of a cluster that is now known."""
        loader, templar, extra_vars = self._loader, self._templar, load_extra_vars(self._loader)
        try:
            words = bisect_keyword_of_playbook(arguments["bisect"], bool(extra_vars.get("run_dir")))
            extra = {**extra_vars, **words}
            known = SettingsContext.of(arguments["project"], {**task_vars, **words}, extra, loader, templar)
            if arguments["step_dir"]:
                return role_call_record.check_recorded_call(Path(arguments["step_dir"]), known)
            also = project_role.additional_entry_points(known.role, arguments["also"])
            of_play = (known, arguments["phases"], loader, templar, sys.argv, context.CLIARGS)
            session = SettingsSession(*of_play, terminal_output.show_line, arguments["predicts"], arguments["skip"])
            if not arguments["cluster"]:
                remote_tmp = action_base.replacement_remote_tmp(self, extra)  # before anything is created
                return write_outcome_file({"remote_tmp": remote_tmp, **session.begin(), "also": also})
        except errors.InputError as error:
            why = f"{settings_layers.error_message_with_origin(error)}\nNothing was created or changed."
            raise write_outcome_file(errors.InputError(why)) from error
        return {**session.apply_profiles(arguments["cluster"]), "remote_tmp": None, "also": also}
