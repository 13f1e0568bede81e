#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: side_by_side
short_description: Run modules side by side and wait for all of them
version_added: 1.0.0
description:
  - Starts all members together, each a call of any module, and waits until all of them have ended. The duration is
    that of the longest, not the sum.
  - A failed member ends no other one. The task then fails with the errors of all failed members, and returns the
    results of all.
  - If the task is interrupted, all members are ended.
  - Runs on the controller, as an action. The modules run on the host of the task.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._step_directory
attributes:
  check_mode:
    support: full
    details: If the modules of the members support it.
  diff_mode:
    support: none
    details: The modules of the members return none either.
  idempotent:
    support: full
    details: If the modules of the members are.
options:
  members:
    description: The calls.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the member in results and errors.
        type: str
        required: true
      call:
        description: What the member does. Without it, there is nothing to do, and members after it do not wait.
        type: dict
        suboptions:
          module:
            description: Full name of a module. Action plugins of other collections are not used.
            type: str
          arguments:
            description: Options of the module.
            type: dict
          progress:
            description: Whether the module has an option C(progress_file), whose lines are shown while it runs.
            type: bool
            default: false
      after:
        description: Members that must have passed before this one starts. If one of them failed, it is not started.
        type: list
        elements: str
        default: []
"""

EXAMPLES = r"""
- name: Wait for two deployments that were created before
  perfscale.seatrial.side_by_side:
    members:
      - name: database
        call:
          module: kubernetes.core.k8s_info
          arguments: {kind: Deployment, namespace: bench, name: database, wait: true, wait_timeout: 600}
      - name: queue
        call:
          module: kubernetes.core.k8s_info
          arguments: {kind: Deployment, namespace: bench, name: queue, wait: true, wait_timeout: 600}
"""

RETURN = r"""
members:
  description:
    - Maps each member to the result of its module with C(state) (V(passed), V(failed) or V(left_out)), C(began) and
      C(ended), in seconds since the first member began.
  returned: always
  type: dict
"""
