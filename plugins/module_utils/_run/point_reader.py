# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the files of a test point, complete or interrupted.

Missing and truncated files are no errors: ``notes`` lists what was left out.

The files of a load by several clients are those of the clients one after another, each on its own clock. A clock is
then identified by client and boot, and every time that is read belongs to one of PointInputs.clocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    parse_finite_json,
    parse_json,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import partial_json_decoder

#: A line that contains this is an event; the few others are read in a first pass.
_EVENT = b'"type":"event"'
#: Outcome of an attempt in the ledger whose object exists, with our labels.
ALREADY_MINE = "already_mine"
#: Key of the clock of a load by one client.
ONE = ""


@dataclass(slots=True)
class WorkloadRow:
    """One workload of a timeline. ``offset``: due, in seconds after the start; None in a closed loop. uid: if known."""

    index: int
    name: str
    kind: str
    template: str
    offset: float | None
    uid: str | None = None


@dataclass(slots=True)
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
    #: Whether an object of it was found: a request of a killed session, which was not recorded, may have created it.
    found: bool = False
    #: Clock of intended and sent, and that of answered and created: another one if the client was made again.
    clock: str = ONE
    answered_clock: str = ONE


@dataclass
class ClientClock:
    """What the clock of one client has measured; times in seconds on this clock."""

    client: int | None = None  # None: the only one
    anchor: dict[str, Any] | None = None
    started: float | None = None
    watched_from: float | None = None
    ended: float | None = None
    writes: list[tuple[str, float, float]] = field(default_factory=list)  # own writes: resourceVersion, sent, answered
    revision_probes: list[tuple[str, float, float]] = field(default_factory=list)  # etcd's revision, sent, answered


@dataclass
class PointInputs:
    """The files of a point without the events, which are read as a stream."""

    folder: Path
    plan: dict[str, Any] = field(default_factory=dict)  # header line
    planned: list[WorkloadRow] = field(default_factory=list)  # without their kinds, which rows() fills in
    sent: dict[int, SentWorkload] = field(default_factory=dict)
    #: Workloads that were stopped at the end of their lifetime: index -> first request sent, the last one answered.
    #: With the clock of both. None: an earlier session may have sent one that was not recorded.
    stops: dict[int, tuple[float | None, float, str]] = field(default_factory=dict)
    #: Workloads with an index below the number were released: (number, first request sent, last one answered, clock).
    releases: list[tuple[int, float | None, float, str]] = field(default_factory=list)
    clocks: dict[str, ClientClock] = field(default_factory=lambda: {ONE: ClientClock()})
    kinds: dict[str, Any] = field(default_factory=dict)
    simulated_writers: list[str] | None = None
    gaps: list[tuple[dict[str, Any], str]] = field(default_factory=list)  # with the clock of its times
    lost: list[dict[str, Any]] = field(default_factory=list)  # clients whose files are missing
    #: Of a load that others submitted: how it was followed, its workloads, (stated second, sent, answered) of replies.
    follows: dict[str, Any] | None = None
    adopted: list[dict[str, Any]] = field(default_factory=list)
    server_times: list[tuple[str, float, float]] = field(default_factory=list)
    separate_kinds: set[str] = field(default_factory=set)  # in a separate etcd: resourceVersions not comparable
    notes: list[str] = field(default_factory=list)

    @property
    def anchor(self) -> dict[str, Any] | None:
        """Anchor of the only clock."""
        return self.clocks[ONE].anchor

    def clock_of(self, session: dict[str, Any]) -> tuple[str, float]:
        """Return the clock of a session, and the seconds to add to the times of the session."""
        client = session.get("client")
        key = ONE if client is None else f"{client}@{session['anchor'].get('boot', '')}"
        clock = self.clocks.setdefault(key, ClientClock(client))
        if clock.anchor is None:
            clock.anchor = session["anchor"]
        return key, shift_between_clocks(session["anchor"], clock.anchor)


def read_simulated_user_summary(folder: Path, notes: list[str]) -> dict[str, Any]:
    """Return users.json of the users in pods of the point in ``folder``; empty for other projects."""
    path = folder / "users" / "users.json"
    try:
        return dict(files.read_json(path)) if path.is_file() else {}
    except (DataError, OSError) as error:
        notes.append(str(error))
        return {}


def read_json_lines(
    path: Path, notes: list[str], events: bool | None = None, finite: bool = True
) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSON-lines file. events: only events (True), all but events (False), all (None).

    A truncated last line is ignored. Damaged lines in the middle are skipped and counted in ``notes``. finite: a line
    with a number that is not finite, which is no JSON, is damaged, too.
    """
    if not path.is_file():
        notes.append(f"{path.name} is missing")
        return
    damaged = 0
    decode = partial_json_decoder.create_document_decoder(None, parse_finite_json if finite else parse_json)
    with files.open_regular_file(path) as stream:
        for raw in files.lines_up_to_length(stream, path):
            if events is not None and (_EVENT in raw) is not events:
                continue
            if not raw.endswith(b"\n"):
                notes.append(f"the last line of {path.name} is truncated: its writer was killed")
                break
            try:
                record = decode(raw)
            except ValueError:
                damaged += 1
                continue
            if isinstance(record, dict):
                yield record
            else:
                damaged += 1
    if damaged:
        notes.append(f"{formats.format_count(damaged, 'damaged line')} of {path.name} left out")


def read_point_inputs(folder: Path) -> PointInputs:
    """Read the plan, the ledger, and the observations except the events."""
    inputs = PointInputs(folder)
    for record in read_json_lines(folder / "plan.jsonl", inputs.notes):
        if record.get("type") == "header":
            inputs.plan = record
        elif record.get("type") == "workload":
            name, template = record["name"], intern(record["template"])
            inputs.planned.append(WorkloadRow(record["index"], name, "", template, record["offset"]))
    count = inputs.plan.get("count")
    if count is not None and count != len(inputs.planned):
        announced = formats.format_count(count, "workload")
        inputs.notes.append(f"plan.jsonl announces {announced} but contains {len(inputs.planned):,}")
    _read_ledger(inputs)
    absent, inputs.notes = inputs.notes, []
    _read_observations(inputs)
    # Others have no plan and no ledger.
    inputs.notes = inputs.notes if inputs.follows is not None else absent + inputs.notes
    return inputs


def _read_ledger(inputs: PointInputs) -> None:
    names = {row.index: row.name for row in inputs.planned}
    related = _kinds_created_with_workload(inputs)
    asked: dict[int, float | None] = {}  # when a stop was first requested, None if that may not be recorded
    freed: dict[int, float | None] = {}  # the same of a release
    key = ONE
    began: set[int | None] = set()  # clients of which a session was read
    resumed = False
    for record in read_json_lines(inputs.folder / "ledger.jsonl", inputs.notes):
        kind = record.get("type")
        if kind == "attempt":
            index, planned = record["index"], names.get(record["index"], record["name"])
            own = planned == record["name"] and record["kind"] not in related
            write = None
            if record["outcome"] == "created" and record.get("resource_version"):
                write = (record["resource_version"], record["sent"], record["answered"])
                inputs.clocks[key].writes.append(write)
            sent = inputs.sent.get(index)
            if sent is None:
                sent = inputs.sent[index] = SentWorkload()
            _add_send_attempt(sent, record, own, planned, write, key)
        elif kind == "stop":
            # Who finds no object when first asking was not the first to ask.
            unknown = resumed or record["status"] == 404
            first = asked.setdefault(record["index"], None if unknown else record["sent"])
            if record["status"] in (200, 202, 404):
                inputs.stops[record["index"]] = (first, record["answered"], key)
        elif kind == "release":
            _add_release_attempt(inputs, record, freed, key, resumed)
        elif kind == "start" and inputs.clocks[key].started is None:
            inputs.clocks[key].started = record["at"]
        elif kind == "session":
            # A resumed submitter continues the clock of the boot, so the times need no shift.
            key, _offset = inputs.clock_of(record)
            resumed = record.get("client") in began
            began.add(record.get("client"))
        elif kind == "lost":
            inputs.lost.append(record)


def _add_release_attempt(
    inputs: PointInputs, record: dict[str, Any], asked: dict[int, float | None], clock: str, resumed: bool
) -> None:
    """Add one attempt to release workloads. resumed: whether an earlier session may have sent the same."""
    began = asked.setdefault(record["released"], None if resumed else record["sent"])
    if record["status"] == 200:
        inputs.releases.append((record["released"], began, record["answered"], clock))
        if began == record["sent"]:  # a repeated write changes nothing, and is answered with an old resourceVersion
            written = (record["resource_version"], record["sent"], record["answered"])
            inputs.clocks[clock].writes.append(written)


def _kinds_created_with_workload(inputs: PointInputs) -> set[str]:
    """Return the kinds of objects created with a workload, such as a ConfigMap of the same name."""
    templates = inputs.plan.get("templates", [])
    related = {kind for template in templates for kind in template.get("related", [])}
    return related - {template.get("kind") for template in templates}


def _add_send_attempt(
    sent: SentWorkload,
    record: dict[str, Any],
    own: bool,
    planned: str,
    write: tuple[str, float, float] | None,
    clock: str,
) -> None:
    """Add one attempt: the first one determines the lateness, the last one the outcome.

    planned: the name in the plan, which is kept once. write: of the record, if it created its object.
    """
    if sent.sent is None:
        sent.intended, sent.sent, sent.clock = record["intended"], record["sent"], clock
    sent.found = sent.found or record["outcome"] == ALREADY_MINE
    if not own:
        if record["outcome"] == "refused":
            sent.outcome = "refused"  # the workload itself is then not attempted
        return
    sent.attempts += 1
    sent.name, sent.kind, sent.outcome = planned, intern(record["kind"]), intern(record["outcome"])
    sent.answered, sent.answered_clock = record["answered"] if record["status"] else None, clock
    sent.uid = record.get("uid") or sent.uid
    sent.created = write or sent.created


def _read_observations(inputs: PointInputs) -> None:
    key, offset = ONE, 0.0
    path = inputs.folder / "observations.jsonl"
    if not path.is_file():
        inputs.notes.append(f"{path.name} is missing")
        return
    # read_events() notes what is damaged, here and in the events.
    for record in read_json_lines(path, [], events=False):
        kind = record.get("type")
        if kind == "session":
            key, offset = inputs.clock_of(record)
            continue
        clock = inputs.clocks[key]
        if kind in ("canary", "sounding"):
            probes = clock.writes if kind == "canary" else clock.revision_probes
            probes.append((record["resource_version"], record["sent"] + offset, record["answered"] + offset))
        elif kind == "gap":
            gap = {name: value for name, value in record.items() if name != "type"}
            inputs.gaps.append(({**gap, "from": record["from"] + offset, "to": record["to"] + offset}, key))
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
        elif kind == "watching" and clock.watched_from is None:
            clock.watched_from = record["at"] + offset
        elif kind == "end":
            clock.ended = record["at"] + offset


def shift_between_clocks(anchor: dict[str, Any], to: dict[str, Any] | None) -> float:
    """Return the seconds to add to times of the clock ``anchor`` to convert them to the clock ``to``.

    Exact within one boot, from the monotonic readings; otherwise 0, because both are wall time.
    """
    if not to or not anchor.get("boot") or anchor["boot"] != to.get("boot"):
        return 0.0
    return (to["wall"] - to["monotonic"]) - (anchor["wall"] - anchor["monotonic"])


def read_events(inputs: PointInputs) -> Iterator[tuple[float, str, dict[str, Any]]]:
    """Yield (receive time, its clock, event) in the order of the file; complete the notes of the inputs."""
    path = inputs.folder / "observations.jsonl"
    if not path.is_file():
        return
    key, offset = ONE, 0.0
    for record in read_json_lines(path, inputs.notes):
        if record["type"] == "event":
            yield record["received"] + offset, key, record
        elif record["type"] == "session":
            key, offset = inputs.clock_of(record)


def planned_workloads_with_kind(inputs: PointInputs) -> list[WorkloadRow]:
    """Return each planned workload with its kind; without a plan, each in the ledger.

    Of a load that others submitted: each workload that was seen, with its uid.
    """
    if inputs.follows is not None:
        return [
            WorkloadRow(workload["index"], workload["name"], workload["kind"], "", None, workload["uid"])
            for workload in inputs.adopted
        ]
    kinds = {
        str(template.get("name", "")): str(template.get("kind", "")) for template in inputs.plan.get("templates", [])
    }
    usual = next((sent.kind for sent in inputs.sent.values() if sent.kind), next(iter(kinds.values()), ""))
    for row in inputs.planned:
        sent = inputs.sent.get(row.index)
        row.kind = (sent.kind if sent else "") or kinds.get(row.template) or usual
    return inputs.planned or [
        WorkloadRow(index, sent.name, sent.kind, "", None)
        for index, sent in sorted(inputs.sent.items(), key=lambda pair: pair[0])
    ]
