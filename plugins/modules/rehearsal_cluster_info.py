#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal_cluster_info
short_description: Show the state of a Kubernetes control plane on this machine
version_added: 0.1.0
description:
  - Returns an instance of M(perfscale.seatrial.rehearsal_cluster), its processes, their readiness, and how to use it.
  - Starts, changes and repairs nothing.
author:
  - The perfscale.seatrial authors (@perfscale)
requirements:
  - cryptography
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._rehearsal
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Query the rehearsal cluster
  perfscale.seatrial.rehearsal_cluster_info:
    name: mine
  register: __mine

- name: Show its state
  ansible.builtin.debug:
    msg: "{{ __mine.lines }}"
"""

RETURN = r"""
state:
  description: V(present) if all components are ready, V(partial) if some are not, V(absent) without an instance.
  returned: success
  type: str
ready:
  description: Whether all components are ready.
  returned: success
  type: bool
cluster:
  description: The instance as role P(perfscale.seatrial.cluster#role) records it.
  returned: when there is an instance
  type: dict
name:
  description: Name of the instance.
  returned: success
  type: str
kubeconfig:
  description: Kubeconfig of its administrator.
  returned: when there is an instance
  type: str
api_host:
  description: Address and port of its API server.
  returned: when there is an instance
  type: str
api_url:
  description: The same as a URL.
  returned: when there is an instance
  type: str
version:
  description: Version of its API server, empty unless it is ready.
  returned: when there is an instance
  type: str
data_dir:
  description: Its folder.
  returned: when there is an instance
  type: str
played_logs:
  description: File with the simulated log of every container, in CRI format. It may be replaced at any time.
  returned: when there is an instance
  type: str
audit_log:
  description: Audit log of the API server, with every change as one JSON line.
  returned: when there is an instance
  type: str
owner:
  description: Run that it belongs to, null for none.
  returned: when there is an instance
  type: str
owned:
  description: Whether it belongs to O(owner).
  returned: when there is an instance
  type: bool
processes:
  description: One entry per process, with pid, ports, log, memory in MiB and whether it runs and is ready.
  returned: when there is an instance
  type: list
  elements: dict
memory_mib:
  description: Resident memory of all processes, in MiB.
  returned: when there is an instance
  type: int
lines:
  description: Lines for the terminal, state and use of the instance.
  returned: success
  type: list
  elements: str
instances:
  description: All instances in O(data_dir).
  returned: success
  type: list
  elements: dict
binaries:
  description: Path of each program.
  returned: when they are there
  type: dict
kubectl:
  description: Path of kubectl, if component C(kubectl) was requested.
  returned: when it is there
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.cluster_status import info
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.rehearsal_options import (
    SHARED_OPTIONS,
    Options,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={**SHARED_OPTIONS, **ansible_module.STEP, **ansible_module.PROGRESS},
        supports_check_mode=True,
    )

    def work(step: Step) -> dict[str, Any]:
        with step.timed("cluster", "rehearsal info"):
            return info(Options.of(module.params))

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()
