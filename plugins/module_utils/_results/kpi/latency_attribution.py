# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attribute the latency of workloads to stages and their writers by the critical path.

For each workload that ended, the critical path is followed back from its end: from each stage to the latest of the
stages that it waits for, until the time at which the workload was due. The time between two stages on the path belongs
to the later one. So the parts of a workload add up to its total time, and the means of the parts to the mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import censored_quantiles
from .point_data import ENDED, INTENDED, SENT, PointData

#: Writer of the sending; its part is the lateness.
CLIENT = "client"
#: Slow workloads are those above this quantile of the total time.
SLOW = 0.95


@dataclass
class LatencyByStage:
    """Latency by stage: stage -> array of shape (rows,) in seconds, NaN for workloads that did not end.

    total: array of the total times, in seconds. on_path: stage -> number of critical paths on which it lies. waiting:
    (stage, workloads, mean seconds waited) of those that had not ended. writers: stage -> writer. simulated: the
    simulated stages, and the writers of those on a path. of: number of rows. order: stages in order.
    """

    stages: dict[str, Any]
    total: Any
    on_path: dict[str, int]
    waiting: list[tuple[str, int, float]]
    writers: dict[str, str]
    simulated: frozenset[str]
    of: int
    order: list[str] = field(default_factory=list)

    @property
    def n(self) -> int:
        """Number of workloads that ended."""
        return int((self.total == self.total).sum())

    def by_writer(self) -> dict[str, Any]:
        """Return writer -> array of seconds, in the order of the stages."""
        shares: dict[str, Any] = {}
        for stage in self.order:
            writer = self.writers[stage]
            shares[writer] = shares[writer] + self.stages[stage] if writer in shares else self.stages[stage]
        return shares


def attribute_latency_to_stages(data: PointData) -> LatencyByStage:
    """Return the attribution of a point. If no workload ended, all arrays are NaN.

    A load that others submitted begins with the creations, so that neither sending nor creating has a part.
    """
    np = data.np
    known = [stage["name"] for stage in data.table.stages]
    moment = {name: data.stage_midpoints(name) for name in known}
    sent = data.stage_midpoints(SENT)
    due = data.stage_bounds(INTENDED)[0]
    begin = np.where(np.isnan(due), sent, np.minimum(due, sent))
    end = data.stage_midpoints(ENDED) if data.knows(ENDED) else np.full(data.of, np.nan)
    there = ~np.isnan(end) & ~np.isnan(sent)
    on_path = {name: np.zeros(data.of, dtype=bool) for name in known}
    left = there.copy()
    for name in data.end_stages():
        on_path[name] = left & (np.abs(moment[name] - end) < 1e-9)
        left &= ~on_path[name]
    spent = {}
    for name in reversed(known):
        rows = on_path[name]
        before = _latest_prerequisite_times(data, name, moment, sent, rows, on_path)
        spent[name] = np.where(there, np.where(rows, moment[name] - before, 0.0), np.nan)
    stages = {SENT: np.where(there, sent - begin, np.nan), **{name: spent[name] for name in known}}
    left_out = {SENT, data.sent_is} if data.sent_is else set()
    order = [name for name in stages if name not in left_out and (name == SENT or on_path[name].any())]
    return LatencyByStage(
        {name: stages[name] for name in order},
        np.where(there, end - begin, np.nan),
        {name: int(there.sum()) if name == SENT else int(on_path[name].sum()) for name in order},
        _unfinished_workloads_by_stage(data, moment, sent, np.isnan(end)),
        {SENT: CLIENT, **data.writers},
        frozenset(data.simulated_stages | {data.writers[name] for name in order if name in data.simulated_stages}),
        data.of,
        order,
    )


def _latest_prerequisite_times(
    data: PointData, name: str, moment: Mapping[str, Any], sent: Any, rows: Any, on_path: Mapping[str, Any]
) -> Any:
    """Return per row the time of the last stage that ``name`` waited for, and mark that stage as on the path."""
    np = data.np
    needs = [need for need in data.needs.get(name, ()) if need in moment]
    if not needs:
        return sent
    came = np.array([np.where(np.isnan(moment[need]), -np.inf, moment[need]) for need in needs])
    last = came.argmax(axis=0)
    latest = came.max(axis=0)
    seen = np.isfinite(latest)
    for place, need in enumerate(needs):
        on_path[need][rows & seen & (last == place)] = True
    return np.where(seen, latest, sent)


def _unfinished_workloads_by_stage(
    data: PointData, moment: Mapping[str, Any], sent: Any, open_: Any
) -> list[tuple[str, int, float]]:
    """Return the workloads that had not ended by the first stage not reached although all of its needs were."""
    np = data.np
    left = open_ & ~np.isnan(sent) & data.waiting
    stop = max(data.end - data.start, 0.0)
    waits = []
    for stage in data.table.stages:
        name = stage["name"]
        if stage["ends"] == "failed" or name.endswith("_first"):
            continue
        came = [moment[need] for need in data.needs.get(name, ()) if need in moment] or [sent]
        since = np.maximum.reduce(came)
        rows = left & np.isnan(moment[name]) & ~np.isnan(since)
        if rows.any():
            waits.append((name, int(rows.sum()), float(np.maximum(stop - since[rows], 0.0).mean())))
            left &= ~rows
    return waits


def attribution_document(data: PointData, run: str, point: str) -> dict[str, Any]:
    """Return the attribution of a point as in schema attribution/1."""
    np = data.np
    attributed = attribute_latency_to_stages(data)
    total = float(np.nanmean(attributed.total)) if attributed.n else None
    slow = _mask_of_slowest_workloads(np, attributed.total)
    writers = attributed.by_writer()

    def shares(of: Mapping[str, Any], writer_of: Mapping[str, str]) -> list[dict[str, Any]]:
        rows = []
        for name, values in of.items():
            mean = float(np.nanmean(values))
            confidence = None
            if data.resampling is not None and attributed.n >= censored_quantiles.LEAST_ROWS:
                confidence = censored_quantiles.percentile_interval(
                    data.resampling.means(values), mean, data.resampling.method
                )
            writer = writer_of.get(name, name)
            row = {
                "name": name,
                "writer": writer,
                "simulated": name in attributed.simulated,
                "mean": mean,
                "share": mean / total if total else 0.0,
                "confidence": confidence.document() if confidence else None,
                "slowest": float(values[slow].mean()) if slow.any() else None,
            }
            if name in attributed.on_path:
                row["on_path"] = attributed.on_path[name]
            rows.append(row)
        return rows

    attribution = {
        "schema": "attribution/1",
        "run": run,
        "point": point,
        "n": attributed.n,
        "of": attributed.of,
        "total": total,
        "stages": shares(attributed.stages, attributed.writers) if attributed.n else [],
        "writers": shares(writers, {}) if attributed.n else [],
        "waiting": [{"name": name, "n": n, "mean": mean} for name, n, mean in attributed.waiting],
        "slowest": int(slow.sum()),
    }
    selection = data.table.header.get("selection")
    return {**attribution, **({"selection": selection} if selection else {})}


def _mask_of_slowest_workloads(np: Any, total: Any) -> Any:
    """Return a boolean array: rows at or above the quantile SLOW of those that ended."""
    known = ~np.isnan(total)
    if not known.any():
        return known
    return known & (np.where(known, total, -np.inf) >= np.quantile(total[known], SLOW))


def attribute_difference_to_stages(
    before: LatencyByStage, after: LatencyByStage, drawn_before: Any, drawn_after: Any, by: str = "stages"
) -> list[dict[str, Any]]:
    """Return the contribution of each stage (or writer) to the difference of the mean times of two runs, in seconds.

    drawn_*: their Resampling, or None. The parts add up to the difference. The intervals are bootstrap intervals of the
    difference of means, from independent samples of both runs.
    """
    import numpy as np

    first, second = (
        attribution.stages if by == "stages" else attribution.by_writer() for attribution in (before, after)
    )
    rows = []
    for name in _merge_names_in_order(first, second):
        means, draws = [], []
        for values, drawn in ((first.get(name), drawn_before), (second.get(name), drawn_after)):
            means.append(float(np.nanmean(values)) if values is not None else 0.0)
            if drawn is not None:
                draws.append(drawn.means(values) if values is not None else np.zeros(drawn.samples))
        confidence = None
        if len(draws) == 2:
            size = min(len(draws[0]), len(draws[1]))
            spread = draws[1][:size] - draws[0][:size]
            confidence = censored_quantiles.percentile_interval(
                spread, means[1] - means[0], "difference of block bootstraps"
            )
        writer = after.writers.get(name) or before.writers.get(name) or name
        rows.append(
            {
                "name": name,
                "writer": writer,
                "before": means[0],
                "after": means[1],
                "difference": means[1] - means[0],
                "confidence": confidence.document() if confidence else None,
                "simulated": name in before.simulated | after.simulated,
            }
        )
    return rows


def _merge_names_in_order(first: Iterable[str], second: Iterable[str]) -> list[str]:
    """Return the names of both, preserving the order of each where possible."""
    merged = list(first)
    place = 0
    for name in second:
        if name in merged:
            place = merged.index(name) + 1
        else:
            merged.insert(place, name)
            place += 1
    return merged
