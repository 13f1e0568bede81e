# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sampler: follows every kind, runs canary and revision probes, writes observations.jsonl, counts workloads."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    DataError,
    InputError,
    OwnershipError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender, session_line
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import discovery
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.partial_json_decoder import json_decoder_package

from ..kinds.sampling_spec import ExternalWorkloadSelection, SamplingSpec
from ..kinds.stage_definitions import OWNERS, KindStages
from . import kind_follower
from .etcd_revision_probes import CANARY, RevisionClockProbes
from .observation_writer import ObservationWriter
from .watch_multiplexer import GATHER, GATHER_BRIEFLY, Item, WatchMultiplexer
from .workload_by_owner import AdoptedWorkloads, OwnerIndex
from .workload_progress_and_waits import WorkloadTally

SCHEMA = "observations/1"
#: How long (seconds) to wait for a killed sampler of the same directory to end.
_PREDECESSOR = 10.0
#: Timeout for all watches to be established, seconds.
_ESTABLISH = 60.0
#: Interval between two requests for a kind that the server does not have yet, seconds.
_LATE_KINDS = 2.0
#: Number of requests for the API server's clock, and seconds between two: no divisor of a second, so that they bound it
#: by a fraction of one. Then seconds until the next of them, because clocks drift.
_SERVER_TIMES, _SERVER_TIME_PAUSE, _SERVER_TIME_AGAIN = 10, 0.37, 30.0


class Sampler:
    """Samples a load from watching() to close(). For one thread."""

    def __init__(self, client: Client, spec: SamplingSpec, clock: MonotonicWallClock) -> None:
        self._client = client
        self._absent = [kind for kind in spec.kinds if kind.optional and self._served_now(kind) is None]
        self.spec = replace(spec, kinds=tuple(kind for kind in spec.kinds if kind not in self._absent))
        self.clock = clock
        self.tally = WorkloadTally(completed=[] if spec.completions else None, reports=spec.reports)
        self.gaps = 0
        self._file = _open_locked_observations(spec.path)
        self._reader = WatchMultiplexer(GATHER_BRIEFLY if spec.completions or spec.reports else GATHER)
        self._rows: list[str] = []  # to be written together
        self._resumed_at = self._recall()
        self._followers: list[kind_follower.KindFollower] = []
        self._probes: RevisionClockProbes | None = None
        self._waiting: set[int] = set()
        self._late: list[int] = []  # numbers of the places whose kind the server does not have yet
        self._next_kinds = 0.0  # when it is asked for them again, time.monotonic()
        self._listed: dict[int, set[str]] = {}
        self._end: dict[str, Any] = {}
        self._server_times = 0  # requests left before a longer pause
        self._next_server_time = float("inf")  # time.monotonic()
        self._finished = False
        self._began_cpu = time.process_time()
        self._began_thread = time.thread_time()
        self._cpu_rows = 0.0  # seconds of processor time from received bytes to rows

    # Beginning

    def _recall(self) -> float | None:
        """Read what earlier sessions wrote; return the last time that they recorded, None without earlier sessions."""
        spec, write = self.spec, self._rows.append
        self.owners = OwnerIndex() if any(self._by_owners(kind) for kind in spec.kinds) else None
        self.adopted = None
        if spec.selection is not None:
            kinds = [kind.kind for kind in spec.kinds]
            self.adopted = AdoptedWorkloads(kinds[0], kinds, spec.selection.existing, write)
        #: One observer for each follower: each kind in each namespace.
        self._places = [(kind, namespace) for kind in spec.kinds for namespace in spec.namespaces]
        point = {run_labels.RUN: spec.run, run_labels.POINT: spec.point, **run_labels.client_label(spec.client)}
        self.observers = [
            ObservationWriter(sampled, sampled.kind in spec.own, self.tally, write, self.owners, self.adopted, point)
            for sampled, _namespace in self._places
        ]
        at = zip(self._places, self.observers, strict=True)
        of_place = {(sampled.kind, namespace): observer for (sampled, namespace), observer in at}
        last: float | None = None
        for record in files.read_json_lines(spec.path):
            last = record.get("received") or record.get("at") or record.get("answered") or last
            if record["type"] == "event":
                whole = len(spec.namespaces) == 1
                observer = of_place.get((record["kind"], spec.namespaces[0] if whole else record["namespace"]))
                if observer is not None:
                    observer.recall(record)
            elif self.adopted is not None:
                self.adopted.recall(record)
        return last

    def _by_owners(self, kind: KindStages) -> bool:
        """Return whether objects of a kind are found by their owners; our workloads themselves have our labels."""
        return (kind.select == OWNERS or self.spec.selection is not None) and kind.kind not in self.spec.own

    def _kept(self, kind: KindStages) -> discovery.ServedKind:
        """Return a kind in the first of its versions that the server has. Raises InputError."""
        for version in kind.api_versions[:-1]:
            try:
                return self._client.kind(version, kind.kind)
            except InputError:
                continue
        return self._client.kind(kind.api_versions[-1], kind.kind)

    def start(self) -> None:
        """Write the head of this session, find the kinds, start the canary and the watches.

        Raises InputError for a kind that the server does not have, unless others submit the load and may create it
        later, ApiError and AccessError.
        """
        spec = self.spec
        kinds = {} if spec.selection is not None else {kind.kind: self._kept(kind) for kind in spec.kinds}
        self._write(session_line(SCHEMA, spec.run, spec.point, self.clock, spec.client))
        definitions = {kind.kind: kind.definition for kind in spec.kinds}
        self._write({"type": "stages", "kinds": definitions, "simulated_writers": list(spec.simulated_writers)})
        if spec.selection is not None:
            self._write({"type": "follows", **asdict(spec.selection), "canary_rate": spec.canary_rate})
        if spec.canary_rate > 0:
            self._probes = RevisionClockProbes(self._client, spec, self.clock, self._reader, self._write)
        for number, (sampled, _namespace) in enumerate(self._places):
            served = kinds.get(sampled.kind) or self._served_now(sampled)
            if served is None:
                self._late.append(number)
            else:
                self._waiting.add(number)
                self._follow(number, served)
        self._next_kinds = time.monotonic() + _LATE_KINDS
        if self._probes is not None:
            self._probes.start()

    def _follow(self, number: int, served: discovery.ServedKind, patient: bool = False) -> None:
        """Start to list and watch a kind in a namespace."""
        spec = self.spec
        sampled, namespace = self._places[number]
        chosen = spec.selection or ExternalWorkloadSelection(
            labels=run_labels.workload_label_selector(spec.run, spec.point, spec.client)
        )
        labels, fields = ("", "") if self._by_owners(sampled) else (chosen.labels, chosen.fields)
        decode = self.observers[number].decode
        follower = kind_follower.KindFollower(
            number, self._client, served, namespace, labels, self._reader, decode, fields, patient
        )
        self._followers.append(follower)
        follower.start()

    def _served_now(self, sampled: KindStages) -> discovery.ServedKind | None:
        """Return a kind, None if the server does not have it; a load of others may create it later."""
        with contextlib.suppress(InputError):
            return self._kept(sampled)
        return None

    def _follow_late_kinds(self) -> None:
        """Follow the kinds that the server has got since it was last asked. All of their objects are of the load."""
        self._next_kinds = time.monotonic() + _LATE_KINDS
        late, self._late = self._late, []
        for number in late:
            sampled, served = self._places[number][0], None
            with contextlib.suppress(AccessError, ApiError):
                served = self._served_now(sampled)
            if served is None:
                self._late.append(number)
                continue
            if self.adopted is not None and sampled.kind in self.spec.own:
                self.adopted.take_all()
            self._follow(number, served, patient=True)

    def _record_server_time(self) -> None:
        """Record the second that the API server's clock shows, which bounds it (revision_and_server_clocks.py)."""
        self._server_times -= 1
        self._next_server_time = time.monotonic() + (_SERVER_TIME_PAUSE if self._server_times else _SERVER_TIME_AGAIN)
        self._server_times = self._server_times or _SERVER_TIMES
        try:
            reply = self._client.raw("GET", "/version")
        except AccessError:
            return  # the watches report it
        stated = _parse_http_date(reply.header("Date"))
        if stated is not None:
            moments = {"sent": reply.sent, "answered": reply.answered}
            row = {name: round(self.clock.from_monotonic(at), 6) for name, at in moments.items()}
            self._write({"type": "server_time", **row, "stated": f"{stated:%Y-%m-%dT%H:%M:%SZ}"})

    def watching(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Wait until every watch is established: from then on, every change is seen. Raises WaitTimeout."""
        deadline = time.monotonic() + _ESTABLISH
        while self._waiting and not stopped():
            if time.monotonic() > deadline:
                names = ", ".join(self._places[number][0].kind for number in sorted(self._waiting))
                raise WaitTimeout(
                    f"{self._client.access.server}: no watch on {names} was established within {_ESTABLISH:g} s"
                )
            self.process_events(0.1)
        if self.spec.selection is not None:
            self._server_times, self._next_server_time = _SERVER_TIMES, time.monotonic()
        if self._resumed_at is not None:
            gap = {"from": self._resumed_at, "to": self.clock.now(), "kind": "*"}
            self._write(
                {"type": "gap", **_round_row_floats(gap), "reason": "no sampler was running: an earlier one had ended"}
            )
            self.gaps += 1

    # In between

    def process_events(self, timeout: float) -> bool:
        """Process what was received; wait up to ``timeout`` seconds for it. Return whether there was anything.

        Raises the error that ended a follower.
        """
        if self._late and time.monotonic() >= self._next_kinds:
            self._follow_late_kinds()
        if time.monotonic() >= self._next_server_time:
            self._record_server_time()
        items = self._reader.take(timeout)
        began = time.thread_time()
        count, failure = 0, None
        try:
            for item in items:
                count += 1
                if item[1] == kind_follower.FAILED:
                    failure = failure or item[3]  # raised when the events of the other kinds have been processed
                else:
                    self._take(item)
        finally:
            self._flush()
        self._cpu_rows += time.thread_time() - began
        if failure is not None:
            raise failure
        return count > 0

    def settle(self, seconds: float, check: Callable[[], None], pause: float) -> None:
        """Process what is received within ``seconds``; call ``check``, which may raise, every ``pause`` seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            check()
            self.process_events(pause)

    def _take(self, item: Item) -> None:
        number, what, at, payload = item
        if number == CANARY:
            if what == kind_follower.WATCH and self._probes is not None:
                self._probes.received(at, payload[0])
            return
        observer = self.observers[number]
        moment = self.clock.from_monotonic(at)
        if what == kind_follower.WATCH:
            try:
                observer.watched(moment, *payload)
            except Exception as error:
                raise _error_naming_object(observer.kind.kind, payload[0].get("object"), error) from error
        elif what in (kind_follower.LIST, kind_follower.RELIST):
            present = self._listed.setdefault(number, set())
            for resource in payload:
                try:
                    present.add(resource["metadata"]["uid"])
                    observer.take(moment, what, "ADDED", resource)
                except Exception as error:
                    raise _error_naming_object(observer.kind.kind, resource, error) from error
        elif what == kind_follower.LISTED:
            observer.relisted(moment, payload[1], self._listed.pop(number, set()), payload[0])
            if payload[0] == kind_follower.LIST and self._probes is not None:
                self._probes.listed(observer.kind.kind, at, payload[1])
        elif what == kind_follower.WATCHING:
            self._flush()
            self._waiting.discard(number)
            row = {"at": round(moment, 6), "kind": observer.kind.kind, "resource_version": payload}
            self._write({"type": "watching", **row})
        elif what == kind_follower.GAP:
            self._flush()
            gap = {"from": self.clock.from_monotonic(payload[0]), "to": moment, "kind": observer.kind.kind}
            self._write({"type": "gap", **_round_row_floats(gap), "reason": payload[1]})
            self.gaps += 1

    def _write(self, record: dict[str, Any]) -> None:
        """Write a record now, from any thread. The thread of step() flushes before records that follow from events."""
        self._file.write(record)

    def _flush(self) -> None:
        """Write the rows of the events that were taken together."""
        if self._rows:
            self._file.write_rows(self._rows)
            self._rows.clear()

    @property
    def events(self) -> int:
        """Number of events so far."""
        return sum(observer.events for observer in self.observers)

    def sampling(self) -> dict[str, Any]:
        """Return cost and lag of the sampling, seconds. Call it after close()."""
        return {key: value for key, value in self._end.items() if key != "events"}

    def notes(self) -> list[str]:
        """Return remarks on the sampling for the user."""
        sentences = self._probes.notes() if self._probes is not None else []
        sentences += [
            f"the cluster has no {kind.kind} ({' or '.join(kind.api_versions)}): its stages are not measured"
            for kind in self._absent
        ]
        for kind in self.spec.kinds:
            sentences += kind.fault_notes()
        for name in dict.fromkeys(self._places[number][0].kind for number in self._late):
            sentences.append(f"the cluster has no {name} yet: its objects are seen from when it has")
        if self.owners is not None and self.owners.dropped:
            sentences.append(
                f"{self.owners.dropped} events were dropped because the owners of their objects were not seen in time: "
                f"the namespace has too many other changes"
            )
        return sentences

    # Ending

    def close(self, reason: str, patience: float = 5.0) -> None:
        """Stop watching, process what was received, write the last line, delete the canary. Safe to call twice."""
        if self._finished:
            return
        self._finished = True
        self._next_kinds = float("inf")  # step() must start no follower that is not closed below
        try:
            following = [*self._followers, *([self._probes.follower] if self._probes is not None else [])]
            for follower in following:
                follower.close()
            deadline = time.monotonic() + patience
            while any(follower.is_alive() for follower in following) and time.monotonic() < deadline:
                self._drain(0.05)
            while self._drain(0.0):
                pass
            cost = self._probes.close(deadline) if self._probes is not None else {}
            self._end = {"events": self.events, "cpu": round(time.process_time() - self._began_cpu, 6)}
            reading = time.thread_time() - self._began_thread + sum(follower.cpu for follower in following)
            self._end["cpu_events"] = round(reading, 6)
            self._end["cpu_rows"] = round(self._cpu_rows, 6)
            self._end["decoder"] = json_decoder_package()
            self._end.update(cost)
            self._write({"type": "end", "at": round(self.clock.now(), 6), "reason": reason, **self._end})
            self._file.sync()
        finally:
            self._reader.close()
            self._file.close()

    def _drain(self, timeout: float) -> bool:
        try:
            return self.process_events(timeout)
        except SeatrialError:
            return True  # an error after close(); the first error was reported


def _parse_http_date(text: str | None) -> datetime | None:
    """Return the time of a header Date, in UTC whatever its zone is; None if it is none."""
    try:
        return parsedate_to_datetime(text or "").astimezone(timezone.utc)
    except (IndexError, OverflowError, TypeError, ValueError):
        return None


def _error_naming_object(kind: str, resource: Any, error: Exception) -> DataError:
    metadata = resource.get("metadata") if isinstance(resource, dict) else None
    names = [metadata.get(key) for key in ("namespace", "name")] if isinstance(metadata, dict) else []
    why = error if isinstance(error, SeatrialError) else f"{type(error).__name__}: {error}"
    return DataError(f"{kind} {'/'.join(str(name) for name in names if name)} can't be read: {why}")


def _open_locked_observations(path: Path) -> JsonlAppender:
    """Open and lock the observations; wait for a predecessor that was just killed to end."""
    deadline = time.monotonic() + _PREDECESSOR
    while True:
        try:
            return JsonlAppender(path, SCHEMA, "sampler")
        except OwnershipError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _round_row_floats(row: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 6) if isinstance(value, float) else value for key, value in row.items()}
