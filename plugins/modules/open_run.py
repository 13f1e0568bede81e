#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: open_run
short_description: Resolve the settings of a run and open its directory
version_added: 0.1.0
description:
  - Applies the layers of settings in their order (role defaults, inventory, presets, cluster profiles,
    C(overrides), C(-e)), converts every value to its declared type, computes the points of the matrix, and writes the
    settings and their sources into a new run directory.
  - Checks all input before anything is created. An unknown preset, setting or tag, a preset cycle, a value of the wrong
    type and a missing secret are one error each, with the place and the nearest known name.
  - A phase without the cluster that it needs, and a missing file or kubeconfig, are errors as well.
  - With C(preset=list) it prints all presets and creates nothing.
  - With only the tag C(settings) it prints the settings that were set, the points and an estimate, and creates nothing.
  - With the variable C(run_dir) it continues that run with its settings.
  - Runs on the controller, as an action.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._run.project
attributes:
  check_mode:
    support: partial
    details: Without O(predicts) it is an error, except with the tag C(settings).
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: none
    details: Each call without C(run_dir) opens a new run.
options:
  phases:
    description: All phases of the playbook; they are its tags.
    type: list
    elements: str
    required: true
  skip:
    description: Phases that are left out although the tags select them.
    type: list
    elements: str
    default: []
  cluster:
    description:
      - The acquired cluster (C(api_host), C(node_names), C(kind)). The settings of the run are then resolved
        again with the presets that C(cluster_profiles) names for it.
    type: dict
  bisect:
    description:
      - Variables C(over), C(values), C(kpi), C(least), C(max) and C(budget) of C(playbooks/bisect.yml). Those that are
        not given are empty.
    type: dict
  predicts:
    description: Whether the playbook supports check mode. Otherwise C(--check) only works with the tag C(settings).
    type: bool
    default: false
  also:
    description:
      - Entry points of the project's role beside C(prepare) and C(test), as C(run_role_also) of its playbook.
      - By default those that the playbook of the project names.
    type: list
    elements: str
  step_dir:
    description:
      - The directory of a role call in a run. Only checks that its C(arguments.yml) and the C(settings.yml) of the run
        hold what a run writes, so that they can be loaded as variables, and returns RV(role) and RV(entry).
    type: path
"""

EXAMPLES = r"""
- name: Resolve the settings
  perfscale.seatrial.open_run:
    project: fine_tuning
    phases: [settings, lease, cluster, prepare, test, report, cleanup, release, export]
  register: opened

- name: Load the settings
  ansible.builtin.include_vars:
    file: "{{ opened.run_dir }}/settings.yml"
"""

RETURN = r"""
role:
  description: With O(step_dir), the full name of the role.
  returned: with O(step_dir)
  type: str
  sample: perfscale.seatrial.fine_tuning
entry:
  description: With O(step_dir), the entry point of the role.
  returned: with O(step_dir)
  type: str
  sample: prepare
only_settings:
  description: Whether the settings were only shown.
  returned: success
  type: bool
beside:
  description: Whether another session works on the run, and this one only reports on it.
  returned: success
  type: bool
run_dir:
  description: The run directory; null if the settings were only shown.
  returned: success
  type: str
run_id:
  description: Id of the run.
  returned: success
  type: str
  sample: t1121-k3f9xa
points:
  description: Names of the test points.
  returned: success
  type: list
  elements: str
  sample: ["001", "002"]
presets:
  description: Presets that were asked for.
  returned: success
  type: list
  elements: str
late:
  description: Settings that refer to a name which only the run defines; they are rendered when a role uses them.
  returned: success
  type: list
  elements: str
also:
  description: Entry points of the project's role beside C(prepare) and C(test).
  returned: success
  type: list
  elements: str
  sample: [report]
pre_cleanup:
  description: Whether to clean up before preparing.
  returned: success
  type: bool
remote_tmp:
  description: The folder for modules on this machine if the configured one can't be used, else null.
  returned: success
  type: str
gives_back:
  description: The phases that give back what this session holds if it is interrupted.
  returned: success
  type: list
  elements: str
keep_failed:
  description: Whether a failed cluster is kept.
  returned: success
  type: bool
interrupted:
  description:
    - If this session continues a run whose last session was cut short, C(point) is the directory of the point that was
      being measured then, or empty. Null otherwise.
  returned: success
  type: dict
  sample: {point: "001"}
"""
