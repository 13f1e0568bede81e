# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of a workload, those of its own object and those of its pods: their order, and one interval for each.

Definitions come as data from the ``stages`` line of observations.jsonl. A stage of a pod becomes two stages of the
workload: ``pods_running_first`` (the first pod reached it) and ``pods_running`` (all pods did).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

#: How a workload's stage is derived from those of its objects.
OWN, FIRST, LAST, ALL = "own", "first", "last", "all"
#: Most stages that the kinds of a point have: each has columns, figures and a panel of plots.
MOST_STAGES = 500


@dataclass(frozen=True)
class TimelineStage:
    """One stage in a timeline.

    name: in the timeline. kind, defined: the object's kind and the name that its definition uses. which: own, first,
    last or all. writer: the component that makes the transition. simulated: whether its writer, or one that it waits
    for, is simulated; pages and plots call a stage simulated by this field only. ends: outcome, or None. needs: stages
    and writers that it waits for.
    """

    name: str
    kind: str
    defined: str
    which: str
    writer: str
    simulated: bool
    ends: str | None = None
    needs: tuple[str, ...] = ()

    def header(self) -> dict[str, Any]:
        """Return the stage as in the header of a timeline."""
        return {
            "name": self.name,
            "kind": self.kind,
            "writer": self.writer,
            "simulated": self.simulated,
            "ends": self.ends,
            "needs": list(self.needs),
        }


def timeline_stage_name(kind: str, defined: str, which: str, own: Iterable[str]) -> str:
    """Return the timeline name of the stage ``defined`` of ``kind``, for workloads of the kinds ``own``."""
    if kind in own:
        return defined
    prefix = kind.lower()
    bare = defined[len(prefix) + 1 :] if defined.startswith(f"{prefix}_") else defined
    name = f"pods_{bare}" if kind == "Pod" else f"{prefix}_{bare}"
    return f"{name}_{which}" if which in (FIRST, LAST) else name


def stages_from_definitions(
    kinds: Mapping[str, Any], own: Iterable[str], simulated_writers: Iterable[str]
) -> list[TimelineStage]:
    """Return the stages of workloads of the kinds ``own`` in the order in which a workload reaches them.

    kinds: kind -> {"stages": [{name, writer, depends_on, ends}]}. ``depends_on`` names stages of the same kind,
    ``Kind.name`` (all objects of that kind), ``Kind.name_first`` (the first of them), or a writer (any of its work).
    Without ``depends_on`` a stage of another object waits for the workload's own; with an empty list it waits only for
    sending. A final stage of the own object decides the outcome; that of a pod does not, unless pods are the workload.
    """
    if (number := sum(len(body.get("stages") or []) for body in kinds.values())) > MOST_STAGES:
        raise DataError(f"its kinds have {number:,} stages, and {MOST_STAGES} are the most of a timeline")
    owned, simulating = set(own), set(simulated_writers)
    stages: dict[str, TimelineStage] = {}
    free: set[str] = set()
    for kind, body in kinds.items():
        for definition in body.get("stages") or []:
            ends = definition.get("ends") if kind in owned else None
            for which in _stage_reductions(kind, definition, owned):
                name = timeline_stage_name(kind, definition["name"], which, owned)
                writer = str(definition.get("writer") or "")
                needs = _prerequisite_stages(kind, definition, kinds, owned, which)
                simulated = not simulating.isdisjoint((writer, *needs))
                stages.setdefault(
                    name, TimelineStage(name, kind, definition["name"], which, writer, simulated, ends, needs)
                )
                if definition.get("depends_on") == []:
                    free.add(name)
    rooted = {name: stage if name in free else _normalize_needs(stage, stages, owned) for name, stage in stages.items()}
    return sort_stages_topologically(_drop_implied_needs(stage, rooted) for stage in rooted.values())


def _stage_reductions(kind: str, definition: Mapping[str, Any], own: set[str]) -> tuple[str, ...]:
    """Return the reductions of a stage: first and all for pods, first for failures, unless ``gang`` overrides them.

    ``last`` is the last object that reached the stage; ``all`` has no value until the whole gang reached it.
    """
    if kind in own:
        return (OWN,)
    usual = [FIRST] if definition.get("ends") == "failed" else [FIRST, ALL] if kind == "Pod" else [ALL]
    asked = definition.get("gang") or usual
    return tuple(which for which in (FIRST, LAST, ALL) if which in asked)


def _prerequisite_stages(
    kind: str, definition: Mapping[str, Any], kinds: Mapping[str, Any], own: set[str], which: str
) -> tuple[str, ...]:
    """Return the needed stages by timeline name. The first pod waits for the first object of the stage before."""
    asked = definition.get("depends_on") or []
    names = []
    for text in [asked] if isinstance(asked, str) else asked:
        of, dot, stage = str(text).rpartition(".")
        if not dot or of not in kinds:
            of, stage = kind, str(text)
        known = {other["name"]: other for other in kinds[of].get("stages") or []}
        bare = stage.removesuffix("_first")
        if stage in known:
            same = of == kind or which in _stage_reductions(of, known[stage], own)
            names.append(timeline_stage_name(of, stage, which if same else ALL, own))
        elif bare in known:
            names.append(timeline_stage_name(of, bare, FIRST, own))
        else:
            names.append(stage)  # a writer
    return tuple(names)


def _normalize_needs(stage: TimelineStage, stages: Mapping[str, TimelineStage], own: set[str]) -> TimelineStage:
    """Drop undefined needs; let the stages of a workload's children wait at least for the workload."""
    writers = {other.writer for other in stages.values()}
    needs = tuple(name for name in stage.needs if (name in stages and name != stage.name) or name in writers)
    if not any(name in stages for name in needs) and stage.kind not in own:
        roots = [other.name for other in stages.values() if other.kind in own and not other.needs]
        needs = (*roots[:1], *needs)
    return replace(stage, needs=needs)


def _drop_implied_needs(stage: TimelineStage, of: Mapping[str, TimelineStage]) -> TimelineStage:
    """Drop needs that another need implies. Writers stay: they may act even after the last of these stages."""
    needs = {name: other.needs for name, other in of.items()}
    behind = {name: stage_with_ancestors(name, needs) for name in stage.needs if name in of}

    def covered(name: str) -> bool:
        return any(
            name != other and name in names and other not in behind.get(name, ()) for other, names in behind.items()
        )

    return replace(stage, needs=tuple(name for name in stage.needs if not covered(name)))


def sort_stages_topologically(stages: Iterable[TimelineStage]) -> list[TimelineStage]:
    """Return the stages in topological order of their needs, with final stages as late as possible."""
    left = sorted(stages, key=lambda stage: stage.ends is not None)  # stable: else as defined
    placed: list[TimelineStage] = []
    names: set[str] = set()
    present = {stage.name for stage in left}
    while left:
        ready = next(
            (stage for stage in left if all(name in names or name not in present for name in stage.needs)), left[0]
        )
        left.remove(ready)
        placed.append(ready)
        names.add(ready.name)
    return placed


def stage_with_ancestors(name: str, needs: Mapping[str, Iterable[str]]) -> set[str]:
    """Return ``name`` and all stages that it waits for, directly or indirectly, without writers."""
    seen: set[str] = set()
    open_ = [name]
    while open_:
        stage = open_.pop()
        if stage not in seen:
            seen.add(stage)
            open_ += [other for other in needs.get(stage, ()) if other in needs]
    return seen


def stages_between(start: str, end: str, needs: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the stages and writers that determine the time from ``start`` to ``end``.

    ``start`` may be something before all stages. needs: stage -> stages and writers that it waits for.
    """
    stages = stage_with_ancestors(end, needs) - (stage_with_ancestors(start, needs) if start in needs else set())
    return stages | {other for stage in stages for other in needs.get(stage, ()) if other not in needs}


class StageReducer:
    """The two columns of a stage, and the rule by which the times of single objects are combined in them."""

    def __init__(self, stage: TimelineStage, table: TimelineTable) -> None:
        self.stage = stage
        self.first, self.last = table.earliest[stage.name], table.latest[stage.name]
        self.count = [0] * len(table) if stage.which == ALL else None

    def reach(self, row: int, earliest: float, latest: float) -> None:
        """Record that an object of the workload in ``row`` reached the stage within [earliest, latest]."""
        first, last = self.first, self.last
        if self.count is not None:
            self.count[row] += 1
        if isnan(first[row]):
            first[row], last[row] = earliest, latest
        elif self.stage.which in (ALL, LAST):
            first[row], last[row] = max(first[row], earliest), max(last[row], latest)
        elif self.stage.which == FIRST:
            first[row], last[row] = min(first[row], earliest), min(last[row], latest)
        else:  # our own create was answered: a watch event can only narrow the interval
            first[row], last[row] = max(first[row], earliest), min(last[row], latest)

    def clear_incomplete_gangs(self, members: list[int]) -> None:
        """Clear the stage of incomplete gangs: rows in which fewer than ``members`` objects reached it."""
        for row, count in enumerate(self.count or ()):
            if count < members[row]:
                self.first[row] = self.last[row] = nan
