#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: inference_load
short_description: Send a load of requests to inference servers and record every token
version_added: 1.0.0
description:
  - Sends requests in the style of OpenAI to one or several inference servers, and records when each was due, sent and
    answered, and when each piece of its answer arrived, as the kernel of this machine stamped it.
  - In the open model (O(arrival)) every request is due at a time that was computed before the first one is sent. In the
    closed model (O(streams)) a number of streams send one request after the other.
  - Before the load each server is asked for its models, and gets one request that is not counted. A wrong URL, key or
    model therefore ends the call before anything is measured.
  - Writes C(plan.jsonl), C(requests.jsonl) and C(server.json) into O(point_dir). The same call continues a load that
    was interrupted, and sends no request twice.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._driver_pods.driver
  - perfscale.seatrial._inference_tls
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
    details: Requests that were sent are not sent again.
options:
  run_id:
    description: Id of the run. Ids of requests begin with it.
    type: str
    required: true
  point_dir:
    description: Directory of the test point. Its name is the number of the point.
    type: path
    required: true
  urls:
    description: >-
      Base URLs of the servers, such as V(http://127.0.0.1:8000), with or without C(/v1). Request i, or conversation i,
      goes to server i modulo their number, of several clients shifted so that each of them sends to all servers.
    type: list
    elements: str
    required: true
  metrics_urls:
    description: >-
      Base URLs of the servers whose metrics are read before and after the load, if O(urls) is a gateway, which may send
      each question to another server. Empty means O(urls). O(api_key) and O(headers) are sent only to hosts and ports
      of O(urls).
    type: list
    elements: str
    default: []
  api:
    description: The API of the requests.
    type: str
    choices: [chat, completions]
    default: chat
  stream:
    description: Whether answers are streamed. Without it there are no times of tokens, except that of the whole answer.
    type: bool
    default: true
  models:
    description: Models of the requests, with their shares. Empty means the only one that the servers have.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the model, as the servers list it.
        type: str
        required: true
      weight:
        description: Share of the requests, relative to the other weights.
        type: float
        default: 1
  count:
    description: >-
      Number of requests, or of conversations if O(turns) is above 1. V(0) means as many as O(arrival) says, or in the
      closed model any number until its duration has passed.
    type: int
    default: 0
  seed:
    description: >-
      Seed of arrivals, lengths and prompts. Without it, V(1). The words of prompts also depend on run and point, so
      that no load finds those of another one in the prefix caches of the servers.
    type: int
  arrival:
    description: >-
      When requests are due in the open model, as O(perfscale.seatrial.workload_submit#module:arrival), except
      V(closed).
    type: dict
    default: {}
  streams:
    description: The closed model. Not together with O(arrival).
    type: dict
    default: {}
    suboptions:
      count:
        description: Number of streams, so of requests at a time.
        type: int
        default: 0
      think_time:
        description: Seconds between an answer and the next request of a stream or a conversation, or a distribution.
        type: raw
        default: 0
      duration:
        description: Seconds after which no stream begins another request. V(0) means no limit.
        type: float
        default: 0
  search:
    description: >-
      Look for the highest rate at which the requests keep O(slo), by probabilistic bisection: the rate of each step
      follows from the answers before it. Not together with O(arrival), O(streams), O(count) or O(turns).
    type: dict
    default: {}
    suboptions:
      low:
        description: Least rate, in requests per second. V(1) without it.
        type: float
      high:
        description: Highest rate, in requests per second. V(100) without it.
        type: float
      step:
        description: Duration of a step, in seconds. V(20) without it. Its requests have all ended before the next one.
        type: float
      timespan:
        description: Time in which steps begin and end, in seconds. V(600) without it.
        type: float
      precision:
        description: The search ends when the bounds of the capacity are at most this share apart. V(0.1) without it.
        type: float
  slo:
    description: The objective of O(search), limits of a request in seconds. Each is optional.
    type: dict
    default: {}
    suboptions:
      ttft:
        description: Limit of the time to the first token, from when the request was due.
        type: float
      tpot:
        description: Limit of the time per output token after the first.
        type: float
      stall:
        description: Limit of the longest gap between two chunks.
        type: float
      total:
        description: Limit of the time until the answer is complete, from when the request was due.
        type: float
      share:
        description: Share of the requests that has to keep the limits. V(0.99) without it.
        type: float
  prompt_tokens:
    description: >-
      Tokens of each prompt, a number or a distribution (C(type), C(mean), C(sigma), C(low), C(high)). They are counted
      by O(tokenizer), without special tokens and those of a chat template. Without it prompts have so many words, which
      are common, so that most tokenizers make a token of each. The tokens that the server counted are recorded.
    type: raw
    default: 128
  output_tokens:
    description: Tokens of each answer (C(max_tokens)), a number or a distribution.
    type: raw
    default: 128
  prompts:
    description: Prompts that are used in turn instead of generated ones.
    type: list
    elements: str
    default: []
  prompts_file:
    description:
      - File with prompts that are used in turn. Each line is one, or a JSON object with C(prompt).
      - Not used with O(prompts).
    type: path
  tokenizer:
    description:
      - The tokenizer of the models, C(tokenizer.json) of the library tokenizers, or a folder with it. Generated prompts
        have exactly O(prompt_tokens) by it, and it counts the tokens of answers. Needs the Python package tokenizers.
      - Without it, the tokens of answers are those that the server counts (C(usage)).
    type: path
  turns:
    description: Requests of a conversation. Each contains the earlier ones and their answers.
    type: int
    default: 1
  shared_prefix_tokens:
    description: Tokens with which the first prompt of every conversation begins, the same for all, as O(prompt_tokens).
    type: int
    default: 0
  ignore_eos:
    description:
      - Whether requests ask the server to ignore the end of an answer (C(ignore_eos)), so that all are complete.
    type: bool
    default: true
  body:
    description: Further keys of the body of every request.
    type: dict
    default: {}
  warm_up:
    description: Number of requests before the load, which are not counted.
    type: int
    default: 0
  headers:
    description: Further headers of every request.
    type: dict
    default: {}
  api_key:
    description: Key that is sent as C(Authorization) with every request.
    type: str
    default: ''
  connect_timeout:
    description: Time to connect, in seconds.
    type: float
    default: 10
  timeout:
    description: Time from sending a request to the end of its answer, in seconds.
    type: float
    default: 120
  retries:
    description: How often a request is sent again that the server refuses with 429 or 503, after the time it names.
    type: int
    default: 0
  max_open:
    description: Most requests at a time. Those that are due meanwhile are sent late, which is recorded.
    type: int
    default: 10000
  connection_requests:
    description: >-
      How many requests a connection carries, one after the other. V(0) means any number. A load balancer of connections
      gives servers that were added only new ones, so V(1) spreads the requests over all servers.
    type: int
    default: 0
  clients:
    description:
      - Number of processes, or of pods with O(driver), that send the load together, each on its own connections.
        Request i, or conversation i, is sent by client i modulo their number. All have one start.
      - A client that dies is started again and sends what is missing of its share. Not together with O(search).
      - Divides O(streams.count), unless O(count) is V(0).
    type: int
    default: 1
  pods:
    description:
      - The pods of the servers. While the load runs, it is recorded in C(scale.jsonl) of O(point_dir) how many servers
        are wanted, and when each pod was created, scheduled, started, ready and gone, each between two looks at the
        cluster. Without it nothing is looked at.
    type: dict
    suboptions:
      kubeconfig:
        description: Kubeconfig of the cluster.
        type: path
        required: true
      context:
        description: Context of the kubeconfig. Empty means its current one.
        type: str
        default: ''
      namespace:
        description: Namespace of the pods.
        type: str
        required: true
      selector:
        description: Labels of the pods, and of the Deployments that say how many are wanted.
        type: str
        required: true
seealso:
  - module: perfscale.seatrial.workload_submit
  - module: perfscale.seatrial.workload_remote
"""

EXAMPLES = r"""
- name: Send 20 requests a second for a minute
  perfscale.seatrial.inference_load:
    run_id: "{{ run_id }}"
    point_dir: "{{ run_dir }}/points/001"
    urls: [http://127.0.0.1:8000]
    models: [{name: granite}]
    arrival: {type: poisson, rate: 20, timespan: 60}
    prompt_tokens: {type: lognormal, mean: 512, sigma: 0.5, high: 4096}
    output_tokens: 128
    warm_up: 20

- name: Keep 32 conversations of five turns going for two minutes
  perfscale.seatrial.inference_load:
    run_id: "{{ run_id }}"
    point_dir: "{{ run_dir }}/points/002"
    urls: [http://127.0.0.1:8000]
    streams: {count: 32, think_time: {type: exponential, mean: 2}, duration: 120}
    turns: 5
    shared_prefix_tokens: 10000
"""

RETURN = r"""
msg:
  description: The result in one line.
  returned: success
  type: str
  sample: "requests 001: 1,198 of 1,200 requests succeeded, 2 failed, 153,344 tokens in 61.9 s"
counts:
  description: Numbers of requests, those of earlier calls included.
  returned: success
  type: dict
  sample: {planned: 1200, sent: 1200, succeeded: 1198, failed: 2, refused: 0, lost: 0, unsent: 0}
tokens:
  description: Tokens of the answers of this call.
  returned: success
  type: int
lag:
  description: From the arrival of bytes at this machine to their reading, in seconds. Of several clients, the worst.
  returned: success
  type: dict
  sample: {p50: 0.00002, p95: 0.00006, p99: 0.0002, max: 0.004}
lateness:
  description: From the time at which requests were due to their sending, in seconds. Of several clients, the worst.
  returned: success
  type: dict
  sample: {p50: 0.00006, p95: 0.0001, p99: 0.0004, max: 0.003}
cpu_per_token:
  description: Processor time of this call for each token, in seconds.
  returned: success
  type: float
bottleneck:
  description: Why this client, and not the servers, determined the times. Empty if it did not.
  returned: success
  type: str
warm_up:
  description: Number of requests of the warm-up, and its duration in seconds.
  returned: success
  type: dict
  sample: {requests: 20, seconds: 3.1}
simulated:
  description: Whether the servers say that they are simulated.
  returned: success
  type: bool
seconds:
  description: Duration of the call, in seconds.
  returned: success
  type: float
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference import inference_load, inference_spec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import inference_in_pods


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={**inference_spec.SPEC, **ansible_module.STEP, **ansible_module.PROGRESS})

    def work(step: StepDirectory) -> dict[str, Any]:
        spec = inference_spec.InferenceSpec.from_params(module.params)
        progress = ProgressLog(module.params["progress_file"], step)
        if module.params["driver"]:
            return inference_in_pods.run_inference_load_in_pods(module.params, spec, step, progress)
        return inference_load.run_inference_load(spec, step, progress)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
