# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared code of our action plugins: argument checking, our errors as AnsibleErrors, the folder for modules.

If Ansible can't create a folder for modules, it treats the host as unreachable and ends the play. For localhost the run
would end without reporting what it holds. The folder is therefore checked before anything is acquired.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    SeatrialError,
    shorten_error_message,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.terminal_output import show_line


class BadInput(AnsibleActionFail):
    """Invalid user input: only the message is shown.

    Ansible would repeat it twice, with the line of our task that found it, which is not where the mistake is.
    """

    _include_cause_message = False  # else Ansible repeats the message of each exception that this one came from

    @property
    def omit_exception_key(self) -> bool:
        """Leave the exception out of the result, unless details are asked for (-vvv)."""
        return Display().verbosity < 3


@contextlib.contextmanager
def ansible_errors() -> Iterator[None]:
    """Turn each SeatrialError of the body into an AnsibleActionFail: its message, and its class in ``error``."""
    try:
        yield
    except InputError as error:
        raise BadInput(shorten_error_message(error), result={"error": error.error_kind}) from error
    except SeatrialError as error:
        # Without the cause, whose message Ansible would add.
        raise AnsibleActionFail(shorten_error_message(error), result={"error": error.error_kind}) from None


class SeatrialAction(ActionBase):
    """An action of this collection: declare ``ARGUMENTS``, implement ``act``. Runs on the controller."""

    ARGUMENTS: dict[str, dict[str, Any]] = {}
    #: Which options an option needs, as AnsibleModule takes it.
    REQUIRED_IF: tuple[tuple[Any, ...], ...] = ()
    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Check the arguments, call act() and return its result."""
        super().run(tmp, task_vars)
        files.keep_everybody_from_writing()  # of the worker that runs this task
        _validation, arguments = self.validate_argument_spec(self.ARGUMENTS, required_if=self.REQUIRED_IF)
        with ansible_errors():
            return {"changed": False, **self.act(arguments, task_vars or {})}

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do the work; return the keys of the result."""
        raise NotImplementedError


def remote_tmp_and_why_unusable(action: ActionBase) -> tuple[str, str]:
    """Return the folder for the modules of this action, and why it can't be used.

    The reason is empty if it can be used; both are empty for another machine or user, which are not checked.
    """
    if action._connection.transport != "local" or action._connection.become:
        return "", ""
    folder = os.path.expanduser(action.get_shell_option("remote_tmp", default="~/.ansible/tmp"))
    return folder, why_folder_is_unusable(folder)


def replacement_remote_tmp(action: ActionBase, extra: Mapping[str, Any]) -> str | None:
    """Return the folder for ansible_remote_tmp if the configured one can't be used, else None.

    extra: variables of ``-e``. Raises InputError if the folder is one of them.
    """
    asked, why = remote_tmp_and_why_unusable(action)
    if why and "ansible_remote_tmp" in extra:
        raise InputError(f"-e ansible_remote_tmp={asked}: no folder can be created there: {why}")
    if why:
        show_line(f"No folder can be created in {asked} ({why}): modules use {constants.DEFAULT_LOCAL_TMP}")
    return str(constants.DEFAULT_LOCAL_TMP) if why else None


def why_folder_is_unusable(folder: str) -> str:
    """Return why no folder can be created in ``folder``, an empty string if one can."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)
