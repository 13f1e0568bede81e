#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: export_run
short_description: Export a run to S3, OpenSearch, MLflow, a receiver of traces, or as files for CI
version_added: 1.0.0
description:
  - Searches the whole run directory for secrets first and exports nothing if it finds one; the error names file and
    line.
  - The certificate of a server is always verified.
author:
  - The perfscale.seatrial authors (@perfscale)
requirements:
  - boto3 (O(target=s3))
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._export
  - perfscale.seatrial._export.ca_file
  - perfscale.seatrial._export.s3
  - perfscale.seatrial._export.secrets
  - perfscale.seatrial._run
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: none
    details: What changes is known only to the server that receives it; files for CI are written to be seen.
  diff_mode:
    support: none
    details: What changes is known only to the server that receives it.
  idempotent:
    support: partial
    details: With O(target=opensearch) and O(target=otlp) a second call writes the same documents and traces again.
options:
  target:
    description:
      - V(s3) uploads every file of the run directory, large ones in parts, with SHA-256 checksums that are verified
        afterwards. Objects with the same checksum are not uploaded again, and an interrupted upload is resumed. A
        C(manifest.json) with the checksums of all files is uploaded last. If it exists, the upload is complete.
      - V(opensearch) creates an index template, then writes one document for the run to C(<prefix>-runs) and one for
        each KPI of each test point to C(<prefix>-kpis). The ids of the documents are stable, so that a second export
        replaces the first.
      - V(mlflow) writes each point as a run of an experiment, with settings as parameters and KPIs as metrics. A second
        export finds the runs again and writes only what differs.
      - V(otlp) sends the workloads as traces, with a span for each stage, by OTLP over HTTP with JSON. A second export
        sends the same ids.
      - V(ci) writes O(junit) and O(textfile).
      - The address of an upload is recorded in C(run.yml).
    type: str
    choices: [s3, opensearch, mlflow, otlp, ci]
    required: true
  url:
    description:
      - For V(s3), C(s3://bucket/prefix). The run is uploaded to a folder below it with the name of its directory.
      - For V(opensearch) and V(mlflow), the address of the server. For V(otlp), that of the receiver, to which
        C(/v1/traces) is appended. C(http) is allowed for servers on this machine only.
    type: str
    default: ''
  acl:
    description: Canned ACL of the objects in S3.
    type: str
    choices: [private, bucket-owner-full-control, bucket-owner-read, authenticated-read, public-read]
    default: private
  part_size:
    description: Size of the parts in bytes, at least 5 MiB. Larger files are uploaded to S3 in parts.
    type: int
    default: 16777216
  index_prefix:
    description: Prefix of the names of the indexes and of the template in OpenSearch.
    type: str
    default: seatrial
  experiment:
    description: Name of the experiment in MLflow, which is created if needed. Empty means the name of the project.
    type: str
    default: ''
  workloads:
    description: With V(otlp), workloads of each point at most; of more, evenly spaced ones are sent.
    type: int
    default: 1000
  user:
    description: User name of OpenSearch or MLflow.
    type: str
    default: ''
  password:
    description: Password of O(user).
    type: str
    default: ''
  token:
    description: Bearer token of OpenSearch, MLflow or the receiver of traces, instead of O(user).
    type: str
    default: ''
  junit:
    description:
      - Path of the JUnit file. Empty means none. Each check of the verdict is a test case, and KPIs are properties of
        the suite.
    type: path
    default: ''
  textfile:
    description:
      - Path of a file for the textfile collector of the node exporter, which reads only names that end in C(.prom).
        Empty means none.
    type: path
    default: ''
seealso:
  - module: perfscale.seatrial.results_source
  - module: perfscale.seatrial.results
"""

EXAMPLES = r"""
- name: Upload the run
  perfscale.seatrial.export_run:
    run_dir: "{{ run_dir }}"
    target: s3
    url: s3://results/nightly
    endpoint: https://s3.example.com
  no_log: true

- name: Write the figures into OpenSearch
  perfscale.seatrial.export_run:
    run_dir: "{{ run_dir }}"
    target: opensearch
    url: https://opensearch.example.com:9200
    user: seatrial
    password: "{{ lookup('perfscale.seatrial.secret', 'export_opensearch_password') }}"
  no_log: true

- name: Write the points as runs of MLflow
  perfscale.seatrial.export_run:
    run_dir: "{{ run_dir }}"
    target: mlflow
    url: https://mlflow.example.com
    token: "{{ lookup('perfscale.seatrial.secret', 'export_mlflow_token') }}"
  no_log: true

- name: Send the workloads as traces
  perfscale.seatrial.export_run:
    run_dir: "{{ run_dir }}"
    target: otlp
    url: https://collector.example.com:4318

- name: Write the files for CI
  perfscale.seatrial.export_run:
    run_dir: "{{ run_dir }}"
    target: ci
    junit: artifacts/junit.xml
    textfile: /var/lib/node_exporter/seatrial.prom
"""

RETURN = r"""
exported:
  description: Target, address and status of the export, null if the run was not exported.
  returned: unless O(target=ci)
  type: dict
  sample: {target: s3, address: s3://results/nightly/fine_tuning-light-t1121-k3f9xa, status: valid}
status:
  description: V(valid), V(invalid) or V(skip).
  returned: success
  type: str
counts:
  description:
    - Numbers of files sent, of unchanged files, and of parts that an earlier upload had sent; of created and of
      replaced documents; of created, updated and unchanged runs; or of traces and spans.
  returned: when exported to a server
  type: dict
  sample: {created: 118, updated: 0}
paths:
  description: The files.
  returned: with O(target=ci)
  type: list
  elements: str
summary:
  description: Summary in one sentence.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import log_summary_and_warnings
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_run


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "target": {"type": "str", "choices": list(export_run.TARGETS), "required": True},
            "url": {"type": "str", "default": ""},
            "part_size": {"type": "int", "default": 16 * 2**20},
            "acl": {"type": "str", "default": "private", "choices": list(s3.ACLS)},
            "index_prefix": {"type": "str", "default": "seatrial"},
            "experiment": {"type": "str", "default": ""},
            "workloads": {"type": "int", "default": 1000},
            "user": {"type": "str", "default": ""},
            "password": {"type": "str", "default": "", "no_log": True},
            "token": {"type": "str", "default": "", "no_log": True},
            "junit": {"type": "path", "default": ""},
            "textfile": {"type": "path", "default": ""},
            **export_run.S3_OPTIONS,
            **export_run.GATE,
            **ansible_module.PROGRESS,
            **ansible_module.STEP,
        },
        required_if=[("target", target, ["url"]) for target in export_run.TARGETS if target != "ci"],
        required_together=[("access_key", "secret_key")],
    )
    ansible_module.run_module_work(
        module,
        lambda step: log_summary_and_warnings(step, module.warn, export_run.run_export_module(module.params, step)),
    )


if __name__ == "__main__":
    main()
