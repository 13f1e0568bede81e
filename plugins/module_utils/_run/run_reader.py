# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the top-level files of a run directory and its points, as far as they exist; do something for each point.

A point of the matrix may be measured several times. ``points/003`` is the first attempt at point 003, ``points/003-2``
the second one; each is a Point here. A damaged point becomes a warning and never stops the others.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import is_own_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import format_list, format_setting_value
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form

from . import timeline_table
from .drop_wrong_types import drop_wrong_types
from .point_reader import read_json_lines
from .timeline_table import TimelineTable

_RUN_ID = re.compile(r"[a-z0-9][a-z0-9-]{5,19}")
#: The run id at the end of the name of a run directory: <project>-<preset>-<id>.
_AT_END = re.compile(r"[a-z][0-9]{4}-[a-z0-9]{6}$")
#: What the Run:ai scale-test tool writes.
FOREIGN = ("submitted.json", "sampled.json")
SKIPPED = "skipped"
#: Status of an attempt that was not begun.
NOT_BEGUN = ("planned", SKIPPED)


def attempt_folder(of: str, attempt: int) -> str:
    """Return the name of the folder of an attempt at point ``of``."""
    return of if attempt == 1 else f"{of}-{attempt}"


def split_attempt_name(name: str) -> tuple[str, int]:
    """Return point and attempt of a folder name; a name without a number of the attempt is a first attempt."""
    of, _dash, number = name.partition("-")
    return of, int(number) if number.isdecimal() else 1


def point_of_attempt_folder(name: object) -> str:
    """Return the point of a folder name."""
    return split_attempt_name(str(name))[0]


def attempt_order(of: str, attempt: int = 1) -> tuple[int, str, int]:
    """Return the key that sorts attempts by point, then by attempt: 999 before 1000."""
    return len(of), of, attempt


def has_foreign_files(folder: Path) -> bool:
    """Return whether a folder contains the files of a run of the Run:ai scale-test tool."""
    return all((folder / name).is_file() for name in FOREIGN)


@dataclass
class Point:
    """One test point. ``number`` is the name of its folder; ``kpis`` is None until they are computed."""

    number: str
    folder: Path
    record: dict[str, Any] = field(default_factory=dict)  # point.yml
    kpis: list[dict[str, Any]] | None = None
    attribution: dict[str, Any] = field(default_factory=dict)  # attribution.json
    all_settings: dict[str, Any] | None = None  # settings.yml; None if it is missing or unreadable
    ran: dict[str, Any] = field(default_factory=dict)  # ran.json
    labels: dict[str, Any] | None = None  # of kpis.json; None until they are written as in kpis/2

    @property
    def settings(self) -> dict[str, Any]:
        """The values that the matrix set for this point."""
        return self.record.get("settings") or {}

    @property
    def status(self) -> str:
        """planned, running, passed, failed or skipped; empty if it is unknown."""
        return str(self.record.get("status") or "")

    @property
    def resumed(self) -> bool:
        """Whether its load was begun by a session that was killed, so that its times include the interruption."""
        return bool(self.record.get("resumed"))

    @property
    def of(self) -> str:
        """The point of the matrix that this is an attempt at: ``003`` for folder ``003-2``."""
        return point_of_attempt_folder(self.number)

    @property
    def attempt(self) -> int:
        """The number of the attempt, 1 for the first."""
        return split_attempt_name(self.number)[1]

    @property
    def foreign(self) -> bool:
        """Whether it is from the Run:ai scale-test tool, whose files contain no plan and no phases."""
        return has_foreign_files(self.folder) and not (self.folder / "plan.jsonl").is_file()

    @property
    def max_lateness(self) -> float | None:
        """Limit of lateness in its settings, in seconds."""
        allowed = (self.all_settings or {}).get("workload_max_lateness")
        return float(allowed) if isinstance(allowed, (int, float)) else None


@dataclass
class Run:
    """The readable files of a run.

    missing: sentences on files that are missing or unreadable. damaged: those of them on values of a wrong type.
    """

    top: Path
    record: dict[str, Any] = field(default_factory=dict)  # run.yml
    clusters: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)  # settings.yml
    points: list[Point] = field(default_factory=list)
    failures: str = ""
    schedule: list[dict[str, Any]] = field(default_factory=list)  # lines of schedule.jsonl
    bisection: dict[str, Any] = field(default_factory=dict)  # bisection.json
    missing: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    @property
    def repeats(self) -> bool:
        """Whether points are repeated until their figures are decided."""
        return bool(self.word("repeat"))

    def word(self, name: str) -> dict[str, Any]:
        """Return the word ``repeat`` or ``bisect`` as the last session was given it, empty without it."""
        return keyword_of_last_session(self.schedule, name)

    @property
    def session(self) -> str:
        """When the last session began, as in run.yml; empty if it is unknown."""
        sessions = self.record.get("sessions") or [self.record]
        return str(sessions[-1].get("started") or "")

    @property
    def id(self) -> str:
        """The run id from run.yml, else from a plan, else from the name of the directory."""
        if _RUN_ID.fullmatch(str(self.record.get("id") or "")):
            return str(self.record["id"])
        for point in self.points:
            for header in islice(read_json_lines(point.folder / "plan.jsonl", []), 1):
                if _RUN_ID.fullmatch(str(header.get("run") or "")):
                    return str(header["run"])
        named = _AT_END.search(self.top.name)
        return named[0] if named else "unknown"

    @property
    def simulated_writers(self) -> list[str]:
        """Writers of stages that are simulated on the cluster under test."""
        return list(self.clusters.get("sutest", {}).get("simulated_writers") or [])

    @property
    def real_nodes(self) -> list[str]:
        """Nodes of the cluster under test that are not simulated, if it has simulated ones."""
        return list(self.clusters.get("sutest", {}).get("real_nodes") or [])

    @property
    def simulated(self) -> bool:
        """Whether anything on the cluster under test is simulated."""
        return bool(self.clusters.get("sutest", {}).get("simulated"))


def read_run_directory(top: Path) -> Run:
    """Read a run directory. Raises InputError if the directory does not exist; nothing else is an error."""
    if not top.is_dir():
        raise InputError(f"run directory {top} does not exist")
    run = Run(top)
    run.record = _read_document_or_note_missing(run, top / "run.yml", "run/1")
    clusters = _read_document_or_note_missing(run, top / "cluster.yml", "cluster/2", needed=False).get("clusters")
    run.clusters = clusters if clusters else run.record.get("clusters") or {}
    sources = _read_document_or_note_missing(run, top / "provenance.yml", "provenance/1").get("settings")
    run.provenance = {name: changes for name, changes in (sources or {}).items() if changes}
    run.settings = _read_document_or_note_missing(run, top / "settings.yml", needed=False)
    run.schedule = list(read_json_lines(top / "schedule.jsonl", []))
    run.bisection = _read_document_or_note_missing(run, top / "bisection.json", needed=False)
    run.failures = files.read_text_begin(top / "FAILURES").strip()
    for folder in (top / "points").glob("[0-9]*") if (top / "points").is_dir() else []:
        point = Point(folder.name, folder, _read_document_or_note_missing(run, folder / "point.yml", "point/2"))
        point.all_settings = _read_document_or_note_missing(run, folder / "settings.yml", needed=False) or None
        point.ran = _read_document_or_note_missing(run, folder / "ran.json", "ran/1", needed=False)
        if (folder / "kpis.json").is_file():
            document = _read_document_or_note_missing(run, folder / "kpis.json", "kpis/2")
            point.kpis = document.get("kpis")
            point.labels = None if document.get("schema") == "kpis/1" else document.get("labels")
        point.attribution = _read_document_or_note_missing(
            run, folder / "attribution.json", "attribution/1", needed=False
        )
        run.points.append(point)
    run.points.sort(key=lambda point: (*attempt_order(point.of, point.attempt), point.number))
    return run


def keyword_of_last_session(schedule: Iterable[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return a word of the last session. schedule: lines of schedule.jsonl."""
    words = [line.get(name) for line in schedule if line.get("type") == "session"]
    return (words[-1] if words else None) or {}


def _read_document_or_note_missing(run: Run, path: Path, schema: str = "", needed: bool = True) -> dict[str, Any]:
    """Return a document without values of wrong types; missing ones and those are noted in the run."""
    where = path.relative_to(run.top)
    if not path.is_file():
        if needed:
            run.missing.append(f"{where} is missing")
        return {}
    try:
        document = files.read_json(path) if path.suffix == ".json" else files.read_yaml(path)
    except (DataError, OSError, UnicodeDecodeError) as error:
        run.missing.append(f"{where} cannot be read: {error}")
        return {}
    if not isinstance(document, dict):
        run.missing.append(f"{where} is empty or not a mapping")
        return {}
    if not schema:
        return document
    kept, dropped = drop_wrong_types(document, schema)
    if dropped:
        run.damaged.append(f"{where} has values of a wrong type, which are left out: {format_list(dropped, 3)}")
        run.missing.append(run.damaged[-1])
    return kept


@contextmanager
def expect_documented_files(run_dir: str | Path) -> Iterator[None]:
    """Read a run directory in the body. Of one that was copied or received, a file of another form is a DataError.

    Of an own one it is an error of ours, with its traceback.
    """
    top = Path(run_dir)
    record = _read_document_or_note_missing(Run(top), top / "run.yml", "run/1")
    if is_own_run(record, top):
        yield
        return
    with expect_documented_form(f"{top}: a file of this run", {}, DataError):
        yield


def points_with_numbers(run: Run, numbers: Iterable[str]) -> list[Point]:
    """Return the points with these numbers, all without numbers. Raises InputError for an unknown number."""
    wanted = [str(number) for number in numbers]
    known = {point.number: point for point in run.points}
    for number in wanted:
        if number not in known:
            raise InputError(f"{run.top} has no test point '{number}'; it has {', '.join(known) or 'none'}")
    return [known[number] for number in wanted] if wanted else run.points


class AttemptAtPoint(Protocol):
    """An attempt to measure a point."""

    @property
    def of(self) -> str:
        """Its point of the matrix."""

    @property
    def attempt(self) -> int:
        """Its number at that point."""

    @property
    def status(self) -> str:
        """How it ended."""


One = TypeVar("One", bound=AttemptAtPoint)


def one_attempt_per_point(attempts: Iterable[One]) -> list[One]:
    """Return one attempt for each point, in the order of the points.

    It is the last one that passed. If none did, it is the last one that was begun, else the first.
    """
    attempt_by_point: dict[str, One] = {}
    for attempt in sorted(attempts, key=lambda candidate: attempt_order(candidate.of, candidate.attempt)):
        if attempt.of not in attempt_by_point or _attempt_status_rank(attempt) >= max(
            _attempt_status_rank(attempt_by_point[attempt.of]), 1
        ):
            attempt_by_point[attempt.of] = attempt
    return list(attempt_by_point.values())


def run_with_counted_attempts(run: Run) -> Run:
    """Return the run with the attempts that its verdict depends on: one a point, or those of a run that repeats.

    These are all but those that failed and were measured again, by ``redo``.
    """
    if not run.repeats:
        return replace(run, points=one_attempt_per_point(run.points))
    passed = {point.of: point.attempt for point in one_attempt_per_point(run.points) if point.status == "passed"}
    kept = [point for point in run.points if point.status != "failed" or point.attempt > passed.get(point.of, 0)]
    return replace(run, points=kept)


def _attempt_status_rank(attempt: AttemptAtPoint) -> int:
    return 2 if attempt.status == "passed" else 0 if attempt.status in NOT_BEGUN else 1


def point_label(point: Point, project: str = "") -> str:
    """Return the matrix values of a point with shortened names, "point <number>" without any."""
    names = {key: key.removeprefix(f"{project}_") for key in point.settings}
    ends = [name.rpartition(".")[2] for name in names.values()]
    if len(set(ends)) == len(ends):
        names = dict(zip(names, ends, strict=True))
    values = ", ".join(f"{names[key]} = {format_setting_value(value, 40)}" for key, value in point.settings.items())
    if values and point.attempt > 1:
        return f"{values}, attempt {point.attempt}"
    return values or f"point {point.number}"


Result = dict[str, Any]


def process_points_and_note_errors(
    run: Run, numbers: Iterable[str], written: tuple[str, ...], action: Callable[[Point, list[str]], Result]
) -> Result:
    """Call ``action`` for each point. An error becomes a warning, and the point's files ``written`` are deleted."""
    warnings: list[str] = []
    rows: list[Result] = []
    changed = False
    for point in points_with_numbers(run, numbers):
        if _is_unstarted_point(point):
            continue
        before = [sha256_of_file(point.folder / name) for name in written]
        try:
            with garbage_collection_disabled():
                rows.append(action(point, warnings))
        except (SeatrialError, OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            text = str(error) if isinstance(error, SeatrialError) else f"{type(error).__name__}: {error}"
            warnings.append(f"point {point.number}: no {written[0]}: {text}")
            for name in written:
                (point.folder / name).unlink(missing_ok=True)
        changed = changed or before != [sha256_of_file(point.folder / name) for name in written]
    if not run.points:
        warnings.append(f"{run.top} has no test point")
    return {"changed": changed, "points": rows, "warnings": warnings}


def _is_unstarted_point(point: Point) -> bool:
    """Return whether a point has no data because it was not begun. The verdict states whether it should have been."""
    return point.status in NOT_BEGUN


@contextmanager
def garbage_collection_disabled() -> Iterator[None]:
    """Disable the collection of cyclic garbage: millions of records are created here, and none is part of a cycle.

    Each collection visits all live objects, so that the time would grow faster than the number of rows.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def sha256_of_file(path: Path) -> str | None:
    """Return the SHA-256 of a file, None for a missing one."""
    return files.sha256_of(path) if path.is_file() else None


def read_timelines_by_point(run: Run, warnings: list[str]) -> dict[str, TimelineTable | None]:
    """Return the timeline of each point by number; None, and a warning, where it cannot be read."""
    tables: dict[str, TimelineTable | None] = {}
    for point in run.points:
        if _is_unstarted_point(point):
            tables[point.number] = None
            continue
        try:
            with garbage_collection_disabled():
                tables[point.number] = timeline_table.read_timeline_jsonl(point.folder / "timeline.jsonl")
        except DataError as error:
            tables[point.number] = None
            warnings.append(f"point {point.number}: {error}")
    return tables
