#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: metrics_dump
short_description: Keep the samples of a Prometheus server for the time of a run
version_added: 1.0.0
description:
  - Reads all samples that a Prometheus server, or the Thanos querier of an OpenShift cluster, has from five minutes
    before the first test point to the end of the last one. Writes them as compressed OpenMetrics text to
    C(metrics_dump.om.gz) in the run directory, and what they are, with a checksum, to C(metrics_dump.json).
  - M(perfscale.seatrial.metrics_capture) computes figures from the dump later, without the server.
  - The server is only read, through its query API. Native histograms are not dumped.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._export.ca_file
  - perfscale.seatrial._metrics
  - perfscale.seatrial._run
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
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
  matchers:
    description: Label matchers of PromQL, such as C(namespace=~"redhat-ods-.*"). Only series that meet all are dumped.
    type: list
    elements: str
    default: []
  queries:
    description: YAML files with queries. The metrics that they use are read first, in case a limit is reached.
    type: list
    elements: path
    default: []
  limit_bytes:
    description: Largest size of the file. Metrics that no longer fit are left out, which a warning reports.
    type: int
    default: 268435456
  seconds:
    description: Time for reading. Metrics that were not read by then are left out, which a warning reports.
    type: float
    default: 600
seealso:
  - module: perfscale.seatrial.metrics_capture
"""

EXAMPLES = r"""
- name: Keep the samples of the OpenShift AI namespaces
  perfscale.seatrial.metrics_dump:
    run_dir: "{{ run_dir }}"
    kubeconfig: "{{ kubeconfig }}"
    matchers: ['namespace=~"redhat-ods-.*"']
"""

RETURN = r"""
metrics:
  description: Number of metrics in the dump.
  returned: success
  type: int
series:
  description: Number of series.
  returned: success
  type: int
samples:
  description: Number of samples.
  returned: success
  type: int
bytes:
  description: Size of the file.
  returned: success
  type: int
sha256:
  description: Checksum of the file.
  returned: success
  type: str
left_out:
  description: Metrics that are not in the dump.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the metric.
      type: str
    why:
      description: Reason.
      type: str
summary:
  description: Summary in one sentence.
  returned: success
  type: str
"""

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


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.RUN_DIR,
            **ansible_module.PROMETHEUS,
            **ansible_module.CA_FILE,
            "matchers": {"type": "list", "elements": "str", "default": []},
            "queries": {"type": "list", "elements": "path", "default": []},
            "limit_bytes": {"type": "int", "default": 256 << 20},
            "seconds": {"type": "float", "default": 600},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        with step.timed("results", "metrics dump"):
            result = metrics_dump.write_metrics_dump(
                params["run_dir"],
                capture_prometheus_metrics.find_prometheus_server(
                    params["url"], params["token"], params["ca_file"], params["kubeconfig"], params["context"]
                ),
                params["limit_bytes"],
                params["seconds"],
                step.reporter(params["progress_file"], "metrics"),
                params["matchers"],
                params["queries"],
            )
        return log_summary_and_warnings(step, module.warn, result)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()
