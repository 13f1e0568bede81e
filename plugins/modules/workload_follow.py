#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: workload_follow
short_description: Sample a load that others submit
version_added: 0.1.0
description:
  - Watches the objects of one kind that match the selectors, and the objects that they own, and appends changes to
    C(observations.jsonl). Each of these objects is a workload, whoever created it.
  - Writes nothing to the cluster except the canary, which O(canary_rate=0) disables.
  - Ends as soon as one of O(count), O(duration) and O(idle) is reached, or the file C(END) is in O(point_dir).
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._run.point
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: none
    details: There is nothing to predict.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
    details: Known changes are not written again.
options:
  point_dir:
    description: Directory of the point in the run directory. It is created if it is missing.
    type: path
    required: true
  namespaces:
    description: Namespaces to watch. Empty means all.
    type: list
    elements: str
    default: []
  label_selector:
    description: Label selector of the workloads, such as V(kube-burner-uuid=5f2c).
    type: str
    default: ''
  field_selector:
    description: Field selector of the workloads, such as V(metadata.name=train). The API server supports few fields.
    type: str
    default: ''
  stages:
    description:
      - Stage definitions of the kinds to watch, as in M(perfscale.seatrial.workload_submit). The first is the kind of
        the workloads. Objects of the others belong to the workload that owns them, directly or through others of these
        kinds.
    type: list
    elements: raw
    default: []
  existing:
    description: Whether objects that exist at the beginning are workloads, too.
    type: bool
    default: false
  simulated_writers:
    description: Writers that are simulated on this cluster, such as V([node]). They are recorded in the observations.
    type: list
    elements: str
    default: []
  canary_rate:
    description:
      - Writes per second to the canary, a Lease of the sampler. The times of these writes are known exactly and date
        the changes of other writers. Between two writes, a revision probe lists an Event that does not exist, which
        returns etcd's current revision. V(0) disables both. Intervals are then much wider.
    type: float
    default: 20
  canary_namespace:
    description:
      - Namespace of the canary. Empty means the first of O(namespaces), or else that of the kubeconfig's context.
    type: str
    default: ''
  count:
    description: Number of workloads after whose end sampling ends. V(0) means any number.
    type: int
    default: 0
  duration:
    description: Time after which sampling ends, in seconds. V(0) means no limit.
    type: float
    default: 3600
  idle:
    description:
      - Time without any change of a workload or its objects after which sampling ends, in seconds. It is counted from
        the first workload on. V(0) means no limit.
    type: float
    default: 0
  settle:
    description: How long sampling continues after its end was reached, in seconds.
    type: float
    default: 1
seealso:
  - module: perfscale.seatrial.workload_sample
"""

EXAMPLES = r"""
- name: Sample the jobs of a team for ten minutes
  perfscale.seatrial.workload_follow:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    point_dir: "{{ run_dir }}/points/001"
    namespaces: [team-a]
    label_selector: app=training
    stages: [Job, Pod]
    duration: 600
"""

RETURN = r"""
msg:
  description: The result in one line.
  returned: success
  type: str
  sample: "sample 001: 400 seen, 0 running, 398 done, 2 failed, 31 s: 400 workloads ended"
counts:
  description: Numbers of workloads.
  returned: success
  type: dict
  contains:
    seen:
      description: Workloads that any sampler of this directory has seen.
      returned: success
      type: int
    running:
      description: Workloads that are running.
      returned: success
      type: int
    succeeded:
      description: Workloads that succeeded.
      returned: success
      type: int
    failed:
      description: Workloads that failed.
      returned: success
      type: int
    deleted:
      description: Workloads that were deleted before they ended.
      returned: success
      type: int
    unfinished:
      description: Workloads that have not ended.
      returned: success
      type: int
  sample: {seen: 400, running: 0, succeeded: 398, failed: 2, deleted: 0, unfinished: 0}
ended_by:
  description: Why sampling ended.
  returned: success
  type: str
  sample: 400 workloads ended
events:
  description: Number of events that were received in this call.
  returned: success
  type: int
gaps:
  description: Number of gaps that this call has added.
  returned: success
  type: int
sampling:
  description: Cost and lag of the sampling in seconds, as returned by M(perfscale.seatrial.workload_sample).
  returned: success
  type: dict
  sample: {cpu: 0.61, cpu_events: 0.38, cpu_rows: 0.22}
notes:
  description: Remarks on the sampling.
  returned: success
  type: list
  elements: str
seconds:
  description: Duration of the call, in seconds.
  returned: success
  type: float
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Progress, Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import load_spec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.follow_foreign_load import (
    FollowSpec,
    ForeignLoadSampler,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={**load_spec.FOLLOW, **ansible_module.STEP, **ansible_module.PROGRESS})

    def work(step: Step) -> dict[str, Any]:
        request = FollowSpec.of(module.params)
        return ForeignLoadSampler(request, step, Progress(module.params["progress_file"], step)).run()

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()
