# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared code of our action plugins: argument checking, and turning our errors into AnsibleErrors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, SeatrialError


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
        raise BadInput(str(error), result={"error": error.cause}) from error
    except SeatrialError as error:
        raise AnsibleActionFail(str(error), result={"error": error.cause}) from error


class SeatrialAction(ActionBase):
    """An action of this collection: declare ``ARGUMENTS``, implement ``act``. Runs on the controller."""

    ARGUMENTS: dict[str, dict[str, Any]] = {}
    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Check the arguments, call act() and return its result."""
        super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(self.ARGUMENTS)
        with ansible_errors():
            return {"changed": False, **self.act(arguments, task_vars or {})}

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do the work; return the keys of the result."""
        raise NotImplementedError
