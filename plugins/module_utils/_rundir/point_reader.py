# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the files of a test point, complete or interrupted.

Missing and truncated files are no errors: ``notes`` lists what was left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _format

#: A line that contains this is an event; the few others are read in a first pass.
_EVENT = b'"type":"event"'
#: The decoder of json.loads alone, which is faster; a line is one record and its newline, as our writers write it.
_decode = json.JSONDecoder().raw_decode


@dataclass
class SentWorkload:
    """The ledger's record of one workload. Times in seconds on the point's clock."""

    name: str = ""
    kind: str = ""
    attempts: int = 0  # to create the workload itself
    intended: float | None = None
    sent: float | None = None  # the first attempt for it, or for an object that comes with it
    answered: float | None = None  # of the attempt that decided
    outcome: str = ""  # of the last attempt; "refused" when an object that comes with it was
    uid: str | None = None
    created: tuple[str, float, float] | None = None  # resourceVersion, sent, answered of our own create


@dataclass
class PointInputs:
    """The files of a point without the events, which are read as a stream."""

    folder: Path
    plan: dict[str, Any] = field(default_factory=dict)  # header line
    planned: list[dict[str, Any]] = field(default_factory=list)
    sent: dict[int, SentWorkload] = field(default_factory=dict)
    #: Workloads that were stopped at the end of their lifetime: index -> first request sent, the last one answered.
    stops: dict[int, tuple[float, float]] = field(default_factory=dict)
    started: float | None = None
    anchor: dict[str, Any] | None = None
    kinds: dict[str, Any] = field(default_factory=dict)
    simulated_writers: list[str] | None = None
    writes: list[tuple[str, float, float]] = field(default_factory=list)  # own writes: resourceVersion, sent, answered
    revision_probes: list[tuple[str, float, float]] = field(default_factory=list)  # etcd's revision, sent, answered
    gaps: list[dict[str, Any]] = field(default_factory=list)
    #: Of a load that others submitted: how it was followed, its workloads, (stated second, sent, answered) of replies.
    follows: dict[str, Any] | None = None
    adopted: list[dict[str, Any]] = field(default_factory=list)
    server_times: list[tuple[str, float, float]] = field(default_factory=list)
    separate_kinds: set[str] = field(default_factory=set)  # in a separate etcd: resourceVersions not comparable
    watched_from: float | None = None
    ended: float | None = None
    notes: list[str] = field(default_factory=list)


def lines(path: Path, notes: list[str], events: bool | None = None) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSON-lines file. events: only events (True), all but events (False), all (None).

    A truncated last line is ignored. Damaged lines in the middle are skipped and counted in ``notes``.
    """
    if not path.exists():
        notes.append(f"{path.name} is missing")
        return
    damaged = 0
    with open(path, "rb") as stream:
        for raw in stream:
            if events is not None and (_EVENT in raw) is not events:
                continue
            if not raw.endswith(b"\n"):
                notes.append(f"the last line of {path.name} is truncated: its writer was killed")
                break
            try:
                text = raw.decode()
                record, end = _decode(text)
            except ValueError:
                damaged += 1
                continue
            if end == len(text) - 1 and isinstance(record, dict):
                yield record
            else:
                damaged += 1
    if damaged:
        notes.append(f"{_format.count(damaged, 'damaged line')} of {path.name} left out")


def read(folder: Path) -> PointInputs:
    """Read the plan, the ledger, and the observations except the events."""
    inputs = PointInputs(folder)
    for record in lines(folder / "plan.jsonl", inputs.notes):
        if record.get("type") == "header":
            inputs.plan = record
        elif record.get("type") == "workload":
            inputs.planned.append(record)
    count = inputs.plan.get("count")
    if count is not None and count != len(inputs.planned):
        announced = _format.count(count, "workload")
        inputs.notes.append(f"plan.jsonl announces {announced} but contains {len(inputs.planned):,}")
    _read_ledger(inputs)
    absent, inputs.notes = inputs.notes, []
    _read_observations(inputs)
    # Others have no plan and no ledger.
    inputs.notes = inputs.notes if inputs.follows is not None else absent + inputs.notes
    return inputs


def _read_ledger(inputs: PointInputs) -> None:
    names = {row["index"]: row["name"] for row in inputs.planned}
    related = _related(inputs)
    asked: dict[int, float] = {}  # when a stop was first requested
    for record in lines(inputs.folder / "ledger.jsonl", inputs.notes):
        kind = record.get("type")
        if kind == "attempt":
            own = names.get(record["index"], record["name"]) == record["name"] and record["kind"] not in related
            _attempt(inputs.sent.setdefault(record["index"], SentWorkload()), record, own)
            if record["outcome"] == "created" and record.get("resource_version"):
                inputs.writes.append((record["resource_version"], record["sent"], record["answered"]))
        elif kind == "stop":
            began = asked.setdefault(record["index"], record["sent"])
            if record["status"] in (200, 202, 404):
                inputs.stops[record["index"]] = (began, record["answered"])
        elif kind == "start" and inputs.started is None:
            inputs.started = record["at"]
        elif kind == "session" and inputs.anchor is None:
            inputs.anchor = record["anchor"]


def _related(inputs: PointInputs) -> set[str]:
    """Return the kinds of objects created with a workload, such as a ConfigMap of the same name."""
    of = inputs.plan.get("templates", [])
    return {kind for one in of for kind in one.get("related", [])} - {one.get("kind") for one in of}


def _attempt(sent: SentWorkload, record: dict[str, Any], own: bool) -> None:
    """Add one attempt: the first one determines the lateness, the last one the outcome."""
    if sent.sent is None:
        sent.intended, sent.sent = record["intended"], record["sent"]
    if not own:
        if record["outcome"] == "refused":
            sent.outcome = "refused"  # the workload itself is then not attempted
        return
    sent.attempts += 1
    sent.name, sent.kind, sent.outcome = record["name"], record["kind"], record["outcome"]
    sent.answered = record["answered"] if record["status"] else None
    sent.uid = record.get("uid") or sent.uid
    if record["outcome"] == "created" and record.get("resource_version"):
        sent.created = (record["resource_version"], record["sent"], record["answered"])


def _read_observations(inputs: PointInputs) -> None:
    offset = 0.0
    for record in lines(inputs.folder / "observations.jsonl", inputs.notes, events=False):
        kind = record.get("type")
        if kind == "session":
            inputs.anchor = inputs.anchor or record["anchor"]
            offset = shift(record["anchor"], inputs.anchor)
        elif kind in ("canary", "sounding"):
            probes = inputs.writes if kind == "canary" else inputs.revision_probes
            probes.append((record["resource_version"], record["sent"] + offset, record["answered"] + offset))
        elif kind == "gap":
            gap = {key: value for key, value in record.items() if key != "type"}
            inputs.gaps.append({**gap, "from": record["from"] + offset, "to": record["to"] + offset})
        elif kind == "follows":
            inputs.follows = record
        elif kind == "workload":
            inputs.adopted.append(record)
        elif kind == "server_time":
            inputs.server_times.append((record["stated"], record["sent"] + offset, record["answered"] + offset))
        elif kind == "store" and not record["ruler"]:
            inputs.separate_kinds.add(record["kind"])
        elif kind == "stages":
            inputs.kinds = {**inputs.kinds, **record["kinds"]}
            inputs.simulated_writers = record["simulated_writers"]
        elif kind == "watching" and inputs.watched_from is None:
            inputs.watched_from = record["at"] + offset
        elif kind == "end":
            inputs.ended = record["at"] + offset


def shift(anchor: dict[str, Any], to: dict[str, Any] | None) -> float:
    """Return the seconds to add to times of the clock ``anchor`` to convert them to the clock ``to``.

    Exact within one boot, from the monotonic readings; otherwise 0, because both are wall time.
    """
    if not to or not anchor.get("boot") or anchor["boot"] != to.get("boot"):
        return 0.0
    return (to["wall"] - to["monotonic"]) - (anchor["wall"] - anchor["monotonic"])


def events(inputs: PointInputs) -> Iterator[tuple[float, dict[str, Any]]]:
    """Yield (receive time on the point's clock, event) in the order of the file."""
    path = inputs.folder / "observations.jsonl"
    if not path.exists():
        return
    offset = 0.0
    damaged: list[str] = []
    for record in lines(path, damaged, events=None):
        if record["type"] == "event":
            yield record["received"] + offset, record
        elif record["type"] == "session":
            offset = shift(record["anchor"], inputs.anchor)


def rows(inputs: PointInputs) -> list[dict[str, Any]]:
    """Return index, name, kind, template and offset of each planned workload; without a plan, of each in the ledger.

    Of a load that others submitted: of each workload that was seen, with its uid.
    """
    if inputs.follows is not None:
        nothing = {"template": "", "offset": None}
        return [{**{key: one[key] for key in ("index", "name", "kind", "uid")}, **nothing} for one in inputs.adopted]
    kinds = {str(one.get("name", "")): str(one.get("kind", "")) for one in inputs.plan.get("templates", [])}
    usual = next((sent.kind for sent in inputs.sent.values() if sent.kind), next(iter(kinds.values()), ""))
    found = []
    for row in inputs.planned:
        sent = inputs.sent.get(row["index"])
        kind = (sent.kind if sent else "") or kinds.get(row["template"]) or usual
        found.append(
            {
                "index": row["index"],
                "name": row["name"],
                "kind": kind,
                "template": row["template"],
                "offset": row["offset"],
            }
        )
    if not found:
        for index, sent in sorted(inputs.sent.items()):
            found.append({"index": index, "name": sent.name, "kind": sent.kind, "template": "", "offset": None})
    return found
