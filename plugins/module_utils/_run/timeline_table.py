# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A timeline in memory: one row per workload, one pair of columns per stage. Reading and writing its files.

Columns are arrays of doubles (missing: NaN), so that 100,000 workloads take a few dozen megabytes, and numpy reads
them without a copy.
"""

from __future__ import annotations

import csv
import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from sys import intern
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    escape_csv_cell,
    escape_csv_row,
    parse_json,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import partial_json_decoder

MOMENTS = ("intended", "sent", "answered")
#: Columns of a table besides its times.
COLUMNS = ("index", "name", "kind", "template", "uid", "outcome", "censored", "attempts", "pods", "gpus", "nodes")
#: Rows that are converted to Python objects at a time.
CHUNK = 4096
#: Six digits after the point: microseconds.
DIGITS = 6


def create_empty_column(length: int) -> array[float]:
    """Return a column without values."""
    return array("d", [nan]) * length


@dataclass
class TimelineTable:
    """Rows by their number from 0. ``header`` as in schema timeline/1. Times in seconds on the point's clock."""

    header: dict[str, Any]
    index: list[int] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    template: list[str] = field(default_factory=list)
    uid: list[str | None] = field(default_factory=list)
    outcome: list[str] = field(default_factory=list)
    censored: list[bool] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    pods: list[int] = field(default_factory=list)
    gpus: list[float] = field(default_factory=list)
    #: Kind of the nodes of its pods on a cluster with real and simulated ones: real, simulated, mixed; None: unknown.
    nodes: list[str | None] = field(default_factory=list)
    contradictions: dict[int, list[str]] = field(default_factory=dict)  # row number -> texts
    moments: dict[str, array[float]] = field(default_factory=dict)
    earliest: dict[str, array[float]] = field(default_factory=dict)
    latest: dict[str, array[float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def stages(self) -> list[dict[str, Any]]:
        """The stages of the header, in the order in which a workload reaches them."""
        return self.header["stages"]

    @property
    def noun(self) -> str:
        """What a row is: a workload, or a request to an inference server."""
        return str(self.header.get("rows") or "workload")

    @property
    def needs(self) -> dict[str, list[str]]:
        """Stage name -> stages and writers that it waits for."""
        return {stage["name"]: stage.get("needs", []) for stage in self.stages}

    def seen(self, stage: str) -> int:
        """Return the number of workloads that reached ``stage``."""
        return sum(1 for value in self.latest.get(stage, ()) if not isnan(value))

    def contradict(self, row: int, text: str) -> None:
        """Note a contradiction of a row, once."""
        texts = self.contradictions.setdefault(row, [])
        if text not in texts:
            texts.append(text)

    def taken(self, rows: list[int], header: dict[str, Any]) -> TimelineTable:
        """Return a table with some of the rows, and another header."""

        def pick(values: Any) -> Any:
            chosen = (values[row] for row in rows)
            return array("d", chosen) if isinstance(values, array) else list(chosen)

        places = {row: place for place, row in enumerate(rows)}
        return TimelineTable(
            header,
            **{name: pick(getattr(self, name)) for name in COLUMNS},
            contradictions={places[row]: texts for row, texts in self.contradictions.items() if row in places},
            moments={name: pick(values) for name, values in self.moments.items()},
            earliest={name: pick(values) for name, values in self.earliest.items()},
            latest={name: pick(values) for name, values in self.latest.items()},
        )

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of timeline.jsonl."""
        yield {"type": "header", **self.header}
        for begin in range(0, len(self), CHUNK):
            yield from self._records(begin, min(begin + CHUNK, len(self)))

    def _records(self, begin: int, end: int) -> Iterator[dict[str, Any]]:
        """Yield the records of the rows from ``begin`` to before ``end``."""
        part = slice(begin, end)
        columns = [
            (
                stage["name"],
                _round_column(self.earliest[stage["name"]][part]),
                _round_column(self.latest[stage["name"]][part]),
            )
            for stage in self.stages
        ]
        moments = [(name, _round_column(self.moments[name][part])) for name in MOMENTS]
        for place, row in enumerate(range(begin, end)):
            yield {
                "type": "workload",
                "index": self.index[row],
                "name": self.name[row],
                "kind": self.kind[row],
                "template": self.template[row],
                "uid": self.uid[row],
                **{name: None if isnan(values[place]) else values[place] for name, values in moments},
                "stages": {
                    name: [first[place], last[place]] for name, first, last in columns if not isnan(last[place])
                },
                "outcome": self.outcome[row],
                "censored": self.censored[row],
                "pods": self.pods[row],
                "gpus": self.gpus[row],
                "contradictions": self.contradictions.get(row, []),
                "attempts": self.attempts[row],
                **({"nodes": self.nodes[row]} if self.nodes[row] else {}),
            }


def _round_column(of: array[float]) -> list[float]:
    """Return a column rounded to DIGITS digits, vectorized: one by one would dominate the writing."""
    import numpy

    return numpy.round(numpy.frombuffer(of), DIGITS).tolist()


def write_jsonl_and_csv(table: TimelineTable, folder: Path) -> None:
    """Write timeline.jsonl and timeline.csv into ``folder``."""
    files.write_json_lines(folder / "timeline.jsonl", table.records(), "timeline/1")
    write_timeline_csv(table, folder / "timeline.csv")


def write_timeline_csv(table: TimelineTable, path: Path) -> None:
    """Write the table with times in seconds since the start of the load, which is column ``start_epoch``."""
    import numpy

    names = [stage["name"] for stage in table.stages]
    start = float(table.header["start"])
    first = ["index", "name", "kind", "template", "outcome", "censored", "attempts", "pods", "gpus", "start_epoch"]
    sides = [side for name in names for side in (f"{name}_earliest_s", f"{name}_latest_s")]
    columns = [table.moments[name] for name in MOMENTS]
    for name in names:
        columns += [table.earliest[name], table.latest[name]]
    views = [numpy.frombuffer(moments) for moments in columns] if len(table) else []
    epoch = f"{start:.6f}"
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as stream:
            out = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
            out.writerow(escape_csv_row([*first, *(f"{name}_s" for name in MOMENTS), *sides, "contradictions"]))
            texts = _format_leading_cells(table, epoch)
            # One format per row instead of one per time; rows have few patterns of missing values.
            formats: dict[bytes, str] = {}
            for row, (before, (missing, values)) in enumerate(
                zip(texts, _row_times_after_start(views, start), strict=True)
            ):
                contradictions = table.contradictions.get(row)
                if contradictions is None and before is not None:
                    if missing not in formats:
                        formats[missing] = ",".join("" if flag else "%.6f" for flag in missing)
                    known = tuple([value for value in values if not isnan(value)])
                    stream.write(f"{before}{formats[missing] % known},\n")
                    continue
                moments = ["" if isnan(value) else f"{value:.6f}" for value in values]
                out.writerow(
                    [*_leading_csv_cells(table, row, epoch), *moments, escape_csv_cell("; ".join(contradictions or ()))]
                )
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _row_times_after_start(columns: list[Any], start: float) -> Iterator[tuple[bytes, list[float]]]:
    """Yield for each row one byte per column, 1 where the value is missing, and the seconds after ``start``.

    Converted in chunks: Python floats take much memory, single numpy items are slow.
    """
    import numpy

    for begin in range(0, len(columns[0]) if columns else 0, CHUNK):
        times = numpy.column_stack([moments[begin : begin + CHUNK] - start for moments in columns])
        yield from zip((row.tobytes() for row in numpy.isnan(times)), times.tolist(), strict=True)


def _leading_csv_cells(table: TimelineTable, row: int, epoch: str) -> list[Any]:
    return [
        table.index[row],
        escape_csv_cell(table.name[row]),
        escape_csv_cell(table.kind[row]),
        escape_csv_cell(table.template[row]),
        table.outcome[row],
        "true" if table.censored[row] else "false",
        table.attempts[row],
        table.pods[row],
        f"{table.gpus[row]:g}",
        epoch,
    ]


def _format_leading_cells(table: TimelineTable, epoch: str) -> Iterator[str | None]:
    """Yield the cells before the times of a row; None where a cell needs quoting."""
    bad = set(',"\r\n')
    plain = not any(bad & set(text) for text in {*table.kind, *table.template})
    for row in range(len(table)):
        fits = plain and not bad.intersection(table.name[row])
        yield ",".join(map(str, _leading_csv_cells(table, row, epoch))) + "," if fits else None


def read_timeline_jsonl(path: Path) -> TimelineTable:
    """Read timeline.jsonl. Raises DataError if it is missing, truncated, or not as this collection writes it."""
    if not path.is_file():
        raise DataError(f"{path}: no such file; stage timeline of module results writes it")
    try:
        return _read_timeline_jsonl(path)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"
        raise DataError(f"{path}: not as perfscale.seatrial writes it ({why}); write the timeline again") from error


def _read_timeline_jsonl(path: Path) -> TimelineTable:
    with files.open_regular_file(path) as stream:
        lines = files.lines_up_to_length(stream, path)
        header = _parse_timeline_header(path, next(lines, b""))
        size = int(header["planned"])
        if not 0 <= size <= path.stat().st_size:  # columns are made of it
            raise DataError(f"{path}: the header announces {size} rows, more than it has bytes; write it again")
        table = TimelineTable(header)
        for name in MOMENTS:
            table.moments[name] = create_empty_column(size)
        names = [stage["name"] for stage in header["stages"]]
        table.earliest = {name: create_empty_column(size) for name in names}
        table.latest = {name: create_empty_column(size) for name in names}
        spans = {name: (table.earliest[name], table.latest[name]) for name in names}
        decode = partial_json_decoder.create_document_decoder(None)
        for row, raw in enumerate(lines):
            if row >= size or not raw.endswith(b"\n"):
                raise DataError(
                    f"{path}:{row + 2}: more rows than the header's {size}, or a truncated row; write it again"
                )
            _append_record_to_table(table, spans, row, decode(raw))
    if len(table) != size:
        raise DataError(f"{path}: {len(table)} rows, but the header announces {size}; write the timeline again")
    return table


def _parse_timeline_header(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        header = parse_json(raw)
    except ValueError as error:
        raise DataError(f"{path}:1: not a JSON record; write the timeline again") from error
    schema = header.pop("schema", None)
    if header.pop("type", None) != "header" or schema != "timeline/1":
        raise DataError(f"{path}: schema '{schema}', expected timeline/1; write the timeline again")
    return {"schema": schema, **header}


def _append_record_to_table(table: TimelineTable, spans: dict[str, Any], row: int, record: dict[str, Any]) -> None:
    table.index.append(record["index"])
    table.name.append(record["name"])
    table.kind.append(intern(record["kind"]))  # few different texts, kept once
    table.template.append(intern(record["template"]))
    table.uid.append(record["uid"])
    table.outcome.append(intern(record["outcome"]))
    table.censored.append(record["censored"])
    table.attempts.append(record.get("attempts", 0))
    table.pods.append(record["pods"])
    table.gpus.append(record["gpus"])
    table.nodes.append(record.get("nodes"))
    if record["contradictions"]:
        table.contradictions[row] = record["contradictions"]
    for name in MOMENTS:
        if record[name] is not None:
            table.moments[name][row] = record[name]
    for name, (first, last) in record["stages"].items():
        span = spans.get(name)
        if span is not None:
            span[0][row], span[1][row] = first, last
