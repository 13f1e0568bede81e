# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What our action plugins share: argument checking and the one place where errors become AnsibleErrors."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, SeatrialError


class BadInput(AnsibleActionFail):
    """A failure that is the user's input: its message is all that is shown.

    Ansible would show it twice more, with the line of the task of ours that met it, which is not where the slip is.
    """

    _include_cause_message = False  # else Ansible repeats the message of each exception that this one came from

    @property
    def omit_exception_key(self) -> bool:
        """Leave the exception out of the result, unless details are asked for (-vvv)."""
        return Display().verbosity < 3


class SeatrialAction(ActionBase):
    """An action of this collection: declare ``ARGUMENTS``, implement ``act``. Runs on the controller."""

    ARGUMENTS: dict[str, dict[str, Any]] = {}
    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Check the arguments, call act(), and turn a SeatrialError into a failure with its text."""
        super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(self.ARGUMENTS)
        try:
            return {"changed": False, **self.act(arguments, task_vars or {})}
        except AnsibleError:
            raise
        except InputError as error:
            raise BadInput(str(error)) from error
        except SeatrialError as error:
            raise AnsibleActionFail(str(error)) from error

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do the work; return the result's own keys."""
        raise NotImplementedError
