#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal_cluster
short_description: Start, repair, query and remove a Kubernetes control plane on this machine
version_added: 0.1.0
description:
  - Runs real etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and on demand real operators, as
    processes on loopback. KWOK simulates the nodes and the life cycle of pods. It does not require root.
  - O(state=present) starts only what is missing. A component that was killed is restarted with its data.
  - Only processes that were started for this instance are ever signalled. They are identified by environment,
    executable, pid and start time.
  - Programs are those that the user gives, else those in the cache, else they are downloaded if O(download_url) is set,
    else fetched from their publisher if it has them and answers, else Go builds them. The time and disk space of a
    first build, minutes and gigabytes, are reported beforehand.
author:
  - The perfscale.seatrial authors (@perfscale)
requirements:
  - cryptography
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._rehearsal
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: What it changes, or would change, is in RV(changes).
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) starts and repairs, V(absent) ends all processes and removes the data.
      - V(released) does what V(absent) does, unless the instance belongs to another run than O(owner), or another run
        uses it whose process lives. That run then owns it.
      - V(binaries) provides the programs and starts nothing.
      - V(queried) returns the instance, its processes, their readiness, and how to use it. It changes nothing.
    type: str
    choices: [present, absent, released, binaries, queried]
    default: present
  user_pid:
    description:
      - Process of run O(owner). If the instance belongs to another run, that one leaves it to O(owner) as long as the
        process lives. The action sets it.
    type: int
    default: 0
  force:
    description: Remove the instance even if it belongs to another run or to none.
    type: bool
    default: false
  timeout:
    description: How long to wait for each component to be ready, in seconds.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Start a rehearsal cluster
  perfscale.seatrial.rehearsal_cluster:
    name: mine
  register: __mine

- name: Show how to use it
  ansible.builtin.debug:
    msg: "export KUBECONFIG={{ __mine.kubeconfig }}"

- name: Query it
  perfscale.seatrial.rehearsal_cluster:
    name: mine
    state: queried

- name: Remove it
  perfscale.seatrial.rehearsal_cluster:
    name: mine
    state: absent
"""

RETURN = r"""
state:
  description: V(present) if all components are ready, V(partial) if some are not, V(absent) without an instance.
  returned: when state is not binaries
  type: str
ready:
  description: Whether all components are ready.
  returned: when state is present or queried
  type: bool
changes:
  description: The changes, in order.
  returned: when state is present
  type: list
  elements: str
  sample: [started kube-scheduler]
cluster:
  description: The instance as role P(perfscale.seatrial.cluster#role) records it.
  returned: when there is an instance
  type: dict
name:
  description: Name of the instance.
  returned: when state is not binaries
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
changed_versions:
  description: Version of each component that runs in another version than its component.yml names.
  returned: when there is an instance
  type: dict
  sample: {kueue: 0.18.3}
memory_mib:
  description: Resident memory of all processes, in MiB.
  returned: when there is an instance
  type: int
lines:
  description: Lines for the terminal, state and use of the instance; for V(released), why it stays.
  returned: when state is present, queried or released
  type: list
  elements: str
instances:
  description: All instances in O(data_dir).
  returned: when state is queried
  type: list
  elements: dict
binaries:
  description: Path of each program.
  returned: when they are available
  type: dict
kubectl:
  description: Path of kubectl, if component C(kubectl) was requested.
  returned: when it is available
  type: str
needs:
  description: Time and disk space that providing the programs takes, in sentences. Empty if all are available.
  returned: when state is binaries, and in check mode
  type: list
  elements: str
"""

import os
import signal
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.component_selection import (
    SHARED_OPTIONS,
    RehearsalOptions,
)


def exit_on_signal(number: int, _frame: Any) -> None:
    """Raise SystemExit, so that a running build is ended too and locks are released."""
    raise SystemExit(128 + number)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["present", "absent", "released", "binaries", "queried"],
                "default": "present",
            },
            **SHARED_OPTIONS,
            "force": {"type": "bool", "default": False},
            "user_pid": {"type": "int", "default": 0},
            "timeout": {"type": "int", "default": 120},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        supports_check_mode=True,
    )
    params = module.params
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, exit_on_signal)

    def work(step: StepDirectory) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "rehearsal")
        options = RehearsalOptions.of({**params, "started": processes.process_start_since_boot(os.getpid())})
        with step.timed("cluster", f"rehearsal {params['state']}"):
            return cluster_lifecycle.set_instance_state(options, params["state"], say, module.check_mode)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
