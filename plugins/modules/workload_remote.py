#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: workload_remote
short_description: Run a load on another host or in pods, where it continues without connection
version_added: 1.0.0
description:
  - Starts the load of M(perfscale.seatrial.workload_submit) on another host or in the driver cluster, or finds it again
    by the id of its run. It shows the progress of the load, fetches its files after its end, and deletes what is left
    of it there. With O(state=absent) it ends the load. The load continues if the connection is lost or the controller
    dies.
  - On a host, that of the task, normally set with C(delegate_to), the load is a detached process.
  - In the driver cluster (O(run_on=driver_pod)) it is an Indexed Job with one pod for each client. A pod that dies is
    made again by Kubernetes and resumes from the files that it has handed over every 5 seconds. All communication,
    including the files, goes through the API server of the driver cluster. Nothing is executed in the pods, and no log
    is read. If target and driver are the same cluster, the pods get no kubeconfig. Their service account gets exactly
    the rights that this load needs.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._driver_pods
  - perfscale.seatrial._s3_pod_files
  - perfscale.seatrial._run.point
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: none
    details: A load that does not run has no result.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
    details: A load that is complete is not started again.
options:
  state:
    description:
      - V(present) starts the load or finds it, and waits for its end. V(absent) ends and deletes it. V(status) reads
        the state of a load on a host; the action plugin uses it.
    type: str
    choices: [present, absent, status]
    default: present
  run_on:
    description: V(driver_pod) for pods of the driver cluster. Any other value is the name of the task's host.
    type: str
    required: true
  point_dir:
    description: Directory of the point on the controller, to which the files are fetched.
    type: path
  request:
    description:
      - Options of M(perfscale.seatrial.workload_submit), except C(kubeconfig), C(context), C(run_id), C(point),
        C(point_dir), C(lock_dir) and C(step_dir).
    type: dict
    default: {}
  kubeconfig:
    description: Kubeconfig, on the controller, of the cluster under load. On a host it must be usable there, too.
    type: path
  context:
    description: Context of O(kubeconfig). Empty means the current context.
    type: str
    default: ''
  lock_dir:
    description: The run directory, which contains the run's lock file. The load renews the lock as well.
    type: path
  elsewhere_dir:
    description: Directory on the host with one directory per load.
    type: path
    default: ~/.local/state/seatrial/loads
  elsewhere_interval:
    description: Polling interval for the state of a load on a host, in seconds.
    type: float
    default: 10
  elsewhere_reconnect:
    description:
      - How long to retry a lost connection to the host or the driver cluster, and to wait for a heartbeat of a client
        in a pod, in seconds.
    type: float
    default: 600
  kubeconfig_content:
    description: Content of the kubeconfig for the host, set by the action plugin.
    type: str
  lock:
    description: Parameters of the run's lock for the host, set by the action plugin.
    type: dict
  offset:
    description: Number of bytes of the progress that were read before, for O(state=status).
    type: int
    default: 0
  driver_kubeconfig:
    description: Kubeconfig of the driver cluster.
    type: path
  driver_image:
    description:
      - Image of the pods. It must contain Python 3.11 as C(python3), PyYAML, Jinja2 and jmespath. With msgspec the
        sampler needs less processor time.
    type: str
    default: ''
  collect_bytes:
    description:
      - Maximum size of the files of a load in pods that pass through the API server, compressed, in bytes. With larger
        ones, the clients upload their files to the server of O(collect_s3), or keep them until one is given.
    type: int
    default: 268435456
requirements:
  - Python 3.11 and PyYAML on the host
seealso:
  - module: perfscale.seatrial.workload_submit
"""

EXAMPLES = r"""
- name: Run the load on the bastion
  perfscale.seatrial.workload_remote:
    run_on: bastion
    run_id: "{{ run_id }}"
    point_dir: "{{ run_dir }}/points/001"
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    request: &request
      count: 1000
      templates:
        - src: job.yml.j2
  delegate_to: bastion

- name: Run the load in the driver cluster
  perfscale.seatrial.workload_remote:
    run_on: driver_pod
    driver_kubeconfig: "{{ cluster_acquired.driver.kubeconfig }}"
    driver_image: registry.example.com/perf/ansible-ee:1
    run_id: "{{ run_id }}"
    point_dir: "{{ run_dir }}/points/001"
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    request: *request
"""

RETURN = r"""
found:
  description: Whether the load existed before.
  returned: when O(state=present)
  type: bool
msg:
  description: The result in one line, as of M(perfscale.seatrial.workload_submit), whose other values are returned too.
  returned: when O(state=present)
  type: str
load_state:
  description: V(absent), V(running), V(ended) or V(died).
  returned: when O(state=status)
  type: str
lines:
  description: The progress since O(offset).
  returned: when O(state=status)
  type: list
  elements: str
offset:
  description: Number of bytes of the progress that have been read now.
  returned: when O(state=status)
  type: int
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import detached_load, load_in_pods
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.host_or_pod_load import DRIVER_POD


def main() -> None:
    """Run the module: everything for a load in pods, one step on the host for the action plugin."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent", "status"], "default": "present"},
            "run_on": {"type": "str", "required": True},
            **ansible_module.POINT,
            "point_dir": {"type": "path"},
            "request": {"type": "dict", "default": {}},
            "kubeconfig": {"type": "path"},
            "context": {"type": "str", "default": ""},
            "lock_dir": {"type": "path"},
            "elsewhere_dir": {"type": "path", "default": "~/.local/state/seatrial/loads"},
            "elsewhere_interval": {"type": "float", "default": 10},
            "elsewhere_reconnect": {"type": "float", "default": 600},
            "kubeconfig_content": {"type": "str", "no_log": True},
            "lock": {"type": "dict"},
            "offset": {"type": "int", "default": 0},
            "driver_kubeconfig": {"type": "path"},
            "driver_image": {"type": "str", "default": ""},
            **{f"driver_{name}": option for name, option in ansible_module.DRIVER_PODS.items()},
            "collect_bytes": {"type": "int", "default": 268435456},
            **ansible_module.COLLECT_S3,
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        required_if=[("state", "present", ["kubeconfig"]), ("run_on", DRIVER_POD, ["driver_kubeconfig", "point_dir"])],
    )
    run = (
        load_in_pods.apply_requested_state
        if module.params["run_on"] == DRIVER_POD
        else detached_load.run_remote_load_step
    )
    ansible_module.run_module_work(module, lambda step: run(module.params, step))


if __name__ == "__main__":
    main()
