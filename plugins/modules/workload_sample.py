#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: workload_sample
short_description: Sample a load that another call or somebody else submits
version_added: 0.1.0
description:
  - Lists the workloads of a test point, watches them and the objects that belong to them, and appends changes to
    C(observations.jsonl). The time without a sampler is recorded as a gap.
  - With O(submitted_by=run), the load is that of M(perfscale.seatrial.workload_submit), which samples its load itself.
    Use this module if that call ended before the workloads did
    (O(perfscale.seatrial.workload_submit#module:wait=false), an interruption), or to sample again what still exists.
    It ends when all existing workloads have ended, or after O(timeout).
  - With O(submitted_by=others), each object of the first kind of O(stages) that matches the selectors is a workload,
    whoever created it. Nothing is written to the cluster except the canary, which O(canary_rate=0) disables. It ends as
    soon as one of O(count), O(duration) and O(idle) is reached, or the file C(END) is in O(point_dir).
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._run.point
  - perfscale.seatrial._workload
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
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
  submitted_by:
    description:
      - Who submits the load, V(run) for M(perfscale.seatrial.workload_submit) with the same O(point_dir), V(others) for
        anybody else. The options below are for V(others), and O(namespace), O(timeout) and O(lock_dir) for V(run).
    type: str
    choices: [run, others]
    default: run
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
  existing:
    description: Whether objects that exist at the beginning are workloads, too.
    type: bool
    default: false
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
seealso:
  - module: perfscale.seatrial.workload_submit
"""

EXAMPLES = r"""
- name: Watch the jobs to their end
  perfscale.seatrial.workload_sample:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    point_dir: "{{ run_dir }}/points/001"
    namespace: fine-tuning
    stages: [TrainJob, JobSet, Job, Pod]

- name: Sample the jobs of a team for ten minutes
  perfscale.seatrial.workload_sample:
    submitted_by: others
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
  sample: "workload 001: 400/400 seen, 0 running, 398 done, 2 failed, 31 s"
counts:
  description: Numbers of workloads.
  returned: success
  type: dict
  contains:
    planned:
      description: Workloads of the plan.
      returned: when O(submitted_by=run)
      type: int
    seen:
      description: Workloads that any sampler of this directory has seen.
      returned: success
      type: int
    missing:
      description: Workloads that were created according to the ledger, but that no sampler has seen.
      returned: when O(submitted_by=run)
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
      description: Workloads that were seen and have not ended.
      returned: success
      type: int
  sample:
    {planned: 400, seen: 400, running: 0, succeeded: 398, failed: 2, deleted: 0, unfinished: 0, missing: 0}
timed_out:
  description: Whether O(timeout) passed before all workloads had ended.
  returned: when O(submitted_by=run)
  type: bool
stopped:
  description: Why sampling was ended early because pods can never be scheduled. Otherwise empty.
  returned: when O(submitted_by=run)
  type: str
  sample: "pod t1121-001-0-x7x2k can never be scheduled: it asks for 16 nvidia.com/gpu, and the largest node has 8"
waiting_for:
  description: Names of the first ten workloads that had not ended.
  returned: when O(submitted_by=run)
  type: list
  elements: str
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
  description:
    - Cost and lag of the sampling, in seconds. C(lag) is the time from the response to a write of the canary to its
      event. C(canary) has the number of writes, how long the API server took for them (C(took)) and our processor time
      (C(cpu)), C(revision_probes) the same of the revision probes. C(cpu) is the processor time of the whole sampler,
      C(cpu_events) its part for events, C(cpu_rows) the part of that from the received bytes to the rows (TLS, parsing,
      stages). C(decoder) is the Python package that decoded the events, V(msgspec) or, without it, V(json).
  returned: success
  type: dict
  sample:
    cpu: 0.61
    cpu_events: 0.38
    cpu_rows: 0.22
    decoder: msgspec
    lag: {p50: 0.0021, p95: 0.006, p99: 0.012, max: 0.03, n: 1200}
    canary: {writes: 1200, took: {p50: 0.003, p95: 0.009, p99: 0.02, max: 0.05}, cpu: 0.19}
    revision_probes: {reads: 1200, took: {p50: 0.002, p95: 0.006, p99: 0.01, max: 0.03}, cpu: 0.16}
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import load_spec, sampling_without_sending


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={**load_spec.SAMPLE, **ansible_module.STEP, **ansible_module.PROGRESS})

    def work(step: StepDirectory) -> dict[str, Any]:
        request = load_spec.SampleSpec.from_params(module.params)
        return sampling_without_sending.run_load_sampling(
            request, step, ProgressLog(module.params["progress_file"], step)
        )

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
