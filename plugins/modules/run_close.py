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
  - Writes C(FAILURES), C(FINISHED) and the end of the run in C(run.yml), and C(junit.xml) and C(summary.md) again.
  - Prints what ran and where, the headline figures, the verdict, the time by category, what is still held and the
    give-back command.
  - Fails if something failed; the message begins with the first failure.
  - Runs on the controller, as an action.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
attributes:
  check_mode:
    support: partial
    details: The record is written in check mode too; it is that of a dry run.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: none
    details: Each call records its time.
options:
  failures:
    description: Messages of all failures, in order.
    type: list
    elements: str
    default: []
  fail_on:
    description: Verdicts that are failures of the run.
    type: list
    elements: str
    choices: [improvement, inconclusive, invalid, regression, error]
    default: [regression, invalid, error]
  repeat_failure:
    description:
      - Whether a session that only gives back fails if the run failed or was interrupted.
    type: bool
    default: false
    version_added: 0.3.0
  final:
    description:
      - V(false) before the run directory is copied elsewhere. The files are written as at the end of the run, so that
        the copy contains its result, but nothing is printed and the module does not fail.
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
  description: All failures, including that of the verdict.
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
stats:
  description: Run directory, id, status, verdict, headline figures and what is held, for a workflow of AWX.
  returned: when O(final=false)
  type: dict
split:
  description: Seconds by category, C(ansible) for Ansible itself, and C(total).
  returned: always
  type: dict
"""
