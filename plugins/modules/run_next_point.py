#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_next_point
short_description: Decide which test point is measured next
version_added: 0.1.0
description:
  - Points that an interrupted session began come first, then further attempts, then points that were not begun.
  - Each decision is a line of C(schedule.jsonl) in the run directory.
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
    details: Each call decides on another point.
options:
  stop_on_error:
    description: Whether no point is measured any more after one has failed.
    type: bool
    default: false
  repeat:
    description: Word C(repeat) of the run. Points get further attempts until their judged figures are decided.
    type: dict
    default: {}
  bisect:
    description: Word C(bisect) of the run. Points are measured as its bisection asks for them.
    type: dict
    default: {}
  kpis:
    description: Judged figures of the attempts so far, as M(perfscale.seatrial.results) returns them.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Choose the next point
  perfscale.seatrial.run_next_point:
  register: next_point
"""

RETURN = r"""
finished:
  description: Whether no point is measured any more in this session.
  returned: success
  type: bool
point:
  description: Name of the point, such as V(003), or V(003-2) for the second attempt at it. Empty if RV(finished).
  returned: success
  type: str
attempt:
  description: Which attempt at its point it is. 0 if RV(finished).
  returned: success
  type: int
last:
  description: Whether it is known that this is the last point.
  returned: if a point is to be measured
  type: bool
why:
  description: The reason.
  returned: success
  type: str
failures:
  description: Errors of the failed points, if RV(finished).
  returned: success
  type: list
  elements: str
"""
