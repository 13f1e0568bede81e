# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Diagnoses a load without running workloads: warnings, if no condition explains it, and whether it can run at all.

The API server is asked only while nothing runs and nothing ends, so that no measurement is disturbed, at growing
intervals.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import pod_fits_nodes
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_credentials import Access
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import conditions, label

from ..kinds.sampling_spec import SamplingSpec
from ..sample.pending_reasons import grouped

#: Seconds without a running workload before the first check, and the longest interval between two.
PATIENCE, LONGEST = 10.0, 60.0
#: Timeout for a response, seconds.
_TIMEOUT = 10.0
#: Maximum number of events and of pods that are read.
_SOME = 500


class StalledLoad:
    """Diagnoses a load without progress. ``reasons``: (number, warning). ``hopeless``: why nothing can ever run."""

    def __init__(self, access: Access, spec: SamplingSpec) -> None:
        self.reasons: list[tuple[int, str]] = []
        self.hopeless = ""
        self._client = Client(access, _TIMEOUT)
        self._spec = spec
        self._counts: tuple[int, int] | None = None
        self._pause = PATIENCE
        self._next = 0.0

    def look(self, counts: Mapping[str, Any], unfinished: int) -> None:
        """Compare the counts with the previous ones, and ask the API server after a time without progress.

        counts: of WorkloadTally, with "reasons" from conditions. unfinished: number of workloads that have to end.
        """
        now = time.monotonic()
        ended = sum(counts.get(name, 0) for name in ("succeeded", "failed", "deleted"))
        progress = (counts.get("running", 0), ended)
        if unfinished <= 0 or progress[0] or progress != self._counts:
            self._counts, self._pause, self._next = progress, PATIENCE, now + PATIENCE
            self.reasons = []
        elif now >= self._next:
            try:
                self._ask(bool(counts.get("reasons")))
            except (AccessError, ApiError, InputError):
                pass  # this only explains; a request that fails or is forbidden leaves the load unexplained
            finally:
                self._client.close()
            self._pause = min(self._pause * 2, LONGEST)
            self._next = time.monotonic() + self._pause

    def _ask(self, explained: bool) -> None:
        spec = self._spec
        if not explained:
            kind = self._client.kind("v1", "Event")
            page = next(self._client.pages(kind, spec.namespace, field_selector="type=Warning", limit=_SOME))
            self.reasons = grouped(_warnings(page["items"], f"{spec.run}-{spec.point}-"))
        kind, selector = self._client.kind("v1", "Pod"), run_labels.selector(spec.run, spec.point, spec.client)
        page = next(self._client.pages(kind, spec.namespace, selector, "status.phase=Pending", _SOME))
        if page["items"]:
            nodes = self._client.list(self._client.kind("v1", "Node"))[0]
            found = hopeless(page["items"], nodes)
            if found and not pod_fits_nodes.autoscaler(self._client):
                self.hopeless = found


def hopeless(pods: Iterable[dict[str, Any]], nodes: list[dict[str, Any]]) -> str:
    """Return why none of the workloads of these pods can ever run, or an empty string.

    A workload with one pod that fits no node cannot run.
    """
    known: dict[str, str] = {}  # many pods have the same requests
    workloads: dict[str, str] = {}
    for pod in pods:
        if conditions(pod).get("PodScheduled", {}).get("status") != "False" or pod["spec"].get("schedulingGates"):
            return ""  # it has a node, was not considered yet, or has a scheduling gate
        wanted, selector = pod_fits_nodes.requests(pod["spec"]), pod["spec"].get("nodeSelector") or {}
        key = f"{wanted} {selector}"
        if key not in known:
            known[key] = pod_fits_nodes.never(wanted, selector, nodes)
        index = label(pod, run_labels.INDEX)
        name = pod["metadata"]["name"]
        workloads[index] = workloads.get(index) or (
            f"pod {name} can never be scheduled: {known[key]}" if known[key] else ""
        )
    return next(iter(workloads.values()), "") if all(workloads.values()) else ""


def _warnings(events: Iterable[dict[str, Any]], prefix: str) -> list[str]:
    """Return the newest warning of each object whose name begins with ``prefix``."""
    newest: dict[str, tuple[str, str]] = {}
    for one in events:
        name = (one.get("involvedObject") or {}).get("name") or ""
        at = one.get("lastTimestamp") or one.get("eventTime") or one["metadata"].get("creationTimestamp") or ""
        if name.startswith(prefix) and (name not in newest or at >= newest[name][0]):
            newest[name] = (at, one.get("message") or one.get("reason") or "")
    return [message for _at, message in newest.values() if message]
