#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: workload_submit
short_description: Put a measured load on a cluster
version_added: 0.1.0
description:
  - Creates any number of workloads of any kind on a schedule, watches what becomes of them, and waits until all have
    ended; one call does all of it.
  - Before the first request the plan is written to C(plan.jsonl), the first object of each template has passed a dry
    run of the API server, and the watches of the sampler are established. Each attempt is appended to
    C(ledger.jsonl), each change of a stage to C(observations.jsonl).
  - Names are planned (C(<run_id>-<point>-<index>)) and objects are created, never updated. A call that was killed is
    taken up again by the same call on the same O(point_dir), which creates what is missing and nothing else.
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
    support: full
    details: Templates are rendered and pass the API server's dry run. No file is written.
  diff_mode:
    support: none
  idempotent:
    support: full
    details: A load that is finished is found finished.
options:
  count:
    description:
      - How many workloads to create. V(0) is as many as V(steps), a V(trace), or a rate over a timespan hold.
    type: int
    required: true
  arrival:
    description: When they are to be created.
    type: dict
    default: {}
    suboptions:
      type:
        description:
          - The schedule is absolute, whatever the API server does, except for V(closed). All types but V(steps),
            V(ramp) and V(trace) take either O(arrival.rate) or O(arrival.timespan), and O(count) tells the other one.
          - V(constant) is one every 1/O(arrival.rate) seconds; V(burst) is O(arrival.size) at once, as often as the
            rate says.
          - V(poisson) has independent gaps (exponential), V(gamma) gaps of a gamma distribution with
            O(arrival.shape), which below 1 come in clusters.
          - V(uniform), V(normal) and V(bimodal) draw for each workload a moment in the timespan, everywhere alike,
            around its middle, or around two O(arrival.peaks).
          - V(steps) is a list of rates that hold for a time each, V(ramp) goes evenly from O(arrival.rate) to
            O(arrival.to_rate), V(trace) replays the moments of a file.
          - V(closed) is the next one as soon as one of O(in_flight) connections is free, or in batches, or as workloads
            end.
        type: str
        choices: [constant, poisson, gamma, uniform, normal, bimodal, burst, steps, ramp, trace, closed]
        default: constant
      rate:
        description: Workloads a second; 10 when neither it nor O(arrival.timespan) is given. Of V(ramp) the first one.
        type: float
      timespan:
        description: Seconds in which the workloads are created.
        type: float
      to_rate:
        description: Workloads a second at the end of a V(ramp).
        type: float
      shape:
        description: Shape of V(gamma); the gaps' coefficient of variation is 1/√shape. 0.5 when not given.
        type: float
      spread:
        description:
          - Standard deviation of V(normal) and V(bimodal) as a share of the timespan. 1/6 and 1/12 when not given.
        type: float
      peaks:
        description: Middles of the two parts of V(bimodal) as shares of the timespan. 1/4 and 3/4 when not given.
        type: list
        elements: float
      share:
        description: Share of the first peak of V(bimodal). 0.5 when not given.
        type: float
      size:
        description: Workloads of one V(burst). 10 when not given.
        type: int
      steps:
        description: Rates of V(steps), one after the other.
        type: list
        elements: dict
        suboptions:
          rate:
            description: Workloads a second; V(0) is a pause.
            type: float
            required: true
          duration:
            description: Seconds that the rate holds.
            type: float
            required: true
      src:
        description:
          - File of a V(trace), found as M(ansible.builtin.template) finds its files. CSV with a column C(offset) in
            seconds, or JSON lines with such a key; C(template) names the template of an arrival.
        type: str
      content:
        description: The trace itself.
        type: str
      speed:
        description: How many times as fast as it happened a V(trace) is replayed. 1 when not given.
        type: float
      batch:
        description: In a V(closed) loop, how many go at once; the next ones wait until these were answered.
        type: int
      delay:
        description: Seconds between two batches.
        type: float
      at_once:
        description: In a V(closed) loop, how many workloads may exist that have not ended.
        type: int
  in_flight:
    description: How many requests may be under way at a time, each on a connection of its own.
    type: int
    default: 16
  seed:
    description:
      - What random arrivals are drawn from; the same seed gives the same moments on every machine. Without one, a new
        one is drawn and written into the plan.
    type: int
  templates:
    description:
      - What to create. With several, each O(templates[].weight) is its share, evenly mixed.
      - The YAML is rendered with Jinja2 by the module, not by Ansible, with the variables C(run_id), C(point),
        C(index), C(name), C(namespace), C(labels) and those of O(templates[].parameters). An unknown variable is an
        error.
      - The last document is the workload. Its C(metadata.name) is C({{ name }}). Documents before it are created
        first, for each workload, and must hold C({{ name }}) in theirs.
      - Every document gets the labels. What a controller makes from a pod template has them only if the template
        says so, with C(labels={{ labels | to_json }}) or the like; without them pods are not seen.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the template in the plan; by default that of the file.
        type: str
        default: workload
      src:
        description: File with the template, found as M(ansible.builtin.template) finds it.
        type: str
      content:
        description: The template itself; must be C(!unsafe) in a playbook, or Ansible renders it first.
        type: str
      weight:
        description: Share of this template among all.
        type: int
        default: 1
      parameters:
        description: Variables of this template.
        type: dict
        default: {}
  sample:
    description:
      - Watch what becomes of the workloads. Without, M(perfscale.seatrial.workload_sample) can do so from elsewhere;
        then O(wait) must be off.
    type: bool
    default: true
  wait:
    description:
      - Wait until every workload has ended. Each kind of workload then needs a definition in O(stages) with a stage
        that C(ends) it.
    type: bool
    default: true
  request_timeout:
    description: How long to wait for the answer to one request, in seconds.
    type: float
    default: 60
  retry_time:
    description:
      - How long one object is tried again while the API server answers 429 or 5xx or not at all, in seconds. After
        that an answer counts as refusal, and silence ends the load.
    type: float
    default: 120
  max_lateness:
    description: The generator was on time when the 99th percentile of sent minus intended is within this, in seconds.
    type: float
    default: 0.1
  breaker_latency:
    description:
      - The circuit breaker. Beside the load the API server is asked once a second whether it is ready, and one pod of
        O(namespace) is listed. When it is not ready, or the list takes longer than so many seconds, three times in a
        row, nothing more is sent; what was created is still waited for. V(0) asks nothing.
    type: float
    default: 0
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
      - src: pytorchjob.yml.j2
        parameters:
          gpus: 2
    stages: [PyTorchJob, Pod]
    simulated_writers: "{{ cluster_acquired.sutest.simulated_writers }}"
"""

RETURN = r"""
msg:
  description: The result in one line.
  returned: success
  type: str
  sample: "workload 001: 1000 of 1000 created at 20.0/s, 1000 succeeded, sent P99 0.6 ms late, in 61 s"
counts:
  description: How many workloads.
  returned: success
  type: dict
  contains:
    planned:
      description: How many workloads the plan has.
      returned: success
      type: int
    created:
      description: How many were created, by all calls on this directory.
      returned: success
      type: int
    already_mine:
      description: How many turned out to have been created by an attempt whose answer was lost.
      returned: success
      type: int
    refused:
      description: How many the API server refused.
      returned: success
      type: int
    blocked:
      description: How many were not sent, since an object that they need was refused.
      returned: success
      type: int
    unsent:
      description: How many were never sent.
      returned: success
      type: int
    retries:
      description: How many attempts had to be repeated.
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
      description: How many workloads were deleted by someone before they ended.
      returned: success
      type: int
    unfinished:
      description: How many workloads that were created have not ended.
      returned: success
      type: int
  sample:
    {planned: 1000, created: 1000, already_mine: 0, refused: 0, blocked: 0, unsent: 0, retries: 0, succeeded: 998,
     failed: 2, deleted: 0, unfinished: 0}
refusals:
  description: What was refused and why, the most frequent first.
  returned: success
  type: list
  elements: dict
  sample:
    - {kind: Job, status: 403, reason: Forbidden, count: 3, message: exceeded quota}
timed_out:
  description: Whether O(timeout) passed before all had ended. Nothing that was seen is lost then.
  returned: success
  type: bool
stopped:
  description:
    - Why the load was ended early, by the circuit breaker or since its pods can never be scheduled; empty when it was
      not.
  returned: success
  type: str
  sample: 3 probe requests in a row took 1.31, 1.72, 2.90 s, and 1 s are allowed
waiting_for:
  description: Names of the first ten that had not ended.
  returned: success
  type: list
  elements: str
lateness:
  description: P50, P95, P99 and maximum of sent minus intended, in seconds; null when nothing had a time to keep.
  returned: success
  type: dict
  sample: {p50: 0.0002, p95: 0.0005, p99: 0.0006, max: 0.002}
max_lateness:
  description: What O(max_lateness) was.
  returned: success
  type: float
held_back:
  description: How many were due while as many requests as O(in_flight) allows were on their way. They left late.
  returned: success
  type: int
  sample: 0
stolen:
  description:
    - Which part of the processor time of the machine that sends a hypervisor gave to others meanwhile, V(0) to V(1).
      It makes a generator late, and figures differ from run to run. Null where the system does not say.
  returned: success
  type: float
  sample: 0.002
on_time:
  description: Whether the generator was on time. Figures of a load that was not are not to be trusted.
  returned: success
  type: bool
rate:
  description: Workloads created a second in this call, between the answers to the first and the last.
  returned: success
  type: float
load_seconds:
  description: How long this call took to create its workloads, from opening connections to the last answer.
  returned: success
  type: float
repeated:
  description: How often an attempt had to be repeated, by HTTP status; C(0) is no answer at all.
  returned: success
  type: dict
  sample: {"0": 2, "429": 17}
sessions:
  description: How many calls the load took, this one included.
  returned: success
  type: int
events:
  description: How many events the sampler took in this call.
  returned: success
  type: int
gaps:
  description: How many gaps there are in what the sampler saw; they stand in C(observations.jsonl).
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
  description: What should be known of the sampling, such as a canary that was not allowed.
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.submit_load import Load
from ansible_collections.perfscale.seatrial.plugins.module_utils._progress import Progress
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={**load_argument_spec.SUBMIT, **_common_options.STEP, **_common_options.PROGRESS},
        supports_check_mode=True,
    )

    def work(step: Step) -> dict[str, Any]:
        load = Load(LoadSpec.of(module.params), step, Progress(module.params["progress_file"], step))
        return load.check() if module.check_mode else load.run()

    _module_main.run(module, work)


if __name__ == "__main__":
    main()
