# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules whose load is sent by pods of a driver cluster."""

from __future__ import annotations

import re
import textwrap

_PODS = r"""
context:
  description: Context of the kubeconfig. Empty means its current one.
  type: str
  default: ''
namespace:
  description: Namespace of the pods. Empty means one that is created for the run and removed with the load.
  type: str
  default: ''
node_selector:
  description: Node selector of the pods.
  type: dict
  default: {}
tolerations:
  description: Tolerations of the pods.
  type: list
  elements: dict
  default: []
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
"""

_DRIVER = r"""
options:
  driver:
    description:
      - Sends the load from pods of a cluster, one for each of O(clients), as M(perfscale.seatrial.workload_remote) does
        for a load of objects. This machine asks the servers before the load, warms them up and reads their metrics, so
        they must be reachable from here too. Without it the clients are processes of this machine.
      - The pods start together. A pod that dies is made again and goes on with what is due then. What was due between
        its last report and its new begin is lost. In a closed model the load ends instead, with an error.
      - The pods go on if this call is killed, and the same call finds them. Module workload_remote with C(state=absent)
        ends them. A call that is interrupted ends them and keeps what they have recorded. O(api_key) and O(ca_file)
        are in a Secret of the load only.
      - Not together with O(search) and O(tokenizer), and not for servers on loopback.
    type: dict
    suboptions:
      kubeconfig:
        description: Kubeconfig of the cluster.
        type: path
        required: true
      urls:
        description: Base URLs of the servers as the pods reach them. Empty means O(urls).
        type: list
        elements: str
        default: []
      lock_dir:
        description: The run directory, which contains the run's lock file. The pods renew the lock as well.
        type: path
      image:
        description: Image of the pods, as of O(perfscale.seatrial.workload_remote#module:driver_image).
        type: str
        required: true
      reconnect:
        description: How long to retry a lost connection to the cluster, in seconds.
        type: float
        default: 600
      collect_bytes:
        description: Size of the files of all clients, compressed, that pass through the API server.
        type: int
        default: 268435456
      canary_rate:
        description: >-
          Writes a second of each client and of this machine to the cluster, by which the clocks of nodes are compared.
          V(0) means none: clocks of different nodes are then taken for equal.
        type: float
        default: 5
"""


class ModuleDocFragment:
    """The pods of a load: options ``driver_…``, or with ``driver`` the option of this name, which contains them."""

    # With annotations, because ansible-test's yamllint takes every other assignment here for a literal.
    DOCUMENTATION: str = "options:\n" + textwrap.indent(re.sub(r"(?m)^(\w+:)", r"driver_\1", _PODS), "  ")
    # A module can't add to the suboptions of a fragment, so all of them are here.
    DRIVER: str = _DRIVER + textwrap.indent(_PODS, "      ")
