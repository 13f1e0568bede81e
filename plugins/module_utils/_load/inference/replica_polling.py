# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks several times a second how many servers there are while a load runs, and writes what changed to scale.jsonl.

The looks are those of a forked process, so that they never delay a request. A pipe connects it to its parent: when the
parent closes its end, or dies, the process ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    ProcessError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import fork_reporting_process
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ENDING, unblock_signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    field_at_path,
    is_condition_true,
)

FILE, SCHEMA = "scale.jsonl", "scale/1"
#: Seconds between the begins of two looks, for one request, and for the first look and the end of the process.
_POLL, _PATIENCE, _AT_MOST = 0.2, 10.0, 30.0
#: Stages of a pod, in their order.
CREATED, SCHEDULED, STARTED, READY, GONE = "created", "scheduled", "started", "ready", "gone"
#: The kinds of objects that have a desired number of servers.
_WORKLOAD = ("apps/v1", "Deployment")
#: What the process reports after its first look; whatever else it reports is why it ended.
_LOOKED = "."


@dataclass(frozen=True)
class ReplicaPollingSpec:
    """Which servers are looked at. selector: labels of their pods, and of the Deployments that make the pods."""

    kubeconfig: str
    context: str
    namespace: str
    selector: str


def stages_reached_by_pod(pod: dict[str, Any]) -> list[str]:
    """Return the stages that a pod has reached and is in. One that is being deleted serves nobody: it is gone."""
    if pod["metadata"].get("deletionTimestamp"):
        return [GONE]
    statuses = field_at_path(pod, "status.containerStatuses") or []
    running = bool(statuses) and all("running" in (status.get("state") or {}) for status in statuses)
    reached = {
        SCHEDULED: bool(field_at_path(pod, "spec.nodeName")),
        STARTED: running,
        READY: is_condition_true(pod, "Ready"),
    }
    return [CREATED, *(stage for stage, is_reached in reached.items() if is_reached)]


class ReplicaChanges:
    """What changed from one look to the next, as records of scale.jsonl."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, set[str]]] = {}
        self._desired: dict[str, int] = {}
        self._since: float | None = None

    def moment(self, at: float) -> dict[str, Any]:
        """Return ``at`` and the begin of the last look, None before the first one, as a record has them."""
        return {"at": round(at, 4), "since": None if self._since is None else round(self._since, 4)}

    def take(self, pods: list[dict[str, Any]], workloads: list[dict[str, Any]], began: float, at: float) -> list[Any]:
        """Return the changes that a look shows, each between the begin of the look before and the end of this one.

        What the first look finds was there before, so it has no lower bound.
        """
        moment = self.moment(at)
        self._since = began
        changes: list[dict[str, Any]] = []
        for workload in workloads:
            name, desired = workload["metadata"]["name"], int(field_at_path(workload, "spec.replicas") or 0)
            if self._desired.get(name) != desired:
                self._desired[name] = desired
                changes.append({"type": "desired", "name": name, "replicas": desired, **moment})
        live = {pod["metadata"]["uid"]: pod for pod in pods}
        for uid, (name, seen) in self._pods.items():
            if uid not in live and GONE not in seen:
                seen.add(GONE)
                changes.append({"type": "pod", "pod": name, "stage": GONE, **moment})
        for uid, pod in live.items():
            name, seen = self._pods.setdefault(uid, (pod["metadata"]["name"], set()))
            reached = stages_reached_by_pod(pod)
            if READY in seen and READY not in reached and GONE not in reached:
                seen.discard(READY)
                changes.append({"type": "pod", "pod": name, "stage": "unready", **moment})
            new = [stage for stage in reached if stage not in seen]
            seen.update(new)
            changes += [{"type": "pod", "pod": name, "stage": stage, **moment} for stage in new]
        return changes


def _poll(
    client: Client,
    spec: ReplicaPollingSpec,
    log: JsonlAppender,
    clock: MonotonicWallClock,
    looked: Callable[[], object],
    end: int,
) -> None:
    """Look and write until the parent closes the pipe, then once more.

    A look that fails makes the bounds of the next one wider, and is written with the time since the last one that did
    not. Raises SeatrialError if the first one fails.
    """
    changes = ReplicaChanges()
    pod, workload = client.kind("v1", "Pod"), client.kind(*_WORKLOAD)
    first, over, last, failed = True, False, False, False
    while not last:
        last = over
        began = time.monotonic()
        try:
            workloads = client.list(workload, spec.namespace, spec.selector)[0]
            pods = client.list(pod, spec.namespace, spec.selector)[0]
        except SeatrialError as error:
            if first:
                raise
            log.write({"type": "failed", **changes.moment(clock.now()), "error": str(error)})
            failed = True
        else:
            now = clock.now()
            if failed:
                log.write({"type": "blind", **changes.moment(now)})
            failed = False
            found = changes.take(pods, workloads, clock.from_monotonic(began), now)
            log.write_rows([files.encode(record) for record in found])
            if first and not workloads and not pods:
                raise InputError(f"no pod and no Deployment in namespace {spec.namespace} has labels {spec.selector}")
            if first:
                looked()
            first = False
        left = 0.0 if over else max(0.0, began + _POLL - time.monotonic())
        over = over or bool(select.select([end], [], [], left)[0])


def _run_child(spec: ReplicaPollingSpec, path: Path, session: dict[str, Any], report: int, end: int) -> int:
    """Watch in the child; return the exit status. Nothing is printed: stdout is for the parent's result."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)  # the parent ends it
    unblock_signals()
    try:
        log = JsonlAppender(path, SCHEMA, "watch")
        try:
            log.write(session)
            clock = MonotonicWallClock.resume(session["anchor"])
            with Client.from_kubeconfig(spec.kubeconfig, spec.context, timeout=_PATIENCE) as client:
                _poll(client, spec, log, clock, lambda: os.write(report, _LOOKED.encode()), end)
        finally:
            log.close()
    except (SeatrialError, OSError) as error:
        with contextlib.suppress(OSError):
            os.write(report, str(error).encode())
        return 1
    return 0


class ReplicaPolling:
    """The forked process. Fork it before any thread but that of exit_with_parent, which holds no lock, is started."""

    def __init__(
        self, spec: ReplicaPollingSpec, path: Path, session: dict[str, Any], close_in_child: Callable[[], None]
    ) -> None:
        """Fork. ``close_in_child`` closes what the child must not keep open: the locked file of requests."""
        self.pid, self._report, self._end = fork_reporting_process(
            lambda report, ending: _run_child(spec, path, session, report, ending), close_in_child
        )

    def await_first_look(self) -> None:
        """Return when the process has looked once. Raises ProcessError with the reason if it can't."""
        deadline = time.monotonic() + _AT_MOST
        text = ""
        while text != _LOOKED:
            left = max(0.0, deadline - time.monotonic())
            data = os.read(self._report, 4096) if select.select([self._report], [], [], left)[0] else b""
            if not data:
                why = text or f"no look within {_AT_MOST:g} s"
                raise ProcessError(f"the number of servers can't be watched: {why}")
            text += data.decode(errors="replace")

    def finish(self) -> str:
        """Let the process look once more and end; kill it if it does not. Return why it had ended before, if so."""
        os.close(self._end)
        deadline = time.monotonic() + _AT_MOST
        while (ended := os.waitpid(self.pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        why = ""
        if ended[0] == 0:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            why = f"it did not end within {_AT_MOST:g} s"
        elif ended[1]:
            why = f"it ended with status {os.waitstatus_to_exitcode(ended[1])}"
        text = ""
        while data := os.read(self._report, 4096):
            text += data.decode(errors="replace")
        os.close(self._report)
        return text.removeprefix(_LOOKED) or why


@contextlib.contextmanager
def poll_replicas(
    spec: ReplicaPollingSpec | None, path: Path, session: dict[str, Any], close_in_child: Callable[[], None]
) -> Iterator[None]:
    """Poll the number of servers while the body runs, from a first look on. Does nothing without a spec.

    Raises ProcessError if it can't be looked at, or if the process ended while the body ran.
    """
    if spec is None:
        yield
        return
    polling = ReplicaPolling(spec, path, session, close_in_child)
    try:
        polling.await_first_look()
        yield
    except BaseException:
        polling.finish()
        raise
    if why := polling.finish():
        raise ProcessError(f"the number of servers was not watched to the end: {why}")
