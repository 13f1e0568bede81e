# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Terminal output of a run: phases, progress, failures, summary. The log contains the rest."""

from __future__ import annotations

DOCUMENTATION = r"""
name: quiet
type: stdout
short_description: Show phases, progress, failures and the summary
version_added: 0.1.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - Shows the phases of a run, the progress of long tasks, messages of C(debug), warnings, each failure once with the
    name of its task, and the summary. With C(-v) it shows the output of P(ansible.builtin.default#callback).
  - Always appends that output to C(ansible.log) in the run directory, if there is one.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - "Set it as stdout callback: C(stdout_callback=perfscale.seatrial.quiet) in C(ansible.cfg), or the environment
    variable C(ANSIBLE_STDOUT_CALLBACK)."
seealso:
  - plugin: ansible.builtin.default
    plugin_type: callback
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.callback.default import CallbackModule as Default
from ansible.utils.fqcn import add_internal_fqcns
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ANSIBLE_LOG
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import escape_control_characters
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.compat import ansible_core
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import terminal_output

_DEBUG = add_internal_fqcns(("debug",))
_RUN_STATE = "perfscale.seatrial.record_run_state"
_FAIL = add_internal_fqcns(("fail",))


class CallbackModule(Default):
    """Ansible's default callback, whose text goes to the log alone unless -v is given."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "perfscale.seatrial.quiet"

    _display: Any

    def __init__(self) -> None:
        super().__init__()
        self._log = terminal_output.attach_log_to_display()
        self._screen = self._display
        self._quiet = self._screen.verbosity == 0
        self._failures: list[str] = []
        if self._quiet:
            self._display = terminal_output.LogOnly(self._screen)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Show the heading of a phase, and the output of a debug task."""
        outcome = ansible_core.task_and_result_of_callback(result)
        task = outcome.task
        self._find_directory(outcome.result)
        super().v2_runner_on_ok(result)
        if self._quiet and task.action == _RUN_STATE and task.args.get("state", "started") == "started":
            self._screen.display(f"== {task.args['phase']}", color=constants.COLOR_HIGHLIGHT)
        if self._quiet and task.action in _DEBUG and not task.loop:
            self._say(terminal_output.output_of_debug_task(outcome.result))
        sys.stdout.flush()  # progress goes to stderr: in a pipe, both stay in order

    def v2_runner_item_on_ok(self, result: Any) -> None:
        """Show the output of a debug task in a loop."""
        super().v2_runner_item_on_ok(result)
        outcome = ansible_core.task_and_result_of_callback(result)
        if self._quiet and outcome.task.action in _DEBUG:
            self._say(terminal_output.output_of_debug_task(outcome.result))

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Show a failure once: a task that repeats the failure of another one is left out."""
        outcome = ansible_core.task_and_result_of_callback(result)
        lines = terminal_output.task_failure_message(outcome.result, self._origin(outcome))
        summarised = outcome.task.action == _RUN_STATE and outcome.result.get("failures")
        super().v2_runner_on_failed(result, ignore_errors)
        if self._quiet and not ignore_errors and not summarised:
            self._fail(f"FAILED: {outcome.task.get_name().strip()}", lines, outcome.task.action in _FAIL)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Show that a host could not be reached."""
        outcome = ansible_core.task_and_result_of_callback(result)
        lines = terminal_output.task_failure_message(outcome.result)
        super().v2_runner_on_unreachable(result)
        if self._quiet and not outcome.task.ignore_unreachable:
            self._fail(f"UNREACHABLE: {outcome.task.get_name().strip()}: {self.host_label(result)}", lines)

    def v2_on_file_diff(self, result: Any) -> None:
        """Show the difference that --diff asks for."""
        shown, self._display = self._display, self._screen
        try:
            super().v2_on_file_diff(result)
        finally:
            self._display = shown

    def _fail(self, head: str, lines: list[str], passes_on: bool = False) -> None:
        text = "\n".join(lines)
        if passes_on and any(earlier in text for earlier in self._failures):
            return
        self._failures.append(lines[0])
        self._say([head, *(f"  {line}" for line in lines)], constants.COLOR_ERROR)
        sys.stdout.flush()

    def _say(self, lines: list[str], color: str | None = None) -> None:
        """Show lines only on the screen: the default callback has written them to the log."""
        for line in lines:
            self._screen.display(escape_control_characters(line), color=color, screen_only=True)

    def _origin(self, outcome: ansible_core.TaskOutcome) -> str:
        """Return the file and line of the value that caused an error, unless that is the task itself."""
        event, origin = getattr(outcome.exception, "event", None), ""
        while event is not None:
            origin = event.formatted_source_context or origin
            event = event.chain.event if event.chain else None
        own = (outcome.task.get_path() or "").rpartition(":")[0]
        return "" if own and own in origin.partition("\n")[0] else origin

    def _find_directory(self, result: Mapping[str, Any]) -> None:
        """Open the log when a task sets the fact run_dir."""
        directory = (result.get("ansible_facts") or {}).get("run_dir")
        if not isinstance(directory, str):
            return
        try:
            self._log.open(Path(directory))
        except OSError as error:
            self._screen.warning(f"no {ANSIBLE_LOG} in {directory}: {error.strerror or error}")
