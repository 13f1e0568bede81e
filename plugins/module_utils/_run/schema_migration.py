# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Migrate the files of runs written by other versions to the current schemas; unknown versions are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.schema_catalogue import SCHEMAS
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_and_comparison_schemas import (
    NO_HISTORY,
    VERDICTS,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

#: Input files of the results, and their schemas (without version).
DOCUMENTS = {
    "run.yml": "run",
    "cluster.yml": "cluster",
    "provenance.yml": "provenance",
    "points/*/point.yml": "point",
    "points/*/ran.json": "ran",
}
#: The schema is in a header line, or in session lines (one per session).
LINES = {
    "points/*/plan.jsonl": "plan",
    "points/*/ledger.jsonl": "ledger",
    "points/*/observations.jsonl": "observations",
    "points/*/metrics.jsonl": "metrics",
}

Change = Callable[[dict[str, Any]], dict[str, Any]]


def _keep_document_unchanged(document: dict[str, Any]) -> dict[str, Any]:
    return document


def _verdict_2(document: dict[str, Any]) -> dict[str, Any]:
    """Only a workload that did not succeed was called a failure of the product; the others cannot be distinguished."""
    verdict = {"fail": "regression"}.get(document["verdict"], document["verdict"])
    results = {"fail": "outside", "no baseline": NO_HISTORY}
    checks = [{**check, "result": results.get(check["result"], check["result"])} for check in document["checks"]]
    code, status = VERDICTS[verdict]
    added = {"code": code, "exit_status": status, "kpis": [], "answer": [], "warnings": []}
    return {**added, **document, "verdict": verdict, "checks": checks}


#: (schema, version) -> function that converts a document or line to the next version. kpis/1 has none: its labels are
#: those of the run and of the point, see _results/kpi/point_labels.py.
MIGRATIONS: dict[tuple[str, int], Change] = {
    ("cluster", 1): _keep_document_unchanged,
    ("comparison", 1): _keep_document_unchanged,
    ("point", 1): lambda document: {**document, "attempt": 1},
    ("verdict", 1): _verdict_2,
}


def current_schema_version(name: str) -> int:
    """Return the version of a schema that this collection reads and writes."""
    return max(int(schema.partition("/")[2]) for schema in SCHEMAS if schema.partition("/")[0] == name)


def migrate_run_files(run_dir: Path) -> list[str]:
    """Migrate the files of a run directory in place; return one sentence per migrated file.

    Raises DataError for a file of a newer or unknown version. Unreadable files are skipped, since a run may have been
    interrupted; run_reader.read_run_directory() reports them.
    """
    done = []
    for pattern, name in DOCUMENTS.items():
        for path in sorted(run_dir.glob(pattern)):
            done += _migrate_document_file(path, name)
    for pattern, name in LINES.items():
        for path in sorted(run_dir.glob(pattern)):
            done += _migrate_json_lines_file(path, name)
    return done


def read_document_migrated(path: Path, name: str) -> dict[str, Any]:
    """Return a JSON document in the current version of schema ``name``; the file stays as it is.

    A document without a schema is returned unchanged. Raises DataError for an unreadable file and, as migrate() does,
    for another schema or version.
    """
    document = files.read_json(path)
    if not isinstance(document, dict):
        raise DataError(f"{path}: not a JSON object")
    if "schema" not in document:
        return document
    version = parse_schema_version(path, name, str(document["schema"]))
    try:
        for change in _migration_steps(path, name, version):
            document = change(document)
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not as {name}/{version} was written") from error
    return {**document, "schema": f"{name}/{current_schema_version(name)}"}


def _migrate_document_file(path: Path, name: str) -> list[str]:
    try:
        document = files.read_json(path) if path.suffix == ".json" else files.read_yaml(path)
    except (DataError, OSError, UnicodeDecodeError):
        return []
    if not isinstance(document, dict) or "schema" not in document:
        return []
    version = parse_schema_version(path, name, str(document["schema"]))
    if version == current_schema_version(name):
        return []
    for change in _migration_steps(path, name, version):
        document = change(document)
    write = files.write_json if path.suffix == ".json" else files.write_yaml
    write(
        path, {**document, "schema": f"{name}/{current_schema_version(name)}"}, f"{name}/{current_schema_version(name)}"
    )
    return [f"{path.name}: {name}/{version} migrated to {name}/{current_schema_version(name)}"]


def _migrate_json_lines_file(path: Path, name: str) -> list[str]:
    version = next(
        (parse_schema_version(path, name, schema) for schema in _schemas_named_in_file(path)),
        current_schema_version(name),
    )
    if version == current_schema_version(name):
        return []
    chain = _migration_steps(path, name, version)

    def changed() -> Iterator[dict[str, Any]]:
        for record in files.read_json_lines(path):
            for change in chain:
                record = change(record)
            yield {**record, "schema": f"{name}/{current_schema_version(name)}"} if "schema" in record else record

    files.write_json_lines(path, changed())
    return [f"{path.parent.name}/{path.name}: {name}/{version} migrated to {name}/{current_schema_version(name)}"]


def _schemas_named_in_file(path: Path) -> Iterator[str]:
    """Yield the schemas that the first lines name."""
    with files.open_regular_file(path) as stream:
        for raw, _number in zip(files.lines_up_to_length(stream, path), range(5), strict=False):
            try:
                record = parse_json(raw)
            except ValueError:
                return
            if isinstance(record, dict) and "schema" in record:
                yield str(record["schema"])


def parse_schema_version(path: Path, name: str, schema: str) -> int:
    """Return the version in a schema's name, such as ``kpis/2``. Raises DataError for another or a newer schema."""
    kind, _slash, version = schema.partition("/")
    newest = current_schema_version(name)
    if kind != name or not version.isdecimal():
        raise DataError(f"{path}: schema '{schema}', expected {name}/{newest}; this is not a file of a run")
    if int(version) > newest:
        raise DataError(
            f"{path}: written by a newer version of perfscale.seatrial: {schema}; this version reads up to "
            f"{name}/{newest}. Update the collection"
        )
    return int(version)


def _migration_steps(path: Path, name: str, version: int) -> list[Change]:
    changes = []
    for step in range(version, current_schema_version(name)):
        if (name, step) not in MIGRATIONS:
            raise DataError(
                f"{path}: {name}/{version} is too old: no migration from {name}/{step} to {name}/{step + 1}. "
                "Create its report with the version that wrote it (run.yml: versions)"
            )
        changes.append(MIGRATIONS[name, step])
    return changes
