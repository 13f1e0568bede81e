# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Query metrics over the time of each test point into metrics.jsonl and CSV files. Module metrics_capture calls it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

from . import metrics_file
from .prometheus import PrometheusClient, PrometheusServer, QueryError

REQUIRED, OPTIONAL = ("name", "query", "unit"), ("help", "labels")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
#: Maximum number of moments per query, and minimum step in seconds.
MOMENTS, LEAST_STEP = 300, 1.0
#: Default of {range}: this many steps, and at least this many seconds (four scrapes of 15 s).
RANGE_STEPS, LEAST_RANGE = 4, 60.0


def load_metric_queries(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Read queries from YAML files; a later query replaces one of the same name. Raises InputError naming the place."""
    return files.read_yaml_definitions(
        paths, "query", "queries", "metric_queries/1", REQUIRED, OPTIONAL, _check_metric_query
    )


def _check_metric_query(entry: Mapping[str, Any], where: str) -> None:
    if not _NAME.fullmatch(str(entry["name"])):
        raise InputError(
            f"{where}: a name consists of lower-case letters, digits and _, because a file is named after it"
        )


def point_time_window(point: Point, now: float) -> tuple[float, float] | None:
    """Return begin and end of a point in seconds since the epoch; ``now`` as the end of an unfinished one."""
    begin = _parse_timestamp(point.record.get("started"))
    if begin is None:
        return None
    return begin, max(_parse_timestamp(point.record.get("ended")) or now, begin + LEAST_STEP)


def _parse_timestamp(text: Any) -> float | None:
    moment = formats.parse_timestamp(text)
    return moment.timestamp() if moment else None


def replace_query_placeholders(query: str, names: Mapping[str, str]) -> str:
    """Return the query with {range}, {run} and other names replaced; braces of PromQL contain no bare name and stay."""
    for name, text in names.items():
        query = query.replace("{" + name + "}", text)
    return " ".join(query.split())


def capture_metrics_of_points(
    run_dir: str,
    server: PrometheusServer,
    files: Sequence[str],
    step: float = 0.0,
    look_back: float = 0.0,
    points: Iterable[str] = (),
    names: Mapping[str, str] | None = None,
    keep: bool = False,
) -> dict[str, Any]:
    """Write the metrics of the points. step, look_back: in seconds, 0 for values that fit the length of the point.

    keep: leave the metrics of the points that have values as they are, and add others.
    A refused query becomes a warning and an entry without values. Raises AccessError when the server does not answer.
    """
    run = run_reader.read_run_directory(Path(run_dir))
    queries = load_metric_queries(files)
    prometheus = PrometheusClient(server)
    warnings: list[str] = []
    rows: list[dict[str, Any]] = []
    for point in run_reader.points_with_numbers(run, points):
        when = point_time_window(point, time.time())
        if when is None:
            warnings.append(f"point {point.number} was not started: no metrics")
            continue
        begin, end = when
        earlier = point.folder / metrics_file.FILE
        kept = metrics_file.read_metrics_jsonl(earlier) if keep and earlier.is_file() else {}
        kept = {name: metric for name, metric in kept.items() if metric.series}
        each = step or max(LEAST_STEP, ceil((end - begin) / MOMENTS))
        # One file has one step.
        begin, end, each = next(
            ((metric.begin, metric.end, metric.step) for metric in kept.values()), (begin, end, each)
        )
        back = look_back or max(LEAST_RANGE, RANGE_STEPS * each)
        known = {"range": f"{back:.0f}s", "run": run.id, **(names or {})}
        fresh = {
            query["name"]: _capture_query(prometheus, query, known, (begin, end, each), warnings)
            for query in queries
            if query["name"] not in kept
        }
        metrics = list({**kept, **fresh}.values())
        header = {"run": run.id, "point": point.number, "server": server.shown, "from": begin, "to": end, "step": each}
        metrics_file.write_metrics_files(point.folder, header, metrics)
        rows.append(
            {"point": point.number, "metrics": len(metrics), "series": sum(len(metric.series) for metric in metrics)}
        )
    total = sum(row["series"] for row in rows)
    summary = f"{formats.format_count(len(queries), 'query', 'queries')} to {server.shown}: {total} series"
    return {"changed": bool(rows), "points": rows, "warnings": warnings, "summary": summary}


def _capture_query(
    prometheus: PrometheusClient,
    query: Mapping[str, Any],
    names: Mapping[str, str],
    when: tuple[float, float, float],
    warnings: list[str],
) -> metrics_file.CapturedMetric:
    text = replace_query_placeholders(query["query"], names)
    series: list[metrics_file.MetricSeries] = []
    trouble = ""
    try:
        series = prometheus.range(text, *when)
    except QueryError as error:
        trouble = str(error)
        warnings.append(f"metric {query['name']}: {trouble}")
    return metrics_file.CapturedMetric(
        query["name"],
        text,
        query["unit"],
        query.get("help", ""),
        series,
        *when,
        trouble,
        False,
        query.get("labels", ()),
    )
