# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read past runs of a project from a folder of run directories, an S3 prefix or an OpenSearch index, the newest first.

In an S3 prefix, as export_run uploads runs, the manifest, uploaded last, marks a complete run. The index, as
export_run fills it, has one document for a run, and one for each KPI of a point.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import evidence_of_origin
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    parse_json,
    require_json_object,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import limit_number_of_pages
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch_connection import (
    OpenSearchClient,
    OpenSearchServer,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import fetch_run, run_reader, schema_migration
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import read_json_lines

from ..kpi.point_labels import flatten_labels, recorded_labels
from . import explain_failures
from .past_run_data import PastPoint, PastRun, kpis_by_name, leave_out_damaged_run, passed_attempts_to_use

#: Timeout of each request in seconds, and attempts at it: a history is worth less than the time of a run.
TIMEOUT, ATTEMPTS = 30.0, 2
#: Requests at a time while the runs are listed.
_PARALLEL = 8
_FIGURES = re.compile(r"(verdict\.json|findings\.json|schedule\.jsonl|points/[0-9]+(-[0-9]+)?/(point\.yml|kpis\.json))")
#: What the labels of figures of an older version are read from.
_SOURCES_OF_LABELS = re.compile(r"(cluster\.yml|points/[0-9]+(-[0-9]+)?/(settings\.yml|ran\.json))")
#: Levels of folders below the folder of a history in which run directories are found.
DEEPEST = 2
RECORD, VERDICT, SCHEDULE = "run.yml", "verdict.json", "schedule.jsonl"
#: Documents in one answer; runs whose points are requested together; points in one answer, the server's default limit.
PAGE, BATCH, MOST_POINTS = 1000, 5, 10_000
_NEWEST: list[dict[str, Any]] = [{"@timestamp": "desc"}, {"run": {"order": "asc", "unmapped_type": "keyword"}}]
_BY_POINT = [{name: {"order": "asc", "unmapped_type": "keyword"}} for name in ("uuid", "name")]

Document = Mapping[str, Any]


def read_runs_from_folder(folder: Path, project: str, notes: list[str]) -> Iterator[PastRun]:
    """Yield the runs of a project in a folder or at most two levels below it: own ones first, each the newest first.

    A stranger chooses the times of a received run. A replot counts only if it is one of this user's, of an own
    run. notes: gets a sentence on each damaged file. Other folders and files are ignored. Raises DataError if the
    folder cannot be read.
    """
    runs = []
    for top in run_directories_newest_first(folder):
        with leave_out_damaged_run(notes, top / RECORD):
            record = read_record_of_past_run(top)
            if record.get("project") != project:
                continue
            origin = evidence_of_origin(record, top)
            if origin[0] or not record.get("replot"):
                started = formats.normalize_time_to_utc_text(record.get("started"))
                runs.append((origin[0] > 0, started, origin, str(top), record))
    for own, _started, _origin, top_name, record in sorted(runs, key=lambda run: run[:4], reverse=True):
        past = None
        with leave_out_damaged_run(notes, top_name):
            past = replace(read_past_run(Path(top_name), record, str(folder), notes), own=own)
        if past is not None:
            yield past


def run_directories_newest_first(folder: Path, depth: int = DEEPEST) -> Iterator[Path]:
    """Yield the run directories in ``folder``: itself, or those at most ``depth`` levels below it."""
    try:
        if (folder / RECORD).is_file():
            yield folder
            return
        below = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        if depth == DEEPEST:
            raise DataError(f"folder {folder} cannot be read: {error.strerror or error}") from error
        return
    for subfolder in below if depth else ():
        yield from run_directories_newest_first(subfolder, depth - 1)


def read_record_of_past_run(top: Path) -> dict[str, Any]:
    """Return run.yml of a run directory.

    Raises DataError if it is damaged or of a newer version, and InputError for a symbolic link among the files.
    """
    fetch_run.refuse_symbolic_links_in_run(top)
    record = _read_mapping_file(top / RECORD)
    schema_migration.parse_schema_version(top / RECORD, "run", str(record.get("schema")))
    return record


def _read_mapping_file(path: Path) -> dict[str, Any]:
    """Return a YAML or JSON file. Raises DataError naming it if it cannot be read or is no mapping."""
    try:
        content = files.read_json(path) if path.suffix == ".json" else files.read_yaml(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: empty or not a mapping")
    return content


def labels_are_in_other_files(top: Path) -> bool:
    """Return whether the labels of a run have to be read from its other files."""
    documents = [_read_mapping_file(path) for path in sorted((top / "points").glob("[0-9]*/kpis.json"))]
    return any(document.get("schema") == "kpis/1" for document in documents)


def read_past_run(top: Path, record: Mapping[str, Any], source: str, notes: list[str]) -> PastRun:
    """Return the run in directory ``top``. notes: gets a sentence on each damaged point. Raises DataError."""
    if not isinstance(record.get("id"), str):
        raise DataError(f"{top / RECORD}: the run has no id")
    if record.get("started") is not None and formats.parse_timestamp(record["started"]) is None:
        raise DataError(
            f"{top / RECORD}: started is no time, so the run has no place in the history: {record['started']}"
        )
    started = formats.normalize_time_to_utc_text(record.get("started"))
    folders = sorted(path for path in (top / "points").glob("[0-9]*") if (path / "kpis.json").is_file())
    points = []
    for folder in folders:
        with leave_out_damaged_run(notes, folder):
            point = _folder_point(top, folder, started)
            points += [point] if point else []
    return PastRun(
        record["id"],
        started,
        _read_run_verdict(top, notes),
        source,
        passed_attempts_to_use(points, _does_run_repeat_points(top)),
        explain_failures.read_matched_signature_names(top),
    )


def _does_run_repeat_points(top: Path) -> bool:
    return bool(run_reader.keyword_of_last_session(read_json_lines(top / SCHEDULE, []), "repeat"))


def _read_run_verdict(top: Path, notes: list[str]) -> str:
    path = top / VERDICT
    if not path.is_file():
        return ""
    verdict = ""
    with leave_out_damaged_run(notes, path):
        verdict = str(schema_migration.read_document_migrated(path, "verdict").get("verdict") or "")
    return verdict


def _folder_point(top: Path, folder: Path, started: str) -> PastPoint | None:
    """Return a point, None if it did not run to its end in one session.

    Figures of an older version get the labels of today.
    """
    path = folder / "kpis.json"
    document = _read_mapping_file(path)
    version = schema_migration.parse_schema_version(path, "kpis", str(document.get("schema")))
    record = _read_mapping_file(folder / "point.yml") if (folder / "point.yml").is_file() else {}
    if record.get("status", "passed") != "passed" or record.get("resumed"):
        return None
    labels = document.get("labels") if version > 1 else _old_labels(top, folder.name)
    if not isinstance(labels, dict):
        raise DataError(f"{path}: its labels are not a mapping")
    at = formats.normalize_time_to_utc_text(record.get("started") or started)
    return PastPoint(folder.name, at, flatten_labels(labels), kpis_by_name(document.get("kpis"), path))


def _old_labels(top: Path, number: str) -> dict[str, Any]:
    run = run_reader.read_run_directory(top)
    if run.damaged:
        raise DataError(f"{top}: {run.damaged[0]}")
    return next(recorded_labels(run, point) for point in run.points if point.number == number)


@dataclass(frozen=True)
class _UploadedRun:
    """A complete run: its prefix with a slash at the end, and when its manifest was written."""

    prefix: str
    at: Any


def read_runs_from_s3(location: s3.S3Location, project: str, notes: list[str]) -> Iterator[PastRun]:
    """Yield the runs of a project below a prefix, at most two levels below it, the newest upload first.

    notes: gets a sentence on each damaged or incomplete run. Raises AccessError, InputError.
    """
    with s3.s3_errors(location):
        connection = s3.create_s3_client(location, TIMEOUT, ATTEMPTS)
        top = f"{location.prefix}/" if location.prefix else ""
        runs = _complete_runs(connection, location.bucket, [top], notes)
        for run in sorted(runs, key=lambda each: each.at, reverse=True):
            try:
                past = _uploaded_run(connection, location, run, project, notes)
            except DataError as error:
                notes.append(str(error))
                continue
            if past is not None:
                yield past


def _complete_runs(connection: Any, bucket: str, prefixes: list[str], notes: list[str]) -> Iterator[_UploadedRun]:
    """Yield the complete runs in these prefixes and below them."""
    for depth in range(DEEPEST + 1):
        with ThreadPool(_PARALLEL) as pool:
            listed = pool.map(lambda prefix: (prefix, *_list_s3_prefix(connection, bucket, prefix)), prefixes)
        prefixes = []
        for prefix, objects, below in listed:
            if s3.MANIFEST in objects:
                yield _UploadedRun(prefix, objects[s3.MANIFEST])
            elif RECORD in objects:
                notes.append(f"s3://{bucket}/{prefix.rstrip('/')}: without {s3.MANIFEST}, so its upload did not end")
            elif depth < DEEPEST:
                prefixes += below


def _list_s3_prefix(connection: Any, bucket: str, prefix: str) -> tuple[dict[str, Any], list[str]]:
    """Return the objects directly below a prefix with their times, and the prefixes below it."""
    objects: dict[str, Any] = {}
    below: list[str] = []
    for page in s3.list_pages(connection, bucket, prefix, Delimiter="/"):
        with expect_documented_form(f"s3://{bucket}/{prefix}", page):
            objects |= {entry["Key"][len(prefix) :]: entry["LastModified"] for entry in page.get("Contents") or []}
        below += [entry["Prefix"] for entry in page.get("CommonPrefixes") or []]
    return objects, below


def _uploaded_run(
    connection: Any, location: s3.S3Location, uploaded: _UploadedRun, project: str, notes: list[str]
) -> PastRun | None:
    """Return a run, None for one of another project. Raises DataError."""
    address = f"s3://{location.bucket}/{uploaded.prefix.rstrip('/')}"

    def content(name: str) -> bytes:
        return s3.read_object(connection, location.bucket, f"{uploaded.prefix}{name}")

    files = _manifest_files(content(s3.MANIFEST), f"{address}/{s3.MANIFEST}")
    with tempfile.TemporaryDirectory(prefix="seatrial-history-") as scratch:
        top = Path(scratch)
        own: list[str] = []

        def fetch(names: Iterable[str]) -> None:
            for name in names:
                data = content(name)
                if files[name] != base64.b64encode(hashlib.sha256(data).digest()).decode():
                    raise DataError(f"{top / name}: it is not the file that its manifest describes")
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_bytes(data)

        try:
            fetch(name for name in files if name == RECORD)
            record = read_record_of_past_run(top)
            if record.get("project") != project:
                return None
            fetch(name for name in files if _FIGURES.fullmatch(name))
            if labels_are_in_other_files(top):
                fetch(name for name in files if _SOURCES_OF_LABELS.fullmatch(name))
            return read_past_run(top, record, location.address, own)
        except DataError as error:
            raise DataError(str(error).replace(scratch, address)) from error
        finally:
            notes += [note.replace(scratch, address) for note in own]


def _manifest_files(manifest: bytes, where: str) -> Mapping[str, str]:
    """Return the files of a manifest with their checksums. Raises DataError."""
    try:
        return {str(file["name"]): str(file["sha256"]) for file in parse_json(manifest)["files"]}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where}: not a manifest of a run") from error


def read_runs_from_opensearch(server: OpenSearchServer, project: str, notes: list[str]) -> Iterator[PastRun]:
    """Yield the runs of a project, the newest first. notes: gets a sentence on each run with unreadable documents.

    Raises AccessError, InputError.
    """
    client = OpenSearchClient(server, TIMEOUT)
    batch: list[Document] = []
    query = {"term": {"project": project}}
    for run in _query_opensearch_documents(
        client, "runs", query, _NEWEST, ["run", "@timestamp", "verdict", "repeats", "whole", "findings"]
    ):
        if run.get("whole") is False:
            notes.append(f"{server.url}, run {run.get('run')}: its export did not end")
            continue
        batch.append(run)
        if len(batch) == BATCH:
            yield from _indexed_runs(client, batch, notes)
            batch = []
    if batch:
        yield from _indexed_runs(client, batch, notes)


def _indexed_runs(client: OpenSearchClient, batch: Sequence[Document], notes: list[str]) -> Iterator[PastRun]:
    """Yield runs with their points."""
    ids = [str(run.get("run")) for run in batch]
    query = {"terms": {"run": ids}}
    figures: dict[str, list[Document]] = {}
    for figure in _query_opensearch_documents(
        client, "kpis", query, _BY_POINT, ["uuid", "name", "value", "unit", "confidence", "interval", "at_least"]
    ):
        figures.setdefault(str(figure.get("uuid")), []).append(figure)
    points = _indexed_points(client, query) if figures else []
    where = f"{client.server.url}, index {client.server.prefix}-kpis"
    for run, document in zip(ids, batch, strict=True):
        own = []
        for point in points:
            if point.get("run") != run or point.get("point_status", "passed") != "passed" or point.get("resumed"):
                continue
            with leave_out_damaged_run(notes, f"{where}, run {run}"):
                own.append(_indexed_point(point, figures.get(str(point.get("uuid")), []), f"{where}, run {run}"))
        at, verdict = formats.normalize_time_to_utc_text(document.get("@timestamp")), str(document.get("verdict") or "")
        yield PastRun(
            run,
            at,
            "" if verdict == "unknown" else verdict,
            where,
            passed_attempts_to_use(own, document.get("repeats") is True),
            None if document.get("findings") is None else tuple(map(str, document["findings"])),
        )


def _indexed_point(point: Document, figures: Sequence[Document], where: str) -> PastPoint:
    labels = point.get("labels") or {}
    if not isinstance(labels, dict):
        raise DataError(f"{where}: the labels of point {point.get('point')} are not a mapping")
    return PastPoint(str(point.get("point")), str(point.get("@timestamp") or ""), labels, kpis_by_name(figures, where))


def _indexed_points(client: OpenSearchClient, query: Document) -> list[Document]:
    """Return one document of each point, in order of the points. All documents of a point have its labels."""
    body = {
        "query": query,
        "collapse": {"field": "uuid"},
        "size": MOST_POINTS,
        "_source": ["run", "point", "point_status", "resumed", "uuid", "@timestamp", "labels"],
    }
    hits = _opensearch_search_hits(client, "kpis", body)
    return sorted((hit["_source"] for hit in hits), key=lambda document: str(document.get("point")))


def _query_opensearch_documents(
    client: OpenSearchClient, kind: str, query: Document, sort: Sequence[Document], fields: Sequence[str]
) -> Iterator[Document]:
    """Yield the documents that match a query, page by page."""
    for hits in limit_number_of_pages(
        f"OpenSearch {client.server.url}, {kind}", _opensearch_result_pages(client, kind, query, sort, fields)
    ):
        yield from (hit["_source"] for hit in hits)


def _opensearch_result_pages(
    client: OpenSearchClient, kind: str, query: Document, sort: Sequence[Document], fields: Sequence[str]
) -> Iterator[list[dict[str, Any]]]:
    body: dict[str, Any] = {"query": query, "sort": list(sort), "size": PAGE, "_source": list(fields)}
    while hits := _opensearch_search_hits(client, kind, body):
        yield hits
        if len(hits) < PAGE:
            return
        with expect_documented_form(f"OpenSearch {client.server.url}, {kind}", hits[-1]):
            body["search_after"] = hits[-1]["sort"]


def _opensearch_search_hits(client: OpenSearchClient, kind: str, body: Document) -> list[dict[str, Any]]:
    """Return the hits of a search; none if the index does not exist."""
    path = f"/{client.server.prefix}-{kind}/_search?ignore_unavailable=true"
    answer = client.call("POST", path, json.dumps(body).encode())
    where = f"OpenSearch {client.server.url}{path}"
    with expect_documented_form(where, answer):
        failed = (answer.get("_shards") or {}).get("failed") or answer.get("timed_out")
        hits = list(answer["hits"]["hits"])
        for hit in hits:
            require_json_object(f"{where}: a document", hit["_source"])
    if failed:
        raise DataError(f"{where}: the answer is incomplete")
    return hits
