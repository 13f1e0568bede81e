#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_phase
short_description: Record that a phase of a run begins or ends
version_added: 0.1.0
description:
  - Records the phase in C(run.yml) of the run directory. The start of a phase ends the previous one as passed.
  - Runs on the controller, as an action.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._run.error
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
  name:
    description: Name of the phase. Without it, O(state=passed) and O(state=failed) end the running phase.
    type: str
  state:
    description: The new state of the phase. O(state=skipped) is for a phase that had nothing to do.
    type: str
    choices: [started, passed, failed, skipped]
    default: started
"""

EXAMPLES = r"""
- name: Begin phase prepare
  perfscale.seatrial.run_phase:
    name: prepare
"""

RETURN = r"""
phases:
  description: The phases so far, as in C(run.yml).
  returned: success
  type: dict
"""
