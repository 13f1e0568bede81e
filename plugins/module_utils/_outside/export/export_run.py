# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Export a run: check its status, search it for secrets, send it. Module export_run calls it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module, formats, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch_connection import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, schema_migration
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    SKIPPED,
    Run,
    one_attempt_per_point,
)

from . import mlflow_export, opensearch_export, otlp_export, prometheus_textfile

Result = dict[str, Any]
VALID, INVALID = "valid", "invalid"
LABEL, SKIP = "label", "skip"
TARGETS = ("s3", "opensearch", "mlflow", "otlp", "ci")

#: The run, and the secrets that must not be exported with it (doc fragments _export and _export.secrets).
GATE: dict[str, Any] = {
    **ansible_module.RUN_DIR,
    "invalid": {"type": "str", "default": LABEL, "choices": [LABEL, SKIP]},
    **ansible_module.SECRETS,
}
#: How to reach an S3 server (doc fragments _export.s3 and _export.ca_file).
S3_OPTIONS: dict[str, Any] = {**ansible_module.S3_SERVER, **ansible_module.CA_FILE}


def run_export_module(params: Mapping[str, Any], step: StepDirectory) -> Result:
    """Run module export_run; return its result."""
    gate = (params["secrets"], params["kubeconfigs"], params["invalid"])
    if params["target"] == "ci":
        with step.timed("results", "files for CI"):
            return write_ci_files(params["run_dir"], params["junit"], params["textfile"], *gate)
    if params["target"] == "opensearch":
        server = OpenSearchServer(
            params["url"],
            params["index_prefix"],
            params["user"],
            params["password"],
            params["token"],
            params["ca_file"] or "",
        )
        with step.timed("results", "export to OpenSearch"):
            return write_run_to_opensearch(params["run_dir"], server, *gate)
    if params["target"] == "mlflow":
        tracking = mlflow_export.MlflowServer(
            params["url"],
            params["experiment"],
            params["user"],
            params["password"],
            params["token"],
            params["ca_file"] or "",
        )
        with step.timed("results", "export to MLflow"):
            return write_run_to_mlflow(params["run_dir"], tracking, *gate)
    if params["target"] == "otlp":
        receiver = otlp_export.OtlpReceiver(params["url"], params["token"], params["ca_file"] or "")
        with step.timed("results", "export of traces"):
            return send_run_as_traces(params["run_dir"], receiver, params["workloads"], *gate)
    location = s3_location(params, params["url"], acl=params["acl"], part_size=params["part_size"])
    with step.timed("results", "export to S3"):
        return upload_run_to_s3(params["run_dir"], location, *gate, step.reporter(params["progress_file"], "export"))


def s3_location(params: Mapping[str, Any], url: str, **more: Any) -> s3.S3Location:
    """Return the location of an s3:// address with the S3 options of a module. Raises InputError."""
    bucket, prefix = s3.parse_s3_url(url)
    return s3.S3Location(
        bucket,
        prefix,
        params["endpoint"],
        params["region"],
        params["ca_file"] or "",
        params["access_key"],
        params["secret_key"],
        **more,
    )


def read_run_verdict(run: Run) -> dict[str, Any]:
    """Return the verdict, empty if there is none or it is unreadable."""
    try:
        return schema_migration.read_document_migrated(run.top / "verdict.json", "verdict")
    except DataError:
        return {}


def run_validity_and_reason(run: Run, verdict: Mapping[str, Any]) -> tuple[str, str]:
    """Return ("valid", "") or ("invalid", reason): figures of an invalid run are not measurements."""
    if not verdict:
        return INVALID, "it has no verdict"
    if verdict.get("verdict") in (None, "invalid", "error"):
        return INVALID, f"its verdict is {verdict.get('verdict')}"
    unread = [
        point.number for point in one_attempt_per_point(run.points) if point.kpis is None and point.status != SKIPPED
    ]
    if unread:
        return INVALID, f"point {formats.format_list(unread)} could not be parsed"
    if not run.points:
        return INVALID, "it has no test point"
    return VALID, ""


def check_run_exportable(
    run_dir: str, secrets: Mapping[str, str], kubeconfigs: Iterable[str], invalid: str
) -> tuple[Run, Any]:
    """Search the run for secrets; return it with (verdict, status, reason). Status ``skip``: it must not be exported.

    invalid: ``label`` exports an invalid run labelled as invalid, ``skip`` does not. Raises SecretFound.
    """
    run = run_reader.read_run_directory(Path(run_dir))
    verdict = read_run_verdict(run)
    status, why = run_validity_and_reason(run, verdict)
    if status == INVALID and invalid == SKIP:
        return run, (verdict, SKIP, why)
    secret_gate.create_secret_scanner(secrets, kubeconfigs).check(run.top, secret_gate.list_exportable_files(run.top))
    return run, (verdict, status, why)


def skipped_export_result(run: Run, target: str, why: str) -> Result:
    """Return the result of a module for a run that is not exported."""
    summary = f"{run.id} is not exported to {target}: {why}, and invalid runs are skipped"
    return {"changed": False, "exported": None, "status": SKIP, "warnings": [], "summary": summary}


def upload_run_to_s3(
    run_dir: str,
    location: s3.S3Location,
    secrets: Mapping[str, str],
    kubeconfigs: Iterable[str],
    invalid: str,
    say: Callable[[str], None],
) -> Result:
    """Upload the run directory to <prefix>/<name of the directory>."""
    run, (verdict, status, why) = check_run_exportable(run_dir, secrets, kubeconfigs, invalid)
    if status == SKIP:
        return skipped_export_result(run, location.address, why)
    location = replace(location, prefix="/".join(part for part in (location.prefix, run.top.name) if part))
    with tempfile.TemporaryDirectory(prefix="seatrial-export-") as scratch:
        # run.yml changes when the export is recorded in it, so a copy is uploaded: exactly what was searched.
        files = {str(path.relative_to(run.top)): path for path in secret_gate.list_exportable_files(run.top)}
        if "run.yml" in files:
            files["run.yml"] = Path(shutil.copyfile(files["run.yml"], Path(scratch) / "run.yml"))
        manifest = {
            "schema": "manifest/1",
            "run": run.id,
            "status": status,
            "verdict": str(verdict.get("verdict") or "unknown"),
            "files": [
                {"name": name, "bytes": path.stat().st_size, "sha256": s3.file_checksum_for_s3(path)}
                for name, path in sorted(files.items())
            ],
        }
        _files.write_json(Path(scratch) / s3.MANIFEST, manifest, "manifest/1")
        files[s3.MANIFEST] = Path(scratch) / s3.MANIFEST
        counts = s3.upload_and_verify_files(location, files, say)
    files_sent = f"{formats.format_count(counts['sent'], 'file')} sent, {counts['there']} unchanged"
    return _completed_export_result(
        "s3", location.address, status, why, f"{location.address}: {files_sent}", counts["sent"] > 0, counts
    )


def write_run_to_opensearch(
    run_dir: str,
    server: OpenSearchServer,
    secrets: Mapping[str, str],
    kubeconfigs: Iterable[str],
    invalid: str,
) -> Result:
    """Write the figures of a run into OpenSearch."""
    run, (verdict, status, why) = check_run_exportable(run_dir, secrets, kubeconfigs, invalid)
    if status == SKIP:
        return skipped_export_result(run, server.url, why)
    index = opensearch_export.OpenSearchIndex(server)
    index.prepare()
    counts = index.write(opensearch_export.run_and_kpi_documents(run, verdict, status))
    address = f"{server.url.rstrip('/')}/{server.prefix}-runs/_doc/{run.id}"
    counts["updated"] -= 1  # the document of the run is written twice
    total = sum(counts.values())
    summary = f"{address}: {formats.format_count(total, 'document')}, {counts['created']} of them new"
    return _completed_export_result("opensearch", address, status, why, summary, True, counts)


def write_run_to_mlflow(
    run_dir: str,
    server: mlflow_export.MlflowServer,
    secrets: Mapping[str, str],
    kubeconfigs: Iterable[str],
    invalid: str,
) -> Result:
    """Write the points of a run as runs of an MLflow experiment."""
    run, (verdict, status, why) = check_run_exportable(run_dir, secrets, kubeconfigs, invalid)
    if status == SKIP:
        return skipped_export_result(run, server.url, why)
    project = str(run.record.get("project") or "")
    runs = list(mlflow_export.mlflow_runs(run, verdict, status))
    address, counts = mlflow_export.write_mlflow_runs(server, project, runs)
    changed = counts["created"] + counts["updated"] > 0
    summary = f"{address}: {formats.format_count(len(runs), 'run')}, {counts['created']} of them new"
    return _completed_export_result("mlflow", address, status, why, summary, changed, counts)


def send_run_as_traces(
    run_dir: str,
    receiver: otlp_export.OtlpReceiver,
    most: int,
    secrets: Mapping[str, str],
    kubeconfigs: Iterable[str],
    invalid: str,
) -> Result:
    """Send the workloads of a run as traces. most: workloads of a point."""
    run, (verdict, status, why) = check_run_exportable(run_dir, secrets, kubeconfigs, invalid)
    if status == SKIP:
        return skipped_export_result(run, receiver.url, why)
    counts = otlp_export.send_traces(receiver, otlp_export.requests_of_run(run, verdict, status, most))
    traces, spans = (formats.format_count(counts[f"{kind}s"], kind) for kind in ("trace", "span"))
    summary = f"{receiver.address}: {traces} with {spans}"
    if not counts["traces"]:
        summary = f"{receiver.address}: no trace, because no point of the run has a timeline with a workload"
    return _completed_export_result("otlp", receiver.address, status, why, summary, counts["traces"] > 0, counts)


def _completed_export_result(
    target: str, address: str, status: str, why: str, summary: str, changed: bool, counts: Any
) -> Result:
    warnings = [f"exported as invalid: {why}"] if status == INVALID else []
    exported = {"target": target, "address": address, "status": status}
    return {
        "changed": changed,
        "exported": exported,
        "status": status,
        "counts": counts,
        "warnings": warnings,
        "summary": summary,
    }


def write_ci_files(
    run_dir: str, junit: str, textfile: str, secrets: Mapping[str, str], kubeconfigs: Iterable[str], invalid: str
) -> Result:
    """Write files for CI; an empty path skips one. They contain figures and the verdict, but no settings.

    The JUnit file is a copy of junit.xml of the run directory. Raises DataError if there is none.
    """
    run, (verdict, status, why) = check_run_exportable(run_dir, secrets, kubeconfigs, invalid)
    if status == SKIP:
        return skipped_export_result(run, "files for CI", why)
    texts = [
        (junit, lambda: _read_junit_xml(run)),
        (textfile, lambda: prometheus_textfile.prometheus_textfile(run, verdict)),
    ]
    changed, written = False, []
    for path, make in texts:
        if not path:
            continue
        target = Path(path).expanduser()
        target.parent.mkdir(parents=True, exist_ok=True)
        text = make()
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            _files.replace_text(target, text)
            changed = True
        written.append(str(target))
    summary = ", ".join(written) or "no file requested"
    return {"changed": changed, "paths": written, "status": status, "warnings": [], "summary": summary}


def _read_junit_xml(run: Run) -> str:
    try:
        return (run.top / "junit.xml").read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{run.top} has no junit.xml, because it was not judged: run its phase report") from error
