# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules that query a Prometheus server."""

from __future__ import annotations


class ModuleDocFragment:
    """The server."""

    DOCUMENTATION = r"""
options:
  url:
    description: Address of the server. Default is the route to Thanos on the cluster of O(kubeconfig).
    type: str
    default: ''
  token:
    description: Bearer token for the server at O(url). The route of a cluster gets that of O(kubeconfig).
    type: str
    default: ''
  kubeconfig:
    description: Kubeconfig of an OpenShift cluster, for its route to Thanos.
    type: path
  context:
    description: Context of O(kubeconfig). Empty means its current context.
    type: str
    default: ''
    version_added: 1.0.0
"""
