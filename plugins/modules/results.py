#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: results
short_description: Compute timelines, KPIs, verdict and report of a run
version_added: 1.0.0
description:
  - Computes results from the files of a run directory. It needs no cluster and can be repeated at any time, also after
    an interrupted run.
  - Stage V(timeline) joins plan, ledger and observations of a point into one row per planned workload, including those
    that were refused, lost or never sent, and writes C(timeline.jsonl) and C(timeline.csv) to C(points/<nnn>/). Each
    stage of a workload is an interval, C([earliest, latest]). Its bounds come from the resourceVersions of our own
    writes, whose times are known on our own clock; no server clock is used. Contradicting bounds are reported, not
    corrected.
  - Stage V(kpis) computes the figures of each test point by their definitions, from its timeline, training figures,
    ledger and metrics, and writes C(kpis.json) and C(attribution.json) to C(points/<nnn>/). Each figure has a unit, a
    direction, a measurement interval, a confidence interval, C(n) of C(of) rows, and whether it is simulated. A
    workload that did not reach a stage counts as longer than all others. A quantile among such workloads has no value,
    but a lower bound.
  - Stage V(verdict) writes C(verdict.json) to the run directory, with the result of each check and of each judged KPI,
    and from it C(junit.xml), C(summary.md) and C(answer.json). The verdict is V(error) if the run failed before its
    first test point, lost its cluster or its lock on it; V(invalid) if the measurement is not the requested one;
    V(regression) if a workload did not succeed or a KPI is outside its limit; V(inconclusive) if a KPI could not be
    decided; V(improvement) or V(pass) otherwise.
  - Stage V(report) writes C(report/index.html), a self-contained file with all plots and styles, and each plot as
    C(report/plots/*.png) with its data as C(*.csv). It lists missing data.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._export.ca_file
  - perfscale.seatrial._history
  - perfscale.seatrial._history.judging
  - perfscale.seatrial._run
  - perfscale.seatrial._run.points
  - perfscale.seatrial._step_directory
attributes:
  check_mode:
    support: none
    details: Check mode is not supported, because writing these files is the only effect.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
options:
  stages:
    description: What to compute. The stages run in the order of the choices. O(points) limits only the first two.
    type: list
    elements: str
    choices: [timeline, kpis, verdict, report]
    required: true
  head:
    description: Number of workloads to evaluate, in order of submission. V(0) means all.
    type: int
    default: 0
  tail:
    description: Number of workloads to evaluate at the end of those that O(head) selects. V(0) means all.
    type: int
    default: 0
  skip_errors:
    description: Whether to leave out workloads that did not succeed.
    type: bool
    default: false
  audit_log:
    description:
      - Audit log of the API server (JSON lines), to narrow the intervals of watched objects. Our own creates bound the
        offset of its clock; if no offset fits, a note states this and the log is not used.
    type: path
    default: ''
  definitions:
    description:
      - YAML files with KPI definitions, in display order. A later definition replaces an earlier one of the same name.
        C(docs/kpis.md) describes the format.
      - Of a folder, its C(kpis.yml) is read, then those of the folders in it.
    type: list
    elements: path
    default: []
  max_lateness:
    description:
      - Limit of the 99th percentile of the lateness (sent minus due), in seconds. The run is invalid above it.
      - C(workload_max_lateness) in the C(settings.yml) of a point takes precedence.
    type: float
    default: 0.1
  limits:
    description:
      - Limits of KPIs. KPI name, or a pattern with C(*), with C(max), C(min) or both; a number or text with a unit.
      - C(results_limits) in the C(settings.yml) of a point takes precedence. By default no workload may fail.
    type: dict
  max_errors:
    description: Share of workloads refused, lost or never sent, above which the run is invalid.
    type: float
    default: 0.01
  signatures:
    description:
      - YAML files with signatures of failures. A later one replaces an earlier one of the same name.
        C(docs/findings.md) describes the format.
      - Stage V(verdict) writes C(findings.json), the known causes of what went wrong in the run. Without files, it
        writes none.
    type: list
    elements: path
    default: []
  write_verdict:
    description: Whether stage V(verdict) writes its files. Between two attempts at a point only its result is needed.
    type: bool
    default: true
  template:
    description: Jinja2 template of the page. Files that it includes are in the same directory.
    type: path
notes:
  - O(head), O(tail) and O(skip_errors) apply to everything computed from the timeline (KPIs, verdict, plots, page), and
    each result states them.
seealso:
  - module: perfscale.seatrial.results_compare
"""

EXAMPLES = r"""
- name: Compute timelines and KPIs
  perfscale.seatrial.results:
    run_dir: "{{ run_dir }}"
    stages: [timeline, kpis]
    definitions:
      - "{{ role_path }}/files/kpis/workload.yml"
      - my_kpis.yml

- name: Write the report
  perfscale.seatrial.results:
    run_dir: "{{ run_dir }}"
    stages: [report]
    template: "{{ role_path }}/templates/report.html.j2"
"""

RETURN = r"""
timeline:
  description: Results of stage V(timeline).
  returned: with this stage
  type: dict
  contains:
    points:
      description: One entry per point.
      type: list
      elements: dict
      contains:
        point:
          description: Number of the point.
          type: str
        planned:
          description: Number of planned workloads, which is the number of rows.
          type: int
        outcomes:
          description: Number of workloads by outcome.
          type: dict
          sample: {succeeded: 11, failed: 1}
        stages:
          description: Number of workloads that reached each stage.
          type: dict
        contradictions:
          description: Number of rows whose times contradict each other.
          type: int
    summary:
      description: Summary in one sentence.
      type: str
kpis:
  description: Results of stage V(kpis).
  returned: with this stage
  type: dict
  contains:
    points:
      description: One entry per point.
      type: list
      elements: dict
      contains:
        point:
          description: Number of the point.
          type: str
        kpis:
          description: Number of figures.
          type: int
        without_value:
          description: Number of figures without a value; their notes state the reason.
          type: int
    summary:
      description: Summary in one sentence.
      type: str
verdict:
  description: Results of stage V(verdict).
  returned: with this stage
  type: dict
  contains:
    verdict:
      description: V(pass), V(improvement), V(inconclusive), V(invalid), V(regression) or V(error).
      type: str
      sample: pass
    code:
      description: The verdict as a number that ascends with gravity, from 0 for V(pass) to 5 for V(error).
      type: int
      sample: 0
    exit_status:
      description: Exit status for a CI job. 0 for V(pass) and V(improvement), 1 for V(regression), 2 for
        V(inconclusive) and V(invalid), 3 for V(error).
      type: int
      sample: 0
    checks:
      description: The checks, one entry each.
      type: list
      elements: dict
      contains:
        check:
          description: Name of the check, V(phases), V(lock), V(points), V(objects) or V(generator).
          type: str
        point:
          description: Number of the point, null for checks of the whole run.
          type: str
        result:
          description: V(pass), V(outside), V(invalid), V(error) or V(not judged).
          type: str
        detail:
          description: One sentence with the numbers.
          type: str
    kpis:
      description: The judged KPIs of each point, as in schema C(verdict/2).
      type: list
      elements: dict
      contains:
        point:
          description: Number of the point.
          type: str
        name:
          description: Name of the KPI.
          type: str
        reading:
          description: Result of the comparison with history, V(not judged) for a KPI that is not compared.
          type: str
        limit:
          description: Result of the comparison with its limit, and the sentence that explains it.
          type: dict
        why:
          description: The sentence that explains the result.
          type: str
    headline:
      description: The headline figures, one entry per KPI.
      type: list
      elements: dict
      contains:
        name: {description: Name of the KPI., type: str}
        title: {description: Display name of the KPI., type: str}
        value: {description: "The value; a text with all values if points differ; null if it is unknown.", type: raw}
        unit: {description: Its unit., type: str}
        text: {description: Value and unit as text., type: str}
        detail: {description: "Number of rows, and a remark; for an unknown value, why it is.", type: str}
        simulated: {description: Whether a simulated writer had a part in it., type: bool}
        points: {description: "Value, interval, n of N in each point.", type: list, elements: dict}
    answer:
      description: The sentence that the report leads with, empty if no figure provides one.
      type: list
      elements: str
      sample: ["The P95 scheduling latency has its knee at 5/s"]
    doubts:
      description: Reasons to doubt the figures, such as a busy machine, one sentence each. Key C(warnings) of the file.
      type: list
      elements: str
    reasons:
      description:
        - Why the verdict is what it is, one sentence for each check and KPI; how the KPIs of a V(pass) compare with the
          history. The last sentence states the past runs that were used and left out, if there is a history.
      type: list
      elements: str
      sample: ["makespan (point 000): 12 % slower than 18 runs of 4.19.3 (8 to 16 %), p 0.0004"]
    path: {description: The file., type: str}
    summary: {description: The verdict and its first reason., type: str}
report:
  description: Results of stage V(report).
  returned: with this stage
  type: dict
  contains:
    path:
      description: The page.
      type: str
      sample: artifacts/fine_tuning-light-t1121-k3f9xa/report/index.html
    plots:
      description: The plots as files.
      type: list
      elements: path
    missing:
      description: Missing or unreadable data, one sentence each.
      type: list
      elements: str
    summary:
      description: The page and the number of plots.
      type: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import (
    StepDirectory,
    log_summary_and_warnings,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import history_settings
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_run import JudgingRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report.write_report import write_report
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import (
    WorkloadSelection,
    write_timeline,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader


def timeline(params: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the timelines of the selected workloads."""
    selection = WorkloadSelection(params["head"], params["tail"], params["skip_errors"])
    return write_timeline(params["run_dir"], params["points"], selection, params["audit_log"])


def kpis(params: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the KPIs."""
    return write_kpis(params["run_dir"], params["definitions"], params["points"])


def verdict(params: Mapping[str, Any]) -> dict[str, Any]:
    """Determine the verdict."""
    rules = JudgingRules(
        max_errors=params["max_errors"],
        judged=params["judged"],
        history=history_settings.comparison_settings_from_params(params),
    )
    return write_verdict(
        params["run_dir"],
        params["max_lateness"],
        params["definitions"],
        params["limits"],
        rules,
        history_settings.history_request_from_params(params),
        params["write_verdict"],
        params["signatures"],
    )


def report(params: Mapping[str, Any]) -> dict[str, Any]:
    """Write the report. Raises InputError without a template."""
    if not params["template"]:
        raise InputError("stage report needs option template")
    return write_report(params["run_dir"], params["template"])


STAGES: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "timeline": timeline,
    "kpis": kpis,
    "verdict": verdict,
    "report": report,
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.RUN_DIR,
            "stages": {"type": "list", "elements": "str", "choices": list(STAGES), "required": True},
            "head": {"type": "int", "default": 0},
            "tail": {"type": "int", "default": 0},
            "skip_errors": {"type": "bool", "default": False},
            "audit_log": {"type": "path", "default": ""},
            "definitions": {"type": "list", "elements": "path", "default": []},
            "max_lateness": {"type": "float", "default": 0.1},
            "limits": {"type": "dict"},
            "max_errors": {"type": "float", "default": 0.01},
            "signatures": {"type": "list", "elements": "path", "default": []},
            "write_verdict": {"type": "bool", "default": True},
            "template": {"type": "path"},
            **history_settings.OPTIONS,
            **ansible_module.POINTS,
            **ansible_module.STEP,
        },
    )

    def compute(step: StepDirectory) -> dict[str, Any]:
        results: dict[str, Any] = {"changed": False}
        with run_reader.expect_documented_files(module.params["run_dir"]):
            for stage in (name for name in STAGES if name in module.params["stages"]):
                with step.timed("results", stage):
                    result = STAGES[stage](module.params)
                results[stage] = log_summary_and_warnings(step, module.warn, result)
                results["changed"] |= result["changed"]
        return results

    ansible_module.run_module_work(module, compute)


if __name__ == "__main__":
    main()
