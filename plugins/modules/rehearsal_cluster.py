#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal_cluster
short_description: Start, look at and remove a Kubernetes control plane on this machine
version_added: 0.1.0
description:
  - Runs real etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and on demand real operators, as
    processes on loopback. KWOK plays the nodes and the life of pods. Any user can do it, root is not needed.
  - With O(state=present) only what is missing is started. A component that was killed is started anew, with its data.
  - Only processes that were started for the very instance are ever signalled. Their environment, executable, pid and
    start time are looked at.
  - Programs are taken from where the user says, else from the cache, else they are downloaded when there is a place to
    download from, else Go builds them. A first build takes minutes and gigabytes, which is said beforehand.
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
    support: none
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) starts and repairs, V(absent) ends all processes and removes the data.
      - V(binaries) makes the programs available and starts nothing.
    type: str
    choices: [present, absent, binaries]
    default: present
  force:
    description: Remove the instance although it belongs to another run or to none.
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

- name: Say how to use it
  ansible.builtin.debug:
    msg: "export KUBECONFIG={{ __mine.kubeconfig }}"

- name: Remove it
  perfscale.seatrial.rehearsal_cluster:
    name: mine
    state: absent
"""

RETURN = r"""
state:
  description: V(present) when all of it is ready, V(partial) when something is missing, V(absent) without anything.
  returned: when state is not binaries
  type: str
ready:
  description: Whether all components are ready.
  returned: when state is present
  type: bool
changes:
  description: What was done, in order.
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
  description: Version of its API server, empty when it is not ready.
  returned: when there is an instance
  type: str
data_dir:
  description: Its folder.
  returned: when there is an instance
  type: str
played_logs:
  description: File that every container shows as its log, in CRI format. It may be replaced at any time.
  returned: when there is an instance
  type: str
audit_log:
  description: File to which the API server writes every change, one JSON line each.
  returned: when there is an instance
  type: str
owner:
  description: Run that it belongs to, null when it belongs to none.
  returned: when there is an instance
  type: str
owned:
  description: Whether it belongs to O(owner).
  returned: when there is an instance
  type: bool
processes:
  description: One entry a process, with pid, ports, log, memory in MiB and whether it runs and is ready.
  returned: when there is an instance
  type: list
  elements: dict
memory_mib:
  description: Resident memory of all of them.
  returned: when there is an instance
  type: int
lines:
  description: What a person wants to know of it.
  returned: when state is present
  type: list
  elements: str
binaries:
  description: Path of each program.
  returned: when they are there
  type: dict
kubectl:
  description: Path of kubectl, which is built with the control plane.
  returned: when it is there
  type: str
needs:
  description: What getting the programs takes, one sentence each. Empty when they are all there.
  returned: when state is binaries, and in check mode
  type: list
  elements: str
"""

import os
import signal
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main, _processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal.rehearsal_options import (
    SHARED_OPTIONS,
    Options,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def end_orderly(number: int, _frame: Any) -> None:
    """End by an exception, so that a build that runs is ended too and locks are let go."""
    raise SystemExit(128 + number)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent", "binaries"], "default": "present"},
            **SHARED_OPTIONS,
            "force": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 120},
            **_common_options.STEP,
            **_common_options.PROGRESS,
        },
        supports_check_mode=True,
    )
    given = module.params
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_orderly)

    def work(step: Step) -> dict[str, Any]:
        say = step.teller(given["progress_file"], "rehearsal")
        options = Options.of({**given, "begun": _processes.began(os.getpid())})
        with step.timed("cluster", f"rehearsal {given['state']}"):
            return cluster_lifecycle.bring(options, given["state"], say, module.check_mode)

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
