#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_close
short_description: Close a run and print its summary
version_added: 0.1.0
description:
  - Writes C(FAILURES) and C(FINISHED), ends C(run.yml), and prints what ran, where, the headline figures, the verdict,
    where the time went, what is still held and the command that gives it back.
  - Fails when something failed; the message begins with the first failure.
  - It runs on the controller, as an action.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
    details: Each call records a moment.
options:
  failures:
    description: Messages of what failed, in order.
    type: list
    elements: str
    default: []
  fail_on_verdict:
    description: Whether a verdict of C(fail) or C(invalid) is a failure of the run.
    type: bool
    default: true
  final:
    description:
      - V(false) before the run is copied to somewhere else. The files are written as they would be at the end, so that
        the copy says how the run went, but nothing is printed and nothing fails.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Close the run
  perfscale.seatrial.run_close:
    failures: []
"""

RETURN = r"""
failures:
  description: What failed, the verdict included.
  returned: always
  type: list
  elements: str
held:
  description: What the run still holds.
  returned: always
  type: list
  elements: dict
closed:
  description: The run directory, once the run is closed.
  returned: when O(final=true)
  type: str
split:
  description: Seconds by category, C(ansible) for Ansible's own part and C(total).
  returned: always
  type: dict
"""
