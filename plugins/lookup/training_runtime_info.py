# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what is known of a runtime of TrainJobs."""

from __future__ import annotations

DOCUMENTATION = r"""
name: training_runtime_info
short_description: Read what is known of a runtime of TrainJobs
version_added: 1.0.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - Returns kind and name of a runtime, and for which accelerator the image of one that a platform brings is made.
options:
  _terms:
    description: Name of a ClusterTrainingRuntime, or V(TrainingRuntime/name) of one in the namespace of the jobs.
    required: true
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show the accelerator of a runtime
  ansible.builtin.debug:
    var: lookup('perfscale.seatrial.training_runtime_info', 'torch-distributed-rocm').gpu_resource
"""

RETURN = r"""
_raw:
  description:
    - The runtimes, each with C(kind), C(name) and C(gpu_resource), the resource that it needs. C(gpu_resource) is empty
      for none, and absent if it is not known.
  type: list
  elements: dict
"""

from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import training_flavours


class LookupModule(LookupBase):
    """Lookup of runtimes."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return one runtime for each name."""
        return [training_flavours.training_runtime_reference(str(name)) for name in terms]
