# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let a volume hold models and datasets: the claim, whose labels say what its volume holds, and the download to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels, waiting
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    DataError,
    InputError,
    OwnershipError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    parse_json,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import get_label

from . import volume_job
from .storage_sources import StorageSource
from .volume_job import Event, VolumeJob

#: Of a claim that holds downloads, and stays when the run ends.
KEPT = "perfscale.seatrial/storage"
#: Beginning of a label: name of a source -> beginning of its checksum.
HOLDS = "perfscale.seatrial/holds."
#: JSON: name of a source -> its record.
CONTENT = "perfscale.seatrial/content"
_LABEL_NAME, _CHECKSUM = 63, 32


@dataclass(frozen=True)
class VolumeClaim:
    """A claim as asked for. keep: not removed with the run. simulated: bound by the simulated provisioner."""

    namespace: str
    name: str
    size: str
    access_mode: str
    storage_class: str
    run_id: str
    keep: bool = False
    simulated: bool = False

    def manifests(self) -> list[dict[str, Any]]:
        """Return the claim, and the volume of a simulated one."""
        labels = {KEPT: "true", **({} if self.keep else {run_labels.RUN: self.run_id})}
        meta = {"name": self.name, "namespace": self.namespace, "labels": labels}
        spec: dict[str, Any] = {
            "accessModes": [self.access_mode],
            "resources": {"requests": {"storage": self.size}},
        }
        if self.storage_class:
            spec["storageClassName"] = self.storage_class
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}
        if not self.simulated:
            return [claim]
        # A claim that is bound to its volume by name needs no provisioner.
        volume_name = f"{self.namespace}-{self.name}"
        spec |= {"storageClassName": "", "volumeName": volume_name}
        volume_labels = {run_labels.RUN: self.run_id, run_labels.SIMULATED: "true"}
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume_name, "labels": volume_labels},
            "spec": {
                "capacity": {"storage": self.size},
                "accessModes": [self.access_mode],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": "/simulated"},
                "claimRef": {"namespace": self.namespace, "name": self.name},
            },
        }
        return [volume, claim]


def find_claim(client: Client, namespace: str, name: str) -> dict[str, Any] | None:
    """Return the claim, None if there is none."""
    return client.get(client.kind("v1", "PersistentVolumeClaim"), name, namespace)


def check_claim_fits_request(claim: Mapping[str, Any], wanted: VolumeClaim) -> None:
    """Raise InputError for a claim that is smaller than asked for, has other access modes, or is being deleted.

    Raises DataError for one of another form.
    """
    where = f"claim {wanted.namespace}/{wanted.name}"
    if claim["metadata"].get("deletionTimestamp"):
        raise InputError(f"{where} is being deleted: wait until it is gone, or set another storage_claim")
    with expect_documented_form(where, claim, DataError):
        size = str(claim["spec"]["resources"]["requests"]["storage"])
        modes = [str(mode) for mode in claim["spec"].get("accessModes") or []]
        small = parse_kube_quantity(size) < parse_kube_quantity(wanted.size)
    if small:
        raise InputError(f"{where} has {size}, storage_size is {wanted.size}: expand the claim or lower the setting")
    if wanted.access_mode not in modes:
        raise InputError(f"{where} has {', '.join(modes)}, and storage_access_mode is {wanted.access_mode}")


def recorded_content(claim: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return what the volume of a claim holds, as recorded: name -> record; without what others have damaged."""
    if claim is None:
        return {}
    annotations = claim["metadata"].get("annotations") or {}
    labels = claim["metadata"].get("labels") or {}
    try:
        content = dict(parse_json(annotations.get(CONTENT, "{}")))
    except (AttributeError, TypeError, ValueError):
        return {}
    return {
        name: dict(record)
        for name, record in content.items()
        if isinstance(record, Mapping)
        and isinstance(record.get("sha256"), str)
        and labels.get(source_label_key(name)) == record["sha256"][:_CHECKSUM]
    }


def sources_missing_in_volume(claim: Mapping[str, Any] | None, sources: Iterable[StorageSource]) -> list[StorageSource]:
    """Return the sources that the volume of a claim does not hold, as its labels and annotation say."""
    there = recorded_content(claim)
    return [source for source in sources if there.get(source.name, {}).get("key") != source.key]


def source_label_key(name: str) -> str:
    """Return the label of a source."""
    plain = re.sub(r"[^A-Za-z0-9._-]", ".", name)
    return HOLDS + plain[: _LABEL_NAME - len(HOLDS.partition("/")[2])].strip("._-")


def record_downloads(client: Client, namespace: str, name: str, downloaded: Iterable[Mapping[str, Any]]) -> None:
    """Write what was downloaded into labels and annotation of a claim."""
    records = {
        **recorded_content(find_claim(client, namespace, name)),
        **{download["name"]: dict(download) for download in downloaded},
    }
    labels = {source_label_key(source_name): record["sha256"][:_CHECKSUM] for source_name, record in records.items()}
    patch = {"metadata": {"labels": labels, "annotations": {CONTENT: json.dumps(records, sort_keys=True)}}}
    path = client.kind("v1", "PersistentVolumeClaim").path(namespace, name)
    client.request("PATCH", path, patch, content_type=MERGE_PATCH)


#: Secret options of module storage_volume, and the names under which the program reads them.
CREDENTIALS = {
    "hub_token": "hub_token",
    "s3_access_key": "access_key",
    "s3_secret_key": "secret_key",
    "https_token": "https_token",
}


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

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self:
        """Return the options of module storage_volume. Raises InputError."""
        authority = ""
        if params["ca_file"]:
            try:
                authority = Path(params["ca_file"]).read_text(encoding="utf-8")
            except OSError as error:
                raise InputError(f"storage_ca_file {params['ca_file']}: {error.strerror}") from error
        if params["parallel"] < 1:
            raise InputError(f"parallel is {params['parallel']}, and it must be at least 1")
        return cls(
            params["namespace"],
            params["claim"],
            params["run_id"],
            params["image"],
            params["script"],
            {name: params[option] for option, name in CREDENTIALS.items()},
            params["hub_url"],
            params["s3_endpoint"],
            params["s3_region"],
            authority,
            params["parallel"],
            params["timeout"],
            params["node_selector"],
            tuple(params["tolerations"]),
            params["service_account"],
        )

    def job(self, sources: list[StorageSource]) -> VolumeJob:
        """Return the job that downloads these sources."""
        specification = {
            "folder": volume_job.FOLDER,
            "hub": self.hub,
            "s3": self.s3,
            "region": self.region,
            "authority": f"{volume_job.PLACE}/ca.crt" if self.authority else "",
            "parallel": self.parallel,
            "sources": [source.document() for source in sources],
        }
        return VolumeJob(
            f"download to claim {self.claim}",
            volume_job.name_of_job_objects("storage", self.claim, self.run_id),
            self.namespace,
            self.claim,
            self.run_id,
            self.image,
            self.script,
            specification,
            {"ca.crt": self.authority} if self.authority else {},
            self.credentials,
            self.timeout,
            self.node_selector,
            self.tolerations,
            self.service_account,
        )


def run_download(client: Client, spec: DownloadSpec, sources: list[StorageSource], say: Say) -> list[dict[str, Any]]:
    """Download the sources; return a record of each.

    Raises AccessError with the reason if something could not be downloaded, and the errors of run_volume_job().
    """
    number = len(sources)
    events = volume_job.run_volume_job(
        client, spec.job(sources), say, lambda log_events: _format_download_progress(log_events, number)
    )
    records = [event for event in events if event["event"] == "source"]
    if len(records) < number:
        raise AccessError(f"download to claim {spec.claim}: its log has {len(records)} of {number} sources")
    return records


def _format_download_progress(events: list[Event], number: int) -> str:
    last = next((event for event in reversed(events) if event["event"] == "progress"), None)
    if last is None:
        return ""
    done = sum(1 for event in events if event["event"] == "source")
    return f"{last['done'] / 2**20:,.0f} of {last['total'] / 2**20:,.0f} MiB, {done} of {number} sources"


#: Fields of a record in the annotation of a claim, and in a result.
RECORDED = ("name", "key", "source", "revision", "sha256", "files", "bytes")
SHOWN = ("name", "source", "revision", "sha256", "files", "bytes", "downloaded", "seconds")

SIMULATED = "simulated cluster: nothing was downloaded"


def ensure_volume(
    client: Client,
    volume: VolumeClaim,
    spec: DownloadSpec,
    sources: list[StorageSource],
    say: Say,
    verify: bool = False,
    check: bool = False,
) -> dict[str, Any]:
    """Create the claim if there is none, and download what it lacks. verify: also check what it holds.

    Raises InputError for a claim that does not suit, the errors of download_job.run() otherwise.
    """
    namespace = client.get(client.kind("v1", "Namespace"), volume.namespace)
    if namespace is None:
        raise InputError(f"storage_namespace: {client.access.server} has no namespace '{volume.namespace}'")
    if volume.keep and get_label(namespace, run_labels.RUN):
        run = get_label(namespace, run_labels.RUN)
        raise InputError(
            f"storage_keep: namespace {volume.namespace} is removed with run {run}, and the claim with it: "
            "create a namespace and set storage_namespace"
        )
    there = find_claim(client, volume.namespace, volume.name)
    if there is not None:
        check_claim_fits_request(there, volume)
    lacking = sources_missing_in_volume(there, sources)
    wanted = sources if verify else lacking
    result: dict[str, Any] = {"changed": bool(there is None or lacking), "claim": volume.name}
    if volume.simulated and (check or there is not None):
        return {**result, "changed": there is None, "downloads": [], "summary": SIMULATED}
    if check or (there is not None and not wanted):
        return {
            **result,
            "downloads": _records_of_present_sources(there, sources),
            "summary": _format_already_present(volume, len(sources)),
        }
    if there is None:
        for manifest in volume.manifests():
            client.create(manifest)
        say(f"claim {volume.namespace}/{volume.name}: {volume.size}, {volume.access_mode}")
    if volume.simulated:
        return {**result, "downloads": [], "summary": SIMULATED}
    if not wanted:
        return {**result, "downloads": [], "summary": f"claim {volume.namespace}/{volume.name} was created"}
    if not spec.image:
        raise InputError("storage_image is empty: set an image with Python 3.9 or later, such as that of the training")
    names = ", ".join(source.name for source in wanted)
    say(f"{'verifying' if verify else 'downloading'} {names}")
    fetched = run_download(client, spec, wanted, say)
    records = [{key: record[key] for key in RECORDED} for record in fetched]
    record_downloads(client, volume.namespace, volume.name, records)
    downloads = [{key: record[key] for key in SHOWN} for record in fetched]
    result["changed"] = result["changed"] or any(download["downloaded"] for download in downloads)
    others = [
        record
        for record in _records_of_present_sources(there, sources)
        if record["name"] not in {each["name"] for each in downloads}
    ]
    return {**result, "downloads": [*downloads, *others], "summary": format_downloads(downloads)}


def _records_of_present_sources(there: Mapping[str, Any] | None, sources: list[StorageSource]) -> list[dict[str, Any]]:
    known = recorded_content(there)
    return [
        {**{key: known[source.name].get(key) for key in SHOWN}, "downloaded": 0, "seconds": 0.0}
        for source in sources
        if known.get(source.name, {}).get("key") == source.key
    ]


def _format_already_present(volume: VolumeClaim, number: int) -> str:
    return f"claim {volume.namespace}/{volume.name} holds {formats.format_count(number, 'source')} already"


def format_downloads(downloads: list[dict[str, Any]]) -> str:
    """Return what was downloaded in one sentence."""
    parts = []
    for download in downloads:
        size = f"{download['bytes'] / 2**20:,.1f} MiB"
        if download["downloaded"]:
            rate = f", {download['downloaded'] / 2**20 / download['seconds']:,.1f} MiB/s" if download["seconds"] else ""
            parts.append(f"{download['name']} {size} in {download['seconds']:.1f} s{rate}")
        else:
            parts.append(f"{download['name']} {size} verified")
    return "; ".join(parts)


def remove_volume(client: Client, namespace: str, name: str, timeout: float, say: Say, check: bool = False) -> bool:
    """Delete the claim; return whether there was one. Raises OwnershipError for a claim without our label."""
    kind = client.kind("v1", "PersistentVolumeClaim")
    there = find_claim(client, namespace, name)
    if there is None or check:
        return there is not None
    if not get_label(there, KEPT):
        raise OwnershipError(f"claim {namespace}/{name} was not created by role storage: it is not deleted")
    client.delete_seen(kind, there["metadata"])

    def look() -> tuple[bool | None, str]:
        gone = client.get(kind, name, namespace, metadata_only=True) is None
        return (True if gone else None), f"claim {namespace}/{name} is still there; a pod may use it"

    return waiting.wait_until(look, timeout, say, lambda message: f"after {timeout:g} s {message}")
