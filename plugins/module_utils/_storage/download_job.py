# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job that downloads sources to a volume: its objects, its progress, its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _labels, _wait_until
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError, ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import holds
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.pod_state import waits
from ansible_collections.perfscale.seatrial.plugins.module_utils._storage.sources import Source

Say = Callable[[str], None]

#: Where the volume is in the pod.
FOLDER = "/mnt/storage"
_PLACE, _SECRETS = "/etc/seatrial", "/etc/seatrial-credentials"
#: Part of a run that the objects belong to.
PART = {_labels.PART: "storage"}
#: Seconds between two looks at the job, and how long its objects may take to be deleted.
_LOOK, _DELETION = 1.0, 120.0
#: Lines of the log that a failure without a message shows.
_LAST = 5


@dataclass(frozen=True)
class DownloadSpec:
    """What downloads, and from where.

    script: the program. credentials: name -> secret value, empty ones are left out. parallel: files at once.
    timeout: of the whole job, in seconds. authority: certificate authorities (PEM) in addition to those of the image.
    """

    namespace: str
    claim: str
    run_id: str
    image: str
    script: str
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    hub: str = "https://huggingface.co"
    s3: str = ""
    region: str = ""
    authority: str = ""
    parallel: int = 4
    timeout: float = 3600.0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    service_account: str = ""

    @property
    def name(self) -> str:
        """Name of all objects."""
        return f"storage-{self.claim}-{self.run_id}"[:63].rstrip("-.")


def manifests(spec: DownloadSpec, sources: list[Source]) -> list[dict[str, Any]]:
    """Return the Secret (if there are credentials), the ConfigMap and the Job, in the order of their creation."""
    secret = empty_secret(spec)
    meta = secret["metadata"]
    specification = {
        "folder": FOLDER,
        "hub": spec.hub,
        "s3": spec.s3,
        "region": spec.region,
        "authority": f"{_PLACE}/ca.crt" if spec.authority else "",
        "parallel": spec.parallel,
        "sources": [one.document() for one in sources],
    }
    data = {"download.py": spec.script, "specification.json": json.dumps(specification, indent=1)}
    if spec.authority:
        data["ca.crt"] = spec.authority
    secrets = {name: value for name, value in spec.credentials.items() if value}
    found = [{**secret, "stringData": secrets}] if secrets else []
    found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    found.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": _job(spec, bool(secrets))})
    return found


def empty_secret(spec: DownloadSpec) -> dict[str, Any]:
    """Return the Secret without the credentials, as a run records it."""
    meta = {"name": spec.name, "namespace": spec.namespace, "labels": {_labels.RUN: spec.run_id, **PART}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta}


def _job(spec: DownloadSpec, secrets: bool) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [
        {"name": "storage", "persistentVolumeClaim": {"claimName": spec.claim}},
        {"name": "program", "configMap": {"name": spec.name}},
        {"name": "temporary", "emptyDir": {}},
    ]
    mounts = [
        {"name": "storage", "mountPath": FOLDER},
        {"name": "program", "mountPath": _PLACE, "readOnly": True},
        {"name": "temporary", "mountPath": "/tmp"},
    ]
    if secrets:
        volumes.append({"name": "credentials", "secret": {"secretName": spec.name}})
        mounts.append({"name": "credentials", "mountPath": _SECRETS, "readOnly": True})
    container = {
        "name": "download",
        "image": spec.image,
        "command": ["python3", "-B", f"{_PLACE}/download.py", f"{_PLACE}/specification.json", _SECRETS],
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
        "volumeMounts": mounts,
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "nodeSelector": dict(spec.node_selector),
        "tolerations": [dict(one) for one in spec.tolerations],
        "containers": [container],
        "volumes": volumes,
        **({"serviceAccountName": spec.service_account} if spec.service_account else {}),
    }
    labels = {_labels.RUN: spec.run_id, **PART}
    annotations = {"sidecar.istio.io/inject": "false"}
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod}
    return {"backoffLimit": 0, "activeDeadlineSeconds": int(spec.timeout), "template": template}


def run(client: Client, spec: DownloadSpec, sources: list[Source], say: Say) -> list[dict[str, Any]]:
    """Download the sources; return a record of each. The objects, and with them the credentials, are gone afterwards.

    Raises AccessError with the reason if something could not be downloaded, WaitTimeout after ``spec.timeout`` seconds.
    """
    objects = manifests(spec, sources)
    remove(client, spec)  # of an interrupted session
    try:
        for one in objects:
            client.create(one)
        return _follow(client, spec, len(sources), say)
    finally:
        remove(client, spec)


def remove(client: Client, spec: DownloadSpec) -> None:
    """Delete the objects of a download, and wait until they are gone. Raises WaitTimeout."""
    kinds = [client.kind("batch/v1", "Job"), client.kind("v1", "ConfigMap"), client.kind("v1", "Secret")]
    for kind in kinds:
        client.delete(kind, spec.name, spec.namespace, {"propagationPolicy": "Foreground"})

    def look() -> tuple[bool | None, str]:
        left = [one.kind for one in kinds if client.get(one, spec.name, spec.namespace, metadata_only=True)]
        return (None if left else True), f"{', '.join(left)} {spec.namespace}/{spec.name} to be deleted"

    def late(text: str) -> str:
        return f"{_DELETION:.0f} s are not enough for {text}"

    _wait_until.wait_until(look, _DELETION, lambda _text: None, late)


def _follow(client: Client, spec: DownloadSpec, number: int, say: Say) -> list[dict[str, Any]]:
    job_kind, pod_kind = client.kind("batch/v1", "Job"), client.kind("v1", "Pod")
    seen = ""

    def look() -> tuple[list[dict[str, Any]] | None, str]:
        nonlocal seen
        job = client.get(job_kind, spec.name, spec.namespace)
        pods = client.list(pod_kind, spec.namespace, f"job-name={spec.name}")[0]
        log = _log(client, spec, pods)
        events = _events(log)
        seen = "; ".join(waits(one) for one in pods) or "its pod does not exist yet"
        if holds(job, "Complete"):
            found = [one for one in events if one["event"] == "source"]
            if len(found) < number:
                raise AccessError(f"the job reports {len(found)} of {number} sources: {_end_of(log)}")
            return found, ""
        if job is None or holds(job, "Failed"):
            failed = next((one["message"] for one in events if one["event"] == "failed"), "")
            raise AccessError(f"download to claim {spec.claim}: {failed or _end_of(log) or seen}")
        return None, _progress(events, number) or f"waits for the pod of {spec.name}: {seen}"

    def late(text: str) -> str:
        return f"download to claim {spec.claim}: not done after {spec.timeout:g} s: {text}"

    return _wait_until.wait_until(look, spec.timeout, say, late, _LOOK)


def _log(client: Client, spec: DownloadSpec, pods: list[dict[str, Any]]) -> str:
    """Return the log of the newest pod, empty before it runs."""
    started = [one for one in pods if one["status"].get("phase") not in ("Pending", None)]
    if not started:
        return ""
    name = max(started, key=lambda one: one["metadata"]["creationTimestamp"])["metadata"]["name"]
    try:
        return client.text(client.kind("v1", "Pod").path(spec.namespace, name, "log"))
    except ApiError:
        return ""


def _events(log: str) -> list[dict[str, Any]]:
    found = []
    for line in log.splitlines():
        try:
            one = json.loads(line)
        except ValueError:
            continue
        if isinstance(one, dict) and "event" in one:
            found.append(one)
    return found


def _end_of(log: str) -> str:
    return " / ".join(line for line in log.splitlines()[-_LAST:] if line.strip())


def _progress(events: list[dict[str, Any]], number: int) -> str:
    last = next((one for one in reversed(events) if one["event"] == "progress"), None)
    if last is None:
        return ""
    done = sum(1 for one in events if one["event"] == "source")
    return f"{last['done'] / 2**20:,.0f} of {last['total'] / 2**20:,.0f} MiB, {done} of {number} sources"
