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
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import escape_csv_row

FILE = "metrics.jsonl"
#: Folder of a point with one CSV file per query.
FOLDER = "metrics"


@dataclass(frozen=True)
class MetricSeries:
    """One series: its labels, moments in seconds since the epoch, and values (None: not a number)."""

    labels: Mapping[str, str]
    moments: Sequence[float]
    values: Sequence[float | None]


@dataclass(frozen=True)
class CapturedMetric:
    """The result of a query over the time of a point, in seconds since the epoch. ``error``: why there is none."""

    name: str
    query: str
    unit: str
    help: str
    series: Sequence[MetricSeries] = ()
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

        moments = sorted({moment for series in self.series for moment in series.moments})
        if not moments:
            return numpy.empty(0), numpy.empty(0)
        place = {moment: number for number, moment in enumerate(moments)}
        grid = numpy.full((len(self.series), len(moments)), nan)
        for row, series in enumerate(self.series):
            for moment, value in zip(series.moments, series.values, strict=True):
                grid[row, place[moment]] = nan if value is None else value
        known = ~numpy.isnan(grid).all(axis=0)
        functions: dict[str, Any] = {
            "sum": numpy.nansum,
            "mean": numpy.nanmean,
            "max": numpy.nanmax,
            "min": numpy.nanmin,
        }
        return numpy.array(moments)[known], functions[across](grid[:, known], axis=0)

    def title(self, series: MetricSeries) -> str:
        """Return the title of a series: the values of its distinguishing labels."""
        names = [name for name in self.per if name in series.labels] or list(series.labels)
        return ", ".join(str(series.labels[name]) for name in names) or self.name

    def document(self) -> dict[str, Any]:
        """Return the series as plain data, for JMESPath."""
        series = [{"labels": dict(entry.labels), "values": list(entry.values)} for entry in self.series]
        return {"unit": self.unit, "query": self.query, "series": series}


def write_metrics_files(folder: Path, header: Mapping[str, Any], metrics: Iterable[CapturedMetric]) -> list[str]:
    """Write metrics.jsonl and metrics/<name>.csv into the folder of a point; return the names of the CSV files."""
    captured = list(metrics)
    records = [
        {"type": "header", "schema": "metrics/1", **header},
        *(_metric_as_json_record(metric) for metric in captured),
    ]
    files.write_json_lines(folder / FILE, records, "metrics/1")
    (folder / FOLDER).mkdir(exist_ok=True)
    for old in (folder / FOLDER).glob("*.csv"):
        old.unlink()
    return [write_metric_csv(folder / FOLDER / f"{metric.name}.csv", metric) for metric in captured]


def _metric_as_json_record(metric: CapturedMetric) -> dict[str, Any]:
    return {
        "type": "metric",
        "name": metric.name,
        "query": metric.query,
        "unit": metric.unit,
        "help": metric.help,
        "per": list(metric.per),
        "error": metric.error or None,
        "series": [
            {"labels": dict(each.labels), "moments": list(each.moments), "values": list(each.values)}
            for each in metric.series
        ],
    }


def write_metric_csv(path: Path, metric: CapturedMetric) -> str:
    """Write a row for each moment and series; return the name of the file."""
    labels = sorted({name for each in metric.series for name in each.labels})
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8", newline="") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(escape_csv_row(["epoch", "since_start_s", *labels, metric.name]))
        for each in metric.series:
            named = escape_csv_row(each.labels.get(name, "") for name in labels)
            for moment, value in zip(each.moments, each.values, strict=True):
                out.writerow([f"{moment:.3f}", f"{moment - metric.begin:.3f}", *named, "" if value is None else value])
    os.replace(temporary, path)
    return path.name


def read_metrics_jsonl(path: Path, simulated: bool = False) -> dict[str, CapturedMetric]:
    """Read metrics.jsonl. Raises DataError for one of another schema version."""
    lines = files.read_json_lines(path)
    header = next(lines, {})
    if header.get("schema") != "metrics/1":
        raise DataError(f"{path}: schema '{header.get('schema')}', expected metrics/1; capture the metrics again")
    metrics = {}
    for record in lines:
        series = [
            MetricSeries(measured["labels"], measured["moments"], measured["values"]) for measured in record["series"]
        ]
        metrics[record["name"]] = CapturedMetric(
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
    return metrics
