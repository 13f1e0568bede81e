#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: record_run_state
short_description: Record what a run does, and decide which point it measures next
version_added: 1.0.0
description:
  - Records phases in C(run.yml) of the run directory. The start of a phase ends the previous one as passed.
  - Records points in C(points/<nnn>/point.yml).
  - Decides which point is measured next, and records the decision in C(schedule.jsonl). Points that an interrupted
    session began come first, then further attempts, then points that were not begun.
  - Closes the session. It writes C(FAILURES), C(FINISHED) and the end of the run in C(run.yml), and C(junit.xml) and
    C(summary.md) again. It prints what ran and where, the headline figures, the verdict, the time by category, what is
    still held, and the give-back command. It fails if something failed; the message begins with the first failure.
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
  state:
    description:
      - V(started) begins O(phase). V(skipped) ends it as one that had nothing to do.
      - V(failed) ends the running phase as failed. In a C(rescue), the error is by default that of the failed task.
        Register the result as C(run_failed); a further failure is then added to it.
      - V(point_started), V(point_passed) and V(point_failed) record the state of O(point). In a C(rescue), the error is
        by default that of the failed task.
      - V(next_point) decides which point is measured next.
      - V(settled) writes the files of V(closed), but prints nothing and does not fail. It is for a copy of the run
        directory that contains the result of the run.
      - V(closed) closes the session.
    type: str
    choices: [started, skipped, failed, next_point, point_started, point_passed, point_failed, settled, closed]
    default: started
  phase:
    description: Name of the phase.
    type: str
  point:
    description: Name of the point.
    type: str
  error:
    description: Why the phase or the point failed.
    type: str
  cause:
    description: Class of the error.
    type: str
  stop_on_error:
    description: Whether no point is measured any more after one has failed.
    type: bool
    default: false
  repeat:
    description: Keyword C(repeat) of the run. Points get further attempts until their judged figures are decided.
    type: dict
    default: {}
  bisect:
    description: Keyword C(bisect) of the run. Points are measured as its bisection asks for them.
    type: dict
    default: {}
  kpis:
    description: Judged figures of the attempts so far, as M(perfscale.seatrial.results) returns them.
    type: list
    elements: dict
    default: []
  failures:
    description: Messages of all failures of the session, in order.
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
    description: Whether a session that only gives back fails if the run failed or was interrupted.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Run a phase
  block:
    - name: Begin phase prepare
      perfscale.seatrial.record_run_state:
        phase: prepare

    - name: Prepare
      ansible.builtin.include_tasks: prepare.yml
  rescue:
    - name: Record the failure
      perfscale.seatrial.record_run_state:
        state: failed
      register: run_failed

- name: Close the run
  perfscale.seatrial.record_run_state:
    state: closed
    failures: "{{ run_failed.failures | default([]) }}"
"""

RETURN = r"""
phases:
  description: The phases so far, as in C(run.yml).
  returned: when O(state) is V(started), V(skipped) or V(failed)
  type: dict
failures:
  description:
    - All failures of the session. For O(state=closed) and O(state=settled) including that of the verdict, for
      O(state=next_point) those of the points, if RV(finished).
  returned: when O(state) is V(failed), V(next_point), V(settled) or V(closed)
  type: list
  elements: str
cause:
  description: Class of the error.
  returned: when O(state=failed)
  type: str
path:
  description: Directory of the point.
  returned: when O(state) is V(point_started), V(point_passed) or V(point_failed)
  type: str
settings_file:
  description: File with the settings of the point.
  returned: when O(state) is V(point_started), V(point_passed) or V(point_failed)
  type: str
scales:
  description: Whether the nodes of the cluster must be scaled before the point.
  returned: when O(state=point_started)
  type: bool
finished:
  description: Whether no point is measured any more in this session.
  returned: when O(state=next_point)
  type: bool
point:
  description: Name of the point, such as V(003), or V(003-2) for the second attempt at it. Empty if RV(finished).
  returned: when O(state=next_point)
  type: str
attempt:
  description: Which attempt at its point it is. 0 if RV(finished).
  returned: when O(state=next_point)
  type: int
last:
  description: Whether it is known that this is the last point.
  returned: when O(state=next_point), if a point is to be measured
  type: bool
why:
  description: The reason of the decision.
  returned: when O(state=next_point)
  type: str
held:
  description: What the run still holds.
  returned: when O(state) is V(settled) or V(closed)
  type: list
  elements: dict
closed:
  description: The run directory, once the run is closed.
  returned: when O(state=closed)
  type: str
split:
  description: Seconds by category, C(ansible) for Ansible itself, and C(total).
  returned: when O(state) is V(settled) or V(closed)
  type: dict
"""
