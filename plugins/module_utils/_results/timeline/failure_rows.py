# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of failures.jsonl: what was injected, when it was over, and how nodes changed meanwhile.

All moments are in seconds after the start of the load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader

from .pod_lifetimes import NEVER, Span

FILE = "failures.jsonl"
#: Kinds that hit no pods, but the control plane or a kubelet.
CONTROLLER_RESTARTED = "controller_restarted"
KUBELET_RESTARTED = "kubelet_restarted"
OF_CONTROL_PLANE = (CONTROLLER_RESTARTED, "etcd_slow", "api_away", KUBELET_RESTARTED)
#: A worker cluster is away, to which the cluster of the load had dispatched workloads.
WORKER_AWAY = "worker_away"
#: Seconds after its duration until a guard ends a failure at the latest, if its load was killed.
_GUARDED = 5.0
#: Fields of rows that are moments.
_MOMENTS = ("intended", "sent", "answered", "received", "at")


@dataclass
class Injection:
    """A failure of one target. pods: rows of those that it is to hit. left: namespace/name of pods that it did not hit.

    undone: when it was over; NEVER if nothing undid it.
    """

    number: int
    kind: str
    target: str
    injected: Span
    duration: float = 0.0
    pods: Sequence[Mapping[str, Any]] = ()
    left: Sequence[str] = ()
    undone: Span = NEVER


@dataclass
class FailureRows:
    """The rows of one point, sorted. nodes: rows ``node``, each with the span in which the node changed."""

    injections: list[Injection] = field(default_factory=list)
    nodes: list[tuple[Mapping[str, Any], Span]] = field(default_factory=list)
    skipped: int = 0
    notes: list[str] = field(default_factory=list)


def read_failure_rows(folder: Path, anchor: Any, start: float, notes: list[str]) -> list[dict[str, Any]]:
    """Return the rows of the point in ``folder``, those of all sessions on one clock.

    Args:
        folder: Directory of the point.
        anchor: Of the clock of the point.
        start: Start of the load on that clock.
        notes: Gets what can't be read.
    """
    rows: list[dict[str, Any]] = []
    shift = -start
    for row in point_reader.read_json_lines(folder / FILE, notes):
        if row.get("type") == "session":
            shift = point_reader.shift_between_clocks(row["anchor"], anchor) - start
        else:
            rows.append({key: value + shift if key in _MOMENTS else value for key, value in row.items()})
    return rows


def group_failure_rows(
    rows: Iterable[Mapping[str, Any]], date_node: Callable[[Mapping[str, Any]], Span]
) -> FailureRows:
    """Sort the rows of a point by what they say.

    Args:
        rows: Rows of failures.jsonl.
        date_node: Returns the span in which the node of a row changed.
    """
    result = FailureRows()
    plans: dict[tuple[int, str], Mapping[str, Any]] = {}
    injections: dict[tuple[int, str], Injection] = {}
    for row in rows:
        key = (row.get("number", -1), row.get("target", ""))
        match row.get("type"):
            case "inject":
                plans[key] = row
            case "injected" if key in plans:
                injections[key] = _injection(plans[key], row)
            case "injected":
                result.notes.append(f"failure {key[0]} of {key[1]} is left out: its row inject is missing in {FILE}")
            case "undone" if key in injections:
                injections[key].undone = _moment_undone(injections[key], row)
            case "node":
                result.nodes.append((row, date_node(row)))
            case "skipped":
                result.skipped += 1
    result.injections = list(injections.values())
    return result


def _injection(plan: Mapping[str, Any], row: Mapping[str, Any]) -> Injection:
    return Injection(
        plan["number"],
        plan["kind"],
        plan["target"],
        (row["sent"], row["answered"]),
        float(plan.get("duration") or 0),
        plan.get("pods") or (),
        row.get("left") or (),
    )


def _moment_undone(failure: Injection, row: Mapping[str, Any]) -> Span:
    """Return when a failure was over: one whose load was killed had ended before a later call found nothing to undo."""
    undone = (row["sent"], row["answered"])
    if row.get("changed", True) or failure.kind == CONTROLLER_RESTARTED:
        return undone
    last = failure.injected[1]
    return last, min(undone[1], last + failure.duration + _GUARDED)
