#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_lock
short_description: Lock a cluster that several runs use
version_added: 0.1.0
description:
  - Acquires a Lease (C(coordination.k8s.io/v1)) on the cluster, so that two runs never measure on it at the same time.
    Waits in a queue of Leases, and shows the place of the run and the lock holder.
  - Starts a process that renews the Lease until the run's process ends. The Lease of a killed run expires after
    O(duration). No run takes over a Lease that has not expired.
  - The lock is lost if the Lease can't be renewed or has another holder. This is written to O(lock_file). Modules that
    put load on the cluster then stop.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._run.owner
  - perfscale.seatrial._run.purpose
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: It creates or deletes one lock, which is in RV(lock).
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) waits for the lock and acquires it. A run that already holds it keeps it.
      - V(absent) releases the lock, or leaves the queue. Safe to repeat, also on another machine.
      - V(queried) returns the lock holder and the waiting runs, and changes nothing.
    type: str
    choices: [present, absent, queried]
    default: present
  run_id:
    description: Id of the run, which becomes the Lease's C(holderIdentity). Required unless O(state=queried).
    type: str
  namespace:
    description: Namespace of the Leases. All runs of a cluster must name the same one.
    type: str
    default: default
  lock_file:
    description:
      - File for the state of the lock, C(lock-<host>.json) in the run directory. Required unless O(state=queried).
    type: path
  duration:
    description: Time until the Lease expires unless it is renewed, in seconds. Renewal is after a quarter of it.
    type: int
    default: 60
  timeout:
    description: Timeout for acquiring the lock, in seconds.
    type: float
    default: 3600
  caller_pid:
    description: Process at whose end the lock is no longer renewed. The action plugin passes that of ansible-playbook.
    type: int
  unreachable:
    description:
      - What to do with O(state=absent) if the API server does not respond, so that it is unknown whether the lock is
        still held. O(lock_file) is unchanged in both cases.
    type: str
    choices: [fail, warn]
    default: fail
notes:
  - Times of different machines are never compared. A Lease has expired when it was watched for its whole duration and
    did not change, so even an abandoned Lease is watched for one duration.
  - The holder stops after two thirds of the duration without a successful renewal, before another run may take over the
    lock.
"""

EXAMPLES = r"""
- name: Wait for the lock
  perfscale.seatrial.cluster_lock:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    purpose: fine tuning, preset gpu
    lock_file: "{{ run_dir }}/lock-sutest.json"

- name: Release the lock
  perfscale.seatrial.cluster_lock:
    state: absent
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    lock_file: "{{ run_dir }}/lock-sutest.json"

- name: Query the queue
  perfscale.seatrial.cluster_lock:
    state: queried
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
  register: __lock
"""

RETURN = r"""
lock:
  description: Content of O(lock_file), as in the schema C(lock/1); null without one.
  returned: when O(state=present) or O(state=absent)
  type: dict
holder:
  description: The lock holder, null if the lock is free. Times are by the clock of the holder.
  returned: when O(state=queried)
  type: dict
  sample:
    run: t1121-k3f9xa
    owner: ann
    purpose: fine_tuning gpu
    since: "2026-11-21T10:00:00Z"
    until: "2026-11-21T10:01:00Z"
waiting:
  description: The waiting runs in order; keys as in RV(holder).
  returned: when O(state=queried)
  type: list
  elements: dict
lines:
  description: The same as lines of text.
  returned: when O(state=queried)
  type: list
  elements: str
waited:
  description: Time in the queue, in seconds.
  returned: when O(state=present)
  type: float
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_session


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent", "queried"], "default": "present"},
            **ansible_module.CLUSTER,
            "run_id": {"type": "str"},
            **ansible_module.OWNER,
            **ansible_module.PURPOSE,
            "namespace": {"type": "str", "default": "default"},
            "lock_file": {"type": "path"},
            "duration": {"type": "int", "default": 60},
            "timeout": {"type": "float", "default": 3600},
            "caller_pid": {"type": "int"},
            "unreachable": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        required_if=[("state", state, ["run_id", "lock_file"]) for state in ("present", "absent")],
        supports_check_mode=True,
    )

    def work(step: StepDirectory) -> dict[str, Any]:
        if module.params["state"] == "queried":
            return lock_session.lock_holder_and_queue(
                *(module.params[name] for name in ("kubeconfig", "context", "namespace"))
            )
        spec = lock_session.LockSpec.of(module.params, os.getppid())
        if module.params["state"] == "present":
            return lock_session.acquire_cluster_lock(
                spec, step, step.reporter(module.params["progress_file"], "lock"), module.check_mode
            )
        result = lock_session.release_cluster_lock(spec, module.check_mode, module.params["unreachable"] == "fail")
        step.log(result["msg"])
        if result["warning"]:
            module.warn(result["warning"])
        return result

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
