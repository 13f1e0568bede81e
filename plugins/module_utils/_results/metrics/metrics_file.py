# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The captured series of a point: points/<nnn>/metrics.jsonl (schema metrics/1), one line per query."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError

FILE = "metrics.jsonl"
#: Folder of a point with one CSV file per query.
FOLDER = "metrics"


@dataclass(frozen=True)
class Series:
    """One series: its labels, moments in seconds since the epoch, and values (None: not a number)."""

    labels: Mapping[str, str]
    moments: Sequence[float]
    values: Sequence[float | None]


@dataclass(frozen=True)
class Captured:
    """The result of a query over the time of a point, in seconds since the epoch. ``error``: why there is none."""

    name: str
    query: str
    unit: str
    help: str
    series: Sequence[Series] = ()
    begin: float = 0.0
    end: float = 0.0
    step: float = 1.0
    error: str = ""
    simulated: bool = False
    per: Sequence[str] = field(default_factory=tuple)  # the labels that distinguish series in titles

    @property
    def expected(self) -> int:
        """Number of moments requested."""
        return int((self.end - self.begin) / self.step + 1e-6) + 1 if self.step > 0 else 0

    def together(self, across: str) -> tuple[Any, Any]:
        """Return arrays of the moments and of the sum (mean, max, min) over the series with a value there."""
        import numpy

        moments = sorted({moment for one in self.series for moment in one.moments})
        if not moments:
            return numpy.empty(0), numpy.empty(0)
        place = {moment: number for number, moment in enumerate(moments)}
        grid = numpy.full((len(self.series), len(moments)), nan)
        for row, one in enumerate(self.series):
            for moment, value in zip(one.moments, one.values, strict=True):
                grid[row, place[moment]] = nan if value is None else value
        known = ~numpy.isnan(grid).all(axis=0)
        functions: dict[str, Any] = {
            "sum": numpy.nansum,
            "mean": numpy.nanmean,
            "max": numpy.nanmax,
            "min": numpy.nanmin,
        }
        return numpy.array(moments)[known], functions[across](grid[:, known], axis=0)

    def title(self, one: Series) -> str:
        """Return the title of a series: the values of its distinguishing labels."""
        names = [name for name in self.per if name in one.labels] or list(one.labels)
        return ", ".join(str(one.labels[name]) for name in names) or self.name

    def document(self) -> dict[str, Any]:
        """Return the series as plain data, for JMESPath."""
        series = [{"labels": dict(one.labels), "values": list(one.values)} for one in self.series]
        return {"unit": self.unit, "query": self.query, "series": series}


def write(folder: Path, header: Mapping[str, Any], found: Iterable[Captured]) -> list[str]:
    """Write metrics.jsonl and metrics/<name>.csv into the folder of a point; return the names of the CSV files."""
    captured = list(found)
    records = [{"type": "header", "schema": "metrics/1", **header}, *(_record(one) for one in captured)]
    files.write_lines(folder / FILE, records, "metrics/1")
    (folder / FOLDER).mkdir(exist_ok=True)
    for old in (folder / FOLDER).glob("*.csv"):
        old.unlink()
    return [write_csv(folder / FOLDER / f"{one.name}.csv", one) for one in captured]


def _record(one: Captured) -> dict[str, Any]:
    return {
        "type": "metric",
        "name": one.name,
        "query": one.query,
        "unit": one.unit,
        "help": one.help,
        "per": list(one.per),
        "error": one.error or None,
        "series": [
            {"labels": dict(each.labels), "moments": list(each.moments), "values": list(each.values)}
            for each in one.series
        ],
    }


def write_csv(path: Path, one: Captured) -> str:
    """Write a row for each moment and series; return the name of the file."""
    labels = sorted({name for each in one.series for name in each.labels})
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8", newline="") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(["epoch", "since_start_s", *labels, one.name])
        for each in one.series:
            named = [each.labels.get(name, "") for name in labels]
            for moment, value in zip(each.moments, each.values, strict=True):
                out.writerow([f"{moment:.3f}", f"{moment - one.begin:.3f}", *named, "" if value is None else value])
    os.replace(temporary, path)
    return path.name


def read(path: Path, simulated: bool = False) -> dict[str, Captured]:
    """Read metrics.jsonl. Raises DataError for one of another schema version."""
    lines = files.read_lines(path)
    header = next(lines, {})
    if header.get("schema") != "metrics/1":
        raise DataError(f"{path}: schema '{header.get('schema')}', expected metrics/1; capture the metrics again")
    found = {}
    for record in lines:
        series = [Series(measured["labels"], measured["moments"], measured["values"]) for measured in record["series"]]
        found[record["name"]] = Captured(
            record["name"],
            record["query"],
            record["unit"],
            record["help"],
            series,
            header["from"],
            header["to"],
            header["step"],
            record.get("error") or "",
            simulated,
            tuple(record.get("per") or ()),
        )
    return found
