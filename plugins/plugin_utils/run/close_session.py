# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a session: what run.yml, FAILURES and FINISHED then contain, whether it failed, and its summary."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import disk_reserve, files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import (
    ANSIBLE_LOG,
    format_utc_timestamp,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import escape_control_characters
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import (
    explain_failures,
    overall_verdict,
    write_verdict,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import cluster_settings
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.project_role import ROOT
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.verdict_setting_checks import SIGNATURE_FILES

from . import held_resources, resumed_extra_vars, run_directory, run_record

#: Signatures of failures.
SIGNATURES = ROOT / "roles" / "results" / "files" / "signatures.yml"
#: Reasons of the verdict that are shown.
REASONS = 3
#: Categories of time that any tool would need; the rest is Ansible's overhead.
CATEGORIES = {
    "cluster": "cluster",
    "load": "load",
    "wait": "waiting for workloads",
    "logs": "logs",
    "results": "results",
    "cleanup": "cleanup",
    "other": "other",
}


@dataclass(frozen=True)
class ClosedSession:
    """The record of the run, its verdict, the failures of this session and of all sessions, whether this one failed.

    warnings: what could not be written as it should be.
    """

    record: dict[str, Any]
    verdict: dict[str, Any]
    failures: list[str]
    all_failures: list[str]
    failed: bool
    warnings: list[str]


def close_session(
    directory: Path, failures: Sequence[str], fail_on: Collection[str], began: float, repeat: bool = False
) -> ClosedSession:
    """Close the session and write its end into the run directory.

    failures: those that tasks reported. fail_on: verdicts that fail the run. began: when the session began, seconds
    since the epoch. repeat: whether a session that only gives back fails if the run did.
    """
    verdict = run_directory.read_document_if_exists(directory / "verdict.json")
    judged = why_verdict_fails_run(verdict, fail_on)
    session_failures = list(failures) or ([judged] if judged else [])
    split = seconds_by_category(time.time() - began, run_directory.sum_seconds_by_category(directory, began))
    clusters = run_directory.read_document_if_exists(directory / "cluster.yml").get("clusters") or {}
    lease = run_directory.read_document_if_exists(directory / "lease.yml")

    def edit(record: dict[str, Any]) -> None:
        run_record.end_running_phases(record["phases"], "passed")
        record["clusters"] = clusters
        if had_nothing_to_release(record, lease):
            record["phases"]["release"]["status"] = "skipped"
        record["held"] = held_resources.resources_held(directory, record["started"])
        record["split"] = split
        record["ended"] = format_utc_timestamp()
        for session in record.get("sessions", [])[-1:]:
            session["ended"] = record["ended"]
        record["status"] = overall_run_status(record, session_failures)
        resumed_extra_vars.record_whether_extra_vars_stay(record, session_failures, directory)

    record = run_record.update_record(directory, edit)
    everything = failures_of_all_sessions(record, session_failures)
    if everything:
        files.replace_text(directory / "FAILURES", escape_control_characters("\n".join(everything)) + "\n")
    else:
        (directory / "FAILURES").unlink(missing_ok=True)
    files.replace_text(directory / "FINISHED", format_finished_line(record) + "\n")
    if not record["held"]:
        disk_reserve.free_reserved_space(directory)
    warnings = write_verdict.rewrite_junit_summary_and_answer(directory, failure_signature_paths(directory))
    # The verdict of an earlier session does not fail one that only gives back or exports.
    failed = bool(failures) or bool(judged and wrote_verdict_in_last_session(record))
    if repeat and not failed and record["status"] != "passed":
        first = "".join(f": {failure}" for failure in everything[:1])
        session_failures, failed = (
            [f"what the run held is given back, but the run itself is {record['status']}{first}"],
            True,
        )
    return ClosedSession(record, verdict, session_failures, everything, failed, warnings)


def failure_signature_paths(directory: Path) -> list[str]:
    """Return the files of signatures of failures of a run: ours, and those of its settings."""
    own = run_directory.read_document_if_exists(directory / "settings.yml").get(SIGNATURE_FILES) or []
    paths = own if isinstance(own, list) else [own]
    return [str(SIGNATURES), *(os.path.realpath(os.path.expanduser(str(path))) for path in paths)]


def results_for_later_jobs(directory: Path, closed: ClosedSession) -> dict[str, Any]:
    """Return what the session hands on to later jobs of a workflow. No key is a setting of a later run."""
    headline = closed.verdict.get("headline") or []
    figures = {figure["name"]: {key: figure.get(key) for key in ("value", "unit", "simulated")} for figure in headline}
    return {
        "seatrial_run_dir": str(directory),
        "seatrial_run_id": closed.record["id"],
        "seatrial_status": closed.record["status"],
        "seatrial_verdict": closed.verdict.get("verdict"),
        "seatrial_figures": figures,
        "seatrial_held": [holding["what"] for holding in closed.record["held"]],
    }


def had_nothing_to_release(record: Mapping[str, Any], lease: Mapping[str, Any]) -> bool:
    """Return whether a release that passed had nothing to release: no lease, and each cluster is kept."""
    kept = all(cluster.get("kept") and cluster["state"] != "released" for cluster in record["clusters"].values())
    return record["phases"].get("release", {}).get("status") == "passed" and not lease and kept


def why_verdict_fails_run(verdict: Mapping[str, Any], fail_on: Collection[str]) -> str | None:
    """Return why the verdict fails the run, None when it does not."""
    if verdict.get("verdict") not in fail_on:
        return None
    return f"verdict {verdict['verdict']}: " + "; ".join(overall_verdict.reasons_of_verdict(verdict))


def wrote_verdict_in_last_session(record: Mapping[str, Any]) -> bool:
    """Return whether the last session wrote the report, and with it the verdict."""
    session: dict[str, Any] = next(iter(reversed(record.get("sessions") or [])), {})
    return record["phases"].get("report", {}).get("started", "") >= session.get("started", "")


def overall_run_status(record: Mapping[str, Any], failures: Sequence[str]) -> str:
    """Return the status of the whole run; phases that earlier sessions left failed or interrupted count too."""
    states = {phase["status"] for phase in record["phases"].values()}
    if failures or "failed" in states:
        return "failed"
    return "interrupted" if "interrupted" in states else "passed"


def failures_of_all_sessions(record: Mapping[str, Any], failures: Sequence[str]) -> list[str]:
    """Return the failures of all sessions, each once, in the order of the phases; ``failures`` are the last ones."""
    earlier = [
        phase["error"] for phase in record["phases"].values() if phase["status"] == "failed" and phase.get("error")
    ]
    return list(dict.fromkeys([*earlier, *failures]))


def format_finished_line(record: Mapping[str, Any]) -> str:
    """Return the line of FINISHED."""
    seconds = (
        datetime.fromisoformat(record["ended"]).timestamp() - datetime.fromisoformat(record["started"]).timestamp()
    )
    return f"{record['ended']} {record['project']} {record['id']} {record['status']} after {seconds:.0f} s"


def seconds_by_category(total: float, timings: Mapping[str, float]) -> dict[str, float]:
    """Return seconds by category, ``ansible`` for the rest, and ``total``."""
    known = {name: round(timings[name], 1) for name in CATEGORIES if timings.get(name)}
    return {**known, "ansible": round(max(total - sum(timings.values()), 0.0), 1), "total": round(total, 1)}


def time_split_line(parts: Mapping[str, float]) -> str:
    """Return the split as one line."""
    named = [f"{text} {parts[name]:.1f}" for name, text in CATEGORIES.items() if name in parts]
    return f"{parts['total']:.1f} s = " + " + ".join([*named, f"Ansible itself {parts['ansible']:.1f}"])


#: What awx.yml appends to the name of a project's template for the one that gives back.
GIVE_BACK_TEMPLATE = " give back"


def summary_lines(
    record: Mapping[str, Any],
    directory: Path,
    verdict: Mapping[str, Any],
    failures: Iterable[str] = (),
    back: str = "",
    warnings: Iterable[str] = (),
) -> list[str]:
    """Return the lines of the summary: answers first, then warnings and failures.

    back: how to give back, if not with the command of the run. warnings: beside those of the verdict.
    """
    failures = list(failures)
    presets = "+".join(record["presets"]) or "no preset"
    text = ["", f"{record['project']} {presets}, run {record['id']}: {record['status']}"]
    text += [f"  answer    {answer}" for answer in verdict.get("answer") or ()]
    text += [f"  warning   {warning}" for warning in (*(verdict.get("warnings") or ()), *warnings)]
    for failure in failures:
        first, *rest = failure.splitlines()
        text += [f"  failed    {first}", *(f"            {line}" for line in rest)]
    for host, cluster in record["clusters"].items():
        if host == "sutest" or cluster != record["clusters"].get("sutest"):
            text.append(f"  where     {_describe_cluster(host, cluster)}")
    text.append(f"  phases    {_format_phases_by_status(record['phases'])}")
    for figure in verdict.get("headline") or []:
        text.append(f"  {headline_figure_line(figure)}")
    if verdict:
        # A verdict that fails the run is among the failures, with its reasons.
        text += _verdict_lines(
            verdict, not any(failure.startswith(f"verdict {verdict['verdict']}:") for failure in failures)
        )
    for finding in explain_failures.read_findings_of_run(directory)[: overall_verdict.FINDINGS]:
        text += [f"  cause     {overall_verdict.format_finding_as_line(finding)}", f"            {finding['remedy']}"]
    text.append(f"  time      {time_split_line(record['split'])}")
    report = directory / "report" / "index.html"
    if report.exists():
        text.append(f"  report    {report}")
    compared = report.parent / "compare" / "index.html"
    if compared.exists():
        text.append(f"  compared  {compared}")
    text.append(f"  run       {directory}")
    if (directory / ANSIBLE_LOG).exists():
        text.append(f"  log       {directory / ANSIBLE_LOG}")
    text += [f"  held      {holding['what']}, {_when_holding_ends(holding)}" for holding in record["held"]]
    if record["held"]:
        text += _cluster_access_lines(record["clusters"])
        text.append(f"  give back {back or record['give_back']}")
    return text


def awx_give_back_hint(variables: Mapping[str, Any], directory: Path) -> str:
    """Return what to launch in AWX to give back; empty outside. The command of a job is of use only in its container.

    variables: those of a task, with the ones that AWX gives to each job.
    """
    if cluster_settings.AWX_JOB not in variables:
        return ""
    template = str(variables.get("awx_job_template_name") or "").removesuffix(GIVE_BACK_TEMPLATE)
    return f"launch the template '{template}{GIVE_BACK_TEMPLATE}' with run_dir {directory}"


def _format_phases_by_status(phases: Mapping[str, Mapping[str, Any]]) -> str:
    by_status: dict[str, list[str]] = {}
    for name, phase in phases.items():
        by_status.setdefault(phase["status"], []).append(name)
    return "; ".join(f"{', '.join(names)} {status}" for status, names in by_status.items()) or "none"


def _when_holding_ends(holding: Mapping[str, Any]) -> str:
    """Return when a held resource ends, and what ends it."""
    if not holding.get("until"):
        return "until you give it back"
    moment = re.sub(r"\.\d+Z$", "Z", holding["until"])
    if holding.get("ends"):
        return f"until {moment}, when {holding['ends']}"
    return f"until you give it back; from {moment} on cluster.yml --tags reap does so too"


def _cluster_access_lines(clusters: Mapping[str, Mapping[str, Any]]) -> list[str]:
    there = [cluster for cluster in clusters.values() if cluster["state"] != "released"]
    commands = [
        _format_kubectl_command(cluster["kubeconfig"], cluster.get("context"))
        for cluster in there
        if cluster.get("kubeconfig")
    ]
    consoles = [cluster["console"] for cluster in there if cluster.get("console")]
    return [f"  reach it  {way}" for way in dict.fromkeys([*commands, *consoles])]


def _format_kubectl_command(kubeconfig: str, context: str | None) -> str:
    """Return the command for a shell. A context of the run may be another than the current one of the kubeconfig."""
    if not context:
        return f"export KUBECONFIG={shlex.quote(kubeconfig)}"
    return shlex.join(["kubectl", f"--kubeconfig={kubeconfig}", f"--context={context}", "get", "pods", "-A"])


def _describe_cluster(host: str, cluster: Mapping[str, Any]) -> str:
    parts = [f"{cluster['provider']} cluster at {cluster.get('api_host', 'an unknown host')}"]
    if cluster.get("version"):
        parts.append(f"Kubernetes {str(cluster['version']).lstrip('v')}")
    real = len(cluster.get("real_nodes") or ())
    if cluster["simulated"] and not real:
        parts.append("simulated nodes")
    elif cluster["simulated"]:
        parts.append(formats.format_count(real, "real node"))
    elif cluster.get("kind") or cluster.get("version"):  # otherwise its nodes are unknown
        parts.append(cluster.get("kind") or "real nodes")
    if cluster.get("nodes") is not None:
        nodes = f"{formats.format_count(cluster['nodes'], 'node')}{' in all' if real else ''}"
        parts.append(f"{nodes}, {formats.format_count(cluster.get('gpus', 0), 'GPU')}")
    return f"{host}: " + ", ".join(parts)


def _verdict_lines(verdict: Mapping[str, Any], explain: bool) -> list[str]:
    """Return the lines of the verdict: its result, why, and which past runs it was compared with."""
    text = [f"  verdict   {verdict['verdict'].upper()} ({overall_verdict.comparison_basis_text(verdict)})"]
    why = overall_verdict.explain_verdict(verdict) if explain else []
    text += [f"  because   {reason}" for reason in why[:REASONS]]
    if len(why) > REASONS:
        text.append(
            f"            {formats.format_count(len(why) - REASONS, 'further reason')} in summary.md and verdict.json"
        )
    if verdict.get("history"):
        text.append(f"  history   {overall_verdict.summarize_history_use(verdict['history'])}")
    return text


def headline_figure_line(figure: Mapping[str, Any]) -> str:
    """Return one headline figure: value, unit, n of N, and whether it is simulated."""
    value = figure.get("value")
    unit = str(figure.get("unit") or "")
    if isinstance(value, (int, float)):
        shown = formats.format_with_unit(value, unit)
    else:
        text = figure.get("text") if value is None else value  # a text has its units; without a value it is a bound
        shown = "not known" if text in (None, "–") else str(text)
    remark = ", simulated" if figure.get("simulated") else ""
    point = f"point {figure['point']} " if figure.get("point") else ""
    rest = f" ({figure['n']} of {figure['of']}{remark})" if "n" in figure else remark
    return f"{'figure':<9} {point}{figure.get('name', '')} {shown}{rest}"


def final_message_of_failed_run(failures: list[str], directory: Path) -> str:
    """Return the final message of a failed run: the first failure, and where the others are."""
    more = f"\n{len(failures) - 1} more in {directory / 'FAILURES'}" if len(failures) > 1 else ""
    return failures[0] + more
