#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_lock_info
short_description: Show the holder of a cluster's lock and the waiting runs
version_added: 0.1.0
description:
  - Reads the Leases of the lock on a cluster, see M(perfscale.seatrial.cluster_lock). Changes nothing.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._step
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
options:
  namespace:
    description: Namespace of the Leases.
    type: str
    default: default
seealso:
  - module: perfscale.seatrial.cluster_lock
"""

EXAMPLES = r"""
- name: Query the queue
  perfscale.seatrial.cluster_lock_info:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
  register: __lock
"""

RETURN = r"""
holder:
  description: The lock holder, null if the lock is free. Times are by the clock of the holder.
  returned: success
  type: dict
  sample:
    run: t1121-k3f9xa
    owner: ann
    purpose: fine_tuning gpu
    since: "2026-11-21T10:00:00Z"
    until: "2026-11-21T10:01:00Z"
waiting:
  description: The waiting runs in order; keys as in RV(holder).
  returned: success
  type: list
  elements: dict
lines:
  description: The same as lines of text.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_session


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "namespace": {"type": "str", "default": "default"},
            **ansible_module.STEP,
        },
        supports_check_mode=True,
    )

    def work(step: Step) -> dict[str, Any]:
        return lock_session.lock_info(module.params["kubeconfig"], module.params["context"], module.params["namespace"])

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()
