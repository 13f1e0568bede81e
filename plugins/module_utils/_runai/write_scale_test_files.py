# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the files of the Run:ai scale-test tool from a timeline, for the tool's plotter.

A stage of a timeline is an interval; the tool needs a moment: the midpoint of the interval narrowed by the stage order.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from math import isnan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._runai import scale_test_formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir import stage_interval_narrowing
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.timeline_table import Table

#: Workloads that were never created have no row.
_NEVER_THERE = ("refused", "unsent", "lost")
_NEEDED = (
    scale_test_formats.CREATED,
    "firstPodCreatedTimestamp",
    "lastPodCreatedTimestamp",
    scale_test_formats.DECISION,
)


def stamps(spans: stage_interval_narrowing.Spans, row: int) -> dict[str, float] | None:
    """Return key of sampled.json -> time of a workload; None unless it has every object that the tool requires.

    Missing timestamps get the tool's sentinel. Without pod groups on the platform, the time of the last pod is used.
    """
    found: dict[str, float] = {}
    for key, (stages, _of_server) in scale_test_formats.STAMPS.items():
        span = next((spans[one] for one in stages if one in spans and not isnan(spans[one][1][row])), None)
        if span is not None:
            found[key] = float(span[0][row] + span[1][row]) / 2
    if any(key not in found for key in _NEEDED):
        return None
    return found | {key: found[other] for key, other in scale_test_formats.SENTINELS.items() if key not in found}


def _deltas(moments: Mapping[str, float]) -> list[float]:
    """Return the differences of the last columns of times.csv, in seconds.

    They are never negative: a claim created before its workload did not wait for it, and a sentinel has no duration.
    """
    return [round(max(moments[key] - moments[since], 0.0), 6) for key, since in scale_test_formats.DELTAS.values()]


def _names(table: Table, row: int) -> dict[str, str]:
    project = table.template[row] or "default"  # a template is named after its project
    name = scale_test_formats.job_name(table.index[row])
    return {"jobName": name, "projectName": project, "jobNamespace": f"runai-{project}"}


def submitted(table: Table) -> list[dict[str, str]]:
    """Return the rows of submitted.json: created workloads in submission order, keys in the tool's order."""
    rows = [row for row in range(len(table)) if table.outcome[row] not in _NEVER_THERE]
    rows = [row for row in rows if not isnan(table.moments["sent"][row])]
    rows.sort(key=lambda row: table.moments["sent"][row])
    return [
        {**_names(table, row), scale_test_formats.SUBMIT: scale_test_formats.iso(table.moments["sent"][row])}
        for row in rows
    ]


def sampled(table: Table) -> list[dict[str, str]]:
    """Return the rows of sampled.json: workloads with every object, keys and time formats as the tool's."""
    found, spans = [], stage_interval_narrowing.spans(table)
    for row in range(len(table)):
        moments = stamps(spans, row)
        if moments is None:
            continue
        names = _names(table, row)
        entry = {key: names[key] for key in scale_test_formats.SAMPLED_KEYS[:3]}
        for key, (_stages, of_server) in scale_test_formats.STAMPS.items():
            entry[key] = scale_test_formats.whole(moments[key], of_server)  # sentinels included
        found.append(entry)
    return found


def times(table: Table) -> Iterator[list[Any]]:
    """Yield the rows of times.csv: a header, then 26 values per workload, differences in seconds."""
    yield [*scale_test_formats.MOMENT_COLUMNS, *scale_test_formats.DELTAS]
    spans = stage_interval_narrowing.spans(table)
    for row in range(len(table)):
        found = stamps(spans, row)
        if found is None or isnan(table.moments["sent"][row]):
            continue
        moments = {**found, scale_test_formats.SUBMIT: table.moments["sent"][row]}
        names = _names(table, row)
        shown = [names[key] for key in scale_test_formats.SAMPLED_KEYS[:3]]
        shown += [
            scale_test_formats.plain(moments[key]) for key in (*scale_test_formats.STAMPS, scale_test_formats.SUBMIT)
        ]
        yield [*shown, *_deltas(moments)]


def _csv(rows: Iterator[list[Any]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def write(table: Table, folder: Path) -> dict[str, int]:
    """Write the files of a point to ``folder``; return the number of workloads in each JSON file."""
    folder.mkdir(parents=True, exist_ok=True)
    sent, seen = submitted(table), sampled(table)
    # The tool's format: one array on one line, a space after each colon and comma, no newline at the end.
    _files.replace_text(folder / scale_test_formats.SUBMITTED, json.dumps(sent))
    _files.replace_text(folder / scale_test_formats.SAMPLED, json.dumps(seen))
    _files.replace_text(folder / scale_test_formats.TIMES, _csv(times(table)))
    names = ([scale_test_formats.job_name(index), name] for index, name in zip(table.index, table.name, strict=True))
    _files.replace_text(folder / scale_test_formats.NAMES, _csv(iter([["jobName", "name"], *names])))
    return {scale_test_formats.SUBMITTED: len(sent), scale_test_formats.SAMPLED: len(seen)}
