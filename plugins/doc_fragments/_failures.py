# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules that inject failures while a load runs."""

from __future__ import annotations


class ModuleDocFragment:
    """The failures of nodes, pods and the control plane."""

    DOCUMENTATION = r"""
options:
  failures:
    description:
      - Failures that are injected while the load runs, into nodes that run pods of the load, into such pods, or into
        processes of a rehearsal cluster. Times, and which nodes fail, follow from O(seed). Requires O(wait) and
        O(sample).
      - C(failures.jsonl) in O(point_dir) records each of them before it is injected. All are undone when their time or
        the load is over. After a kill, the next call or the cleanup of the run does so. A repeated call must have the
        same failures and the same seed.
    type: list
    elements: dict
    default: []
    version_added: 1.0.0
    suboptions:
      kind:
        description:
          - V(node_lost) is a node that stops reporting, and whose pods nobody runs any more. V(node_drained) is a node
            that is cordoned, and whose pods of the load are evicted. V(gpu_lost) is a node that offers one GPU less,
            or on which a health agent reports that a GPU is lost.
          - V(pod_killed) is a pod that is deleted without grace. V(container_oom) is a pod whose containers end with
            exit code 137 and reason OOMKilled.
          - V(node_lost), V(gpu_lost) and V(container_oom) are possible only on simulated nodes.
          - V(controller_restarted) is a process of the control plane that is killed, and started again. V(api_away) is
            an API server that does not answer. V(etcd_slow) is an etcd whose answers take up to 0.2 s longer. These
            three are possible only on a rehearsal cluster that the same user has started on the same machine.
          - V(network_cut) are two pods of one workload on a real node of such a cluster that don't reach each other.
          - V(kubelet_restarted) is a kubelet of such a node that is killed, and starts again. Its containers run on.
          - V(worker_away) is the same as V(api_away) for a worker cluster that belongs to such a rehearsal cluster.
        type: str
        required: true
        choices:
          - node_lost
          - node_drained
          - gpu_lost
          - pod_killed
          - container_oom
          - controller_restarted
          - api_away
          - etcd_slow
          - network_cut
          - kubelet_restarted
          - worker_away
      at:
        description:
          - When they occur, in seconds after the start of the load. Either this or O(failures[].rate) is required.
        type: list
        elements: float
        default: []
      rate:
        description: Failures per hour, at independent random times from O(failures[].since) to O(failures[].until).
        type: float
        default: 0
      since:
        description: Beginning of random times, in seconds after the start of the load.
        type: float
        default: 0
      until:
        description: End of random times, in seconds after the start of the load.
        type: float
        default: 0
      duration:
        description:
          - Time after which the failure of a node or of the control plane is undone, in seconds. V(0) means the end of
            the load. At most 600 s, and not V(0), for V(api_away), V(etcd_slow), V(network_cut),
            V(kubelet_restarted) and V(worker_away).
        type: float
        default: 60
      selector:
        description: Label selector of the nodes or pods that may fail. Empty means all that have to do with the load.
        type: str
        default: ''
      count:
        description: Number of nodes or pods that fail together.
        type: int
        default: 1
      share:
        description: Share of the nodes or pods that fail together, V(0) to V(1), instead of O(failures[].count).
        type: float
        default: 0
      by:
        description:
          - Label of nodes. All nodes with the same value of it fail together, also those without pods of the load, such
            as all nodes of a rack. O(failures[].count) and O(failures[].share) are of these values then.
        type: str
        default: ''
      pod_fails:
        description:
          - Whether a pod of the load on the node with C(restartPolicy) C(Never), if there is one, ends with exit code 1
            when a GPU is lost.
        type: bool
        default: false
      condition:
        description:
          - Condition of the node that shows that a GPU is lost, as a health agent writes it, such as
            V(GPUHealthy=False). The node offers its GPUs as before then.
        type: str
        default: ''
      taint:
        description:
          - Taint of the node that shows that a GPU is lost, as a health agent writes it, such as
            V(example.com/gpu-lost=true:NoExecute). The node offers its GPUs as before then. With effect C(NoExecute)
            pods of the load on it that don't tolerate the taint are evicted.
        type: str
        default: ''
      process:
        description:
          - Name of the process that is restarted, such as V(jobset). Empty means V(kube-controller-manager).
        type: str
        default: ''
      worker:
        description: Worker cluster that is away, such as V(worker-2). Empty means V(worker-1).
        type: str
        default: ''
"""
