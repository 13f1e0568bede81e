# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common main() of all modules: the step directory, and errors reported with fail_json."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from .errors import SeatrialError
from .exit_with_parent import ended_with_parent
from .step_files import Step


def run(module: AnsibleModule, work: Callable[[Step], dict[str, Any]]) -> None:
    """Call ``work`` with the module's step directory; exit with its result, or fail with the text of its SeatrialError.

    A module with a progress file may run for long and ends when its parent process ends.
    """
    step = Step(module.params.get("step_dir"))
    try:
        with ended_with_parent() if module.params.get("progress_file") else nullcontext():
            result = work(step)
    except SeatrialError as error:
        step.log(f"failed: {error}")
        module.fail_json(msg=str(error), error=error.cause, **getattr(error, "facts", {}))
    module.exit_json(**result)
