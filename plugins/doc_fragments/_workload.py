# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules that apply or watch a load."""

from __future__ import annotations


class ModuleDocFragment:
    """The load and its sampling; ``load``: what is sent, and when."""

    DOCUMENTATION = r"""
options:
  point_dir:
    description: Directory of the point in the run directory. It is created if it is missing.
    type: path
    required: true
  namespace:
    description: Namespace of the workloads. Empty means the namespace of the kubeconfig's context.
    type: str
    default: ''
  stages:
    description:
      - Kinds to watch. Each is the name of a kind of workload (V(TrainJob), V(Job), V(Pod)), the path of its folder,
        a file with stages that ends in C(.yml), or a definition as a dictionary.
      - A definition has C(api_version), C(kind) and C(stages) in the order of the life cycle. A stage has C(name),
        C(writer) (C(client), C(api-server), C(controller), C(scheduler), C(node) or C(provisioner)), one of
        C(condition), C(field), C(jmespath) and C(deleted) (V(true), once the object is gone), and optionally C(equals),
        C(depends_on), C(running) and C(ends) (C(succeeded) or C(failed)).
    type: list
    elements: raw
    default: []
  simulated_writers:
    description: Writers that are simulated on this cluster, such as V([node]). They are recorded in the observations.
    type: list
    elements: str
    default: []
  canary_rate:
    description:
      - Writes per second to the canary, a Lease of the sampler. The times of these writes are known exactly and date
        the changes of other writers. Between two writes, a revision probe lists an Event that does not exist, which
        returns etcd's current revision. V(0) disables both.
    type: float
    default: 20
  timeout:
    description: Timeout for the workloads to end after the last one was sent, in seconds.
    type: float
    default: 600
  settle:
    description: How long sampling continues after all workloads have ended, in seconds.
    type: float
    default: 1
  lock_dir:
    description:
      - The run directory. If a lock file in it reports that the cluster lock is lost, the call fails, see
        M(perfscale.seatrial.cluster_lock).
    type: path
"""

    LOAD = r"""
options:
  count:
    description:
      - Number of workloads to create. V(0) means the number that follows from V(steps), a V(trace), or a rate and a
        timespan.
    type: int
    required: true
  arrival:
    description: Arrival times of the workloads.
    type: dict
    default: {}
    suboptions:
      type:
        description:
          - The schedule is absolute and does not depend on the API server, except for V(closed). All types but
            V(steps), V(ramp) and V(trace) take either O(arrival.rate) or O(arrival.timespan). The other one follows
            from O(count).
          - V(constant) sends one workload every 1/O(arrival.rate) seconds. V(burst) sends O(arrival.size) at once, as
            often as the rate requires.
          - V(poisson) has independent, exponentially distributed gaps. V(gamma) has gaps of a gamma distribution with
            O(arrival.shape); below 1, arrivals cluster.
          - V(uniform), V(normal) and V(bimodal) draw the time of each workload within the timespan, uniformly, around
            its middle, or around two O(arrival.peaks).
          - V(steps) is a list of rates with their durations. V(ramp) changes linearly from O(arrival.rate) to
            O(arrival.to_rate). V(trace) replays the times of a file.
          - V(closed) is a closed loop. It sends the next workload as soon as one of O(in_flight) connections is free,
            in batches, or as workloads end.
        type: str
        choices: [constant, poisson, gamma, uniform, normal, bimodal, burst, steps, ramp, trace, closed]
        default: constant
      rate:
        description: Workloads per second, 10 if O(arrival.timespan) is missing too. The first rate of a V(ramp).
        type: float
      timespan:
        description: Time in which the workloads are created, in seconds.
        type: float
      to_rate:
        description: Workloads per second at the end of a V(ramp).
        type: float
      shape:
        description: Shape of V(gamma), by default 0.5. The coefficient of variation of the gaps is 1/√shape.
        type: float
      spread:
        description:
          - Standard deviation of V(normal) and V(bimodal) as a share of the timespan, by default 1/6 and 1/12.
        type: float
      peaks:
        description: Centers of the two peaks of V(bimodal) as shares of the timespan, by default 1/4 and 3/4.
        type: list
        elements: float
      share:
        description: Share of the first peak of V(bimodal), by default 0.5.
        type: float
      size:
        description: Workloads per V(burst), by default 10.
        type: int
      steps:
        description: Rates of V(steps), one after the other.
        type: list
        elements: dict
        suboptions:
          rate:
            description: Workloads per second; V(0) is a pause.
            type: float
            required: true
          duration:
            description: Duration of the rate, in seconds.
            type: float
            required: true
      src:
        description:
          - File of a V(trace), found as M(ansible.builtin.template) finds its files. CSV with a column C(offset) in
            seconds, or JSON lines with such a key. C(template) names the template of an arrival.
        type: str
      content:
        description: Content of the trace, instead of O(arrival.src).
        type: str
      speed:
        description: Factor by which a V(trace) is replayed faster than it was recorded, by default 1.
        type: float
      batch:
        description: Size of a batch in a V(closed) loop. The next batch waits until all requests were answered.
        type: int
      delay:
        description: Time between two batches, in seconds.
        type: float
      at_once:
        description: Maximum number of workloads in a V(closed) loop that exist and have not ended.
        type: int
  in_flight:
    description: Maximum number of concurrent requests, each over its own connection.
    type: int
    default: 16
  seed:
    description:
      - Seed of random arrivals. The same seed gives the same times on every machine. By default, a random seed is
        written to the plan.
    type: int
  templates:
    description:
      - Objects to create. With several templates, they are mixed evenly in proportion to O(templates[].weight).
      - The module, not Ansible, renders the YAML with Jinja2. It has the variables C(run_id), C(point), C(index),
        C(name), C(namespace), C(labels) and those of O(templates[].parameters). An unknown variable is an error.
      - The last document is the workload. Its C(metadata.name) is C({{ name }}). The documents before it are created
        first, for each workload, and must contain C({{ name }}) in their names.
      - Every document gets the labels. Pods that a controller creates have them only if the pod template contains
        C(labels={{ labels | to_json }}) or the like. Pods without them are not sampled.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the template in the plan. By default the name of the kind or of the file.
        type: str
        default: workload
      src:
        description:
          - File with the template, found as M(ansible.builtin.template) finds it. With O(templates[].kind), the file
            with the macro C(pod), which the template of the kind uses.
        type: str
      kind:
        description:
          - Kind of workload whose template is used, such as V(TrainJob), or the path of its folder. See
            U(https://github.com/perfscale/seatrial/blob/main/docs/kinds.md).
        type: str
        version_added: 1.0.0
      wraps:
        description: Kind of the object in a wrapper such as V(AppWrapper). By default what the wrapper says.
        type: str
        version_added: 1.0.0
      content:
        description: Content of the template. In a playbook it must be C(!unsafe), or Ansible renders it first.
        type: str
      weight:
        description: Weight of this template among all.
        type: int
        default: 1
      parameters:
        description: Variables of this template.
        type: dict
        default: {}
      prepare:
        description:
          - Template of the objects that the workloads of this template share, such as a TrainingRuntime. They are
            created once, before the load, and removed as the workloads are. Each name must contain C({{ prepared }}), a
            variable of both templates. Of a kind, its C(prepare.yaml.j2).
        type: str
        default: ''
        version_added: 1.0.0
      ready:
        description: What the load waits for before it begins, of the objects in O(templates[].prepare).
        type: list
        elements: dict
        default: []
        version_added: 1.0.0
        suboptions:
          kind:
            description: Kind of the objects.
            type: str
            required: true
          jmespath:
            description: JMESPath expression on such an object that must become true.
            type: str
            required: true
          timeout:
            description: Seconds to wait for it.
            type: float
            default: 300
  sample:
    description:
      - Whether to sample the stages of the workloads. Otherwise M(perfscale.seatrial.workload_sample) can do so from
        another machine, and O(wait) must be V(false).
    type: bool
    default: true
  wait:
    description:
      - Whether to wait until every workload has ended. Each kind of workload then needs a definition in O(stages) with
        a stage that C(ends) it.
    type: bool
    default: true
  lifetime:
    description:
      - Distribution of the time, in seconds, after which each workload is deleted, counted from when it reached the
        stage that C(ends) it with success. For workloads that run until somebody stops them, such as notebooks. An
        empty dictionary deletes none.
      - C(type) is V(fixed) (C(mean)), V(uniform) (C(low), C(high)), V(exponential) (C(mean)) or V(lognormal) (C(mean),
        C(sigma) of the logarithm). C(low) and C(high) truncate any of them. The lifetime of an index is the same for
        the same O(seed), V(1) if there is none.
      - Requires O(wait). The end of the last lifetime is waited for even beyond O(timeout).
    type: dict
    default: {}
  release:
    description:
      - For workloads that wait until they are released. When all of them are ready, they are released at their own
        times. They watch a Lease of the name C(<run_id>-<point>-release) in O(namespace), whose
        C(spec.leaseTransitions) is the number of released workloads, in the order of their indices.
      - Without O(release.stage), no workload waits. Requires O(wait) and O(sample).
    type: dict
    default: {}
    suboptions:
      stage:
        description: Stage of the workloads, as in O(stages), by which a workload shows that it is ready.
        type: str
        default: ''
      arrival:
        description:
          - When they are released after all are ready, as O(arrival), but for C(at_once). Workloads with the same time
            are released by one write. V(closed) releases all of them at once, or with C(batch) and C(delay) so many,
            and the next ones C(delay) seconds after that write was answered. O(timeout) begins with the last release.
        type: dict
        default:
          type: closed
      required:
        description:
          - How many have to be ready for any of them to be released, V(all), a percentage such as V(95 %), or a number.
            The load waits for all until O(release.timeout); a workload that is ready later begins at once.
        type: str
        default: all
      timeout:
        description:
          - Timeout for all workloads to be ready after the last one was created, in seconds. If fewer than
            O(release.required) are ready by then, or can be ready any more, the load ends, and the result names the
            others.
        type: float
        default: 300
      abort:
        description: Whether the load ends as soon as fewer than O(release.required) can succeed.
        type: bool
        default: false
  request_timeout:
    description: Timeout for the response to one request, in seconds.
    type: float
    default: 60
  retry_time:
    description:
      - How long the request for one object is retried while the API server answers 429 or 5xx or does not respond, in
        seconds. After that, an answer counts as a refusal, and no response ends the load.
    type: float
    default: 120
  max_lateness:
    description:
      - Maximum for the 99th percentile of the lateness (sent minus intended), in seconds. Above it, the generator was
        late.
    type: float
    default: 0.1
  breaker_latency:
    description:
      - Threshold of the circuit breaker, in seconds. Once a second, the API server is asked whether it is ready, and
        one pod of O(namespace) is listed. If three times in a row it is not ready or the list takes longer than this,
        nothing more is sent. Workloads that were created are still waited for. V(0) disables the breaker.
    type: float
    default: 0
  clients:
    description:
      - Number of clients that send the load, each in a process of its own. The plan is the same for any number. Client
        C(i) sends and samples the workloads C(i), C(i + clients), and so on. They start together, when all are ready.
    type: int
    default: 1
    version_added: 1.0.0
  client:
    description:
      - Makes this call one of O(clients) clients, by its number from V(0) on. O(point_dir) must then contain the
        C(plan.jsonl) with the workloads of this client. Without it, the call runs all clients and joins their files.
    type: int
    version_added: 1.0.0
  start_timeout:
    description: How long the clients wait for each other, in seconds.
    type: float
    default: 600
    version_added: 1.0.0
"""
