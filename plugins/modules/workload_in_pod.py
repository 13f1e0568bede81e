#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: workload_in_pod
short_description: Run a load in pods of the driver cluster, where it continues without connection
version_added: 0.1.0
description:
  - Starts the load of M(perfscale.seatrial.workload_submit) as an Indexed Job of the driver cluster, with one pod for
    each client, or finds it again by the id of its run. It shows the progress of the load, fetches its files after its
    end, and deletes its objects. With O(state=absent) it ends the load.
  - The load continues if the connection is lost or the controller dies. A pod that dies is made again by Kubernetes
    and resumes from the files that it has handed over every 5 seconds.
  - All communication, including the files, goes through the API server of the driver cluster. Nothing is executed in
    the pods, and no log is read.
  - If target and driver are the same cluster, the pods get no kubeconfig. Their service account gets exactly the
    rights that this load needs.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._cluster.pod
  - perfscale.seatrial._collect
  - perfscale.seatrial._run.point
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
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
    description: V(present) starts the load or finds it, and waits for its end. V(absent) ends and deletes it.
    type: str
    choices: [present, absent]
    default: present
  point_dir:
    description: Directory of the point, to which the files are fetched.
    type: path
    required: true
  request:
    description:
      - Options of M(perfscale.seatrial.workload_submit), except C(kubeconfig), C(context), C(run_id), C(point),
        C(point_dir), C(lock_dir) and C(step_dir).
    type: dict
    default: {}
  target_kubeconfig:
    description: Kubeconfig of the cluster under load.
    type: path
  target_context:
    description: Context of O(target_kubeconfig). Empty means the current context.
    type: str
    default: ''
  image:
    description:
      - Image of the pods. It must contain Python 3.11 as C(python3), PyYAML, Jinja2 and jmespath. With msgspec the
        sampler needs less processor time.
    type: str
    default: ''
  namespace:
    description: Namespace of the pods. Empty means a namespace that is created for the run and removed with the load.
    type: str
    default: ''
  requests:
    description: Resource requests of each pod.
    type: dict
    default: {}
  limits:
    description: Resource limits of each pod.
    type: dict
    default: {}
  security_context:
    description: Security context of the pods, in addition to a non-root user and the default seccomp profile.
    type: dict
    default: {}
  keep:
    description: How long the Job stays after its end if nobody fetches its files, in seconds.
    type: int
    default: 86400
  collect_bytes:
    description:
      - Maximum size of the files of the load that pass through the API server, compressed, in bytes. With larger ones,
        the clients upload their files to the server of O(collect_s3), or keep them until one is given.
    type: int
    default: 268435456
  restarts:
    description:
      - How often the pod of a client is made again after it has died. After that the client is lost. Evictions do not
        count.
    type: int
    default: 3
  start_timeout:
    description: Timeout for the pods to start, in seconds.
    type: float
    default: 600
  reconnect:
    description:
      - How long to retry a lost connection to the driver cluster, and to wait for a heartbeat of a client, in seconds.
    type: float
    default: 600
  lock_dir:
    description: The run directory, which contains the run's lock file. The load renews the lock as well.
    type: path
seealso:
  - module: perfscale.seatrial.workload_on_host
"""

EXAMPLES = r"""
- name: Run the load in the driver cluster
  perfscale.seatrial.workload_in_pod:
    kubeconfig: "{{ cluster_acquired.driver.kubeconfig }}"
    target_kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    image: registry.example.com/perf/ansible-ee:1
    run_id: "{{ run_id }}"
    point_dir: "{{ run_dir }}/points/001"
    request:
      count: 1000
      templates:
        - src: job.yml.j2
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
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import load_in_pods


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            **ansible_module.CLUSTER,
            **ansible_module.POINT,
            "point_dir": {"type": "path", "required": True},
            "request": {"type": "dict", "default": {}},
            "target_kubeconfig": {"type": "path"},
            "target_context": {"type": "str", "default": ""},
            "image": {"type": "str", "default": ""},
            "namespace": {"type": "str", "default": ""},
            "node_selector": {"type": "dict", "default": {}},
            "tolerations": {"type": "list", "elements": "dict", "default": []},
            "requests": {"type": "dict", "default": {}},
            "limits": {"type": "dict", "default": {}},
            "security_context": {"type": "dict", "default": {}},
            "keep": {"type": "int", "default": 86400},
            "collect_bytes": {"type": "int", "default": 268435456},
            **ansible_module.COLLECT_S3,
            "restarts": {"type": "int", "default": 3},
            "start_timeout": {"type": "float", "default": 600},
            "reconnect": {"type": "float", "default": 600},
            "lock_dir": {"type": "path"},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        required_if=[("state", "present", ["target_kubeconfig"])],
    )

    def work(step: Step) -> dict[str, Any]:
        if module.params["state"] == "absent":
            return load_in_pods.absent(module.params, step)
        return load_in_pods.present(module.params, step)

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()
