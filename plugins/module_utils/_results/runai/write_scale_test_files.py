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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import stage_interval_narrowing
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import Table

from . import scale_test_formats

#: Workloads that were never created have no row.
_NEVER_THERE = ("refused", "unsent", "lost")
_NEEDED = (
    scale_test_formats.CREATED,
    "firstPodCreatedTimestamp",
    "lastPodCreatedTimestamp",
    scale_test_formats.DECISION,
)


@dataclass(frozen=True)
class Stamps:
    """The times of a workload, in seconds. ``sentinels``: timestamps with the value of another one, as not measured."""

    moments: dict[str, float]
    sentinels: frozenset[str]

    def deltas(self) -> dict[str, float | None]:
        """Return event -> seconds since the event that it is counted from, never negative; None for a sentinel."""
        moments = self.moments
        found: dict[str, float | None] = {}
        for event, (key, reference) in scale_test_formats.EVENTS.items():
            since = scale_test_formats.timestamp_of(reference)
            known = key not in self.sentinels
            found[event] = round(max(moments[key] - moments[since], 0.0), 6) if known else None
        return found


def stamps(table: Table, spans: stage_interval_narrowing.Spans, row: int) -> Stamps | None:
    """Return the times of a workload; None unless it has every object that the tool requires.

    Missing timestamps get the tool's sentinel. Without a job of the platform, the time of the workload is used, and
    without a pod group the time of the last pod.
    """
    found: dict[str, float] = {}
    for key, (stages, _of_server) in scale_test_formats.STAMPS.items():
        span = next((spans[one] for one in stages if one in spans and not isnan(spans[one][1][row])), None)
        if span is not None:
            found[key] = float(span[0][row] + span[1][row]) / 2
    sent = table.moments["sent"][row]
    if any(key not in found for key in _NEEDED):
        return None
    replaced = {**scale_test_formats.FALLBACKS, **scale_test_formats.SENTINELS}
    missing = {key: found[other] for key, other in replaced.items() if key not in found}
    return Stamps({**found, **missing, scale_test_formats.SUBMIT: sent}, frozenset(missing))


def _names(table: Table, row: int) -> dict[str, str]:
    project = table.template[row] or "default"  # a template is named after its project
    name = scale_test_formats.job_name(table.index[row])
    return {"jobName": name, "projectName": project, "jobNamespace": f"runai-{project}"}


def submission_order(table: Table) -> list[int]:
    """Return the rows of workloads that were sent, in submission order."""
    rows = [row for row in range(len(table)) if not isnan(table.moments["sent"][row])]
    return sorted(rows, key=lambda row: table.moments["sent"][row])


def submitted(table: Table) -> list[dict[str, str]]:
    """Return the rows of submitted.json: created workloads in submission order, keys in the tool's order."""
    rows = [row for row in submission_order(table) if table.outcome[row] not in _NEVER_THERE]
    return [
        {**_names(table, row), scale_test_formats.SUBMIT: scale_test_formats.iso(table.moments["sent"][row])}
        for row in rows
    ]


def sampled(table: Table) -> list[dict[str, str]]:
    """Return the rows of sampled.json: workloads with every object, keys and time formats as the tool's."""
    found, spans = [], stage_interval_narrowing.narrowed_spans(table)
    for row in range(len(table)):
        seen = stamps(table, spans, row)
        if seen is None:
            continue
        names = _names(table, row)
        entry = {key: names[key] for key in scale_test_formats.SAMPLED_KEYS[:3]}
        for key, (_stages, of_server) in scale_test_formats.STAMPS.items():
            entry[key] = scale_test_formats.whole(seen.moments[key], of_server)  # sentinels included
        found.append(entry)
    return found


def measured(table: Table, skip_errors: bool = True) -> list[tuple[int, Stamps]]:
    """Return (row, times) of the workloads with every object, in submission order.

    skip_errors: leave out workloads whose times contradict each other.
    """
    spans = stage_interval_narrowing.narrowed_spans(table)
    rows = [row for row in submission_order(table) if not (skip_errors and row in table.contradictions)]
    return [(row, seen) for row in rows if (seen := stamps(table, spans, row)) is not None]


def times(table: Table, of: Sequence[tuple[int, Stamps]]) -> Iterator[list[Any]]:
    """Yield the rows of times.csv: a header, then 26 values per workload, differences in seconds (0 of a sentinel)."""
    yield [*scale_test_formats.MOMENT_COLUMNS, *(f"{event} (s)" for event in scale_test_formats.EVENTS)]
    for row, seen in of:
        names = _names(table, row)
        shown = [names[key] for key in scale_test_formats.SAMPLED_KEYS[:3]]
        keys = (*scale_test_formats.STAMPS, scale_test_formats.SUBMIT)
        shown += [scale_test_formats.plain(seen.moments[key]) for key in keys]
        yield [*shown, *(delta or 0.0 for delta in seen.deltas().values())]


def _csv(rows: Iterable[list[Any]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def write(table: Table, folder: Path, skip_errors: bool = True) -> dict[str, int]:
    """Write the files of a point to ``folder``; return the number of workloads in each JSON file."""
    folder.mkdir(parents=True, exist_ok=True)
    sent, seen = submitted(table), sampled(table)
    # The tool's format: one array on one line, a space after each colon and comma, no newline at the end.
    files.replace_text(folder / scale_test_formats.SUBMITTED, json.dumps(sent))
    files.replace_text(folder / scale_test_formats.SAMPLED, json.dumps(seen))
    files.replace_text(folder / scale_test_formats.TIMES, _csv(times(table, measured(table, skip_errors))))
    names = ([scale_test_formats.job_name(index), name] for index, name in zip(table.index, table.name, strict=True))
    files.replace_text(folder / scale_test_formats.NAMES, _csv([["jobName", "name"], *names]))
    return {scale_test_formats.SUBMITTED: len(sent), scale_test_formats.SAMPLED: len(seen)}
