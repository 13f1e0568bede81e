# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readings of the revision clock while a load is sampled: canary writes, revision probes, comparison of stores.

A revision probe reads etcd's current revision between two writes of the canary. API servers keep no watch cache for
Events. Listing an Event that does not exist is therefore read from etcd, and the resourceVersion of the list is etcd's
revision at some time between request and response. Earlier commits have at most this revision, later ones a larger one.
This gives the revision clock another reading for the price of reading one key, without a write to disk.

It requires that Events are stored in the same etcd, which is the default. A probe is therefore valid only if it lies
between the canary's writes before and after it. Probes are used after PROBATION valid ones in a row, and never again
after an invalid one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_requests import append_query_to_path
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_server_access import ApiServerAccess
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import (
    METADATA_LIST,
    ApiServerConnection,
    format_request_head,
    request_bytes,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.partial_json_decoder import (
    ANY,
    create_document_decoder,
)

from ..kinds.sampling_spec import SamplingSpec
from . import kind_follower
from .canary_lease import LEASE, VERSION, CanaryObjectWriter, PeriodicRequester
from .watch_multiplexer import WatchMultiplexer

EVENT = ServedKind("v1", "Event", "events", True)
#: Valid probes in a row before they are used: some probes of another etcd may be valid by chance.
PROBATION = 10

#: Receives sent and answered (time.monotonic()) and the revision.
Report = Callable[[float, float, str], None]


@dataclass(frozen=True)
class _RevisionProbe:
    sent: float
    answered: float
    version: int
    above: int  # resourceVersion of the canary's last write that was answered before the probe was sent


class ProbeValidator:
    """Reports probes that lie between the canary's writes. Called by two threads."""

    def __init__(self, report: Report) -> None:
        self.foreign = False  # Events are stored in another etcd
        self._report = report
        self._lock = threading.Lock()
        self._written = 0
        self._pending: deque[_RevisionProbe] = deque()
        self._valid: list[_RevisionProbe] = []
        self._trusted = False

    def written(self) -> int:
        """Return the resourceVersion of the canary's last answered write, 0 for none."""
        return self._written

    def probed(self, sent: float, answered: float, version: int, above: int) -> None:
        """Take a probe. ``above``: written() at the time it was sent."""
        with self._lock:
            if above and not self.foreign:
                self._pending.append(_RevisionProbe(sent, answered, version, above))

    def take_canary_write(self, sent: float, version: int) -> None:
        """Take a write of the canary, and report the probes for which it is the upper bound."""
        with self._lock:
            valid = self._bounded(sent, version)
            self._written = max(self._written, version)
        for probe in valid:
            self._report(probe.sent, probe.answered, str(probe.version))

    def _bounded(self, sent: float, version: int) -> list[_RevisionProbe]:
        while not self.foreign and self._pending and self._pending[0].answered <= sent:
            probe = self._pending.popleft()
            self.foreign = not probe.above <= probe.version < version
            self._valid.append(probe)
            self._trusted = self._trusted or len(self._valid) >= PROBATION
        if self.foreign:
            self._pending.clear()
            self._valid.clear()
        if not self._trusted:
            return []
        valid, self._valid = self._valid, []
        return valid


class RevisionProbes(PeriodicRequester):
    """Probes ``rate`` times a second from begin() until stop(), or until the probes are of another etcd."""

    def __init__(self, access: ApiServerAccess, name: str, namespace: str, rate: float, report: Report) -> None:
        super().__init__("revision probes", access, rate)
        path = append_query_to_path(EVENT.path(namespace), {"fieldSelector": f"metadata.name={name}", "limit": 1})
        self._namespace = namespace
        self._decode = create_document_decoder({"metadata": {"resourceVersion": ANY}})
        self._head = format_request_head(access, "GET", path, METADATA_LIST)
        self._validator = ProbeValidator(report)

    def take_canary_write(self, sent: float, version: int) -> None:
        """Take a write of the canary."""
        self._validator.take_canary_write(sent, version)

    def _send(self, connection: ApiServerConnection, number: int) -> None:
        above = self._validator.written()
        try:
            shown = self._access.authorization
            reply = connection.exchange(request_bytes(self._access, self._head))
            if reply.status == 401 and self._access.refresh(shown):
                connection.close()
        except AccessError:
            self._over.wait(0.5)  # the canary reports the reason
            return
        if reply.status == 200:
            self._took.append(reply.answered - reply.sent)
            version = self._decode(reply.body)["metadata"]["resourceVersion"]
            self._validator.probed(reply.sent, reply.answered, int(version), above)
        elif reply.status == 403:
            self.failure = f"stages are dated less precisely: no permission to list events in {self._namespace}"
        if self.failure or self._validator.foreign:
            self._over.set()

    def cost(self) -> dict[str, Any]:
        """Return number and duration of the probes and our processor time, seconds. Call it after stop()."""
        return self.cost_of("reads")


#: Number of the follower that watches the canary.
CANARY = -1


class RevisionClockProbes:
    """Created by the thread that samples, which starts the watch. Any thread calls ``write`` with rows."""

    def __init__(
        self,
        client: Client,
        spec: SamplingSpec,
        clock: MonotonicWallClock,
        reader: WatchMultiplexer,
        write: Callable[[dict[str, Any]], None],
    ) -> None:
        """Create the canary and watch it. Raises ApiError and AccessError."""
        self._clock = clock
        self._reader = reader
        self._write = write
        self._rate = spec.canary_rate
        self._canary = CanaryObjectWriter(
            client, spec.run, spec.point, spec.canary_namespace, spec.canary_rate, self._report_canary, spec.client
        )
        self._canary.create()
        name, namespace = self._canary.object_name, self._canary.namespace
        self._probes = RevisionProbes(client.access, name, namespace, spec.canary_rate, self._report_probe)
        self._stores: dict[str, tuple[float, str]] = {}  # kind of unknown etcd -> time of its list, revision
        # The time until its writes arrive as events is the lag of the sampler.
        self.follower = kind_follower.KindFollower(
            CANARY,
            client,
            LEASE,
            namespace,
            self._canary.selector,
            reader,
            create_document_decoder({"type": ANY, "object": VERSION}),
        )
        self.follower.start()

    def start(self) -> None:
        """Start writing, and probing halfway between two writes."""
        now = time.monotonic()
        self._canary.begin(now)
        self._probes.begin(now + 0.5 / self._rate)

    def received(self, at: float, event: dict[str, Any]) -> None:
        """Take an event of the canary that its watch received at ``at`` (time.monotonic())."""
        self._canary.received(at, event["object"]["metadata"]["resourceVersion"])

    def listed(self, kind: str, at: float, version: str) -> None:
        """Take the resourceVersion of a kind's first list, received at ``at`` (time.monotonic())."""
        self._stores[kind] = (at, version)

    def notes(self) -> list[str]:
        """Return remarks for the user."""
        sentences = [f"the canary could not always write: {self._canary.failure}"] if self._canary.failure else []
        return sentences + ([self._probes.failure] if self._probes.failure else [])

    def close(self, deadline: float) -> dict[str, Any]:
        """Stop and delete the canary; return the cost of canary and probes and the lag of the sampler, seconds."""
        self._probes.stop(max(0.1, deadline - time.monotonic()))
        self._canary.close(max(0.1, deadline - time.monotonic()))
        figures = {"lag": self._canary.lag(), "canary": self._canary.cost(), "revision_probes": self._probes.cost()}
        return {name: value for name, value in figures.items() if value}

    def _report_canary(self, sent: float, answered: float, version: str) -> None:
        self._reader.record_answer_time(answered - sent)
        if self._stores:
            self._compare_stores(sent, version)
        self._probes.take_canary_write(sent, int(version))
        self._record("canary", sent, answered, version)

    def _report_probe(self, sent: float, answered: float, version: str) -> None:
        self._record("sounding", sent, answered, version)

    def _record(self, what: str, sent: float, answered: float, version: str) -> None:
        moments = {"sent": self._clock.from_monotonic(sent), "answered": self._clock.from_monotonic(answered)}
        rounded = {name: round(moment, 6) for name, moment in moments.items()}
        self._write({"type": what, **rounded, "resource_version": version})

    def _compare_stores(self, sent: float, version: str) -> None:
        """Determine whether kinds that were listed before ``sent`` are stored in the canary's etcd.

        If so, the resourceVersion of the list lies between those of the canary before and after it. In another etcd
        that would be a coincidence. API servers can store kinds in separate etcds (--etcd-servers-overrides), whose
        revisions are unrelated.
        """
        for kind, (listed, revision) in list(self._stores.items()):
            if listed < sent:
                del self._stores[kind]
                same = (
                    _parse_resource_version(self._canary.version)
                    <= _parse_resource_version(revision)
                    <= _parse_resource_version(version)
                )
                at = round(self._clock.from_monotonic(sent), 6)
                self._write({"type": "store", "at": at, "kind": kind, "ruler": same})


def _parse_resource_version(version: str) -> int:
    return int(version) if version.isdecimal() else -1
