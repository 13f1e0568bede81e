# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a lock is recorded: Leases on the cluster, and ``lock-<host>.json`` in the directory of the run that has it.

There is a Lease of the holder, and one of each waiting run. The objects are coordination.k8s.io/v1 Leases of one
namespace. Every write names the version of the object that it replaces (``metadata.resourceVersion``), so the server
accepts only one of two concurrent changes.

The lock renewer writes the file after each renewal. Processes that put load on the cluster read it and stop when the
lock is lost. If the renewer itself has ended, the deadline in the file passes.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Protocol

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    DataError,
    InputError,
    OwnershipError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import boot_clock, boot_id
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import ApiReply
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.label_selectors import is_selected
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.lost_labels import refuse_lost_labels

SCHEMA = "lock/1"
PATTERN = "lock-*.json"

HELD, LOST, RELEASED = "held", "lost", "released"


def read_lock_record(path: str | Path) -> dict[str, Any] | None:
    """Return the record; None without a valid one."""
    try:
        record = files.read_json(path)
    except DataError:
        return None
    whole = isinstance(record, dict) and record.get("schema") == SCHEMA and {"cluster", "state", "lost"} <= {*record}
    return record if whole else None


def write_lock_record(path: str | Path, record: dict[str, Any]) -> None:
    """Replace the record."""
    files.write_json(path, record, SCHEMA)


def describe_lost_lock(run_dir: str | Path) -> str:
    """Return which lock of a run is lost and why; empty if none is.

    The deadline of a record from another machine, or from before a reboot, is ignored.
    """
    for path in sorted(Path(run_dir).glob(PATTERN)):
        record = read_lock_record(path)
        if record is None:
            continue
        if record["lost"]:
            return f"the lock on {record['cluster']} is lost: {record['lost']}"
        if record["state"] == HELD and record["boot"] == boot_id() and boot_clock() > record["deadline"]:
            return (
                f"the lock on {record['cluster']} is lost: it was not renewed since {record['renewed']} "
                f"(by process {record['keeper']['pid']})"
            )
    return ""


API_VERSION = "coordination.k8s.io/v1"

#: Name of the holder's Lease; the name of a waiter's Lease also has the id of its run.
NAME = "perfscale-seatrial"

#: Label of both, with the value ``holder`` or ``waiter``. They do not have the run's label, because the cleanup of a
#: run deletes all objects with that label and the lock is released after the cleanup.
LABEL = "perfscale.seatrial/lock"
HOLDER, WAITER = "holder", "waiter"

#: Longest duration of a Lease, seconds (an int32 in the API), and the end of the year 9999.
MOST_SECONDS, _LAST_MOMENT = 2**31 - 1, 253_402_300_799.0
#: Most seconds without a renewal after which a waiter has left the queue, whatever the duration of its Lease: one that
#: somebody else made must not block the queue. It loses only its place.
LONGEST_SILENCE_OF_WAITER = 300

PURPOSE = "perfscale.seatrial/purpose"
OWNER = "perfscale.seatrial/owner"


class LeaseConflictError(Exception):
    """The object changed since it was read."""


@dataclass(frozen=True)
class LockLease:
    """One Lease. ``duration`` in s; ``acquired`` and ``renewed`` in seconds since the epoch, for display only.

    ``version`` is empty for a Lease that is not on the server yet.
    """

    name: str
    role: str
    run: str
    duration: int
    purpose: str = ""
    owner: str = ""
    acquired: float = 0.0
    renewed: float = 0.0
    transitions: int = 0
    uid: str = ""
    version: str = ""
    created: str = ""

    @property
    def until(self) -> float:
        """When it expires unless it is renewed, by the clock of the process that renewed it."""
        return self.renewed + self.duration

    @property
    def longest_silence(self) -> int:
        """Seconds without a change after which it has expired."""
        return min(self.duration, LONGEST_SILENCE_OF_WAITER) if self.role == WAITER else self.duration

    def manifest(self, namespace: str) -> dict[str, Any]:
        """Return the object."""
        metadata: dict[str, Any] = {
            "name": self.name,
            "namespace": namespace,
            "labels": {LABEL: self.role},
            "annotations": {PURPOSE: self.purpose, OWNER: self.owner},
        }
        if self.version:
            metadata |= {"uid": self.uid, "resourceVersion": self.version}
        return {
            "apiVersion": API_VERSION,
            "kind": "Lease",
            "metadata": metadata,
            "spec": {
                "holderIdentity": self.run,
                "leaseDurationSeconds": self.duration,
                "acquireTime": format_micro_time(self.acquired),
                "renewTime": format_micro_time(self.renewed),
                "leaseTransitions": self.transitions,
            },
        }

    @classmethod
    def of(cls, lease: dict[str, Any]) -> LockLease:
        """Read an object."""
        with expect_documented_form("Lease", lease):
            metadata, spec = lease["metadata"], lease.get("spec") or {}
            annotations = metadata.get("annotations") or {}
            return cls(
                name=str(metadata["name"]),
                role=str((metadata.get("labels") or {}).get(LABEL, "")),
                run=str(spec.get("holderIdentity") or ""),
                duration=min(max(int(spec.get("leaseDurationSeconds") or 60), 1), MOST_SECONDS),
                purpose=str(annotations.get(PURPOSE, "")),
                owner=str(annotations.get(OWNER, "")),
                acquired=parse_micro_time(spec.get("acquireTime")),
                renewed=parse_micro_time(spec.get("renewTime")),
                transitions=int(spec.get("leaseTransitions") or 0),
                uid=str(metadata.get("uid", "")),
                version=str(metadata.get("resourceVersion", "")),
                created=str(metadata.get("creationTimestamp") or ""),
            )

    def summary(self) -> dict[str, Any]:
        """Return the Lease as a module returns it."""
        return {
            "run": self.run,
            "owner": self.owner,
            "purpose": self.purpose,
            "since": format_utc_seconds(self.acquired),
            "until": format_utc_seconds(self.until),
        }


class LockLeaseStore(Protocol):
    """Storage of the Leases. Errors are those of the client, and Conflict."""

    def look(self) -> list[LockLease]:
        """Return the Leases of the holder, if there is one, and of all waiters."""

    def named(self, name: str) -> LockLease | None:
        """Return the Lease of this name, also one without our label."""

    def put(self, entry: LockLease) -> LockLease:
        """Create the Lease (without a version) or replace exactly that version. Raises Conflict."""

    def remove(self, entry: LockLease) -> None:
        """Delete exactly that version; raises Conflict if it has changed. Deleting a missing Lease is no error."""

    def approximate_server_time(self) -> float:
        """Return the server's time, as far as known, in seconds since the epoch; for display only."""


class ServerStore:
    """The Leases of one namespace of an API server."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.path = f"/apis/{API_VERSION}/namespaces/{namespace}/leases"
        self._offset: float | None = None

    def look(self) -> list[LockLease]:
        """See LockLeaseStore."""
        page = self._send("GET", self.path, query={"labelSelector": LABEL})
        with expect_documented_form(f"{self.client.access.server}: the list of Leases", page):
            return [LockLease.of(item) for item in page.get("items") or [] if is_selected(LABEL, item)]

    def named(self, name: str) -> LockLease | None:
        """See LockLeaseStore. A list, as the lock requires no right to get Leases."""
        page = self._send("GET", self.path, query={"fieldSelector": f"metadata.name={name}"})
        with expect_documented_form(f"{self.client.access.server}: the list of Leases", page):
            leases = [LockLease.of(item) for item in page.get("items") or [] if item["metadata"]["name"] == name]
        return leases[0] if leases else None

    def put(self, entry: LockLease) -> LockLease:
        """See LockLeaseStore. Raises OwnershipError for a Lease of others, or if the cluster takes our label."""
        manifest = entry.manifest(self.namespace)
        if entry.version:
            return LockLease.of(self._send("PUT", f"{self.path}/{entry.name}", manifest))
        try:
            stored = self._send("POST", self.path, manifest)
        except LeaseConflictError:
            self._refuse_foreign(entry.name)
            raise
        created = LockLease.of(stored)
        refuse_lost_labels(self.client.access.server, manifest, stored, lambda: self._undo(created))
        return created

    def _undo(self, created: LockLease) -> None:
        with suppress(LeaseConflictError):  # another one has its name
            self.remove(replace(created, version=""))

    def remove(self, entry: LockLease) -> None:
        """See LockLeaseStore."""
        options = {"preconditions": {"uid": entry.uid, **({"resourceVersion": entry.version} if entry.version else {})}}
        try:
            self._send("DELETE", f"{self.path}/{entry.name}", options)
        except ApiError as error:
            if error.status != 404:
                raise

    def approximate_server_time(self) -> float:
        """See LockLeaseStore."""
        return time.monotonic() + self._offset if self._offset is not None else time.time()

    def _send(self, method: str, path: str, body: Any = None, query: dict[str, Any] | None = None) -> Any:
        """Send one request; the Date header of the response has the server's time."""
        data = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        reply = self.client.raw(method, path, data, query=query)
        self._note_date(reply)
        try:
            return self.client.parsed(reply, method, path)
        except ApiError as error:
            if error.status == 409:
                raise LeaseConflictError(str(error)) from error
            raise self._explained(error) from error

    def _note_date(self, reply: ApiReply) -> None:
        try:
            moment = parsedate_to_datetime(reply.header("date") or "").timestamp()
        except (TypeError, ValueError, OverflowError):
            return
        # A Date is truncated to seconds; half a second is the mean error.
        self._offset = moment + 0.5 - reply.answered

    def _refuse_foreign(self, name: str) -> None:
        try:
            lease = self._send("GET", f"{self.path}/{name}")
        except ApiError as error:
            if error.status == 404:
                return
            raise
        if not LockLease.of(lease).role:
            raise OwnershipError(
                f"{self.client.access.server}: Lease {self.namespace}/{name} exists and is not ours (it lacks the "
                f"label {LABEL}): choose another cluster_lock_namespace, or remove it"
            )

    def _explained(self, error: ApiError) -> Exception:
        if error.status == 403:
            return ApiError(
                f"{self.client.access.source} may not list, create, update and delete Leases in namespace "
                f"{self.namespace}, which the lock on {self.client.access.server} requires: {error}. Grant these "
                "rights, choose another cluster_lock_namespace, or set cluster_exclusive=true if no other run uses the "
                "cluster",
                403,
                error.reason,
            )
        if error.status == 404 and (error.resource, error.name) == ("namespaces", self.namespace):
            return InputError(
                f"cluster_lock_namespace '{self.namespace}' does not exist on {self.client.access.server}: {error}"
            )
        return error


def waiter_lease_name(run: str) -> str:
    """Return the name of a waiter's Lease."""
    return f"{NAME}-{run}"


def with_renewal_time(entry: LockLease, moment: float) -> LockLease:
    """Return ``entry`` renewed at ``moment``."""
    return replace(entry, renewed=moment)


def format_micro_time(moment: float) -> str:
    """Return a moment as MicroTime: RFC 3339 with microseconds."""
    return _utc(moment).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_micro_time(text: str | None) -> float:
    """Return a MicroTime in seconds since the epoch; 0 without one or if it can't be parsed."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except (TypeError, ValueError, OverflowError):
        return 0.0


def format_utc_seconds(moment: float) -> str:
    """Return a time as text: UTC, to the second."""
    return _utc(moment).strftime("%Y-%m-%dT%H:%M:%SZ")


def _utc(moment: float) -> datetime:
    """Return a time, the nearest one that has four digits of the year: others may have written any."""
    return datetime.fromtimestamp(min(max(moment, 0.0), _LAST_MOMENT), UTC)
