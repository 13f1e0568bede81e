# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A barrier for workloads that wait: when enough of them are ready, they are released at their times.

All workloads of a point watch one Lease. Its ``spec.leaseTransitions`` is the number of released workloads, in the
order of their indices, so one write releases any number at the same moment. A row ``release`` in the ledger records
each write, so that a resumed load releases only the others.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import TYPE_CHECKING, Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import ApiReply, Broken
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import get_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.why_pod_waits_or_cannot_run import (
    why_pod_waits_or_ended,
)

from ..plan import arrival_times
from ..plan.rendered_workload_templates import workload_name
from . import creation_ledger
from .load_spec import ARRIVAL
from .object_creator import SenderSettings
from .timed_requests import RequestThread

ALL = "all"
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")


@dataclass(frozen=True)
class ReleaseBatch:
    """Workloads that one write releases: those with an index below ``until`` that no earlier batch has released.

    offset: seconds after the barrier opened. pause: seconds after the batch before was answered, where there is no
    schedule.
    """

    until: int
    offset: float | None = None
    pause: float = 0.0


@dataclass(frozen=True)
class ReleaseSpec:
    """Option ``release`` of workload_submit.

    stage: of the workloads' kind, by which one shows that it is ready. required: number of workloads that have to be
    ready, and then to succeed. timeout: for all to be ready after the last one was created, seconds. abort: whether
    the load ends as soon as so many have failed that the required number cannot succeed.
    """

    stage: str
    required: int
    timeout: float
    abort: bool
    batches: tuple[ReleaseBatch, ...]
    header: Mapping[str, Any]

    @classmethod
    def from_params(cls, params: Mapping[str, Any], count: int, seed: int | None) -> ReleaseSpec:
        """Return the release of ``count`` workloads. Raises InputError naming the key and its value."""
        if params["timeout"] < 0:
            raise InputError(f"release: timeout is {params['timeout']:g}, it must be 0 or more")
        releases = arrival_times.arrivals_from_options(_parse_release_arrivals(params["arrival"]), count, seed or 1)
        if releases.count != count:
            raise InputError(f"release: arrival releases {releases.count} workloads, and there are {count}")
        header = {"stage": params["stage"], "required": str(params["required"]), "arrival": releases.header}
        return cls(
            params["stage"],
            required_ready_count(str(params["required"]), count),
            params["timeout"],
            params["abort"],
            tuple(_release_batches(releases)),
            header,
        )


def check_release_is_possible(params: Mapping[str, Any], count: int, seed: int | None, names: Sequence[str]) -> None:
    """Raise InputError for a release that cannot be. names: the stages of the workloads' own kind."""
    ReleaseSpec.from_params(params, count, seed)
    if params["stage"] not in names:
        raise InputError(
            f"release: the workloads have no stage '{params['stage']}'{suggest_similar_name(params['stage'], names)}"
        )


def required_ready_count(text: str, count: int) -> int:
    """Return how many of ``count`` are required: all, a percentage (rounded up), or a number. Raises InputError."""
    asked = text.strip()
    percent = _PERCENT.fullmatch(asked)
    if asked == ALL:
        return count
    if percent and 0 < float(percent[1]) <= 100:
        return ceil(round(float(percent[1]) * count / 100, 9))
    if 0 < (number := formats.parse_whole_number(asked) or 0) <= count:
        return number
    raise InputError(f"required is '{text}': it must be all, a percentage such as 95 %, or a number from 1 to {count}")


def _parse_release_arrivals(arrival: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrivals of the release with the types that option arrival has. Raises InputError."""
    spec = {"arrival": {"type": "dict", "options": ARRIVAL}}
    validation = ArgumentSpecValidator(spec).validate({"arrival": dict(arrival)})
    if validation.error_messages:
        raise InputError(f"release: {'; '.join(validation.error_messages)}")
    return dict(validation.validated_parameters["arrival"])


def _release_batches(releases: arrival_times.ArrivalTimes) -> list[ReleaseBatch]:
    if releases.header["type"] != arrival_times.CLOSED:
        batches, until = [], 0
        for offset, same in groupby(releases.offsets):
            until += len(list(same))
            batches.append(ReleaseBatch(until, offset))
        return batches
    if releases.header.get("at_once"):
        raise InputError("release: arrival at_once cannot be used: the end of a workload releases no other one")
    size = int(releases.header.get("batch") or releases.count or 1)
    pause = float(releases.header.get("delay") or 0)
    ends = [*range(size, releases.count, size), releases.count] if releases.count else []
    return [ReleaseBatch(until, None, pause if number else 0.0) for number, until in enumerate(ends)]


if TYPE_CHECKING:
    from .load_spec import LoadSpec

LEASE = ServedKind("coordination.k8s.io/v1", "Lease", "leases", True)
POD = ServedKind("v1", "Pod", "pods", True)
#: Pause before another attempt after an error, seconds.
_PAUSE = 0.5
#: Maximum number of missing workloads that a message names.
_NAMED = 5


def release_lease_name(run: str, point: str) -> str:
    """Return the name of the Lease that the workloads of a point watch."""
    return workload_name(run, point, "release")


def make_workload_releaser(
    request: LoadSpec, settings: SenderSettings, namespace: str, past: creation_ledger.ResumeState
) -> WorkloadReleaser | None:
    """Return what releases the workloads of a load, None if they wait for nothing. namespace: of the Lease."""
    if not request.release.get("stage"):
        return None
    spec = ReleaseSpec.from_params(request.release, request.count, request.seed)
    return WorkloadReleaser(settings, spec, namespace, request.count, past.released)


class WorkloadReleaser(RequestThread):
    """Releases workloads. One thread calls note(), look() and check(); a second one sends."""

    def __init__(
        self, settings: SenderSettings, spec: ReleaseSpec, namespace: str, count: int, released: int = 0
    ) -> None:
        """``released``: number of workloads that earlier sessions released."""
        super().__init__(settings, "releases")
        self.spec = spec
        self.count = count
        self.released = released
        self.ready: set[int] = set()
        self.absent = ""  # which workloads were not ready when the barrier opened, and why
        self.lateness: list[float] = []
        self._ended: dict[int, str] = {}
        self._namespace = namespace
        self._name = release_lease_name(settings.run, settings.point)
        self._deadline: float | None = None

    @property
    def left(self) -> int:
        """Number of workloads that are not released."""
        return self.count - self.released

    def create(self) -> None:
        """Create the Lease, unless an earlier session did. Raises AccessError, ApiError."""
        labels = {run_labels.RUN: self._settings.run, run_labels.POINT: self._settings.point}
        metadata = {"name": self._name, "namespace": self._namespace, "labels": labels}
        lease = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": {}}
        self._client.create_once(LEASE.path(self._namespace), lease)

    def begin_timeout(self) -> None:
        """Start the timeout of the barrier: everything was created."""
        self._deadline = time.monotonic() + self.spec.timeout

    def note(self, reached: Iterable[tuple[int, str]]) -> None:
        """Take what the sampler saw: (index, the stage of readiness or the outcome)."""
        for index, what in reached:
            if what == self.spec.stage:
                self.ready.add(index)
            else:
                self._ended.setdefault(index, what)

    def look(self) -> str:
        """Open the barrier if it may be opened; return why the load has to end, else an empty string."""
        lost = sum(outcome != "succeeded" for outcome in self._ended.values())
        spec = self.spec
        if self._thread is None and self.left:
            waiting = [index for index in range(self.count) if index not in self.ready and index not in self._ended]
            there = len(self.ready - self._ended.keys())
            late = self._deadline is not None and time.monotonic() >= self._deadline
            if self._deadline is None or (waiting and not late and there + len(waiting) >= spec.required):
                return ""
            lacking = self.count - there
            if not self.released and lacking:
                missing = self._missing(there, late)
                if there < spec.required:
                    return missing
                self.absent = f"Not all were ready at the release: {missing}"
            self._begin()
        if spec.abort and self.count - lost < spec.required:
            return f"{lost} of {self.count} failed, and {spec.required} are required to succeed"
        return ""

    def _missing(self, there: int, late: bool) -> str:
        """Return which workloads are not ready and why, as their pods say."""
        settings = self._settings
        states: dict[str, str] = {}
        try:
            pods = self._client.list(
                POD, self._namespace, run_labels.workload_label_selector(settings.run, settings.point)
            )[0]
            states = {get_label(pod, run_labels.INDEX): why_pod_waits_or_ended(pod) for pod in pods}
        except (AccessError, ApiError):
            pass  # the names matter more than the reasons
        lacking = [index for index in range(self.count) if index not in self.ready or index in self._ended]
        names = [
            f"{workload_name(settings.run, settings.point, index)} "
            f"({states.get(str(index), self._ended.get(index, 'no pod'))})"
            for index in lacking[:_NAMED]
        ]
        when = f"after {self.spec.timeout:g} s " if late else ""
        more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
        return (
            f"{when}{there} of {self.count} were ready and {self.spec.required} are required; "
            f"missing: {', '.join(names)}{more}"
        )

    def _serve(self) -> None:
        todo = [batch for batch in self.spec.batches if batch.until > self.released]
        # A resumed schedule continues where it was interrupted: the first batch is due now.
        skipped = (todo[0].offset or 0.0) if todo and self.released else 0.0
        start = answered = time.monotonic()
        for batch in todo:
            due = answered + batch.pause if batch.offset is None else start + batch.offset - skipped
            if not self._until(due):
                return
            answered = self._release(batch, due)

    def _until(self, moment: float) -> bool:
        """Wait until ``moment``; return whether to go on."""
        with self._changed:
            while not self._halt and (wait := moment - time.monotonic()) > 0:
                self._changed.wait(wait)
            return not self._halt

    def _release(self, batch: ReleaseBatch, due: float) -> float:
        """Write the Lease; return when it was answered. Raises AccessError, ApiError after ``retry_time`` seconds."""
        path = LEASE.path(self._namespace, self._name)
        body = json.dumps({"spec": {"leaseTransitions": batch.until}}).encode()
        first = time.monotonic()
        while True:
            sent, reply, broken = time.monotonic(), None, ""
            try:
                reply = self._client.raw("PATCH", path, body, MERGE_PATCH)
            except Broken as error:
                broken = str(error)
            sent, answered = (reply.sent, reply.answered) if reply is not None else (sent, time.monotonic())
            status = reply.status if reply is not None else 0
            self._write(batch, due, sent, answered, reply)
            if status == creation_ledger.RELEASED:
                self.lateness.append(first - due)
                self.released = batch.until
                return answered
            if not self._may_repeat(status, answered - first):
                raise self._failure(f"PATCH {path}", reply, broken)
            if not self._until(answered + _PAUSE):
                raise AccessError("the load is being stopped")

    def _write(self, batch: ReleaseBatch, due: float, sent: float, answered: float, reply: ApiReply | None) -> None:
        status = reply.status if reply is not None else 0
        row: dict[str, Any] = {"type": "release", "name": self._name, "released": batch.until, "status": status}
        if reply is not None and status == creation_ledger.RELEASED:
            row["resource_version"] = parse_json(reply.body)["metadata"]["resourceVersion"]
        self._record(row, due, sent, answered)
