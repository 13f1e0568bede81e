# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What our action plugins share: argument checking and the one place where errors become AnsibleErrors."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.places import in_file


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
        except SeatrialError as error:
            at = getattr(error, "at", None)
            if in_file(at):
                raise AnsibleError(str(error), obj=at) from error
            raise AnsibleActionFail(str(error)) from error

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do the work; return the result's own keys."""
        raise NotImplementedError
