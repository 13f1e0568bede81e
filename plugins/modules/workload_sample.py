#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: workload_sample
short_description: Sample a load that another call submitted
version_added: 0.1.0
description:
  - Lists the existing workloads of a test point, watches them until all have ended, and appends changes to
    C(observations.jsonl).
  - M(perfscale.seatrial.workload_submit) samples its load itself. Use this module if that call ended before the
    workloads did (O(perfscale.seatrial.workload_submit#module:wait=false), an interruption), or to sample again what
    still exists. The time without a sampler is recorded as a gap.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._run.point
  - perfscale.seatrial._workload
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: none
    details: Without a load there is nothing to sample.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
    details: Known changes are not written again.
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
    stages: [PyTorchJob, Pod]
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
      returned: success
      type: int
    seen:
      description: Workloads that any sampler of this directory has seen.
      returned: success
      type: int
    missing:
      description: Workloads that were created according to the ledger, but that no sampler has seen.
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
      description: Workloads that were seen and have not ended.
      returned: success
      type: int
  sample:
    {planned: 400, seen: 400, running: 0, succeeded: 398, failed: 2, deleted: 0, unfinished: 0, missing: 0}
timed_out:
  description: Whether O(timeout) passed before all workloads had ended.
  returned: success
  type: bool
stopped:
  description: Why sampling was ended early because pods can never be scheduled. Otherwise empty.
  returned: success
  type: str
  sample: "pod t1121-001-0-x7x2k can never be scheduled: it asks for 16 nvidia.com/gpu, and the largest node has 8"
waiting_for:
  description: Names of the first ten workloads that had not ended.
  returned: success
  type: list
  elements: str
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
      (C(cpu)), C(soundings) the same of the revision probes. C(cpu) is the processor time of the whole sampler,
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
    soundings: {reads: 1200, took: {p50: 0.002, p95: 0.006, p99: 0.01, max: 0.03}, cpu: 0.16}
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.sample_running_load import (
    RunningLoadSampler,
    WatchSpec,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={**load_spec.SAMPLE, **ansible_module.STEP, **ansible_module.PROGRESS})

    def work(step: Step) -> dict[str, Any]:
        request = WatchSpec.of(module.params)
        return RunningLoadSampler(request, step, Progress(module.params["progress_file"], step)).run()

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()
