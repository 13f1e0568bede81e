# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives back what a run holds that does not come to its end. Loaded with every playbook of this folder."""

from __future__ import annotations

from ansible.executor.task_result import CallbackTaskResult
from ansible.plugins.callback import CallbackBase
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import interrupted_run

DOCUMENTATION = r"""
name: seatrial_unfinished
type: aggregate
short_description: Give back what a run holds that does not come to its end
version_added: 0.1.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - Ansible leaves a play without its C(rescue) and C(always) tasks when its only host counts as unreachable, on Ctrl-C
    and on a kill. This runs in the process of ansible-playbook itself, gives back what the run would have given back at
    its end, and prints the command that gives back as the last line.
"""


class CallbackModule(CallbackBase):
    """Note which runs were opened and closed; what is left at the end of the process was cut short."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "seatrial_unfinished"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        self._watch = interrupted_run.RunWatch(self._display.display)

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        """Note a run that was opened or closed."""
        self._watch.note(result.task.action, result.result)

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        """Note a run that was closed as failed."""
        self._watch.note(result.task.action, result.result)
