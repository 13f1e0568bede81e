# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ends a load early: the circuit breaker, and workloads that can never run.

- The circuit breaker ends a load before it affects other users of the cluster. Beside the load, over a separate
  connection, it asks the API server once a second whether it is ready (/readyz) and times a small read, as any user
  would send it. It opens after several bad responses in a row, not after a single one.
- A load without running workloads is diagnosed: warnings, if no condition explains it, and whether it can run at all.
  The API server is asked only while nothing runs and nothing ends, so that no measurement is disturbed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalBlockingThread
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import why_pod_waits_or_cannot_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_server_access import ApiServerAccess
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Broken
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    conditions_by_type,
    get_label,
)

from ..kinds.sampling_spec import SamplingSpec
from ..kinds.stage_definitions import KindStages
from ..sample.workload_progress_and_waits import group_messages

#: Seconds from one probe to the next.
PERIOD = 1.0
#: Number of bad probes in a row that opens the breaker.
MAX_BAD_PROBES = 3
#: Timeout of the probe at the end of a load, seconds.
_LAST_TIMEOUT = 10.0


@dataclass(frozen=True)
class ApiServerProbe:
    """One probe of the API server. latency: of the read, seconds; trouble: why it is not ready, or empty.

    answered: whether it sent any response.
    """

    latency: float
    trouble: str = ""
    answered: bool = True


class LatencyJudge:
    """Decides from consecutive probes when the load has to end."""

    def __init__(self, limit: float, in_a_row: int = MAX_BAD_PROBES) -> None:
        """``limit``: maximum latency of the read, seconds."""
        self._limit = limit
        self._in_a_row = in_a_row
        self._bad: list[ApiServerProbe] = []

    def forget(self) -> None:
        """Count no earlier probe any more."""
        self._bad.clear()

    def take(self, probe: ApiServerProbe) -> str:
        """Return why the load has to end now, or an empty string."""
        if not probe.trouble and probe.latency <= self._limit:
            self._bad.clear()
            return ""
        self._bad.append(probe)
        if len(self._bad) < self._in_a_row:
            return ""
        trouble = next((bad.trouble for bad in reversed(self._bad) if bad.trouble), "")
        if trouble:
            return f"{len(self._bad)} probes in a row found the API server in trouble, the last one: {trouble}"
        slow = ", ".join(f"{bad.latency:.2f}" for bad in self._bad)
        return f"{len(self._bad)} probe requests in a row took {slow} s, and {self._limit:g} s are allowed"


def probe_api_server(client: Client, namespace: str) -> ApiServerProbe:
    """Ask the API server whether it is ready and time a small read."""
    began = time.monotonic()
    try:
        ready = client.raw("GET", "/readyz", accept="*/*")
        if ready.status != 200 and ready.status not in (401, 403):  # some clusters permit it to administrators only
            return ApiServerProbe(time.monotonic() - began, f"/readyz answered {ready.status}")
        began = time.monotonic()
        path = f"/api/v1/namespaces/{quote(namespace)}/pods"
        answer = client.raw("GET", path, query={"limit": 1})
    except (Broken, AccessError, OSError) as error:
        return ApiServerProbe(time.monotonic() - began, f"no answer: {error}", answered=False)
    latency = time.monotonic() - began
    busy = answer.status == 429 or answer.status >= 500
    return ApiServerProbe(latency, f"a list of one pod was answered with {answer.status}" if busy else "")


def require_answering_api_server(access: ApiServerAccess, namespace: str, result: str) -> None:
    """Raise AccessError if the API server does not answer, with the result of a load that did not end by itself.

    What such a load measured says nothing about the product.
    """
    with Client(access, timeout=_LAST_TIMEOUT) as client:
        probe = probe_api_server(client, namespace)
    if not probe.answered:
        raise AccessError(f"{result}. At its end, the API server gave {probe.trouble}")


def _never() -> bool:
    return False


class CircuitBreaker:
    """Probes in its own thread while the ``with`` block runs. ``reason``: why the load has to end; empty until then."""

    def __init__(
        self,
        access: ApiServerAccess,
        namespace: str,
        limit: float,
        look_at: Callable[[Client, str], ApiServerProbe] = probe_api_server,
        excused: Callable[[], bool] | None = None,
    ) -> None:
        """``limit``: maximum latency of a probe, seconds; 0 disables the breaker.

        excused: whether the API server is in trouble because the load itself makes it fail.
        """
        self.reason = ""
        self.probes: list[float] = []  # latencies, seconds
        self._client = Client(access, timeout=max(5.0, limit * 2))
        self._namespace = namespace
        self._limit = limit
        self._look = look_at
        self._excused = excused or _never
        self._over = threading.Event()
        self._thread = SignalBlockingThread(target=self._run, name="breaker", daemon=True)

    def __enter__(self) -> CircuitBreaker:
        if self._limit > 0:
            self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(PERIOD)
        self._client.close()

    def _run(self) -> None:
        judge = LatencyJudge(self._limit)
        while not self.reason:
            began = time.monotonic()
            probe = self._look(self._client, self._namespace)
            self.probes.append(probe.latency)
            # Also of a probe that was sent before the trouble was over.
            if self._excused():
                judge.forget()
            else:
                self.reason = judge.take(probe)
            if self._over.wait(max(0.0, PERIOD - (time.monotonic() - began))):
                return


#: Seconds without a running workload before the first check, and the longest interval between two.
FIRST_CHECK_AFTER, MAX_CHECK_INTERVAL = 10.0, 60.0
#: Timeout for a response, seconds.
_TIMEOUT = 10.0
#: Maximum number of events and of pods that are read.
_PAGE_SIZE = 500


class StalledLoad:
    """Diagnoses a load without progress. ``reasons``: (number, warning). ``unschedulable``: why nothing can run."""

    def __init__(self, access: ApiServerAccess, spec: SamplingSpec) -> None:
        self.reasons: list[tuple[int, str]] = []
        self.unschedulable = ""
        #: Whether the load itself makes the control plane fail: it is not asked meanwhile.
        self.excused: Callable[[], bool] = _never
        self._client = Client(access, _TIMEOUT)
        self._spec = spec
        self._counts: tuple[int, int] | None = None
        self._pause = FIRST_CHECK_AFTER
        self._next = 0.0

    def look(self, counts: Mapping[str, Any], unfinished: int) -> None:
        """Compare the counts with the previous ones, and ask the API server after a time without progress.

        counts: of WorkloadTally, with "reasons" from conditions. unfinished: number of workloads that have to end.
        """
        now = time.monotonic()
        ended = sum(counts.get(name, 0) for name in ("succeeded", "failed", "deleted"))
        progress = (counts.get("running", 0), ended)
        if unfinished <= 0 or progress[0] or progress != self._counts or self.excused():
            self._counts, self._pause, self._next = progress, FIRST_CHECK_AFTER, now + FIRST_CHECK_AFTER
            self.reasons = []
        elif now >= self._next:
            try:
                self._ask(bool(counts.get("reasons")))
            finally:
                self._client.close()
            self._pause = min(self._pause * 2, MAX_CHECK_INTERVAL)
            self._next = time.monotonic() + self._pause

    def _ask(self, explained: bool) -> None:
        """Ask each question even if the account may not ask another one."""
        with self._unanswered():
            if not explained:
                self._read_warnings()
        with self._unanswered():
            kind = self._client.kind("v1", "Pod")
            pods = next(self._client.pages(kind, self._spec.namespace, self._ours, "status.phase=Pending", _PAGE_SIZE))
            if pods["items"]:
                self._judge_pods(pods["items"])
            else:
                self._judge_workloads()
            if not explained and not self.reasons:
                self.reasons = group_messages(filter(None, map(why_no_scheduler_acts, pods["items"])))

    @staticmethod
    def _unanswered() -> contextlib.AbstractContextManager[None]:
        """A request that fails or is forbidden leaves the load unexplained."""
        return contextlib.suppress(AccessError, ApiError, InputError)

    @property
    def _ours(self) -> str:
        return run_labels.workload_label_selector(self._spec.run, self._spec.point, self._spec.client)

    def _read_warnings(self) -> None:
        spec, kind = self._spec, self._client.kind("v1", "Event")
        page = next(self._client.pages(kind, spec.namespace, field_selector="type=Warning", limit=_PAGE_SIZE))
        self.reasons = group_messages(_newest_object_warnings(page["items"], f"{spec.run}-{spec.point}-"))

    def _judge_pods(self, pods: list[dict[str, Any]]) -> None:
        nodes = self._client.list(self._client.kind("v1", "Node"))[0]
        if any(run_labels.FAILURE in (node["metadata"].get("annotations") or {}) for node in nodes):
            return  # what a failure has taken from a node comes back
        reason = why_no_workload_can_run(pods, nodes)
        if reason and not why_pod_waits_or_cannot_run.find_node_autoscaler(self._client):
            self.unschedulable = reason

    def _judge_workloads(self) -> None:
        """Where no pod waits: do the limits of the namespaces permit any, and does a controller run?"""
        waiting = [pair for kind in self._spec.kinds if kind.kind in self._spec.own for pair in self._unended(kind)]
        if not self.reasons:
            self.reasons = group_messages(
                filter(None, (why_no_controller_acts(kind, workload) for kind, workload in waiting))
            )
        limits: dict[str, tuple[list[dict[str, Any]], ...]] = {}
        reasons: list[str] = []
        for kind, workload in waiting:
            namespace = workload["metadata"].get("namespace") or ""
            if namespace not in limits:
                kinds = ("ResourceQuota", "LimitRange")
                limits[namespace] = tuple(self._client.list(self._client.kind("v1", of), namespace)[0] for of in kinds)
            whys = (
                why_pod_waits_or_cannot_run.why_never_created(pod, *limits[namespace])
                for pod in why_pod_waits_or_cannot_run.pod_templates_in_object(workload)
            )
            why = next(filter(None, whys), "")
            if not why:
                return
            reasons.append(f"the pods of {kind.kind} {workload['metadata']['name']} can never be created: {why}")
        self.unschedulable = next(iter(reasons), "")

    def _unended(self, kind: KindStages) -> list[tuple[KindStages, dict[str, Any]]]:
        """Return the first workloads of a kind that have not ended."""
        for version in kind.api_versions:
            with contextlib.suppress(InputError):  # the server does not have this version
                served = self._client.kind(version, kind.kind)
                page = next(self._client.pages(served, self._spec.namespace, self._ours, limit=_PAGE_SIZE))
                reached = [
                    (workload, kind.values(workload, conditions_by_type(workload))) for workload in page["items"]
                ]
                return [
                    (kind, workload) for workload, values in reached if not any(values[number] for number in kind.ends)
                ]
        return []


def why_no_controller_acts(kind: KindStages, workload: dict[str, Any]) -> str:
    """Return that no controller has written a status, "" if one has or the stages of the kind need none."""
    stages = kind.definition["stages"]
    needed = any("condition" in stage or str(stage.get("field")).startswith("status.") for stage in stages)
    return (
        f"no controller has written a status of the {kind.kind}: does its operator run?"
        if needed and not workload.get("status")
        else ""
    )


def why_no_scheduler_acts(pod: dict[str, Any]) -> str:
    """Return that no scheduler has considered a pod, "" if one has, or if a scheduling gate holds it."""
    if "PodScheduled" in conditions_by_type(pod) or pod["spec"].get("nodeName"):
        return ""
    return f"no scheduler has considered the pod: does scheduler '{pod['spec'].get('schedulerName')}' run?"


def why_no_workload_can_run(pods: Iterable[dict[str, Any]], nodes: list[dict[str, Any]]) -> str:
    """Return why none of the workloads of these pods can ever run, or an empty string.

    A workload with one pod that fits no node cannot run.
    """
    known: dict[str, str] = {}  # many pods have the same requests
    workloads: dict[str, str] = {}
    for pod in pods:
        if conditions_by_type(pod).get("PodScheduled", {}).get("status") != "False" or pod["spec"].get(
            "schedulingGates"
        ):
            return ""  # it has a node, was not considered yet, or has a scheduling gate
        wanted, selector = why_pod_waits_or_cannot_run.pod_requests(pod["spec"]), pod["spec"].get("nodeSelector") or {}
        key = f"{wanted} {selector}"
        if key not in known:
            known[key] = why_pod_waits_or_cannot_run.why_pod_is_unschedulable(wanted, selector, nodes)
        index = get_label(pod, run_labels.INDEX)
        name = pod["metadata"]["name"]
        workloads[index] = workloads.get(index) or (
            f"pod {name} can never be scheduled: {known[key]}" if known[key] else ""
        )
    return next(iter(workloads.values()), "") if all(workloads.values()) else ""


def _newest_object_warnings(events: Iterable[dict[str, Any]], prefix: str) -> list[str]:
    """Return the newest warning of each object whose name begins with ``prefix``."""
    newest: dict[str, tuple[str, str]] = {}
    for event in events:
        name = (event.get("involvedObject") or {}).get("name") or ""
        at = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or ""
        if name.startswith(prefix) and (name not in newest or at >= newest[name][0]):
            newest[name] = (at, event.get("message") or event.get("reason") or "")
    return [message for _at, message in newest.values() if message]
