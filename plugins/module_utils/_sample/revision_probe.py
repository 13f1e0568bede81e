# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Soundings: asking etcd, between two writes of the canary, how far its resourceVersions have come.

The list of an object that is not there, of a kind that API servers keep no watch cache for (Event), is read from etcd,
and its resourceVersion is etcd's revision at some moment between sending and answering. What was committed by then has
a smaller one or that one, what was committed later a larger one: another mark for the ruler, at the price of reading
one key, which needs no write to a disk.

Only where the Events are kept in the same etcd, as they mostly are. So a sounding counts when it lies between the
canary's writes before and after it, and none counts before many in a row have, nor after one has not.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.periodic_requester import PeriodicRequester

EVENT = Kind("v1", "Event", "events", True)
_VERSION = re.compile(rb'^\{"kind":"[^"]*","apiVersion":"[^"]*","metadata":\{"resourceVersion":"(\d+)"')
#: So many in a row have to lie between the canary's writes before one counts: by chance some other etcd's may.
PROBATION = 10

#: Gets sent and answered (time.monotonic()) and the revision.
Tell = Callable[[float, float, str], None]


@dataclass(frozen=True)
class _Probe:
    sent: float
    answered: float
    version: int
    above: int  # the canary's last write that was answered before it was sent


class ProbeValidator:
    """Tells soundings that lie between the canary's writes. Called by two threads."""

    def __init__(self, tell: Tell) -> None:
        self.strange = False  # these are of another etcd
        self._tell = tell
        self._lock = threading.Lock()
        self._written = 0
        self._pending: deque[_Probe] = deque()
        self._fitting: list[_Probe] = []
        self._trusted = False

    def written(self) -> int:
        """Return the resourceVersion of the canary's last write that was answered, 0 for none."""
        return self._written

    def sounded(self, sent: float, answered: float, version: int, above: int) -> None:
        """Take a sounding. ``above``: what written() was when it was sent."""
        with self._lock:
            if above and not self.strange:
                self._pending.append(_Probe(sent, answered, version, above))

    def wrote(self, sent: float, version: int) -> None:
        """Take note of a write of the canary's, and tell the soundings that it bounds from above."""
        with self._lock:
            told = self._bounded(sent, version)
            self._written = max(self._written, version)
        for one in told:
            self._tell(one.sent, one.answered, str(one.version))

    def _bounded(self, sent: float, version: int) -> list[_Probe]:
        while not self.strange and self._pending and self._pending[0].answered <= sent:
            one = self._pending.popleft()
            self.strange = not one.above <= one.version < version
            self._fitting.append(one)
            self._trusted = self._trusted or len(self._fitting) >= PROBATION
        if self.strange:
            self._pending.clear()
            self._fitting.clear()
        if not self._trusted:
            return []
        told, self._fitting = self._fitting, []
        return told


class RevisionProbes(PeriodicRequester):
    """Asks ``rate`` times a second from begin() until stop(), or until the answers turn out to say nothing."""

    def __init__(self, access: Access, name: str, namespace: str, rate: float, tell: Tell) -> None:
        super().__init__("soundings", access, rate)
        path = with_query(EVENT.path(namespace), {"fieldSelector": f"metadata.name={name}", "limit": 1})
        self._namespace = namespace
        self._head = request_head(access, "GET", path, METADATA_LIST)
        self._vetting = ProbeValidator(tell)

    def wrote(self, sent: float, version: int) -> None:
        """Take note of a write of the canary's."""
        self._vetting.wrote(sent, version)

    def _send(self, connection: Connection, beat: int) -> None:
        above = self._vetting.written()
        try:
            reply = connection.exchange(request_bytes(self._access, self._head))
        except (Broken, AccessError):
            self._over.wait(0.5)  # the canary says what is the matter
            return
        found = _VERSION.match(reply.body) if reply.status == 200 else None
        if found:
            self._took.append(reply.answered - reply.sent)
            self._vetting.sounded(reply.sent, reply.answered, int(found.group(1)), above)
        elif reply.status == 403:
            self.failure = f"stages are dated less narrowly: we may not list events in {self._namespace}"
        if self.failure or self._vetting.strange:
            self._over.set()

    def cost(self) -> dict[str, Any]:
        """Return what they cost: how many, how long they took, our processor time; seconds. For after stop()."""
        return self.cost_of("reads")
