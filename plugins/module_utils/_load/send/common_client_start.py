# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common start of several clients, without comparing their clocks.

Each client that is ready creates a Lease. When there is one of every client, client 0 creates the start Lease, which
all clients watch. Each counts a delay from the moment at which it received the event, on its own monotonic clock. The
starts therefore differ by the times of delivery, and the resourceVersion of the start Lease relates them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalBlockingThread
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Broken
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import get_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchConnection, parse_watch_line

from ..plan.workload_plan import ClientPart

LEASE = ServedKind("coordination.k8s.io/v1", "Lease", "leases", True)
READY, START = "ready", "start"
#: Seconds from the start Lease to the first workload: by then every client has received its event.
START_DELAY = 0.5
#: Interval at which client 0 counts the clients that are ready, and pause after a failed watch, seconds.
_POLL_INTERVAL, _PAUSE = 0.2, 0.2


class CommonStart:
    """The start of one client. ``namespace``: of the Leases."""

    def __init__(self, client: Client, run: str, point: str, namespace: str, part: ClientPart) -> None:
        self._client = client
        self._part = part
        self._path = LEASE.path(namespace)
        self._namespace = namespace
        self._base = f"{run}-{point}"
        self._labels = {run_labels.RUN: run, run_labels.POINT: point}
        self._received: float | None = None  # time.monotonic() of the start Lease
        self._over = threading.Event()
        self._watch: WatchConnection | None = None

    def wait(self, look: Callable[[], None], timeout: float) -> float | None:
        """Report this client as ready, and wait for the start; return it (time.monotonic()).

        None: the load had started before this client was ready, because it was made again. ``look`` is called again
        and again and may raise. Raises WaitTimeout naming the clients that are missing.
        """
        if self._leases(START):
            return None
        thread = SignalBlockingThread(target=self._follow, name="start", daemon=True)
        thread.start()
        deadline = time.monotonic() + timeout
        next_count = 0.0
        self._create(f"{READY}-{self._part.client}", READY, run_labels.client_label(self._part.client))
        try:
            while self._received is None:
                look()
                now = time.monotonic()
                if now >= deadline:
                    raise WaitTimeout(self._late(timeout))
                if self._part.client == 0 and now >= next_count:
                    next_count = now + _POLL_INTERVAL
                    if not self.missing():
                        self._create(START, START, {})
            return self._received + START_DELAY
        finally:
            self._over.set()
            if self._watch is not None:
                self._watch.close()

    def missing(self) -> list[int]:
        """Return the clients that are not ready."""
        ready = {get_label(lease, run_labels.CLIENT) for lease in self._leases(READY)}
        return [number for number in range(self._part.clients) if str(number) not in ready]

    def _late(self, timeout: float) -> str:
        missing = self.missing()
        named = ", ".join(str(number) for number in missing[:10]) + (", …" if len(missing) > 10 else "")
        why = f"not ready: client {named}" if missing else "client 0 did not release the start"
        return f"the {self._part.clients} clients did not start together within {timeout:g} s; {why}"

    def _leases(self, role: str) -> list[dict[str, Any]]:
        selector = ",".join(f"{key}={value}" for key, value in {**self._labels, run_labels.ROLE: role}.items())
        return self._client.list(LEASE, self._namespace, selector)[0]

    def _create(self, suffix: str, role: str, more: dict[str, str]) -> None:
        """Create a Lease; it may exist, from an attempt without an answer or a client that was made again."""
        metadata = {"name": f"{self._base}-{suffix}", "labels": {**self._labels, run_labels.ROLE: role, **more}}
        manifest = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": {}}
        self._client.create_once(self._path, manifest, {"fieldManager": "perfscale-seatrial"})

    def _follow(self) -> None:
        """Wait for the start Lease; a thread, so that the moment of its event is exact."""
        fields = f"metadata.name={self._base}-{START}"
        while not self._over.is_set() and self._received is None:
            try:
                leases, version = self._client.list(LEASE, self._namespace, field_selector=fields)
                if leases:
                    self._received = time.monotonic()
                    return
                self._watch = WatchConnection(self._client, LEASE, version, self._namespace, field_selector=fields)
                for at, line in self._watch.lines():
                    if parse_watch_line(line)["type"] == "ADDED":
                        self._received = at
                        return
            except (ApiError, AccessError, Broken):
                self._over.wait(_PAUSE)


def are_clients_released(client: Client, run: str, point: str, namespace: str) -> bool:
    """Return whether the start of all clients was released."""
    return client.get(LEASE, f"{run}-{point}-{START}", namespace) is not None


def remove_common_start_leases(client: Client, run: str, point: str, namespace: str) -> None:
    """Delete the Leases of the common start of a point. Safe to repeat."""
    selector = f"{run_labels.RUN}={run},{run_labels.POINT}={point},{run_labels.ROLE} in ({READY},{START},canary)"
    for lease in client.list(LEASE, namespace, selector)[0]:
        client.delete_seen(LEASE, lease["metadata"])
