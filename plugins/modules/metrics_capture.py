#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: metrics_capture
short_description: Capture Prometheus metrics over the time of each test point
version_added: 0.1.0
description:
  - Sends range queries to a Prometheus server, or to the Thanos querier of an OpenShift cluster, over the time of each
    test point, and writes C(metrics.jsonl) and one CSV file per query to C(points/<nnn>/).
  - The server is only read; a shared one is never reset.
  - A query that the server refuses causes a warning. A server that does not answer is an error.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._export.ca_file
  - perfscale.seatrial._metrics
  - perfscale.seatrial._run
  - perfscale.seatrial._run.points
  - perfscale.seatrial._step_directory
attributes:
  check_mode:
    support: none
    details: It only reads from a server; without its files there is no result.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
options:
  queries:
    description: YAML files with queries. A later query replaces an earlier one of the same name.
    type: list
    elements: path
    required: true
  from_dump:
    description:
      - Whether to query a local Prometheus on the dump of the run (M(perfscale.seatrial.metrics_dump)), which listens
        on loopback and ends with the module. Metrics that have values already are kept; only the other queries
        are sent.
    type: bool
    default: false
    version_added: 1.0.0
  program:
    description: The file C(prometheus), with C(promtool) beside it, for O(from_dump). Default is that of C(PATH).
    type: path
    version_added: 1.0.0
  step:
    description:
      - Seconds between two samples. V(0) means the smallest interval of at least 1 s that gives at most 300 samples.
    type: float
    default: 0
  range:
    description: Window of rates in seconds, C({range}) in queries. V(0) means four steps, at least 60 s.
    type: float
    default: 0
  names:
    description: Further placeholders of queries (without braces) and their values.
    type: dict
    default: {}
seealso:
  - module: perfscale.seatrial.results
"""

EXAMPLES = r"""
- name: Capture metrics
  perfscale.seatrial.metrics_capture:
    run_dir: "{{ run_dir }}"
    url: https://prometheus.example.com
    token: "{{ lookup('perfscale.seatrial.secret', 'metrics_token') }}"
    queries: ["{{ role_path }}/files/control_plane.yml"]
  no_log: true

- name: Add metrics that nobody asked for at the time
  perfscale.seatrial.metrics_capture:
    run_dir: "{{ run_dir }}"
    from_dump: true
    queries: [my_queries.yml]
"""

RETURN = r"""
points:
  description: Results, one entry per point.
  returned: success
  type: list
  elements: dict
  contains:
    point:
      description: Number of the point.
      type: str
    metrics:
      description: Number of queries.
      type: int
    series:
      description: Number of series.
      type: int
summary:
  description: Summary in one sentence.
  returned: success
  type: str
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import (
    StepDirectory,
    log_summary_and_warnings,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics import (
    capture_prometheus_metrics,
    metrics_dump,
)


def server_of(params: dict[str, Any]) -> AbstractContextManager[capture_prometheus_metrics.PrometheusServer]:
    """Return the server to query while a context is open. Raises InputError, AccessError."""
    if params["from_dump"]:
        return metrics_dump.run_prometheus_on_dump(params["run_dir"], params["program"] or "")
    return nullcontext(
        capture_prometheus_metrics.find_prometheus_server(
            params["url"], params["token"], params["ca_file"], params["kubeconfig"], params["context"]
        )
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.RUN_DIR,
            "queries": {"type": "list", "elements": "path", "required": True},
            **ansible_module.PROMETHEUS,
            **ansible_module.CA_FILE,
            "from_dump": {"type": "bool", "default": False},
            "program": {"type": "path"},
            "step": {"type": "float", "default": 0},
            "range": {"type": "float", "default": 0},
            "names": {"type": "dict", "default": {}},
            **ansible_module.POINTS,
            **ansible_module.STEP,
        },
    )

    def capture(step: StepDirectory) -> dict[str, Any]:
        params = module.params
        with step.timed("results", "metrics"), server_of(params) as server:
            result = capture_prometheus_metrics.capture_metrics_of_points(
                params["run_dir"],
                server,
                params["queries"],
                params["step"],
                params["range"],
                params["points"],
                params["names"],
                keep=params["from_dump"],
            )
        return log_summary_and_warnings(step, module.warn, result)

    ansible_module.run_module_work(module, capture)


if __name__ == "__main__":
    main()
