# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load in pods of the driver cluster, as the controller sees it: starting, state, fetching its files, removing it.

All communication goes through the API server of the driver cluster. Objects are found by the name of the load. The
state of the clients is in their ConfigMaps and in the status of their Job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels, waiting
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    DataError,
    InputError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    parse_json,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import objects_of_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    conditions_by_type,
    get_label,
    is_condition_true,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.why_pod_waits_or_cannot_run import (
    why_pod_waits_or_ended,
)

from . import host_or_pod_load, pod_files_through_configmaps, pod_manifests, result_bucket, result_upload
from .detached_load import ENDED
from .host_or_pod_load import ConnectionRetry
from .pod_manifests import DriverPodSpec
from .result_bucket import ResultStore

#: Label of a pod with the number of its client.
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class ClientState:
    """What a client has reported. count: number of its lines so far; result: its outcome, and the records of files.

    holds: why files that are too large for the API server are still in its pod.
    """

    state: str = ""
    lines: tuple[str, ...] = ()
    count: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    beat: str = ""
    result: Mapping[str, Any] | None = None
    holds: str = ""

    @classmethod
    def from_config_map(cls, stored: Mapping[str, Any]) -> ClientState:
        """Read the ConfigMap of a client. Raises DataError for what no client writes."""
        with expect_documented_form("the ConfigMap of a client of the load", stored.get("data"), DataError):
            data = stored.get("data") or {}
            result = parse_json(data["result"]) if "result" in data else None
            if result is not None:
                result = {**result, "outcome": _checked_outcome(result["outcome"]), "parcels": _checked_parcels(result)}
            return cls(
                state=data.get("state", ""),
                lines=tuple(str(line) for line in parse_json(data.get("lines", "[]"))),
                count=int(data.get("count", 0)),
                counts={str(name): int(count) for name, count in parse_json(data.get("counts", "{}")).items()},
                beat=data.get("beat", ""),
                result=result,
                holds=str(parse_json(data.get("holds", '""'))),
            )

    @property
    def ended(self) -> bool:
        """Whether the client has reported its result."""
        return self.state == ENDED and self.result is not None

    @property
    def failed(self) -> bool:
        """Whether the client has ended with an error."""
        return self.ended and not (self.result or {})["outcome"]["ok"]


def _checked_outcome(outcome: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the outcome of a client. Raises LookupError, TypeError, ValueError for what no load writes."""
    needed = dict(outcome["result"]) if outcome["ok"] else str(outcome["msg"])
    return {**outcome, "result" if outcome["ok"] else "msg": needed}


def _checked_parcels(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the records of the files of a client, as _checked_outcome does."""
    parcels = [dict(parcel) for parcel in result.get("parcels", [])]
    texts = (("key",), ("name", "sha256"))
    for parcel in parcels:
        archive = parcel["kind"] == result_upload.ARCHIVE
        if not all(isinstance(parcel[name], str) for name in texts[not archive]):
            raise TypeError("a record of a file has another form")
        if not archive and not all(isinstance(part, str) for part in parcel["parts"]):
            raise TypeError("the parts of a file have no names")
    return parcels


@dataclass(frozen=True)
class PodsState:
    """The state of a load. pods: client -> why its pod waits, or how it ended. lost: clients, and why.

    there: whether the Job exists and was started. unstarted: clients without which the load did not begin, and why.
    """

    there: bool
    clients: tuple[ClientState, ...] = ()
    pods: Mapping[int, str] = field(default_factory=dict)
    lost: Mapping[int, str] = field(default_factory=dict)
    unstarted: Mapping[int, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether each client has ended or is lost."""
        return all(client.ended or number in self.lost for number, client in enumerate(self.clients))

    def words(self, number: int) -> str:
        """Return why the pod of a client waits, or how it ended."""
        return self.pods.get(number) or "its pod does not exist yet"


def pod_state_reason_by_client(pods: list[dict[str, Any]]) -> dict[int, str]:
    """Return client -> why the last pod of each waits, or how it ended."""
    ordered = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    with expect_documented_form(f"label {INDEX} of the pods of a load", pods, DataError):
        return {int(get_label(pod, INDEX) or 0): why_pod_waits_or_ended(pod) for pod in ordered}


def why_clients_are_lost(
    job: Mapping[str, Any], clients: tuple[ClientState, ...], pods: Mapping[int, str]
) -> dict[int, str]:
    """Return the clients whose pods are not made again, and why."""
    over = [
        condition
        for kind, condition in conditions_by_type(job).items()
        if kind in ("Failed", "Complete") and is_condition_true(job, kind)
    ]
    failed = parse_index_intervals(str((job.get("status") or {}).get("failedIndexes") or ""), len(clients))
    why = "; ".join(str(condition.get("message") or condition["type"]) for condition in over)
    return {
        number: pods.get(number) or why or "the reason is unknown"
        for number, client in enumerate(clients)
        if not client.ended and (over or number in failed)
    }


def parse_index_intervals(text: str, most: int) -> set[int]:
    """Return the numbers below ``most`` of a list of intervals, such as 1,3-5. Raises DataError for another text."""
    numbers: set[int] = set()
    with expect_documented_form("failedIndexes of the Job of a load", text, DataError):
        for interval in filter(None, text.split(",")):
            first, _dash, last = interval.partition("-")
            numbers.update(range(int(first), min(int(last or first), most - 1) + 1))
    return numbers


JOB = ServedKind("batch/v1", "Job", "jobs", True)
POD = ServedKind("v1", "Pod", "pods", True)
NAMESPACE = ServedKind("v1", "Namespace", "namespaces", False)
#: Kinds of a load's objects that its Job does not own: rights on the target, possibly in other namespaces.
GRANTS = tuple(
    ServedKind("rbac.authorization.k8s.io/v1", kind, f"{kind.lower()}s", space)
    for kind, space in (("RoleBinding", True), ("Role", True), ("ClusterRoleBinding", False), ("ClusterRole", False))
)

#: Folder of the clients in the directory of the point, while their files are fetched.
FOLDER = "clients"
#: Polling interval, and timeout for the deletion of a load, seconds.
POLL_INTERVAL, DELETION_TIMEOUT = 1.0, 120.0


class DriverPod:
    """The load of one point in pods, one for each client.

    ``say`` shows progress; ``reconnect``: how long to retry, seconds.
    """

    def __init__(
        self,
        client: Client,
        spec: DriverPodSpec,
        say: Callable[[str], None],
        reconnect: float = 600.0,
        store: ResultStore | None = None,
    ) -> None:
        self.client = client
        self.store = store
        self.spec = spec
        self.say = say
        self.retry = ConnectionRetry(
            "the driver cluster", spec.run, reconnect, say, _is_server_unavailable, refused=_is_permission_error
        )

    # Start

    def was_started(self) -> bool:
        """Return whether the load has been started, in whatever state. Raises InputError if it cannot be."""
        spec, client = self.spec, self.client
        there = client.get(JOB, spec.name, spec.effective_namespace)
        if there is not None and not there["spec"].get("suspend"):
            return True
        if not spec.image:
            raise InputError("workload_driver_image is empty: it needs Python 3.11, PyYAML, Jinja2 and jmespath")
        if spec.namespace and client.get(NAMESPACE, spec.namespace) is None:
            raise InputError(f"workload_driver_namespace: {client.access.server} has no namespace '{spec.namespace}'")
        return False

    def start(
        self, asked: Mapping[str, Any], grants: Sequence[dict[str, Any]], secrets: Mapping[str, str | None]
    ) -> None:
        """Start the load, which does not exist; complete a start that was interrupted.

        asked: what the pods read: ``request``, the parameters of the load; ``lock`` and ``plan``, the checksum of the
        plan. grants: roles and bindings of their account. secrets: further content of their Secret, by its keys.
        Raises InputError before anything is created, ApiError for a refusal.
        """
        spec, client = self.spec, self.client
        if not spec.namespace:
            self._await_deletion()
            self._create(pod_manifests.run_namespace_manifest(spec))
        self._create(pod_manifests.suspended_job_manifest(spec))
        uid = client.request("GET", JOB.path(spec.effective_namespace, spec.name))["metadata"]["uid"]
        collect = {"most": spec.collect_bytes // spec.clients, "patience": spec.keep}
        config_data = {**asked, "collect": collect}
        urls = self.store.secret() if self.store is not None else {}
        for grant in (*pod_manifests.objects_owned_by_job(spec, uid, config_data, secrets, urls), *grants):
            self._create(grant)
        client.request(
            "PATCH",
            JOB.path(spec.effective_namespace, spec.name),
            {"spec": {"suspend": False}},
            content_type=MERGE_PATCH,
        )
        self.say(f"Job {spec.name} in namespace {spec.effective_namespace} of {client.access.server}")

    def renew(self) -> None:
        """Replace the URLs with which the pods upload files: they expire, and the S3 server may be another one."""
        if self.store is not None:
            path = result_upload.SECRET.path(
                self.spec.effective_namespace, result_upload.url_secret_name(self.spec.name)
            )
            self.client.request("PATCH", path, {"data": self.store.secret()}, content_type=MERGE_PATCH)

    def _await_deletion(self) -> None:
        """Wait until the namespace of the point before is gone: the API server refuses objects in it meanwhile."""

        def look() -> tuple[bool | None, str]:
            namespace = self.client.get(NAMESPACE, self.spec.effective_namespace, metadata_only=True)
            deleted = namespace is not None and "deletionTimestamp" in namespace["metadata"]
            return None if deleted else True, f"waits for the deletion of namespace {self.spec.effective_namespace}"

        waiting.wait_until(
            look, DELETION_TIMEOUT, self.say, lambda text: f"{text}: not done in {DELETION_TIMEOUT:g} s", POLL_INTERVAL
        )

    def _create(self, manifest: dict[str, Any]) -> None:
        """Create an object; an interrupted start may have created it before."""
        client = self.client
        client.create_once(client.kind_of(manifest).path_of(manifest, client.access.namespace), manifest)

    # Progress

    def status(self) -> PodsState:
        """Return the state of the load."""
        spec = self.spec
        job = self.client.get(JOB, spec.name, spec.effective_namespace)
        if job is None or job["spec"].get("suspend"):
            return PodsState(there=False)
        stored = {
            config_map["metadata"]["name"]: config_map
            for config_map in self._listed(pod_files_through_configmaps.CONFIG_MAP, pod_manifests.STATE)
        }
        names = [f"{spec.name}-{number}-state" for number in range(spec.clients)]
        clients = tuple(ClientState.from_config_map(stored.get(name, {})) for name in names)
        pods = pod_state_reason_by_client(self._listed(POD))
        return PodsState(True, clients, pods, why_clients_are_lost(job, clients, pods))

    def _listed(self, kind: ServedKind, more: str = "") -> list[dict[str, Any]]:
        selector = f"{run_labels.RUN}={self.spec.run},{run_labels.LOAD}={self.spec.point}"
        return self.client.list(kind, self.spec.effective_namespace, f"{selector},{more}" if more else selector)[0]

    def _waits(self) -> str:
        """Return why the pods wait, or how they ended."""
        return "; ".join(pod_state_reason_by_client(self._listed(POD)).values())

    def stop(self) -> None:
        """End all pods; they hand over what they have recorded. Raises WaitTimeout."""
        path = JOB.path(self.spec.effective_namespace, self.spec.name)
        self.client.request("PATCH", path, {"spec": {"parallelism": 0}}, content_type=MERGE_PATCH)

        def look() -> tuple[bool | None, str]:
            left = [pod for pod in self._listed(POD) if pod["status"].get("phase") in ("Pending", "Running")]
            return not left or None, f"waits for the end of {len(left)} pods"

        waiting.wait_until(
            look, DELETION_TIMEOUT, self.say, lambda text: f"{text}: not done in {DELETION_TIMEOUT:g} s", POLL_INTERVAL
        )

    # End

    def fetch(self, pods: PodsState, point_dir: Path, step_dir: Path | None) -> dict[int, Path]:
        """Fetch what the clients have handed over; return the folder of each with its files, below ``point_dir``.

        Appends the files of the role call of client 0 to the ones in ``step_dir``.
        """
        folders = {}
        for number, state in enumerate(pods.clients):
            folders[number] = folder = point_dir / FOLDER / self.spec.run / f"{number:03d}"
            get = partial(
                pod_files_through_configmaps.fetch_handed_over_files,
                self.client,
                self.spec.effective_namespace,
                f"{self.spec.name}-{number}",
                folder,
            )
            index = self.retry.call(f"fetching the files of client {number}", get)
            self._fetch_archive(state, folder)
            if not index and state.ended and not state.failed:
                raise DataError(f"client {number} of run {self.spec.run} has ended, but handed over no files")
        size = sum(path.stat().st_size for folder in folders.values() for path in folder.iterdir())
        self.say(f"fetched the files of {len(folders)} clients, {size / 2**20:.1f} MiB")
        for sent in [sent for client in pods.clients for sent in (client.result or {}).get("parcels", [])]:
            if step_dir is not None and sent["kind"] != result_upload.ARCHIVE:
                here = host_or_pod_load.path_of_sent_file(step_dir, sent["name"], of_step=True)
                get_step = partial(
                    pod_files_through_configmaps.fetch_file_from_configmaps,
                    self.client,
                    self.spec.effective_namespace,
                    sent,
                )
                self.retry.fetch(get_step, here, append=True)
        return folders

    def _fetch_archive(self, client: ClientState, folder: Path) -> None:
        """Replace the files of a client by those that it has uploaded, if it has."""
        for parcel in (client.result or {}).get("parcels", []):
            if parcel["kind"] == result_upload.ARCHIVE:
                if self.store is None:
                    raise InputError(
                        f"client {parcel['key']} has uploaded its files to an S3 server: set workload_collect_s3 as "
                        f"when the load began ({host_or_pod_load.FILE} names the bucket)"
                    )
                result_bucket.unpack_result_archive(self.store.fetch(parcel, folder), folder, None)
                self.say(
                    f"fetched the files of client {parcel['key']} from S3, {parcel['size'] / 2**20:.1f} MiB compressed"
                )

    def remove(self) -> bool:
        """End the load and delete all of its objects; return whether there were any. Safe to repeat.

        Raises WaitTimeout if the Job or its pod is not deleted in time.
        """
        spec, client = self.spec, self.client
        selector = f"{run_labels.RUN}={spec.run},{run_labels.LOAD}={spec.point}"
        place = spec.name, spec.effective_namespace, spec.run
        there = objects_of_run.delete_object_of_run(client, JOB, *place, propagationPolicy="Foreground")
        for kind in GRANTS:
            for grant in client.list(kind, "", selector)[0]:
                there = client.delete_seen(kind, grant["metadata"]) or there
        deadline = time.monotonic() + DELETION_TIMEOUT
        while objects_of_run.get_object_of_run(client, JOB, *place) is not None:
            if time.monotonic() >= deadline:
                raise WaitTimeout(
                    f"Job {spec.effective_namespace}/{spec.name} is still there after {DELETION_TIMEOUT:g} s: "
                    f"{self._waits()}"
                )
            time.sleep(0.3)
        if not spec.namespace and not client.list(JOB, spec.effective_namespace)[0]:  # another point may use it
            objects_of_run.delete_object_of_run(client, NAMESPACE, spec.effective_namespace, "", spec.run)
        return there


def _is_permission_error(error: Exception) -> bool:
    """Return whether the API server refused a request for lack of a right."""
    return isinstance(error, ApiError) and error.status == 403


def _is_server_unavailable(error: Exception) -> bool:
    """Return whether the API server could not be reached, or is overloaded."""
    if isinstance(error, ApiError):
        return error.busy
    return isinstance(error, AccessError)
