# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load in a pod of the driver cluster, from the controller: starting, following, fetching its files, removing it.

All communication goes through the API server of the driver cluster. Objects are found by the name of the load.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _labels, _wait_until
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.pod_state import waits
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
#: Kinds of a load's objects that its Job does not own: rights on the target, possibly in other namespaces.
GRANTS = tuple(
    Kind("rbac.authorization.k8s.io/v1", kind, f"{kind.lower()}s", space)
    for kind, space in (("RoleBinding", True), ("Role", True), ("ClusterRoleBinding", False), ("ClusterRole", False))
)

#: Polling interval, and timeout for the deletion of a load, seconds.
LOOK, DELETION = 1.0, 120.0


@dataclass(frozen=True)
class DriverPodStatus:
    """The state of a load. waiting: why its pod waits, or how it ended. count: number of its lines so far."""

    state: str
    waiting: str = ""
    lines: tuple[str, ...] = ()
    count: int = 0
    beat: str = ""
    log: str = ""
    result: Mapping[str, Any] | None = None


class DriverPod:
    """The load of one point in a pod. ``say`` shows progress; ``reconnect``: how long to retry, seconds."""

    def __init__(
        self, client: Client, spec: DriverPodSpec, say: Callable[[str], None], reconnect: float = 600.0
    ) -> None:
        self.client = client
        self.spec = spec
        self.say = say
        self.retry = ConnectionRetry("the driver cluster", spec.run, reconnect, say, _lost)

    # Start

    def start(self, request: Mapping[str, Any], load: LoadSpec, lock: Mapping[str, Any] | None) -> bool:
        """Start the load unless it exists, in whatever state; return whether it was started.

        request: parameters of workload_submit. load: the same, with kubeconfig and context of the target. Completes a
        start that was interrupted. Raises InputError before anything is created, ApiError for a refusal.
        """
        spec, client = self.spec, self.client
        there = client.get(JOB, spec.name, spec.home)
        if there is not None and not there["spec"].get("suspend"):
            return False
        if not spec.image:
            raise InputError("workload_driver_image is empty: it needs Python 3.11, PyYAML, Jinja2, jmespath")
        with Client.from_kubeconfig(load.kubeconfig, load.context) as target:
            same = (target.access.server, target.access.prefix) == (client.access.server, client.access.prefix)
            config = None if same else kubeconfig.standalone(load.kubeconfig, load.context)
            grants = pod_manifests.grants(spec, pod_manifests.rights(target, load, lock)) if same else []
            asked = {**request, "context": "", "namespace": load.namespace or target.access.namespace}
        if not spec.namespace:
            self._await_deletion()
            self._create(pod_manifests.namespace(spec))
        elif client.get(NAMESPACE, spec.namespace) is None:
            raise InputError(f"workload_driver_namespace: {client.access.server} has no namespace '{spec.namespace}'")
        self._create(pod_manifests.job(spec))
        uid = client.request("GET", JOB.path(spec.home, spec.name))["metadata"]["uid"]
        for one in (*pod_manifests.owned(spec, uid, {"request": asked, "lock": lock}, config), *grants):
            self._create(one)
        client.request("PATCH", JOB.path(spec.home, spec.name), {"spec": {"suspend": False}}, content_type=MERGE_PATCH)
        self.say(f"Job {spec.name} in namespace {spec.home} of {client.access.server}")
        return True

    def _await_deletion(self) -> None:
        """Wait until the namespace of the point before is gone: the API server refuses objects in it meanwhile."""

        def look() -> tuple[bool | None, str]:
            found = self.client.get(NAMESPACE, self.spec.home, metadata_only=True)
            deleted = found is not None and "deletionTimestamp" in found["metadata"]
            return None if deleted else True, f"waits for the deletion of namespace {self.spec.home}"

        _wait_until.wait_until(look, DELETION, self.say, lambda text: f"{text}: not done in {DELETION:g} s", LOOK)

    def _create(self, manifest: dict[str, Any]) -> None:
        """Create an object; an interrupted start may have created it before."""
        try:
            self.client.create(manifest)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    # Progress

    def status(self) -> DriverPodStatus:
        """Return the state of the load."""
        spec = self.spec
        job = self.client.get(JOB, spec.name, spec.home)
        if job is None or job["spec"].get("suspend"):
            return DriverPodStatus(ABSENT)
        stored = self.client.get(chunked_transfer.CONFIG_MAP, f"{spec.name}-state", spec.home) or {}
        data = stored.get("data") or {}
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
            words = self._waits() or "; ".join(str(one.get("message") or one["type"]) for one in over)
            return DriverPodStatus(DIED, waiting=words, lines=known.lines, count=known.count)
        return known if state else DriverPodStatus(RUNNING, waiting=self._waits() or "its pod does not exist yet")

    def _waits(self) -> str:
        """Return why the pods wait, or how they ended."""
        selector = f"{_labels.RUN}={self.spec.run},{_labels.LOAD}={self.spec.point}"
        return "; ".join(waits(one) for one in self.client.list(POD, self.spec.home, selector)[0])

    def follow(self, start_timeout: float) -> Mapping[str, Any]:
        """Show the lines of the load until it has ended; return its outcome and the records of its files.

        Raises ProcessError if it died, WaitTimeout if its pod does not start or the load shows no sign of life.
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
                fate = "was deleted" if found.state == ABSENT else "died without a result"
                why = found.log or found.waiting or "the reason is unknown"
                raise ProcessError(f"the load of run {self.spec.run} {fate}: {why}")
            now = time.monotonic()
            if found.beat != beat:
                beat, heard = found.beat, now
            if found.waiting and found.waiting != waiting:
                waiting = found.waiting
                self.say("its pod runs" if waiting == "Running" else f"waits for its pod: {waiting}")
            if not beat and now - began > start_timeout:
                raise WaitTimeout(f"the pod of {self.spec.name} did not start within {start_timeout:g} s: {waiting}")
            if beat and now - heard > self.retry.patience:
                raise WaitTimeout(f"no sign of life of {self.spec.name} for {now - heard:.0f} s: {self._waits()}")
            time.sleep(LOOK)

    # End

    def fetch(self, sent: list[dict[str, Any]], point_dir: Path, step_dir: Path | None) -> None:
        """Fetch the files of the point, and append those of the role call to the ones in ``step_dir``."""
        for one in sent:
            folder = point_dir if one["kind"] == "point" else step_dir
            if folder is None:
                continue
            here = folder / Path(one["name"]).name
            self.retry.fetch(
                partial(chunked_transfer.fetch, self.client, self.spec.home, one),
                here,
                append=one["kind"] != "point",
            )
        size, parts = sum(one["size"] for one in sent), sum(len(one["parts"]) for one in sent)
        self.say(f"fetched {len(sent)} files, {size / 2**20:.1f} MiB in {parts} chunks")

    def remove(self) -> bool:
        """End the load and delete all of its objects; return whether there were any. Safe to repeat.

        Raises WaitTimeout if the Job or its pod is not deleted in time.
        """
        spec, client = self.spec, self.client
        selector = f"{_labels.RUN}={spec.run},{_labels.LOAD}={spec.point}"
        there = client.delete(JOB, spec.name, spec.home, {"propagationPolicy": "Foreground"})
        for kind in GRANTS:
            for one in client.list(kind, "", selector)[0]:
                meta = one["metadata"]
                there = client.delete(kind, meta["name"], meta.get("namespace", "")) or there
        deadline = time.monotonic() + DELETION
        while client.get(JOB, spec.name, spec.home) is not None:
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"Job {spec.home}/{spec.name} is still there after {DELETION:g} s: {self._waits()}")
            time.sleep(0.3)
        own = None if spec.namespace else client.get(NAMESPACE, spec.home)
        ours = own is not None and label(own, _labels.RUN) == spec.run
        if own is not None and ours and not client.list(JOB, spec.home)[0]:  # another point may use it
            client.delete_seen(NAMESPACE, spec.home, "", own["metadata"]["uid"])
        return there


def _lost(error: Exception) -> bool:
    """Return whether the API server could not be reached, or is overloaded."""
    if isinstance(error, ApiError):
        return error.busy
    return isinstance(error, AccessError)
