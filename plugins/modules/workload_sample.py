#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: workload_sample
short_description: Watch a load that was submitted by another call
version_added: 0.1.0
description:
  - Lists the workloads of a test point that are there, then watches them until all have ended, and appends what
    changes to C(observations.jsonl).
  - M(perfscale.seatrial.workload_submit) samples by itself; this module is for when its call ended before the
    workloads did (O(perfscale.seatrial.workload_submit#module:wait=false), an interruption), or to look again at
    what still exists. What happened while nobody watched stands as a gap in the file.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._run.point
  - perfscale.seatrial._sample
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: none
  diff_mode:
    support: none
  idempotent:
    support: full
    details: What is known already is not written again.
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
  description: How many workloads.
  returned: success
  type: dict
  contains:
    planned:
      description: How many workloads the plan has.
      returned: success
      type: int
    seen:
      description: How many workloads were seen, by all samplers of this directory.
      returned: success
      type: int
    missing:
      description: How many workloads the ledger says were created and no sampler ever saw.
      returned: success
      type: int
    running:
      description: How many workloads run.
      returned: success
      type: int
    succeeded:
      description: How many workloads ended well.
      returned: success
      type: int
    failed:
      description: How many workloads ended badly.
      returned: success
      type: int
    deleted:
      description: How many workloads were gone before they had ended.
      returned: success
      type: int
    unfinished:
      description: How many workloads that were seen have not ended.
      returned: success
      type: int
  sample:
    {planned: 400, seen: 400, running: 0, succeeded: 398, failed: 2, deleted: 0, unfinished: 0, missing: 0}
timed_out:
  description: Whether O(timeout) passed before all had ended.
  returned: success
  type: bool
stopped:
  description: Why it was ended early, since the pods can never be scheduled; empty when it was not.
  returned: success
  type: str
  sample: "pod t1121-001-0-x7x2k can never be scheduled: it asks for 16 nvidia.com/gpu, and the largest node has 8"
waiting_for:
  description: Names of the first ten that had not ended.
  returned: success
  type: list
  elements: str
events:
  description: How many events were taken in this call.
  returned: success
  type: int
gaps:
  description: How many gaps this call has added.
  returned: success
  type: int
sampling:
  description:
    - What the sampling cost and how far it lagged behind, in seconds. C(lag) is from the answer to a write of the
      canary to its event; C(canary) has its writes, how long the API server took for them (C(took)) and our processor
      time (C(cpu)), C(soundings) the same of the reads between them; C(cpu) is the processor time of the whole sampler,
      C(cpu_events) what all to do with events took of it, C(cpu_rows) the part of that from the received bytes to the
      rows (TLS, parsing, stages).
  returned: success
  type: dict
  sample:
    cpu: 0.61
    cpu_events: 0.38
    cpu_rows: 0.22
    lag: {p50: 0.0021, p95: 0.006, p99: 0.012, max: 0.03, n: 1200}
    canary: {writes: 1200, took: {p50: 0.003, p95: 0.009, p99: 0.02, max: 0.05}, cpu: 0.19}
    soundings: {reads: 1200, took: {p50: 0.002, p95: 0.006, p99: 0.01, max: 0.03}, cpu: 0.16}
notes:
  description: What should be known of the sampling.
  returned: success
  type: list
  elements: str
seconds:
  description: How long the call took.
  returned: success
  type: float
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._load import load_argument_spec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample_until_ended import (
    RunningLoadSampler,
    WatchSpec,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._progress import Progress
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={**load_argument_spec.SAMPLE, **_common_options.STEP, **_common_options.PROGRESS}
    )

    def work(step: Step) -> dict[str, Any]:
        request = WatchSpec.of(module.params)
        return RunningLoadSampler(request, step, Progress(module.params["progress_file"], step)).run()

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
