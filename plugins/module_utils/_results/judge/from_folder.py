# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read past runs from a folder of run directories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, schema_migration
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import lines

from ..kpi.labels import flat, recorded_labels
from .past_runs import PastPoint, PastRun, counted, kpis_of, left_out

#: Levels of folders below the folder of a history in which run directories are found.
DEEPEST = 2
RECORD, VERDICT, SCHEDULE = "run.yml", "verdict.json", "schedule.jsonl"


def read(folder: Path, project: str, notes: list[str]) -> Iterator[PastRun]:
    """Yield the runs of a project in a folder or at most two levels below it, the newest first.

    notes: gets a sentence on each damaged file. Other folders and files are ignored. Raises DataError if the folder
    cannot be read.
    """
    found = []
    for top in run_directories(folder):
        with left_out(notes, top / RECORD):
            record = read_record(top)
            if record.get("project") == project:
                found.append((str(record.get("started") or ""), str(top), record))
    for _started, top_name, record in sorted(found, key=lambda one: one[:2], reverse=True):
        past = None
        with left_out(notes, top_name):
            past = read_run(Path(top_name), record, str(folder), notes)
        if past is not None:
            yield past


def run_directories(folder: Path, depth: int = DEEPEST) -> Iterator[Path]:
    """Yield the run directories in ``folder``: itself, or those at most ``depth`` levels below it."""
    try:
        if (folder / RECORD).is_file():
            yield folder
            return
        below = sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    except OSError as error:
        if depth == DEEPEST:
            raise DataError(f"folder {folder} cannot be read: {error.strerror or error}") from error
        return
    for one in below if depth else ():
        yield from run_directories(one, depth - 1)


def read_record(top: Path) -> dict[str, Any]:
    """Return run.yml of a run directory. Raises DataError if it is damaged or of a newer version."""
    record = _mapping(top / RECORD)
    schema_migration.version_of(top / RECORD, "run", str(record.get("schema")))
    return record


def _mapping(path: Path) -> dict[str, Any]:
    """Return a YAML or JSON file. Raises DataError naming it if it cannot be read or is no mapping."""
    try:
        found = files.read_json(path) if path.suffix == ".json" else files.read_yaml(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: empty or not a mapping")
    return found


def has_old_labels(top: Path) -> bool:
    """Return whether the labels of a run have to be read from its other files."""
    documents = [_mapping(path) for path in sorted((top / "points").glob("[0-9]*/kpis.json"))]
    return any(one.get("schema") == "kpis/1" for one in documents)


def read_run(top: Path, record: Mapping[str, Any], source: str, notes: list[str]) -> PastRun:
    """Return the run in directory ``top``. notes: gets a sentence on each damaged point. Raises DataError."""
    if not isinstance(record.get("id"), str):
        raise DataError(f"{top / RECORD}: the run has no id")
    started = str(record.get("started") or "")
    folders = sorted(one for one in (top / "points").glob("[0-9]*") if (one / "kpis.json").is_file())
    points = []
    for folder in folders:
        with left_out(notes, folder):
            point = _point(top, folder, started)
            points += [point] if point else []
    return PastRun(record["id"], started, _verdict(top, notes), source, counted(points, _repeats(top)))


def _repeats(top: Path) -> bool:
    return bool(run_reader.last_schedule_keyword(lines(top / SCHEDULE, []), "repeat"))


def _verdict(top: Path, notes: list[str]) -> str:
    path = top / VERDICT
    if not path.is_file():
        return ""
    found = ""
    with left_out(notes, path):
        found = str(schema_migration.upgraded(path, "verdict").get("verdict") or "")
    return found


def _point(top: Path, folder: Path, started: str) -> PastPoint | None:
    """Return a point, None if it did not run to its end in one session.

    Figures of an older version get the labels of today.
    """
    path = folder / "kpis.json"
    document = _mapping(path)
    version = schema_migration.version_of(path, "kpis", str(document.get("schema")))
    record = _mapping(folder / "point.yml") if (folder / "point.yml").is_file() else {}
    if record.get("status", "passed") != "passed" or record.get("resumed"):
        return None
    labels = document.get("labels") if version > 1 else _lifted(top, folder.name)
    if not isinstance(labels, dict):
        raise DataError(f"{path}: its labels are not a mapping")
    at = str(record.get("started") or started)
    return PastPoint(folder.name, at, flat(labels), kpis_of(document.get("kpis"), path))


def _lifted(top: Path, number: str) -> dict[str, Any]:
    run = run_reader.read(top)
    return next(recorded_labels(run, point) for point in run.points if point.number == number)
