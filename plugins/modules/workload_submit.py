#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: workload_submit
short_description: Apply a measured load to a cluster
version_added: 0.1.0
description:
  - Creates workloads of any kind on a schedule, samples their stages, and waits until all have ended, in one call.
  - Before the first request, the plan is written to C(plan.jsonl), the first object of each template passes a dry run
    of the API server, and the watches of the sampler are established. Each attempt is appended to C(ledger.jsonl), each
    change of a stage to C(observations.jsonl).
  - Names are planned (C(<run_id>-<point>-<index>)). Objects are created, never updated. To resume a call that was
    killed, repeat it with the same O(point_dir). It creates exactly the missing workloads.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._failures
  - perfscale.seatrial._run.point
  - perfscale.seatrial._workload
  - perfscale.seatrial._workload.load
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: full
    details: Templates are rendered and pass the API server's dry run. No file is written.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
    details: A load that is complete creates nothing more.
seealso:
  - module: perfscale.seatrial.workload_sample
  - module: perfscale.seatrial.cleanup_run
"""

EXAMPLES = r"""
- name: Submit the fine-tuning jobs and wait for them
  perfscale.seatrial.workload_submit:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    run_id: "{{ run_id }}"
    point_dir: "{{ run_dir }}/points/001"
    namespace: fine-tuning
    count: 1000
    arrival:
      type: constant
      rate: 20
    templates:
      - src: trainjob.yml.j2
        parameters:
          gpus: 2
    stages: [TrainJob, JobSet, Job, Pod]
    simulated_writers: "{{ cluster_acquired.sutest.simulated_writers }}"
"""

RETURN = r"""
msg:
  description: The result in one line.
  returned: success
  type: str
  sample: "workload 001: 1000 of 1000 created at 20.0/s, 1000 succeeded, sent P99 0.6 ms late, in 61 s"
counts:
  description: Numbers of workloads.
  returned: success
  type: dict
  contains:
    planned:
      description: Workloads of the plan.
      returned: success
      type: int
    created:
      description: Workloads that were created, by all calls on this directory.
      returned: success
      type: int
    already_mine:
      description: Workloads that an attempt had created whose response was lost.
      returned: success
      type: int
    refused:
      description: Workloads that the API server refused.
      returned: success
      type: int
    blocked:
      description: Workloads that were not sent because an object that they need was refused.
      returned: success
      type: int
    lost:
      description: Workloads that were sent, and for which the API server gave no final answer.
      returned: success
      type: int
    unsent:
      description: Workloads that were never sent.
      returned: success
      type: int
    retries:
      description: Attempts that had to be repeated.
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
      description: Workloads that someone deleted before they ended.
      returned: success
      type: int
    unfinished:
      description: Workloads that were created and have not ended.
      returned: success
      type: int
    stopped:
      description: Workloads that were deleted because their lifetime was over.
      returned: if O(lifetime) is set
      type: int
    ready:
      description: Workloads that were ready for their release.
      returned: if O(release.stage) is set
      type: int
    released:
      description: Workloads that were released.
      returned: if O(release.stage) is set
      type: int
  sample:
    {planned: 1000, created: 1000, already_mine: 0, refused: 0, blocked: 0, lost: 0, unsent: 0, retries: 0,
     succeeded: 998, failed: 2, deleted: 0, unfinished: 0}
refusals:
  description: Refusals and their reasons, the most frequent first.
  returned: success
  type: list
  elements: dict
  sample:
    - {kind: Job, status: 403, reason: Forbidden, count: 3, message: exceeded quota}
failures:
  description: Numbers of injected failures by kind; C(skipped) are those that found nothing to fail,
    C(not_due) those that were due after the end of the load.
  returned: if O(failures) is set
  type: dict
  sample: {node_lost: 3, pod_killed: 2}
timed_out:
  description: Whether O(timeout) passed before all workloads had ended. The observations are complete in any case.
  returned: success
  type: bool
stopped:
  description:
    - Why the load was ended early, by the circuit breaker, because its pods can never be scheduled, or because too few
      workloads were ready for their release. Otherwise empty.
  returned: success
  type: str
  sample: 3 probe requests in a row took 1.31, 1.72, 2.90 s, and 1 s are allowed
waiting_for:
  description: Names of the first ten workloads that had not ended.
  returned: success
  type: list
  elements: str
lateness:
  description: P50, P95, P99 and maximum of sent minus intended, in seconds. Null in a closed loop.
  returned: success
  type: dict
  sample: {p50: 0.0002, p95: 0.0005, p99: 0.0006, max: 0.002}
max_lateness:
  description: The value of O(max_lateness).
  returned: success
  type: float
clients:
  description: Counts, lateness, rate and sampling of each client.
  returned: with several O(clients)
  type: list
  elements: dict
held_back:
  description: Workloads that were due while O(in_flight) requests were in flight. They were sent late.
  returned: success
  type: int
  sample: 0
stolen:
  description:
    - CPU steal of the machine that sends, the share of its processor time that the hypervisor gave to other machines,
      V(0) to V(1). It delays the generator and makes figures differ from run to run. Null if it is unknown.
  returned: success
  type: float
  sample: 0.002
on_time:
  description: Whether the generator was on time. Do not trust the figures of a load that was not.
  returned: success
  type: bool
rate:
  description: Workloads created per second in this call, between the first and the last response.
  returned: success
  type: float
load_seconds:
  description: Time that this call took to create its workloads, from opening connections to the last response.
  returned: success
  type: float
repeated:
  description: Number of repeated attempts by HTTP status. C(0) means no response.
  returned: success
  type: dict
  sample: {"0": 2, "429": 17}
sessions:
  description: Number of calls that the load took, including this one.
  returned: success
  type: int
events:
  description: Number of events that the sampler received in this call.
  returned: success
  type: int
gaps:
  description: Number of gaps in the observations. They are recorded in C(observations.jsonl).
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
  description: Remarks on the sampling, such as a canary that was not permitted.
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import load_spec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.submit_load import LoadRunner


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={**load_spec.SUBMIT, **ansible_module.STEP, **ansible_module.PROGRESS},
        supports_check_mode=True,
    )

    def work(step: StepDirectory) -> dict[str, Any]:
        request, progress = LoadSpec.from_params(module.params), ProgressLog(module.params["progress_file"], step)
        if request.clients > 1 and request.client is None and not module.check_mode:
            # Imported only if needed: most loads have one client.
            from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import load_in_local_processes

            return load_in_local_processes.run_local_clients(module.params, request, step, progress)
        load = LoadRunner(request, step, progress)
        return load.check() if module.check_mode else load.run()

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
