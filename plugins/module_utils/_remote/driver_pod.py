# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load in a pod of the driver cluster, seen from the controller: started or found again, followed, fetched, removed.

Everything goes through the API server of the driver cluster, and everything is found by the load's name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import (
    AccessError,
    ApiError,
    InputError,
    ProcessError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import kubeconfig
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import Kind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import conditions, holds, label
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote import chunked_transfer, pod_manifests
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote.connection_retry import ConnectionRetry
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote.detached_load import (
    ABSENT,
    DIED,
    ENDED,
    RUNNING,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote.pod_manifests import DriverPodSpec

JOB = Kind("batch/v1", "Job", "jobs", True)
POD = Kind("v1", "Pod", "pods", True)
NAMESPACE = Kind("v1", "Namespace", "namespaces", False)
#: What belongs to a load and not to its Job: rights on the target, which may be in other namespaces.
GRANTS = tuple(
    Kind("rbac.authorization.k8s.io/v1", kind, f"{kind.lower()}s", space)
    for kind, space in (("RoleBinding", True), ("Role", True), ("ClusterRoleBinding", False), ("ClusterRole", False))
)

#: Seconds between two looks, and that a load is given to go.
LOOK, GOING = 1.0, 120.0


@dataclass(frozen=True)
class DriverPodStatus:
    """How a load stands. waiting: what its pod waits for, or how it ended. count: lines that it has said in all."""

    state: str
    waiting: str = ""
    lines: tuple[str, ...] = ()
    count: int = 0
    beat: str = ""
    log: str = ""
    result: Mapping[str, Any] | None = None


class DriverPod:
    """The load of one point in a pod. ``say`` tells what happens; ``reconnect``: seconds of a lost connection."""

    def __init__(
        self, client: Client, order: DriverPodSpec, say: Callable[[str], None], reconnect: float = 600.0
    ) -> None:
        self.client = client
        self.order = order
        self.say = say
        self.retry = ConnectionRetry("the driver cluster", order.run, reconnect, say, _lost)

    # Beginning

    def start(self, request: Mapping[str, Any], wanted: LoadSpec, lock: Mapping[str, Any] | None) -> bool:
        """Start the load unless it is there, whatever became of it; return whether it is new.

        request: parameters of workload_submit, ``wanted`` the same, with the target's kubeconfig and context. A start
        that was cut short is taken up. Raises InputError before anything is made, ApiError for what is refused.
        """
        order, client = self.order, self.client
        there = client.get(JOB, order.name, order.place)
        if there is not None and not there["spec"].get("suspend"):
            return False
        if not order.image:
            raise InputError("workload_driver_image is empty: it needs Python 3.11, PyYAML, Jinja2, jmespath")
        with Client.from_kubeconfig(wanted.kubeconfig, wanted.context) as target:
            same = (target.access.server, target.access.prefix) == (client.access.server, client.access.prefix)
            config = None if same else kubeconfig.standalone(wanted.kubeconfig, wanted.context)
            grants = pod_manifests.grants(order, pod_manifests.rights(target, wanted, lock)) if same else []
            asked = {**request, "context": "", "namespace": wanted.namespace or target.access.namespace}
        if not order.namespace:
            self._make(pod_manifests.namespace(order))
        elif client.get(NAMESPACE, order.namespace) is None:
            raise InputError(f"workload_driver_namespace: {client.access.server} has no namespace '{order.namespace}'")
        self._make(pod_manifests.job(order))
        uid = client.request("GET", JOB.path(order.place, order.name))["metadata"]["uid"]
        for one in (*pod_manifests.owned(order, uid, {"request": asked, "lock": lock}, config), *grants):
            self._make(one)
        client.request(
            "PATCH", JOB.path(order.place, order.name), {"spec": {"suspend": False}}, content_type=MERGE_PATCH
        )
        self.say(f"Job {order.name} in namespace {order.place} of {client.access.server}")
        return True

    def _make(self, manifest: dict[str, Any]) -> None:
        """Create it; what a start that was cut short has made is there already."""
        try:
            self.client.create(manifest)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    # In between

    def status(self) -> DriverPodStatus:
        """Return how the load stands."""
        order = self.order
        job = self.client.get(JOB, order.name, order.place)
        if job is None or job["spec"].get("suspend"):
            return DriverPodStatus(ABSENT)
        told = self.client.get(chunked_transfer.CONFIG_MAP, f"{order.name}-state", order.place) or {}
        data = told.get("data") or {}
        state = data.get("state", "")
        known = DriverPodStatus(
            state or RUNNING,
            lines=tuple(json.loads(data.get("lines", "[]"))),
            count=int(data.get("count", 0)),
            beat=data.get("beat", ""),
            log=json.loads(data.get("log", '""')),
            result=json.loads(data["result"]) if "result" in data else None,
        )
        if state in (ENDED, DIED):
            return known
        if holds(job, "Failed") or holds(job, "Complete"):
            over = [one for kind, one in conditions(job).items() if holds(job, kind)]
            words = self._words() or "; ".join(str(one.get("message") or one["type"]) for one in over)
            return DriverPodStatus(DIED, waiting=words, lines=known.lines, count=known.count)
        return known if state else DriverPodStatus(RUNNING, waiting=self._words() or "its pod is not there yet")

    def _words(self) -> str:
        """Say what the pod waits for, or how it ended."""
        selector = f"{_labels.RUN}={self.order.run},{_labels.LOAD}={self.order.point}"
        return "; ".join(words(one) for one in self.client.list(POD, self.order.place, selector)[0])

    def follow(self, start_timeout: float) -> Mapping[str, Any]:
        """Show what the load says until it has ended; return its result and its parcels.

        Raises ProcessError when it died, WaitTimeout when its pod does not begin or nothing was heard for too long.
        """
        began = heard = time.monotonic()
        shown, waiting, beat = 0, "", ""
        while True:
            found = self.retry.call("following it", self.status)
            new = found.count - shown
            for line in found.lines[-new:] if new > 0 else ():
                self.say(line)
            shown = max(shown, found.count)
            if found.state == ENDED and found.result is not None:
                return found.result
            if found.state != RUNNING:
                fate = "is gone" if found.state == ABSENT else "died without a result"
                why = found.log or found.waiting or "nobody knows why"
                raise ProcessError(f"the load of run {self.order.run} {fate}: {why}")
            now = time.monotonic()
            if found.beat != beat:
                beat, heard = found.beat, now
            if found.waiting and found.waiting != waiting:
                waiting = found.waiting
                self.say("its pod runs" if waiting == "Running" else f"waits for its pod: {waiting}")
            if not beat and now - began > start_timeout:
                raise WaitTimeout(f"the pod of {self.order.name} did not begin within {start_timeout:g} s: {waiting}")
            if beat and now - heard > self.retry.patience:
                raise WaitTimeout(f"nothing was heard of {self.order.name} for {now - heard:.0f} s: {self._words()}")
            time.sleep(LOOK)

    # The end

    def fetch(self, sent: list[dict[str, Any]], point_dir: Path, step_dir: Path | None) -> None:
        """Fetch the point's files, and append what belongs into the directory of the role call."""
        for one in sent:
            folder = point_dir if one["kind"] == "point" else step_dir
            if folder is None:
                continue
            here = folder / Path(one["name"]).name
            self.retry.fetch(
                partial(chunked_transfer.fetch, self.client, self.order.place, one),
                here,
                append=one["kind"] != "point",
            )
        size, parts = sum(one["size"] for one in sent), sum(len(one["parts"]) for one in sent)
        self.say(f"fetched {len(sent)} files, {size / 2**20:.1f} MiB in {parts} chunks")

    def remove(self) -> bool:
        """End the load and remove all that belongs to it; return whether there was something. Safe twice.

        Raises WaitTimeout when the Job or its pod does not go.
        """
        order, client = self.order, self.client
        selector = f"{_labels.RUN}={order.run},{_labels.LOAD}={order.point}"
        there = client.delete(JOB, order.name, order.place, {"propagationPolicy": "Foreground"})
        for kind in GRANTS:
            for one in client.list(kind, "", selector)[0]:
                meta = one["metadata"]
                there = client.delete(kind, meta["name"], meta.get("namespace", "")) or there
        deadline = time.monotonic() + GOING
        while client.get(JOB, order.name, order.place) is not None:
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"Job {order.place}/{order.name} is still there after {GOING:g} s: {self._words()}")
            time.sleep(0.3)
        own = None if order.namespace else client.get(NAMESPACE, order.place)
        ours = own is not None and label(own, _labels.RUN) == order.run
        if own is not None and ours and not client.list(JOB, order.place)[0]:  # another point may use it
            client.delete_seen(NAMESPACE, order.place, "", own["metadata"]["uid"])
        return there


def _lost(error: Exception) -> bool:
    """Tell whether the API server could not be reached, or is in trouble."""
    if isinstance(error, ApiError):
        return error.busy
    return isinstance(error, AccessError)


def words(pod: Mapping[str, Any]) -> str:
    """Say what a pod waits for, or how it ended: its container's own words, else the scheduler's."""
    status = pod.get("status") or {}
    for one in status.get("containerStatuses") or []:
        state = one.get("state") or {}
        if state.get("waiting"):
            return _joined(state["waiting"])
        if state.get("terminated"):
            ended = state["terminated"]
            return f"exit code {ended.get('exitCode')}, {_joined(ended)}"
    for one in status.get("conditions") or []:
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return _joined(one)
    return _joined(status) or str(status.get("phase") or "Pending")


def _joined(one: Mapping[str, Any]) -> str:
    return ": ".join(str(one[name]).strip() for name in ("reason", "message") if one.get(name))
