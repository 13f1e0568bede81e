# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module's main() shares: the step and the one place where errors become results."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._exit_with_parent import ended_with_parent
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def run(module: AnsibleModule, work: Callable[[Step], dict[str, Any]]) -> None:
    """Call ``work`` with the module's step and exit with what it returns, or fail with its error's text.

    What is followed takes long: it ends with whoever called it.
    """
    step = Step(module.params.get("step_dir"))
    try:
        with ended_with_parent() if module.params.get("progress_file") else nullcontext():
            result = work(step)
    except SeatrialError as error:
        step.log(f"failed: {error}")
        module.fail_json(msg=str(error), error=type(error).__name__, **getattr(error, "facts", {}))
    module.exit_json(**result)
