#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: held_clusters
short_description: List the clusters that runs hold, and release those that have expired
version_added: 0.1.0
description:
  - Reads the run directories and the rehearsal clusters of this machine. Lists the clusters that are held, with owner,
    purpose and expiry.
  - With O(release_expired), releases the expired clusters of runs that this user has made in this very directory, and
    expired rehearsal clusters whose run directory no longer exists. It runs commands of O(commands) only, never one
    from a file.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: The clusters that it releases are in RV(expired).
  idempotent:
    support: full
options:
  artifacts_dir:
    description: Directory of the run directories.
    type: path
    required: true
  rehearsal_dir:
    description: Directory of the rehearsal clusters.
    type: path
    required: true
  components_dir:
    description: Directory of the components of rehearsal clusters. The action plugin sets it.
    type: path
  commands:
    description: The command that gives back what a run holds, by its directory. The action plugin sets it.
    type: dict
    default: {}
  release_expired:
    description: Whether to release the clusters that have expired.
    type: bool
    default: false
  timeout:
    description: Timeout for the release of each cluster, in seconds.
    type: float
    default: 3600
"""

EXAMPLES = r"""
- name: List the clusters that the runs of this machine hold
  perfscale.seatrial.held_clusters:
    artifacts_dir: artifacts
    rehearsal_dir: ~/.local/state/seatrial/rehearsal
"""

RETURN = r"""
held:
  description: The clusters, those that expire first at the beginning.
  returned: success
  type: list
  elements: dict
  sample:
    - provider: rehearsal
      name: t1121-k3f9xa
      run: t1121-k3f9xa
      owner: performance team
      purpose: performance test
      taken: "2026-11-21T10:00:00.000Z"
      expires: "2026-11-21T22:00:00.000Z"
      expired: false
      state: acquired
      kept: true
      run_dir: /home/ann/artifacts/fine_tuning-light-t1121-k3f9xa
      stays: ""
      give_back: ansible-playbook perfscale.seatrial.fine_tuning --tags cleanup,release -e run_dir=...
lines:
  description:
    - The same as lines of text, and a line for each lock that a run of this machine holds. An expired cluster has a
      second line, with the command that releases it, or the reason why it stays.
  returned: success
  type: list
  elements: str
expired:
  description: Names of the clusters that have expired; with O(release_expired), they were released, or would be.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.held import clusters_held_by_runs


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "artifacts_dir": {"type": "path", "required": True},
            "rehearsal_dir": {"type": "path", "required": True},
            "components_dir": {"type": "path"},
            "commands": {"type": "dict", "default": {}},
            "release_expired": {"type": "bool", "default": False},
            "timeout": {"type": "float", "default": 3600},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        supports_check_mode=True,
    )

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(module.params["progress_file"], "clusters")
        return clusters_held_by_runs.list_and_release_expired(module.params, step, say, module.check_mode)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
