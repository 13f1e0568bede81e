# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action that runs modules side by side and shows what they report."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import ansible_errors
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.in_place_module import InPlaceAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.progress_action import (
    ProgressTail,
    end_group,
)

from . import role_call, side_by_side


class SideBySideAction(InPlaceAction):
    """Runs the members of its task."""

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Run the members and return the result of each."""
        _validation, given = self.validate_argument_spec(side_by_side.ARGUMENTS)
        with ansible_errors():
            members = side_by_side.members(given["members"])
        step = Step(given["step_dir"])
        with tempfile.TemporaryDirectory(prefix="seatrial-members-", dir=constants.DEFAULT_LOCAL_TMP) as folder:
            files = {one.name: str(Path(folder) / str(number)) for number, one in enumerate(members) if one.progress}
            tails = [ProgressTail(path) for path in files.values()]
            parent = os.getppid()

            def look() -> None:
                if os.getppid() != parent:
                    end_group()  # ansible-playbook was killed
                for line in (line for tail in tails for line in tail.lines()):
                    Display().display(line, stderr=True)

            def say(text: str) -> None:
                step.log(text)
                Display().display(text, stderr=True)

            def call(member: side_by_side.Member) -> dict[str, Any]:
                return self._call(member, files.get(member.name), task_vars)

            try:
                outcomes = side_by_side.run(members, call, look, say)
            except BaseException:
                end_group()
                raise
        for member in members:
            if outcomes[member.name].state != side_by_side.PASSED:
                _record(member, outcomes[member.name].message)
        return side_by_side.result(outcomes, step)

    def _call(
        self, member: side_by_side.Member, progress: str | None, task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Run the module of a member. This process is a fork: what it changes is its own."""
        self._connection._shell.tmpdir = None  # a separate folder for the module of each member
        arguments = {**member.arguments, **({"progress_file": progress} if progress else {})}
        try:
            found: dict[str, Any] = self._execute_module(
                module_name=member.module, module_args=arguments, task_vars=task_vars
            )
            return found
        finally:
            with contextlib.suppress(Exception):
                self.cleanup(force=True)


def _record(member: side_by_side.Member, message: str) -> None:
    """Write FAILURE into the directory of the role call that the member belongs to, if it has one."""
    path = member.arguments.get("step_dir")
    if path and Path(path).is_dir():
        role_call.add_failure(Path(path), f"{member.name}: {message}")
