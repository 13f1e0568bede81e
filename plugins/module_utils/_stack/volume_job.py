# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job that runs a program once in a pod with a volume: its objects, its log, its end.

The program prints what happens as one JSON dictionary per line, each with ``event``; ``failed`` has a message. A log
needs neither rights nor a network of the pod.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels, waiting
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import is_condition_true
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.objects_of_run import (
    delete_object_of_run,
    get_object_of_run,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.why_pod_waits_or_cannot_run import (
    why_pod_waits_or_ended,
)

Event = dict[str, Any]

#: Where the volume, the program and the credentials are in the pod.
FOLDER, PLACE, SECRETS = "/mnt/storage", "/etc/seatrial", "/etc/seatrial-credentials"
#: Part of a run that the objects belong to.
PART = {run_labels.PART: "storage"}
_PROGRAM = "program.py"
#: Seconds between two looks at the job, and how long its objects may take to be deleted.
_POLL_INTERVAL, _DELETION = 1.0, 120.0
#: Lines of the log that a failure without a message shows.
_LAST = 5
#: Characters of a label, which a Job writes with its name.
_LONGEST_NAME = 63
#: Seconds after our timeout until the cluster ends the pod: by then it says no more what it waited for.
_LONGER = 30


@dataclass(frozen=True)
class VolumeJob:
    """A program and its volume.

    purpose: for messages. name: of all objects. specification: what the program reads. files: further files beside
    it. credentials: name -> secret value, empty ones are left out. timeout: of the whole job, in seconds. cpu: what
    its pod requests.
    """

    purpose: str
    name: str
    namespace: str
    claim: str
    run_id: str
    image: str
    script: str
    specification: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 3600.0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    service_account: str = ""
    read_only: bool = False
    cpu: str = "500m"


def name_of_job_objects(beginning: str, claim: str, run_id: str) -> str:
    """Return the name of the objects of a job: with the whole id of the run, since objects of this name are deleted.

    A long name of a claim is replaced by its beginning and a checksum.
    """
    room = _LONGEST_NAME - len(f"{beginning}--{run_id}")
    if len(claim) > room:
        digest = hashlib.sha256(claim.encode()).hexdigest()[:8]
        claim = f"{claim[: room - len(digest) - 1].rstrip('-.')}-{digest}"
    return f"{beginning}-{claim}-{run_id}"


def volume_job_manifests(job: VolumeJob) -> list[dict[str, Any]]:
    """Return the Secret (if there are credentials), the ConfigMap and the Job, in the order of their creation."""
    secret = secret_without_credentials(job)
    meta = secret["metadata"]
    data = {_PROGRAM: job.script, "specification.json": json.dumps(job.specification, indent=1), **job.files}
    secrets = {name: value for name, value in job.credentials.items() if value}
    manifests = [{**secret, "stringData": secrets}] if secrets else []
    manifests.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    manifests.append(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": _job_manifest(job, bool(secrets))}
    )
    return manifests


def secret_without_credentials(job: VolumeJob) -> dict[str, Any]:
    """Return the Secret without the credentials, as a run records it."""
    meta = {"name": job.name, "namespace": job.namespace, "labels": {run_labels.RUN: job.run_id, **PART}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta}


def _job_manifest(job: VolumeJob, secrets: bool) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [
        {"name": "storage", "persistentVolumeClaim": {"claimName": job.claim, "readOnly": job.read_only}},
        {"name": "program", "configMap": {"name": job.name}},
        {"name": "temporary", "emptyDir": {}},
    ]
    mounts = [
        {"name": "storage", "mountPath": FOLDER, "readOnly": job.read_only},
        {"name": "program", "mountPath": PLACE, "readOnly": True},
        {"name": "temporary", "mountPath": "/tmp"},
    ]
    if secrets:
        volumes.append({"name": "credentials", "secret": {"secretName": job.name}})
        mounts.append({"name": "credentials", "mountPath": SECRETS, "readOnly": True})
    container = {
        "name": "main",
        "image": job.image,
        "command": ["python3", "-B", f"{PLACE}/{_PROGRAM}", f"{PLACE}/specification.json", SECRETS],
        "resources": {"requests": {"cpu": job.cpu, "memory": "256Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
        "volumeMounts": mounts,
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "nodeSelector": dict(job.node_selector),
        "tolerations": [dict(toleration) for toleration in job.tolerations],
        "containers": [container],
        "volumes": volumes,
        **({"serviceAccountName": job.service_account} if job.service_account else {}),
    }
    labels = {run_labels.RUN: job.run_id, **PART}
    annotations = {"sidecar.istio.io/inject": "false"}
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod}
    return {"backoffLimit": 0, "activeDeadlineSeconds": int(job.timeout) + _LONGER, "template": template}


def run_volume_job(
    client: Client, job: VolumeJob, say: Say, progress: Callable[[list[Event]], str] | None = None
) -> list[Event]:
    """Run the job; return what its program printed. The objects, and with them the credentials, are gone afterwards.

    progress: what to show of the events so far; without it, the log is read at the end only.
    Raises AccessError with the reason if the job failed, WaitTimeout after ``job.timeout`` seconds.
    """
    objects = volume_job_manifests(job)
    remove_volume_job(client, job)  # of an interrupted session
    try:
        for manifest in objects:
            client.create(manifest)
        return _wait_for_job_events(client, job, say, progress)
    finally:
        remove_volume_job(client, job)


def remove_volume_job(client: Client, job: VolumeJob) -> None:
    """Delete the objects of a job that have the run's label, and wait until they are gone. Raises WaitTimeout."""
    kinds = [client.kind("batch/v1", "Job"), client.kind("v1", "ConfigMap"), client.kind("v1", "Secret")]
    for kind in kinds:
        delete_object_of_run(client, kind, job.name, job.namespace, job.run_id, propagationPolicy="Foreground")

    def left() -> list[str]:
        there = [kind.kind for kind in kinds if get_object_of_run(client, kind, job.name, job.namespace, job.run_id)]
        return [f"{kind} {job.namespace}/{job.name}" for kind in there]

    waiting.wait_until_gone(left, _DELETION)


def _wait_for_job_events(
    client: Client, job: VolumeJob, say: Say, progress: Callable[[list[Event]], str] | None
) -> list[Event]:
    job_kind, pod_kind = client.kind("batch/v1", "Job"), client.kind("v1", "Pod")

    def look() -> tuple[list[Event] | None, str]:
        there = client.get(job_kind, job.name, job.namespace)
        pods = client.list(pod_kind, job.namespace, f"job-name={job.name}")[0]
        state = "; ".join(why_pod_waits_or_ended(pod) for pod in pods) or "its pod does not exist yet"
        complete, failed = is_condition_true(there, "Complete"), there is None or is_condition_true(there, "Failed")
        log = _read_newest_pod_log(client, job, pods) if complete or failed or progress else ""
        events = _parse_log_events(log)
        if failed:
            why = next((event["message"] for event in events if event["event"] == "failed"), "")
            raise AccessError(f"{job.purpose}: {why or _last_log_lines(log) or state}")
        if complete:
            return events, ""
        return None, (progress(events) if progress else "") or f"waits for the pod of {job.name}: {state}"

    def late(text: str) -> str:
        return f"{job.purpose}: not done after {job.timeout:g} s: {text}"

    return waiting.wait_until(look, job.timeout, say, late, _POLL_INTERVAL)


def _read_newest_pod_log(client: Client, job: VolumeJob, pods: list[dict[str, Any]]) -> str:
    """Return the log of the newest pod, empty before it runs."""
    started = [pod for pod in pods if pod["status"].get("phase") not in ("Pending", None)]
    if not started:
        return ""
    name = max(started, key=lambda pod: pod["metadata"]["creationTimestamp"])["metadata"]["name"]
    try:
        return client.text(client.kind("v1", "Pod").path(job.namespace, name, "log"))
    except ApiError:
        return ""


def _parse_log_events(log: str) -> list[Event]:
    events = []
    for line in log.splitlines():
        try:
            event = parse_json(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "event" in event:
            events.append(event)
    return events


def _last_log_lines(log: str) -> str:
    return " / ".join(line for line in log.splitlines()[-_LAST:] if line.strip())
