# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The canary: a Lease of the sampler, written at a constant rate while a load is sampled.

The times of its writes are known exactly on our clock, and their resourceVersions order them among all other writes.
The timeline's revision clock dates the changes of other objects by them. Leases are designed for frequent writes, and
no controller watches this one. The phase of its requests sweeps, so that they never stay synchronous with a load.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.load_generator_health import percentile_summary
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalBlockingThread
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_errors import reply_reason_and_message
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_server_access import ApiServerAccess
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import (
    METADATA,
    ApiServerConnection,
    format_request_head,
    request_bytes,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import get_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.partial_json_decoder import (
    ANY,
    Shape,
    create_document_decoder,
)

#: Timeout for the response to one request, seconds.
_TIMEOUT = 10.0
#: Number of requests in which the phase moves from one end of the period to the other.
_SWEEP = 40


def phase_jitter(number: int) -> float:
    """Return the delay of request ``number`` relative to a constant clock, as a share of the period, 0 to 1.

    A load at the canary's own rate, or a multiple of it, would meet a constant clock at the same phase for the whole
    run. In the worst case both write at the same time and nothing in between is dated. Therefore the phase sweeps
    linearly back and forth; the mean rate does not change.
    """
    return 1.0 - abs(number % (2 * _SWEEP) / _SWEEP - 1.0)


def probe_numbers_when_due(over: threading.Event, rate: float, begin: float) -> Iterator[int]:
    """Yield 0, 1, 2, … at ``rate`` per second from ``begin`` (time.monotonic()) on, until ``over`` is set.

    The schedule is absolute. Requests that are late by more than a period are skipped.
    """
    period = 1.0 / rate
    nominal = due = begin
    number = 0
    while not over.wait(max(0.0, due - time.monotonic())):
        yield number
        now = time.monotonic()
        number, nominal = number + 1, max(nominal + period, now - period)
        due = max(nominal + period * phase_jitter(number), now)


class PeriodicRequester(SignalBlockingThread):
    """Sends requests over its own connection from begin() until stop()."""

    def __init__(self, name: str, access: ApiServerAccess, rate: float) -> None:
        super().__init__(name=name, daemon=True)
        self.failure = ""  # for the user; empty while requests succeed
        self._access = access
        self._rate = rate
        self._begin = 0.0
        self._over = threading.Event()
        self._took: deque[float] = deque(maxlen=100_000)  # seconds from request to response
        self._cpu = 0.0  # seconds of processor time

    def begin(self, at: float) -> None:
        """Start sending at ``at`` (time.monotonic())."""
        self._begin = at
        self.start()

    def run(self) -> None:
        """Send requests on schedule."""
        began = time.thread_time()
        connection = ApiServerConnection(self._access, _TIMEOUT)
        for number in probe_numbers_when_due(self._over, self._rate, self._begin):
            self._send(connection, number)
        self._cpu = time.thread_time() - began
        connection.close()

    def _send(self, connection: ApiServerConnection, number: int) -> None:
        """Send request ``number`` and handle its response."""
        raise NotImplementedError

    def stop(self, patience: float) -> None:
        """Send nothing more; safe before begin()."""
        self._over.set()
        if self.ident is not None:
            self.join(patience)

    def cost_of(self, what: str) -> dict[str, Any]:
        """Return the number of responses (under ``what``), quantiles of their duration, our processor time; seconds."""
        statistics = percentile_summary(list(self._took))
        return {what: len(self._took), "took": statistics, "cpu": round(self._cpu, 6)} if statistics else {}


LEASE = ServedKind("coordination.k8s.io/v1", "Lease", "leases", True)
#: The field that is needed of the object.
VERSION: Shape = {"metadata": {"resourceVersion": ANY}}


class CanaryObjectWriter(PeriodicRequester):
    """Writes its object ``rate`` times a second from begin() until close(); reports each successful write.

    ``report(sent, answered, resource_version)``: times are readings of time.monotonic().
    """

    def __init__(
        self,
        client: Client,
        run: str,
        point: str,
        namespace: str,
        rate: float,
        report: Callable[[float, float, str], None],
        number: int | None = None,
    ) -> None:
        """``number``: of the client whose canary it is, None if there is only one."""
        super().__init__("canary", client.access, rate)
        self.object_name = f"{run}-{point}-canary" + ("" if number is None else f"-{number}")
        self.labels = {
            run_labels.RUN: run,
            run_labels.POINT: point,
            run_labels.ROLE: "canary",
            **run_labels.client_label(number),
        }
        self.namespace = namespace or client.access.namespace
        self.version = ""  # of the object when it was created or found
        self._metadata: dict[str, Any] = {}  # of the object, if it has the run's label
        self._client = client
        self._report = report
        self._decode = create_document_decoder(VERSION)
        path = f"{LEASE.path(self.namespace, self.object_name)}?fieldManager=perfscale-seatrial"
        self._head = format_request_head(client.access, "PATCH", path, METADATA)
        # Not 0: a patch that changes nothing returns the resourceVersion of an earlier session's write.
        self._first = int(time.time() * 1000)
        self._answers: dict[str, float] = {}
        self._early: dict[str, float] = {}
        self._lags: deque[float] = deque(maxlen=100_000)
        self._lock = threading.Lock()

    @property
    def selector(self) -> str:
        """Label selector that matches only the canary."""
        return ",".join(f"{key}={value}" for key, value in self.labels.items())

    def create(self) -> None:
        """Create the object, or find the one that an earlier session left."""
        manifest = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self.object_name, "namespace": self.namespace, "labels": self.labels},
            "spec": {"leaseTransitions": 0},
        }
        path = LEASE.path(self.namespace)
        try:
            lease = self._client.post(path, manifest, {"fieldManager": "perfscale-seatrial"})
        except ApiError as error:
            if error.status != 409:
                raise
            lease = self._client.request("GET", LEASE.path(self.namespace, self.object_name))
        self.version = lease["metadata"]["resourceVersion"]
        ours = get_label(lease, run_labels.RUN) == self.labels[run_labels.RUN]
        self._metadata = lease["metadata"] if ours else {}

    def _send(self, connection: ApiServerConnection, number: int) -> None:
        access = self._access
        body = b'{"spec":{"leaseTransitions":%d}}' % ((self._first + number) % 2_000_000_000 + 1)
        try:
            shown = access.authorization
            reply = connection.exchange(request_bytes(access, self._head, body, MERGE_PATCH))
            renewed = reply.status == 401 and access.refresh(shown)
        except AccessError as error:  # also of a program that gives no credentials now
            self.failure = str(error)
            self._over.wait(0.5)
            return
        if reply.status == 200:
            version = self._decode(reply.body)["metadata"]["resourceVersion"]
            self._took.append(reply.answered - reply.sent)
            self._report(reply.sent, reply.answered, version)
            self._answered(version, reply.answered)
        elif renewed:
            connection.close()
        else:
            self.failure = f"{reply.status} {' '.join(reply_reason_and_message(reply))}"
            self._recover(reply.status)

    def _recover(self, status: int) -> None:
        """Wait after a refusal, because an API server that has just started has not read the RBAC objects yet."""
        self._over.wait(0.5)
        if status == 404 and not self._over.is_set():
            with contextlib.suppress(AccessError, ApiError):
                self.create()  # someone deleted it

    def received(self, at: float, version: str) -> None:
        """Record that a watch received the event of write ``version`` at ``at`` (time.monotonic())."""
        with self._lock:
            answered = self._answers.pop(version, None)
            if answered is None:
                self._early[version] = at  # the event can arrive before the response
            else:
                self._lags.append(at - answered)

    def _answered(self, version: str, at: float) -> None:
        with self._lock:
            seen = self._early.pop(version, None)
            if seen is None:
                self._answers[version] = at
            else:
                self._lags.append(seen - at)

    def lag(self) -> dict[str, Any]:
        """Return quantiles of the time from the response to a write to its event, seconds; empty without events."""
        with self._lock:
            statistics = percentile_summary(list(self._lags))
            return {**statistics, "n": len(self._lags)} if statistics else {}

    def cost(self) -> dict[str, Any]:
        """Return number and duration of the writes and our processor time, seconds. Call it after close()."""
        return self.cost_of("writes")

    def close(self, patience: float) -> None:
        """Stop writing and delete the object. If that fails, a cleanup finds it by the label of the run."""
        self.stop(patience)
        try:
            if self._metadata:
                self._client.delete_seen(LEASE, self._metadata)
        except (AccessError, ApiError) as error:
            self.failure = str(error)
