# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Injects the failures of a load at their times, and undoes them when their time or the load is over.

``failures.jsonl`` in the directory of the point is their ledger. A row ``inject`` is synced to disk before anything is
changed, so a killed process leaves no unknown failure: the next call on the directory, or the cleanup of the run,
undoes what no row ``undone`` closes. Beside the load, all nodes are watched; each change of their readiness, taints and
GPUs is a row ``node``.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalBlockingThread
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Broken
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import conditions_by_type, label_value
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.server import ApiServerAccess
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchConnection, watch_events

from . import failure_actions
from .failure_schedule import OF_NODES, PlannedFailure, choose_targets

SCHEMA = "failures/1"
FILE = "failures.jsonl"
INJECT, INJECTED, UNDONE = "inject", "injected", "undone"
_TIMEOUT = 30.0
#: Pause before a watch of the nodes, or an undoing, is tried again, seconds; attempts to undo.
_PAUSE, _ATTEMPTS = 1.0, 5


def open_failures(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows ``inject`` that no row ``undone`` closes, of failures that can be undone."""
    left: dict[tuple[int, str], dict[str, Any]] = {}
    for row in rows:
        key = (row.get("number", -1), row.get("target", ""))
        if row["type"] == INJECT and row["kind"] in OF_NODES:
            left[key] = row
        elif row["type"] == UNDONE:
            left.pop(key, None)
    return list(left.values())


def read_failures(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of failures; none if it does not exist."""
    return list(files.read_lines(path)) if path.exists() else []


def give_back(client: Client, point_dir: Path, say: Callable[[str], None]) -> int:
    """Undo what a killed load left open in a point, on this API server; return how many failures.

    Raises OwnershipError, AccessError, ApiError.
    """
    path = point_dir / FILE

    def left_here() -> list[dict[str, Any]]:
        return [row for row in open_failures(read_failures(path)) if row["server"] == client.access.server]

    if not left_here():
        return 0
    log = JsonlAppender(path, SCHEMA, "load with failures")
    try:
        clock = MonotonicWallClock.start()
        left = left_here()
        for row in left:
            _undo_and_record(client, row, log, clock)
        say(f"undid {formats.format_count(len(left), 'failure')} that the load of point {point_dir.name} had left")
        return len(left)
    finally:
        log.close()


def _undo_and_record(client: Client, row: dict[str, Any], log: JsonlAppender, clock: MonotonicWallClock) -> None:
    for attempt in range(_ATTEMPTS):
        sent = clock.now()
        try:
            changed = failure_actions.undo(client, row)
            break
        except (AccessError, ApiError, Broken) as error:
            if attempt == _ATTEMPTS - 1 or (isinstance(error, ApiError) and not error.busy):
                raise
            time.sleep(_PAUSE)
    moments = {"sent": round(sent, 6), "answered": round(clock.now(), 6)}
    log.write({"type": UNDONE, "number": row["number"], "target": row["target"], **moments, "changed": changed})


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
    ) -> None:
        self._client = Client(access, _TIMEOUT)
        self._watcher = Client(access, _TIMEOUT)
        self._clock, self._run, self._point, self._seed = clock, run, point, seed
        self._path, self._planned = point_dir / FILE, planned
        self._log: JsonlAppender | None = None
        self._halt = threading.Event()
        self._threads: list[SignalBlockingThread] = []
        self._watch: WatchConnection | None = None
        self._error: Exception | None = None
        self._open: dict[tuple[int, str], dict[str, Any]] = {}
        self.injected: Counter[str] = Counter()  # by kind
        self.skipped = 0

    def open(self) -> None:
        """Open the file, undo what an earlier session left, and watch the nodes. Raises ApiError, OwnershipError."""
        self._log = JsonlAppender(self._path, SCHEMA, "load with failures")
        past = read_failures(self._path)
        self._log.write(files.session_line(SCHEMA, self._run, self._point, self._clock))
        for row in open_failures(past):
            _undo_and_record(self._client, row, self._log, self._clock)
        done = {row["number"] for row in past if row["type"] in (INJECT, "skipped")}
        if not any(row["type"] == "schedule" for row in past):
            rows = [failure.row() for failure in self._planned]
            self._log.write({"type": "schedule", "seed": self._seed, "failures": rows})
        self._planned = [failure for failure in self._planned if failure.number not in done]
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
        """Inject nothing more and undo what is still open. Raises ApiError, AccessError if that fails."""
        self._halt.set()
        if self._log is None:
            return
        for thread in self._threads[1:]:
            thread.join(_TIMEOUT)
        try:
            for row in list(self._open.values()):
                self._undo(row)
        finally:
            if self._watch is not None:
                self._watch.close()
            for thread in self._threads[:1]:
                thread.join(_PAUSE * 2)
            self._log.write({"type": "end", "at": round(self._clock.now(), 6)})
            self._log.sync()
            self._log.close()
            self._client.close()
            self._watcher.close()

    def summary(self) -> dict[str, int]:
        """Return how many failures were injected, by kind, and how many were skipped."""
        return {**dict(self.injected), **({"skipped": self.skipped} if self.skipped else {})}

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
        """Inject and undo, each at its time."""
        due: list[tuple[float, int, str]] = []  # (time, number, target); a number below 0 injects
        todo = {failure.number: failure for failure in self._planned}
        for number, failure in todo.items():
            heapq.heappush(due, (started + failure.at, -1 - number, ""))
        while due:
            at, number, target = due[0]
            if self._halt.wait(max(0.0, at - time.monotonic())):
                return
            heapq.heappop(due)
            if number >= 0:
                self._undo(self._open[number, target])
                continue
            failure = todo[-1 - number]
            for name in self._inject(failure, at):
                if failure.duration:
                    heapq.heappush(due, (time.monotonic() + failure.duration, failure.number, name))

    def _inject(self, failure: PlannedFailure, intended: float) -> list[str]:
        """Inject a failure into each of its targets; return the targets that have to be undone."""
        pods = self._pods(failure)
        targets = choose_targets(failure, self._candidates(failure, pods), self._seed)
        if not targets:
            self.skipped += 1
            text = "no node runs a pod of the load" if failure.kind in OF_NODES else "no pod of the load runs"
            self._write({"type": "skipped", "number": failure.number, "kind": failure.kind, "reason": text})
        undone_later = []
        for target in targets:
            hit = [pod for pod in pods if target in (pod["node"], f"{pod['namespace']}/{pod['name']}")]
            self._inject_into(failure, target, hit, intended)
            if failure.kind in OF_NODES:
                undone_later.append(target)
        return undone_later

    def _inject_into(self, failure: PlannedFailure, target: str, hit: list[dict[str, str]], intended: float) -> None:
        mark = f"{self._run}-{self._point}-{failure.number}"
        row = {
            "type": INJECT,
            "number": failure.number,
            "kind": failure.kind,
            "target": target,
            "mark": mark,
            "server": self._client.access.server,
            "duration": failure.duration,
            "before": failure_actions.read_state(self._client, failure.kind, target),
            "pods": hit,
        }
        self._write(row)
        self._log_sync()
        if failure.kind in OF_NODES:
            self._open[failure.number, target] = row
        sent = time.monotonic()
        failure_actions.inject(self._client, row, [(pod["namespace"], pod["name"]) for pod in hit])
        moments = (("intended", intended), ("sent", sent), ("answered", time.monotonic()))
        dated = {key: round(self._clock.from_monotonic(moment), 6) for key, moment in moments}
        self._write({"type": INJECTED, "number": failure.number, "target": target, **dated})
        self.injected[failure.kind] += 1

    def _pods(self, failure: PlannedFailure) -> list[dict[str, str]]:
        """Return the pods of the load that run, those with the labels of the failure if it is one of pods."""
        selector = run_labels.workload_label_selector(self._run, self._point)
        if failure.kind not in OF_NODES and failure.selector:
            selector = f"{selector},{failure.selector}"
        kind = self._client.kind("v1", "Pod")
        pods = self._client.list(kind, label_selector=selector, field_selector="status.phase=Running")[0]
        return [
            {
                "namespace": pod["metadata"]["namespace"],
                "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"],
                "node": pod["spec"].get("nodeName") or "",
            }
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
        ]

    def _candidates(self, failure: PlannedFailure, pods: list[dict[str, str]]) -> list[str]:
        """Return what a failure may hit: nodes that run pods of the load and have no failure, or such pods."""
        needs_simulated = failure.kind in failure_actions.SIMULATED_ONLY
        selector = failure.selector if failure.kind in OF_NODES else ""
        nodes = self._client.list(self._client.kind("v1", "Node"), label_selector=selector)[0]
        names = {
            node["metadata"]["name"] for node in nodes if not needs_simulated or label_value(node, run_labels.SIMULATED)
        }
        # What a failure has taken along can't fail once more.
        names -= {target for _number, target in self._open}
        if failure.kind not in OF_NODES:
            return [f"{pod['namespace']}/{pod['name']}" for pod in pods if pod["node"] in names]
        return sorted(names & {pod["node"] for pod in pods})

    def _undo(self, row: dict[str, Any]) -> None:
        if self._log is not None:
            _undo_and_record(self._client, row, self._log, self._clock)
        del self._open[row["number"], row["target"]]

    def _follow_nodes(self, version: str, states: dict[str, dict[str, Any]]) -> None:
        """Write a row for each change of a node until the load is over."""
        kind = self._watcher.kind("v1", "Node")
        while not self._halt.is_set() or self._open:
            try:
                if not version:
                    nodes, version = self._watcher.list(kind)
                    for node in nodes:
                        self._see_node(node, states)
                self._watch = WatchConnection(self._watcher, kind, version)
                for event in watch_events(self._watch):
                    node = event["object"]
                    version = node["metadata"]["resourceVersion"]
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._see_node(node, states)
            except (SeatrialError, Broken, OSError, ValueError):
                version = ""  # list again: a change that was missed is seen late, and its interval is wider
                if self._halt.wait(_PAUSE):
                    return

    def _see_node(self, node: dict[str, Any], states: dict[str, dict[str, Any]]) -> None:
        name, state = node["metadata"]["name"], _node_state(node)
        if states.get(name) != state:
            states[name] = state
            version = node["metadata"]["resourceVersion"]
            received = round(self._clock.now(), 6)
            self._write({"type": "node", "received": received, "name": name, "resource_version": version, **state})

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
