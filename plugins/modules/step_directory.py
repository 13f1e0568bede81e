#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: step_directory
short_description: Create the numbered directory of a role call
version_added: 0.1.0
description:
  - Creates the next C(NNN__role__entry) in the run directory. The modules of that role call write their log, their
    timings and the manifests that they apply into it.
  - Writes the arguments of the role call to C(arguments.yml), without secrets, and the command that runs this call
    alone again to C(COMMAND). If the call fails, C(FAILURE) holds the name and the message of the task that failed.
  - Each number is used once, even if two plays write to one run directory.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
attributes:
  check_mode:
    support: partial
    details: The directory is created in check mode too, for the log of a dry run.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: none
    details: Each call creates a directory.
options:
  role:
    description: Short name of the role that is called.
    type: str
    required: true
  entry:
    description: Entry point of the role.
    type: str
    required: true
seealso:
  - name: How perfscale.seatrial is built
    description: The files of a run directory.
    link: https://github.com/perfscale/seatrial/blob/main/docs/architecture.md
"""

EXAMPLES = r"""
- name: Open the step
  perfscale.seatrial.step_directory:
    role: cleanup
    entry: main
  register: __cleanup_step

- name: Delete what this run created
  perfscale.seatrial.cleanup_run:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    step_dir: "{{ __cleanup_step.path }}"
"""

RETURN = r"""
path:
  description: The new directory.
  returned: success
  type: str
  sample: artifacts/fine_tuning-light-t1121-k3f9xa/004__cleanup__main
"""
