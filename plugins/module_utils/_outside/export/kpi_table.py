# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KPIs of many runs as one table, CSV or Parquet: a row for each KPI of each point.

The rows are the documents of OpenSearch, with the interval, the reading of the verdict, and few labels as columns.
"""

from __future__ import annotations

import csv
import filecmp
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import evidence_of_origin
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import escape_csv_row
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.past_run_data import (
    leave_out_damaged_run,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.read_past_runs import (
    read_record_of_past_run,
    run_directories_newest_first,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    Run,
    point_of_attempt_folder,
    read_run_directory,
    run_with_counted_attempts,
)

from .export_run import INVALID, SKIP, read_run_verdict, run_validity_and_reason
from .opensearch_export import run_and_kpi_documents

CSV, PARQUET = ".csv", ".parquet"
#: Column -> its type. Columns are added at the end only; docs/export.md explains them.
COLUMNS = {
    "run": "text",
    "project": "text",
    "presets": "text",
    "started": "time",
    "point": "text",
    "matrix": "text",
    "labels": "text",
    "kpi": "text",
    "value": "number",
    "unit": "text",
    "low": "number",
    "high": "number",
    "bounds": "text",
    "at_least": "number",
    "direction": "text",
    "reading": "text",
    "verdict": "text",
    "status": "text",
    "simulated": "truth",
    "n": "count",
    "of": "count",
}
Row = dict[str, Any]


def write_kpi_table(
    sources: Sequence[str], dest: str, secrets: Mapping[str, str], kubeconfigs: Iterable[str], invalid: str
) -> dict[str, Any]:
    """Write the table of the runs in some folders; return the result of module write_kpi_table.

    Args:
        sources: Directories of runs, and folders with such directories at most two levels below.
        dest: The file, which is replaced.
        secrets: Values that must not be in it.
        kubeconfigs: Files whose credentials must not be in it.
        invalid: ``label`` keeps invalid runs, marked by their status; ``skip`` leaves them out.

    Raises:
        InputError: There is no run, or the file can't be of this kind.
        SecretFound: The table has a secret.
    """
    target = Path(dest)
    if target.suffix not in (CSV, PARQUET):
        raise InputError(f"{target}: the table is a {CSV} or a {PARQUET} file")
    if target.suffix == PARQUET:
        _pyarrow(target)
    if not target.parent.is_dir():
        raise InputError(f"{target}: the folder {target.parent} does not exist")
    notes: list[str] = []
    tops = _newest_directories(sources, notes)
    rows: list[Row] = []
    used = 0
    for top in tops:
        with leave_out_damaged_run(notes, top):
            own = rows_of_run(read_run_directory(top), invalid)
            rows += own
            used += bool(own)
    rows.sort(key=lambda row: (row["started"], row["run"]))  # stable: points and KPIs stay in their order
    with tempfile.TemporaryDirectory(prefix=".kpis-", dir=target.parent) as scratch:
        fresh = Path(scratch) / f"kpis{CSV}"
        _write_csv(fresh, rows)
        secret_gate.create_secret_scanner(secrets, kubeconfigs).check(Path(scratch), [fresh])
        if target.suffix == PARQUET:
            fresh = Path(scratch) / f"kpis{PARQUET}"
            _write_parquet(fresh, rows)
        changed = not (target.is_file() and filecmp.cmp(fresh, target, shallow=False))
        if changed:
            os.replace(fresh, target)
    counted = f"{formats.format_count(len(rows), 'KPI')} of {formats.format_count(used, 'run')}"
    return {
        "changed": changed,
        "path": str(target),
        "rows": len(rows),
        "runs": used,
        "warnings": notes,
        "summary": f"{target}: {counted}",
    }


def rows_of_run(run: Run, invalid: str) -> list[Row]:
    """Return the rows of a run with the attempts that count, none for an invalid run that is skipped."""
    verdict = read_run_verdict(run)
    status, _why = run_validity_and_reason(run, verdict)
    if status == INVALID and invalid == SKIP:
        return []
    judged = {(kpi["point"], kpi["name"]): kpi["reading"] for kpi in verdict.get("kpis") or []}
    documents = run_and_kpi_documents(run_with_counted_attempts(run), verdict, status)
    return [_row(document, judged) for kind, _id, document in documents if kind == "kpis"]


def _row(document: Mapping[str, Any], judged: Mapping[tuple[str, str], str]) -> Row:
    """Return the row of a document. judged: readings of points, or of all attempts at one."""
    point, name = document["point"], document["name"]
    ends, bounds = document["confidence"], "confidence"
    if ends is None:
        ends, bounds = document["interval"] or {}, "measurement" if document["interval"] else ""
    labels = document["labels"]
    part = "matrix."
    kept = {label: value for label, value in labels.items() if label.startswith(("ran.", "selection"))}
    own = {f"kpi.{label}": value for label, value in document["kpi_labels"].items()}
    return {
        "run": document["run"],
        "project": document["project"] or "",
        "presets": ",".join(map(str, document["presets"])),
        "started": str(document["@timestamp"] or ""),
        "point": point,
        "matrix": _json({label[len(part) :]: labels[label] for label in labels if label.startswith(part)}),
        "labels": _json({**kept, **own}),
        "kpi": name,
        "value": _finite(document["value"]),
        "unit": document["unit"],
        "low": _finite(ends.get("low")),
        "high": _finite(ends.get("high")),
        "bounds": bounds,
        "at_least": _finite(document["at_least"]),
        "direction": document["direction"],
        "reading": judged.get((point, name)) or judged.get((point_of_attempt_folder(point), name)) or "not judged",
        "verdict": document["verdict"],
        "status": document["status"],
        "simulated": document["simulated"],
        "n": document["n"],
        "of": document["of"],
    }


def _json(labels: Mapping[str, Any]) -> str:
    return json.dumps(labels, sort_keys=True, ensure_ascii=False) if labels else ""


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and isfinite(value) else None


def _newest_directories(sources: Sequence[str], notes: list[str]) -> list[Path]:
    """Return one directory for each run: the last replot of an own run, the own run, else the last replot of others.

    Raises InputError, DataError.
    """
    newest: dict[str, tuple[tuple[int, str], Path]] = {}
    more = 0
    for source in sources:
        folder = Path(source)
        if not folder.is_dir():
            raise InputError(f"runs: {folder} is not a folder; name run directories, or folders that contain them")
        for top in run_directories_newest_first(folder):
            with leave_out_damaged_run(notes, top):
                record = read_record_of_past_run(top)
                key = str(record.get("id") or top)
                at = evidence_of_origin(record, top)
                if key in newest and top.resolve() != newest[key][1].resolve():
                    more += 1
                if key not in newest or at > newest[key][0]:
                    newest[key] = at, top
    if not newest:
        raise InputError(f"runs: there is no run directory in {formats.format_list(sources)} or two levels below")
    if more:
        left = formats.format_count(more, "further directory", "further directories")
        notes.append(f"{left} of the same runs left out: of a run and its replots, the last replot is used")
    return [top for _at, top in newest.values()]


def _write_csv(path: Path, rows: Iterable[Row]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(COLUMNS)
        for row in rows:
            out.writerow(escape_csv_row(str(cell).lower() if isinstance(cell, bool) else cell for cell in row.values()))


def _pyarrow(target: Path) -> Any:
    """Return the package that writes Parquet. Raises InputError without it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            f"{target}: Parquet needs the Python package pyarrow, which is not installed: install it, or name a "
            f"{CSV} file"
        ) from error
    return pyarrow


def _write_parquet(path: Path, rows: Sequence[Row]) -> None:
    arrow = _pyarrow(path)
    types = {
        "text": arrow.string(),
        "time": arrow.timestamp("ms", tz="UTC"),
        "number": arrow.float64(),
        "count": arrow.int64(),
        "truth": arrow.bool_(),
    }
    schema = arrow.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    columns = {name: list(_cells(rows, name, kind)) for name, kind in COLUMNS.items()}
    try:
        arrow.parquet.write_table(arrow.table(columns, schema=schema), path)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"the table cannot be written as Parquet: {error}") from error


def _cells(rows: Iterable[Row], name: str, kind: str) -> Iterator[Any]:
    for row in rows:
        value = row[name]
        yield (datetime.fromisoformat(value) if value else None) if kind == "time" else value
