# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: the workloads and their times, written before the first request, and its parts for several clients.

Workload ``index`` belongs to client ``index % clients``, so that every part has the same rate at any time. The plan
itself does not depend on the number of clients.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    suggest_similar_name,
)

from .arrival_times import ArrivalTimes
from .rendered_workload_templates import workload_name

SCHEMA = "plan/1"
#: Fields of the header that a resumed load must not change.
_BINDING = ("run", "point", "count", "seed", "arrival")
#: One shared object for workloads without parameters, because a plan may have 100,000 workloads.
_NO_PARAMETERS: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """One workload. ``offset``: seconds after the start of the load, None in a closed loop."""

    index: int
    name: str
    offset: float | None
    template: str
    parameters: dict[str, Any] = field(default_factory=lambda: _NO_PARAMETERS)


@dataclass(frozen=True)
class WorkloadPlan:
    """A header (schema plan/1) and one row per workload, by index."""

    header: dict[str, Any]
    workloads: list[PlannedWorkload]


def template_numbers_by_weight(weights: Sequence[int], count: int) -> list[int]:
    """Return the number of the template of each of ``count`` workloads, in proportion to ``weights``.

    Each time, the template furthest behind its share is chosen (the divisor method of Sainte-Laguë: the largest
    weight / (2 taken + 1), the first of equals), so that any part of the load has these proportions.
    """
    taken = [0] * len(weights)
    behind = [(-float(weight), number) for number, weight in enumerate(weights)]  # furthest behind first
    heapq.heapify(behind)
    chosen = []
    for _index in range(count):
        best = behind[0][1]
        taken[best] += 1
        heapq.heapreplace(behind, (-weights[best] / (2 * taken[best] + 1), best))
        chosen.append(best)
    return chosen


def assign_templates(arrivals: ArrivalTimes, names: Sequence[str], weights: Sequence[int]) -> list[str]:
    """Return the name of each workload's template: the one in the trace, else by weight.

    Raises InputError for an unknown template in the trace.
    """
    wrong = next((template for template in arrivals.templates if template and template not in names), None)
    if wrong is not None:
        raise InputError(f"the trace names template '{wrong}', which is not given{suggest_similar_name(wrong, names)}")
    templates = arrivals.templates or [""] * arrivals.count
    chosen = iter(template_numbers_by_weight(weights, templates.count("")))
    return [name or names[next(chosen)] for name in templates]


def plan_workloads(
    run: str,
    point: str,
    arrivals: ArrivalTimes,
    in_flight: int,
    seed: int | None,
    templates: list[dict[str, Any]],
    chosen: Sequence[str],
) -> WorkloadPlan:
    """Plan the workloads of ``arrivals``.

    templates: their headers, as Rendered.header() gives them. chosen: the template of each workload, see assigned().
    """
    header = {
        "type": "header",
        "schema": SCHEMA,
        "run": run,
        "point": point,
        "count": arrivals.count,
        "seed": seed,
        "arrival": arrivals.header,
        "in_flight": in_flight,
        "templates": templates,
    }
    workloads = [
        PlannedWorkload(index, workload_name(run, point, index), offset, template)
        for index, (offset, template) in enumerate(zip(arrivals.offsets, chosen, strict=True))
    ]
    return WorkloadPlan(header, workloads)


def use_workload_names_from_templates(plan: WorkloadPlan, names: Mapping[str, Callable[[int], str]]) -> None:
    """Use the names that templates give to workloads where they are no usual ones, as those of definitions.

    names: function that returns the name of a workload by its index, by template.
    """
    usual = {row.template: row for row in plan.workloads}
    if any(names[row.template](row.index) != row.name for row in usual.values()):
        plan.workloads[:] = [replace(row, name=names[row.template](row.index)) for row in plan.workloads]


def resolve_load_seed(path: Path, seed: int | None, drawn: bool) -> int | None:
    """Return the seed of a load: the given one, else that of its plan, else a new one if its arrivals are random."""
    if seed is not None or not drawn:
        return seed
    import secrets

    held = read_complete_plan(path).header["seed"] if path.exists() else None
    return held if held is not None else secrets.randbelow(2**32)


def write_whole_plan(path: Path, plan: WorkloadPlan) -> None:
    """Write the whole plan atomically and sync it, before the first request."""

    def records() -> Iterator[dict[str, Any]]:
        yield plan.header
        for workload in plan.workloads:
            yield {
                "type": "workload",
                "index": workload.index,
                "name": workload.name,
                "offset": workload.offset,
                "template": workload.template,
                "parameters": workload.parameters,
            }

    files.write_json_lines(path, records(), SCHEMA)


def read_plan_header(path: Path) -> dict[str, Any]:
    """Return the header of a plan, without its workloads. Raises DataError if it is missing or of another version."""
    try:
        header: dict[str, Any] = next(files.read_json_lines(path), {})
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    if header.get("schema") != SCHEMA:
        raise DataError(f"{path}: not a plan of schema {SCHEMA}")
    return header


def read_complete_plan(path: Path) -> WorkloadPlan:
    """Read a plan. Raises DataError if it is missing, of another version, or incomplete."""
    plan = read_plan_or_part(path)
    if len(plan.workloads) != plan.header["count"]:
        raise DataError(
            f"{path}: its header has {plan.header['count']} workloads, the file contains {len(plan.workloads)}"
        )
    return plan


def read_plan_or_part(path: Path) -> WorkloadPlan:
    """Read a plan or a part of one, whatever its number of workloads. Raises DataError as read() does."""
    try:
        rows = list(files.read_json_lines(path))
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    if not rows or rows[0].get("schema") != SCHEMA:
        raise DataError(f"{path}: not a plan of schema {SCHEMA}")
    workloads = [
        PlannedWorkload(row["index"], row["name"], row["offset"], row["template"], row["parameters"] or _NO_PARAMETERS)
        for row in rows[1:]
    ]
    return WorkloadPlan(rows[0], workloads)


def write_plan_or_compare(path: Path, plan: WorkloadPlan) -> bool:
    """Write ``plan``, or check that the file at ``path`` is the same; return whether it existed.

    Raises InputError naming the difference, because a point directory belongs to one load.
    """
    if not path.exists():
        write_whole_plan(path, plan)
        return False
    difference = _header_difference_text(read_complete_plan(path).header, plan.header)
    if difference:
        raise InputError(
            f"{path} is the plan of another load: {difference}. Resume the same load, or use a new point directory"
        )
    return True


def _header_difference_text(held: dict[str, Any], now: dict[str, Any]) -> str:
    """Return the difference of two headers as text, or an empty string."""
    for name in _BINDING:
        if held[name] != now[name]:
            return (
                f"its {name} is {_truncated_value_text(held[name])}, now it would be {_truncated_value_text(now[name])}"
            )
    before, after = ([template["name"] for template in header["templates"]] for header in (held, now))
    if before != after:
        return f"its templates are {', '.join(before)}, now they would be {', '.join(after)}"
    for old, new in zip(held["templates"], now["templates"], strict=True):
        for key in sorted((old.keys() | new.keys()) - {"sha256"}):
            if old.get(key) != new.get(key):
                what = (
                    f"has {key} {_truncated_value_text(old.get(key))}, now it would be"
                    f" {_truncated_value_text(new.get(key))}"
                )
                return f"template '{old['name']}' {what}"
        if old != new:
            return f"template '{old['name']}' has another text now"
    return ""


def _truncated_value_text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


@dataclass(frozen=True)
class ClientPart:
    """The part of one client, of ``clients``. Raises InputError for a client that does not exist."""

    client: int = 0
    clients: int = 1

    def __post_init__(self) -> None:
        if self.clients < 1:
            raise InputError(f"clients is {self.clients}, it must be 1 or more")
        if not 0 <= self.client < self.clients:
            raise InputError(
                f"client is {self.client}, it must be 0 to {self.clients - 1}, as clients is {self.clients}"
            )

    @property
    def whole(self) -> bool:
        """Whether there is only one client."""
        return self.clients == 1

    def has(self, index: int) -> bool:
        """Return whether a workload belongs to this part."""
        return index % self.clients == self.client

    def size(self, count: int) -> int:
        """Return the number of workloads of this part in a plan of ``count``."""
        return len(range(self.client, count, self.clients))


def plan_for_client(plan: WorkloadPlan, part: ClientPart) -> WorkloadPlan:
    """Return the part of a plan: its header and the workloads of the client."""
    return plan if part.whole else WorkloadPlan(plan.header, plan.workloads[part.client :: part.clients])


def read_client_part_file(path: Path, part: ClientPart) -> WorkloadPlan:
    """Read a part of a plan. Raises DataError if it is missing, of another version, or not this part."""
    plan = read_plan_or_part(path)
    wanted = part.size(plan.header["count"])
    if len(plan.workloads) != wanted or not all(part.has(workload.index) for workload in plan.workloads):
        raise DataError(
            f"{path}: not the part of client {part.client} of {part.clients}, which has {wanted} of "
            f"{plan.header['count']} workloads"
        )
    return plan


def check_clients_are_independent(plan: WorkloadPlan, clients: int) -> None:
    """Check that several clients can send a plan independently of each other.

    Raises InputError for a closed loop in which a workload waits for others: those of other clients.
    """
    arrival = plan.header["arrival"]
    waits = next((name for name in ("batch", "at_once") if arrival.get(name)), None)
    if clients > 1 and waits:
        raise InputError(
            f"an arrival with {waits} is a loop of one client, in which a workload waits for others: it cannot be "
            f"sent by {clients} clients"
        )
    if clients > max(1, plan.header["count"]):
        raise InputError(f"clients is {clients}, but there are only {plan.header['count']} workloads to send")
