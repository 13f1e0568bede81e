# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules that access a cluster."""

from __future__ import annotations


class ModuleDocFragment:
    """The kubeconfig and its context."""

    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Kubeconfig of the cluster. There is no default, so that no cluster is used accidentally.
      - V(in-cluster) means the service account of the pod that the module runs in.
    type: path
    required: true
  context:
    description: Context of the kubeconfig. Empty means the current context.
    type: str
    default: ''
"""

    NODES_READY = r"""
options:
  nodes_ready:
    description: Number of nodes to wait for until they are Ready.
    type: int
    default: 0
"""

    POD = r"""
options:
  node_selector:
    description: Node selector of the pod.
    type: dict
    default: {}
  tolerations:
    description: Tolerations of the pod.
    type: list
    elements: dict
    default: []
"""
