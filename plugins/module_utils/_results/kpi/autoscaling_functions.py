# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions over inference servers: until new ones answer, and how an autoscaler follows a load that rises.

The load rises at the begin of the last step with a higher rate before more servers are wanted; a load without steps
rises when it begins. Each time lies between two looks at the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from .point_data import INTENDED, KpiValue, NoFigure, PointData, kpi_function
from .request_functions import FIRST, LAST, requests_within_slo, require_request_figures

#: A change of the number of servers: (seconds after the start of the load: the look before, the look after), count.
Step = tuple[tuple[float, float], int]
#: Stages of the first new pod, in their order.
POD_STAGES = ("created", "scheduled", "started", "ready")
#: Stage of the first answer after there was no server.
FIRST_ANSWER = "first_token"
#: Seconds without a successful look after which nobody knows how the servers followed.
LONGEST_BLIND = 3.0
Bounds = tuple[float, float]


def watched_changes(data: PointData) -> Sequence[Mapping[str, Any]]:
    """Return the changes of the number of servers during a load that was watched from its begin to its end.

    Raises NoFigure if nobody watched it, if it was interrupted, or if the looks failed for long.
    """
    changes = require_request_figures(data).scale
    if not changes:
        raise NoFigure(KpiValue(None, 0, 0, note="the number of servers was not watched", inapplicable=True))
    if any(change["since"] is None and change["at"] > 0 for change in changes):
        note = "the load was interrupted, so how its servers followed is not known"
        raise NoFigure(KpiValue(None, 0, 0, note=note))
    spans = [change["at"] - max(0.0, change["since"]) for change in changes if change["type"] in ("failed", "blind")]
    longest = max(spans, default=0.0)
    if longest > LONGEST_BLIND:
        note = (
            f"the looks at the servers failed for {formats.format_duration(longest)}, so how they followed is not known"
        )
        raise NoFigure(KpiValue(None, 0, 0, note=note))
    return changes


def _bounds(change: Mapping[str, Any]) -> Bounds:
    """Return the looks around a change; what the first look found was there before the load."""
    at = float(change["at"])
    return (min(0.0, at), min(0.0, at)) if change["since"] is None else (float(change["since"]), at)


def desired_servers_over_time(changes: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Return how many servers were wanted, from each change on; empty if nobody says it."""
    known: dict[str, int] = {}
    steps: list[Step] = []
    for change in changes:
        if change["type"] == "desired":
            known[change["name"]] = change["replicas"]
            steps.append((_bounds(change), sum(known.values())))
    return steps


def ready_servers_over_time(changes: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Return how many servers were ready, from each change on."""
    ready: set[str] = set()
    steps: list[Step] = []
    for change in changes:
        if change["type"] != "pod":
            continue
        before = len(ready)
        if change["stage"] == "ready":
            ready.add(change["pod"])
        elif change["stage"] in ("unready", "gone"):
            ready.discard(change["pod"])
        if len(ready) != before:
            steps.append((_bounds(change), len(ready)))
    return steps


@dataclass(frozen=True)
class ScaleUp:
    """How the number of servers followed a load that rose ``began`` seconds after its start.

    stages: stage -> looks around the moment at which it was first reached, in seconds after the rise: desired, those of
    the first new pod, and all_ready. before, wanted: the number of servers that were wanted when the load rose, and at
    most. ready: the most that were ready.
    """

    began: float
    stages: Mapping[str, Bounds]
    before: int
    wanted: int
    ready: int


def _load_rise_times(data: PointData) -> list[float]:
    """Return when the load rose, in seconds after its start."""
    rises, moment, rate = [0.0], 0.0, float("inf")
    for each, seconds in data.extras.steps:
        if each > rate:
            rises.append(moment)
        moment, rate = moment + seconds, each
    return rises


def _count_at(steps: Sequence[Step], moment: float) -> int:
    """Return the number of servers at a moment: 0 before the first change."""
    return next((count for (_since, at), count in reversed(steps) if at <= moment), 0)


def how_servers_followed_load(data: PointData) -> ScaleUp:
    """Return how the servers followed the load. Raises NoFigure if they were not watched or did not grow in number."""
    changes = watched_changes(data)
    ready = ready_servers_over_time(changes)
    # Of pods that nobody counts in advance, as many are wanted as become ready.
    wanted = desired_servers_over_time(changes) or ready
    grown = [(bounds, count) for (bounds, count), before in zip(wanted[1:], wanted, strict=False) if count > before[1]]
    grown = [(bounds, count) for bounds, count in grown if bounds[1] > 0]
    if not grown:
        raise NoFigure(KpiValue(None, 0, 0, note="the number of servers did not grow during the load"))
    first = grown[0][0]
    began = max(rise for rise in _load_rise_times(data) if rise <= max(0.0, first[1]))
    most = max(count for _bounds, count in grown)
    reached: dict[str, Bounds] = {}
    if desired_servers_over_time(changes):
        reached["desired"] = first
    old = {change["pod"] for change in changes if change["type"] == "pod" and change["at"] <= max(0.0, began)}
    for stage in POD_STAGES:
        found = [
            _bounds(change)
            for change in changes
            if change["type"] == "pod" and change["stage"] == stage and change["pod"] not in old
        ]
        if found:
            reached[stage] = min(found)
    complete = next((bounds for bounds, count in ready if count >= most and bounds[1] > began), None)
    if complete is not None:
        reached["all_ready"] = complete
    stages = {stage: (max(0.0, low - began), max(0.0, high - began)) for stage, (low, high) in reached.items()}
    return ScaleUp(
        began, stages, _count_at(wanted, began), most, max(count for _bounds, count in ready or [(first, 0)])
    )


def count_missed_during_scale_up(data: PointData, scale: ScaleUp) -> tuple[int, int]:
    """Return how many requests that were due from the rise until all servers were ready missed the objective; of how
    many. Until the end of the load, if they never were."""
    kept, _share, _text = requests_within_slo(data)
    due = data.stage_bounds(INTENDED)[0]
    end = scale.began + scale.stages["all_ready"][1] if "all_ready" in scale.stages else float("inf")
    meanwhile = (due >= scale.began) & (due < end)
    return int((meanwhile & ~kept).sum()), int(meanwhile.sum())


def _first_answer_from_zero(data: PointData, scale: ScaleUp) -> KpiValue:
    """Return the time from the rise of the load until the first token of a request that was due after it.

    It is known whose answer it is only if no server was ready when the load rose.
    """
    if _count_at(ready_servers_over_time(watched_changes(data)), scale.began):
        note = "answers do not say which server they come from, and one was ready when the load rose"
        return KpiValue(None, 0, 0, note=note, inapplicable=True)
    due, (earliest, latest) = data.stage_bounds(INTENDED)[0], data.stage_bounds(FIRST)
    answered = (due >= scale.began) & ~data.np.isnan(latest)
    if not answered.any():
        waited = max(0.0, data.end - data.start - scale.began)
        return KpiValue(None, 0, 1, note="no request was answered", at_least=waited, **data.provenance(FIRST))
    low, high = (float(moments[answered].min()) - scale.began for moments in (earliest, latest))
    return KpiValue((low + high) / 2, 1, 1, interval=(low, high), **data.provenance(FIRST))


@kpi_function
def scale_up_time(data: PointData, stage: str) -> KpiValue:
    """Seconds from when the load rose until ``stage`` was first reached: desired (more servers were wanted), created,
    scheduled, started and ready (the first new pod), or all_ready (as many as were wanted at most). Its bounds are two
    looks. Or until the first_token of a server, if none was ready when the load rose."""
    known = ("desired", *POD_STAGES, FIRST_ANSWER, "all_ready")
    if stage not in known:
        raise formats.unknown_value_error("stage", stage, known)
    scale = how_servers_followed_load(data)
    if stage == FIRST_ANSWER:
        return _first_answer_from_zero(data, scale)
    provenance = data.provenance(LAST)
    if stage not in scale.stages:
        if stage != "all_ready":
            return KpiValue(None, 0, 1, note="no new server reached it", **provenance)
        note = f"{scale.ready:,} of {formats.format_count(scale.wanted, 'server')} were ready at most"
        waited = max(0.0, data.end - data.start - scale.began)
        return KpiValue(None, 0, 1, note=note, at_least=waited, labels=_labels(data, scale), **provenance)
    low, high = scale.stages[stage]
    note, labels = "", {}
    if stage == "all_ready":
        labels = _labels(data, scale)
        parts = [f"{name} {formats.format_duration(sum(bounds) / 2)}" for name, bounds in scale.stages.items()]
        note = f"first: {', '.join(part for part in parts if not part.startswith('all_ready'))}"
    return KpiValue((low + high) / 2, 1, 1, interval=(low, high), note=note, labels=labels, **provenance)


def _labels(data: PointData, scale: ScaleUp) -> dict[str, str]:
    """Return the words of the answer."""
    labels = {"servers": f"{scale.before:,} to {formats.format_count(scale.wanted, 'server')}", "missed": ""}
    try:
        first = _first_answer_from_zero(data, scale).value
        if first is not None:
            labels["missed"] = f", and the first token came after {formats.format_duration(first)}"
        missed, of = count_missed_during_scale_up(data, scale)
    except NoFigure:
        return labels
    labels["missed"] += f"; {missed:,} of {formats.format_count(of, 'request')} due meanwhile missed the objective"
    return labels


@kpi_function
def scale_up_missed(data: PointData) -> KpiValue:
    """Share (%) of requests, due from the rise of the load until all servers were ready, that missed the objective."""
    missed, of = count_missed_during_scale_up(data, how_servers_followed_load(data))
    return KpiValue(100 * missed / of if of else None, of, of, **data.provenance(LAST))


@kpi_function
def most_servers(data: PointData) -> KpiValue:
    """The most servers that were ready at a time during the load."""
    changes = watched_changes(data)
    ready = ready_servers_over_time(changes)
    most = max((count for _bounds, count in ready), default=0)
    wanted = max((count for _bounds, count in desired_servers_over_time(changes)), default=most)
    return KpiValue(float(most), 1, 1, note=f"{wanted:,} were wanted at most", **data.provenance(LAST))


def _stages_of_new_servers(data: PointData) -> Mapping[str, Sequence[float]]:
    """Return the stages of the servers that the run deployed at this point. Raises NoFigure if there are none."""
    deployment = require_request_figures(data).deployment
    if not deployment:
        raise NoFigure(KpiValue(None, 0, 0, note="the run did not deploy the servers", inapplicable=True))
    stages: Mapping[str, Sequence[float]] = deployment.get("stages") or {}
    if not stages:
        note = "the servers were there already, those of an earlier point or attempt"
        raise NoFigure(KpiValue(None, 0, 0, note=note))
    return stages


@kpi_function
def first_request_time(data: PointData) -> KpiValue:
    """The time to the first token of the first request to servers that the run deployed at this point, in seconds.

    Of several URLs, which get their first requests one after the other, the longest.
    """
    _stages_of_new_servers(data)
    if require_request_figures(data).deployment.get("earlier_servers"):
        note = "a server of an earlier point or attempt stayed, and may have answered the request"
        return KpiValue(None, 0, 0, note=note)
    seconds = require_request_figures(data).first_requests
    if not seconds:
        return KpiValue(None, 0, 0, note="an earlier version of the collection did not record it")
    note = "one request before the load and the warm-up"
    if len(seconds) > 1:
        note = f"the longest of {len(seconds):,} servers; {note} to each"
    return KpiValue(max(seconds), len(seconds), len(seconds), note=note, **data.provenance(LAST))


@kpi_function
def time_to_ready(data: PointData) -> KpiValue:
    """The time from applying the servers' objects until all servers answered, in seconds; its bounds are two looks."""
    stages = _stages_of_new_servers(data)
    low, high = stages["answers"]
    before = [f"{stage} {formats.format_duration(sum(stages[stage]) / 2)}" for stage in stages if stage != "answers"]
    note = f"after: {', '.join(before)}"
    return KpiValue((low + high) / 2, 1, 1, interval=(low, high), note=note, **data.provenance(LAST))
