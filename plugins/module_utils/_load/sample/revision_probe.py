# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Revision probes: reads of etcd's current revision between two writes of the canary.

API servers keep no watch cache for Events. Listing an Event that does not exist is therefore read from etcd, and the
resourceVersion of the list is etcd's revision at some time between request and response. Earlier commits have at most
this revision, later ones a larger one. This gives the revision clock another reading for the price of reading one key,
without a write to disk.

It requires that Events are stored in the same etcd, which is the default. A probe is therefore valid only if it lies
between the canary's writes before and after it. Probes are used after PROBATION valid ones in a row, and never again
after an invalid one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_credentials import Access
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import with_query
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import (
    METADATA_LIST,
    Broken,
    Connection,
    request_bytes,
    request_head,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import Kind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.needed_fields import ANY, decoder

from .periodic_requester import PeriodicRequester

EVENT = Kind("v1", "Event", "events", True)
#: Valid probes in a row before they are used: some probes of another etcd may be valid by chance.
PROBATION = 10

#: Receives sent and answered (time.monotonic()) and the revision.
Report = Callable[[float, float, str], None]


@dataclass(frozen=True)
class _Probe:
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
        self._pending: deque[_Probe] = deque()
        self._valid: list[_Probe] = []
        self._trusted = False

    def written(self) -> int:
        """Return the resourceVersion of the canary's last answered write, 0 for none."""
        return self._written

    def probed(self, sent: float, answered: float, version: int, above: int) -> None:
        """Take a probe. ``above``: written() at the time it was sent."""
        with self._lock:
            if above and not self.foreign:
                self._pending.append(_Probe(sent, answered, version, above))

    def wrote(self, sent: float, version: int) -> None:
        """Take a write of the canary, and report the probes for which it is the upper bound."""
        with self._lock:
            valid = self._bounded(sent, version)
            self._written = max(self._written, version)
        for one in valid:
            self._report(one.sent, one.answered, str(one.version))

    def _bounded(self, sent: float, version: int) -> list[_Probe]:
        while not self.foreign and self._pending and self._pending[0].answered <= sent:
            one = self._pending.popleft()
            self.foreign = not one.above <= one.version < version
            self._valid.append(one)
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

    def __init__(self, access: Access, name: str, namespace: str, rate: float, report: Report) -> None:
        super().__init__("revision probes", access, rate)
        path = with_query(EVENT.path(namespace), {"fieldSelector": f"metadata.name={name}", "limit": 1})
        self._namespace = namespace
        self._decode = decoder({"metadata": {"resourceVersion": ANY}})
        self._head = request_head(access, "GET", path, METADATA_LIST)
        self._validator = ProbeValidator(report)

    def wrote(self, sent: float, version: int) -> None:
        """Take a write of the canary."""
        self._validator.wrote(sent, version)

    def _send(self, connection: Connection, number: int) -> None:
        above = self._validator.written()
        try:
            reply = connection.exchange(request_bytes(self._access, self._head))
        except (Broken, AccessError):
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
