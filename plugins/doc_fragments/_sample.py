# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules that watch a load."""

from __future__ import annotations


class ModuleDocFragment:
    """Which load, and what of it."""

    DOCUMENTATION = r"""
options:
  point_dir:
    description: Directory of the point in the run directory. It is made when it is missing.
    type: path
    required: true
  namespace:
    description: Namespace of the workloads; that of the kubeconfig's context when empty.
    type: str
    default: ''
  stages:
    description:
      - What to watch, one definition a kind. The name of a kind (V(PyTorchJob), V(Job), V(Pod)) stands for the
        definition that the collection ships, a path ending in C(.yml) for one of your own, and a dictionary is one.
      - A definition has C(api_version), C(kind) and C(stages) in the order of life. A stage has C(name), C(writer)
        (C(client), C(api-server), C(controller), C(scheduler) or C(node)), one of C(condition), C(field) and
        C(jmespath), and optionally C(equals), C(depends_on), C(running) and C(ends) (C(succeeded) or C(failed)).
    type: list
    elements: raw
    default: []
  simulated_writers:
    description: Which writers are played on this cluster, such as V([node]); recorded with the observations.
    type: list
    elements: str
    default: []
  canary_rate:
    description:
      - How many times a second an object of our own (a Lease) is written while watching. Its writes are known exactly
        and date what others write. Halfway between two writes etcd is asked for its revision, by listing an Event that
        is not there, which dates as well. V(0) for neither.
    type: float
    default: 20
  timeout:
    description: How long to wait for workloads to end, in seconds, after the last one was sent.
    type: float
    default: 600
  settle:
    description: How long to go on watching when all have ended, in seconds.
    type: float
    default: 1
  lock_dir:
    description:
      - The run directory. When a lock file in it says that the lock of the cluster is lost, the call stops with an
        error, see M(perfscale.seatrial.cluster_lock).
    type: path
"""
