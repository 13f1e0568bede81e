# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives back what an interrupted run holds, makes run_dir absolute, and exports AWX's Kubernetes credential.

Loaded with every playbook of this folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible import constants, context
from ansible.playbook.play import Play
from ansible.plugins.callback import CallbackBase
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import awx
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.compat import ansible_core
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import (
    give_back_on_exit,
    role_call_record,
    terminal_output,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    cluster_settings,
    convert_setting_values,
    project_role,
    settings_catalogue,
)

DOCUMENTATION = r"""
name: seatrial_unfinished
type: aggregate
short_description: Give back what an interrupted run holds
version_added: 0.1.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - If the only host of a play is unreachable, on Ctrl-C and on SIGTERM, Ansible runs neither C(rescue) nor C(always)
    tasks. This plugin runs in the process of ansible-playbook, gives back what the run would have given back at its
    end, and prints the give-back command as the last line.
  - Writes C(FAILURE) into the numbered directory of a role call that failed.
  - If the reader of the output is gone, as in C(| head), the run goes on to its end without output.
  - Refuses C(--start-at-task) for a playbook of runs, because it skips the tasks that open the run.
  - Adds C(002) to the umask, so that a run directory is never writable by other users.
  - Makes a relative C(-e run_dir=) absolute. Nothing that a task sets overrides an extra variable, and modules and
    lookups run in other folders than the one where the user stands.
  - In a job of AWX, gives text answers of a survey the text that was answered, and removes empty ones. Ansible reads
    them as numbers, booleans or null.
  - Sets E(KUBECONFIG) to a kubeconfig of the credential in E(K8S_AUTH_HOST) and E(K8S_AUTH_API_KEY), as jobs of AWX get
    it, unless it is set. The file is removed when the process exits.
"""


class CallbackModule(CallbackBase):
    """Record which runs were opened and closed; a run still open when the process exits was interrupted."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "seatrial_unfinished"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        os.umask(os.umask(0o077) | 0o002)  # of this process and all that it starts: others never write into a run
        terminal_output.ignore_closed_output(self._display)
        self._watch = give_back_on_exit.RunWatch(self._display.display)
        self._watch.install()
        awx.write_and_set_kubeconfig(os.environ, Path(constants.DEFAULT_LOCAL_TMP))  # inherited by all workers
        self._calls = role_call_record.FailedCalls()

    def v2_playbook_on_play_start(self, play: Play) -> None:
        """Refuse to skip what opens a run; make extra variables what the user gave, before a task uses them."""
        runs = "run_phases" in play.get_vars()
        if context.CLIARGS.get("start_at_task") and runs:
            # Ansible only warns of an exception in a callback.
            raise SystemExit(
                "ERROR: --start-at-task skips the tasks that open the run, without which nothing is recorded or given "
                "back. Choose phases with --tags, and name an earlier run with -e run_dir=<directory>."
            )
        if runs:
            # Several tasks need it. Each runs in a fork of this process, and would read some 70 files again.
            settings_catalogue.load_catalogue(project_role.ROOT)
        extra = play.get_variable_manager().extra_vars
        if cluster_settings.AWX_JOB in extra:
            known = settings_catalogue.load_catalogue(project_role.ROOT)
            awx.restore_original_answer_texts(extra, context.CLIARGS.get("extra_vars") or (), known)
        given = extra.get("run_dir")
        if isinstance(given, str) and "{{" not in given:
            extra["run_dir"] = convert_setting_values.absolute_path(given)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Record a run that was opened or closed, and the directory of a role call."""
        outcome = ansible_core.task_and_result_of_callback(result)
        self._watch.note(outcome.task.action, outcome.result)
        if outcome.task.action == "perfscale.seatrial.step_directory":
            self._calls.opened(outcome.task._role, str(outcome.result.get("path")))

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Record a run that was closed as failed, and the failure of a role call."""
        outcome = ansible_core.task_and_result_of_callback(result)
        self._watch.note(outcome.task.action, outcome.result)
        if not ignore_errors:
            found = outcome.result
            message = str(found.get("msg") or found.get("censored") or "no message")
            self._calls.failed(outcome.task._role, outcome.task.get_name(), message)
