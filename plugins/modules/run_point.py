#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_point
short_description: Record that a test point begins or ends
version_added: 0.1.0
description:
  - Records the state in C(points/<nnn>/point.yml) of the run directory.
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
  point:
    description: Name of the point.
    type: str
    required: true
  state:
    description: The new state of the point.
    type: str
    choices: [running, passed, failed]
    required: true
"""

EXAMPLES = r"""
- name: Begin the point
  perfscale.seatrial.run_point:
    point: "001"
    state: running
  register: point
"""

RETURN = r"""
path:
  description: Directory of the point.
  returned: success
  type: str
scales:
  description: Whether the nodes of the cluster must be scaled before the point.
  returned: success
  type: bool
settings_file:
  description: File with the settings of the point.
  returned: success
  type: str
"""
