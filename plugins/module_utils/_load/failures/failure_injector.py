# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Injects the failures of a load at their times, and undoes them when their time or the load is over.

``failures.jsonl`` in the directory of the point is their ledger (failure_ledger.py). Beside the load, all nodes are
watched; each change of their readiness, taints and GPUs is a row ``node``.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalBlockingThread
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_server_access import ApiServerAccess
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import conditions_by_type
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import (
    WatchConnection,
    events_of_watch_connection,
)

from . import failure_actions, failure_ledger, failure_targets, kubelet_and_network_failures
from .failure_ledger import INJECT, INJECTED, SCHEDULE, SCHEMA, SKIPPED
from .failure_schedule import (
    API_AWAY,
    CONTROLLER_RESTARTED,
    NETWORK_CUT,
    OF_CONTROL_PLANE,
    SIMULATED_ONLY,
    UNDONE_LATER,
    PlannedFailure,
)

_TIMEOUT = 30.0
#: Pause before the nodes are watched again, seconds.
_PAUSE = 1.0
#: Seconds after the end of a failure of the control plane in which it may still be slow.
_AFTERMATH = 10.0
#: Number and target of an injected failure.
Key = tuple[int, str]


class FailureInjector:
    """Failures of one load. open() before its first request, begin() at its start, close() at its end."""

    def __init__(
        self,
        access: ApiServerAccess,
        clock: MonotonicWallClock,
        point_dir: Path,
        run: str,
        point: str,
        seed: int,
        planned: list[PlannedFailure],
        namespaces: Collection[str],
        say: Callable[[str], None],
    ) -> None:
        """namespaces: those of the workloads."""
        self._client = Client(access, _TIMEOUT)
        self._watcher = Client(access, _TIMEOUT)
        self._clock, self._run, self._point, self._seed = clock, run, point, seed
        self._path, self._planned, self._say = point_dir / failure_ledger.FILE, planned, say
        self._namespaces = namespaces
        self._log: JsonlAppender | None = None
        self._halt = threading.Event()
        self._threads: list[SignalBlockingThread] = []
        self._watch: WatchConnection | None = None
        self._error: Exception | None = None
        self._open: dict[Key, dict[str, Any]] = {}
        self._busy: Key | None = None  # what the thread of the failures injects or undoes
        self._away_until = 0.0  # time.monotonic(), of the API server
        self._ailing_until = 0.0  # time.monotonic(), of the control plane
        self.injected: Counter[str] = Counter()  # by kind
        self.skipped = 0
        self._not_due = 0
        self._reasons: set[str] = set()

    def open(self) -> None:
        """Open the file and watch the nodes. Raises ApiError, OwnershipError.

        What an earlier session left must be undone before (failure_ledger.undo_open_failures).
        """
        self._log = JsonlAppender(self._path, SCHEMA, "load with failures")
        past = failure_ledger.read_failures(self._path)
        self._log.write(files.session_line(SCHEMA, self._run, self._point, self._clock))
        if not any(row["type"] == SCHEDULE for row in past):
            rows = [failure.row() for failure in self._planned]
            self._log.write({"type": SCHEDULE, "seed": self._seed, "failures": rows})
        kinds = {row["number"]: row["kind"] for row in past if row["type"] in (INJECT, SKIPPED)}
        self.injected.update(kinds[row["number"]] for row in past if row["type"] == INJECTED)
        self.skipped = sum(row["type"] == SKIPPED for row in past)
        self._planned = [failure for failure in self._planned if failure.number not in kinds]
        kind = self._watcher.kind("v1", "Node")
        nodes, version = self._watcher.list(kind)
        states = {node["metadata"]["name"]: _node_state(node) for node in nodes}
        self._start("nodes", lambda: self._follow_nodes(version, states))

    def begin(self, started: float) -> None:
        """Inject from now on; started: the start of the load, time.monotonic()."""
        if len(self._threads) == 1:
            self._start("failures", lambda: self._serve(started))

    def check(self) -> None:
        """Raise the error that ended a thread, if any."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Inject nothing more and undo what is still open, each failure whether or not another one can be undone.

        Raises ApiError, AccessError if that fails; WaitTimeout if an injection does not end. All is closed then, too.
        """
        self._halt.set()
        if self._log is None:
            return
        with ExitStack() as closing:
            closing.callback(self._client.close)
            closing.callback(self._watcher.close)
            closing.callback(self._close_log, self._log)
            closing.callback(self._stop_watch)
            for thread in self._threads[1:]:
                thread.join(_TIMEOUT)
            # It may still reach the server: what it changes would stay if it was recorded as undone now.
            busy = self._busy if any(thread.is_alive() for thread in self._threads[1:]) else None
            left = [row for key, row in list(self._open.items()) if key != busy]
            failure_ledger.undo_and_record_failures(self._client, left, self._log, self._clock)
            if busy is not None and busy in self._open:
                raise WaitTimeout(
                    f"failure {busy[0]} of {busy[1]} is still being injected or undone after {_TIMEOUT:g} s; phase"
                    " cleanup of the run undoes it"
                )

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
        for thread in self._threads[:1]:
            thread.join(_PAUSE * 2)

    def _close_log(self, log: JsonlAppender) -> None:
        with ExitStack() as closing:
            closing.callback(log.close)
            log.write({"type": "end", "at": round(self._clock.now(), 6)})
            log.sync()

    def summary(self) -> dict[str, int]:
        """Return how many failures were injected, by kind; how many were skipped, or not due before the end."""
        others = {"skipped": self.skipped, "not_due": self._not_due}
        return {**dict(self.injected), **{name: count for name, count in others.items() if count}}

    def control_plane_ails(self) -> bool:
        """Return whether the control plane answers late, or not at all, because of a failure of this load."""
        now = time.monotonic()
        return now < self._ailing_until or any(row["kind"] in OF_CONTROL_PLANE for row in list(self._open.values()))

    # The threads

    def _start(self, name: str, target: Callable[[], None]) -> None:
        def run() -> None:
            try:
                target()
            except Exception as error:
                self._error = self._error or error

        thread = SignalBlockingThread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self, started: float) -> None:
        """Inject and undo, each at its time; what needs the API server is put off while that is away."""
        todo = {failure.number: failure for failure in self._planned}
        self._not_due = len(todo)
        #: (time, number, target to undo); without a target the failure is injected
        due = [(started + failure.at, number, "") for number, failure in todo.items()]
        heapq.heapify(due)
        while due:
            at, number, target = due[0]
            if self._halt.wait(max(0.0, at - time.monotonic())):
                return
            heapq.heappop(due)
            failure = todo[number]
            # A controller that finds no API server when it starts ends.
            waits = failure.kind not in OF_CONTROL_PLANE or (failure.kind == CONTROLLER_RESTARTED and bool(target))
            if waits and time.monotonic() < self._away_until:
                heapq.heappush(due, (self._away_until, number, target))
                continue
            if target:
                self._undo((number, target))
                continue
            self._not_due -= 1
            for name in self._inject(failure, at):
                if failure.duration:
                    heapq.heappush(due, (time.monotonic() + failure.duration, number, name))

    def _inject(self, failure: PlannedFailure, intended: float) -> list[str]:
        """Inject a failure into each of its targets; return the targets that have to be undone."""
        pods: list[failure_targets.PodRow] = []
        if failure.kind not in OF_CONTROL_PLANE:
            pods = failure_targets.list_running_load_pods(
                self._client, failure, self._run, self._point, self._namespaces
            )
        failing = failure_targets.targets_of_failures(list(self._open.values()))
        targets = failure_targets.choose_failure_targets(self._client, failure, pods, failing, self._seed)
        if not targets:
            self._skip(failure, failure_targets.why_no_target(failure))
        undone_later = []
        for target in targets:
            if self._halt.is_set():
                break
            failing = failure_targets.targets_of_failures(list(self._open.values()))
            others = failing | (set(targets) - {target})  # rather not the peer, so that each of them can be hit
            hit = failure_targets.pods_of_target(failure, target, pods, self._seed, others)
            hit = hit or failure_targets.pods_of_target(failure, target, pods, self._seed, failing)
            if failure.kind == NETWORK_CUT and not hit:  # it became the peer of another target
                self._skip(failure, f"{target} or each of its peers has a failure that is not over")
                continue
            try:
                self._inject_into(failure, target, hit, intended)
            except kubelet_and_network_failures.PodEnded as error:
                self._skip(failure, str(error))
                self._undo((failure.number, target))
                continue
            if failure.kind in UNDONE_LATER:
                undone_later.append(target)
        return undone_later

    def _skip(self, failure: PlannedFailure, reason: str) -> None:
        self.skipped += 1
        if reason not in self._reasons:  # said once, as they may be many
            self._reasons.add(reason)
            self._say(f"{failure.kind} at {failure.at:g} s is skipped: {reason}")
        self._write({"type": SKIPPED, "number": failure.number, "kind": failure.kind, "reason": reason})

    def _inject_into(self, failure: PlannedFailure, target: str, hit: list[dict[str, str]], intended: float) -> None:
        row = {
            "type": INJECT,
            "number": failure.number,
            "kind": failure.kind,
            "target": target,
            "mark": f"{self._run}-{self._point}-{failure.number}",
            "server": self._client.access.server,
            "duration": failure.duration,
            "before": failure_actions.read_state_for_undo(self._client, failure, target),
            "pods": hit,
        }
        key = (failure.number, target)
        self._busy = key
        self._write(row)
        self._log_sync()
        if failure.kind in UNDONE_LATER:
            self._open[key] = row
        sent = time.monotonic()
        if failure.kind == API_AWAY:
            self._away_until = sent + failure.duration + _PAUSE
        places = [(pod["namespace"], pod["name"]) for pod in hit]
        left = failure_actions.inject_failure(self._client, row, places, self._run, self._halt.is_set)
        self._busy = None
        moments = (("intended", intended), ("sent", sent), ("answered", time.monotonic()))
        dated = {moment: round(self._clock.from_monotonic(value), 6) for moment, value in moments}
        names = [f"{namespace}/{name}" for namespace, name in left]
        self._write({"type": INJECTED, "number": failure.number, "target": target, **dated, "left": names})
        self.injected[failure.kind] += 1
        if names:
            what = "evicted" if failure.kind not in SIMULATED_ONLY else "stopped"
            self._say(f"{failure.kind} of {target}: not {what} in time: {formats.format_list(names)}")

    def _undo(self, key: Key) -> None:
        if self._log is not None:
            self._busy = key
            row = self._open[key]
            failure_ledger.undo_and_record_failure(self._client, row, self._log, self._clock)
            if row["kind"] == API_AWAY:
                self._away_until = 0.0
            if row["kind"] in OF_CONTROL_PLANE:
                self._ailing_until = time.monotonic() + _AFTERMATH
            del self._open[key]
            self._busy = None

    def _follow_nodes(self, version: str, states: dict[str, dict[str, Any]]) -> None:
        """Write a row for each change of a node until the load is over. Raises DataError if a row can't be written."""
        kind = self._watcher.kind("v1", "Node")
        while not self._halt.is_set() or self._open:
            try:
                if not version:
                    nodes, version = self._watcher.list(kind)
                    for node in nodes:
                        # It has changed some time before: its resourceVersion may be that of a later change.
                        self._see_node(node, states, dated=False)
                self._watch = WatchConnection(self._watcher, kind, version)
                for event in events_of_watch_connection(self._watch):
                    node = event["object"]
                    version = node["metadata"]["resourceVersion"]
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._see_node(node, states)
            except (AccessError, ApiError, OSError, ValueError):
                version = ""  # list again: a change that was missed is seen late, and its interval is wider
                if self._halt.wait(_PAUSE):
                    return

    def _see_node(self, node: dict[str, Any], states: dict[str, dict[str, Any]], dated: bool = True) -> None:
        name, state = node["metadata"]["name"], _node_state(node)
        if states.get(name) != state:
            version = node["metadata"]["resourceVersion"] if dated else ""
            received = round(self._clock.now(), 6)
            self._write({"type": "node", "received": received, "name": name, "resource_version": version, **state})
            states[name] = state

    def _write(self, row: dict[str, Any]) -> None:
        if self._log is not None:
            self._log.write(row)

    def _log_sync(self) -> None:
        if self._log is not None:
            self._log.sync()


def _node_state(node: dict[str, Any]) -> dict[str, Any]:
    """Return what failures change of a node."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return {
        "ready": str(conditions_by_type(node).get("Ready", {}).get("status") or "Unknown"),
        "taints": sorted(f"{taint['key']}:{taint['effect']}" for taint in spec.get("taints") or ()),
        "gpus": str((status.get("allocatable") or {}).get(failure_actions.GPU, "0")),
    }
