# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The claim of a volume, whose labels and annotation say what the volume holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client

from .sources import Source

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


def find(client: Client, namespace: str, name: str) -> dict[str, Any] | None:
    """Return the claim, None if there is none."""
    return client.get(client.kind("v1", "PersistentVolumeClaim"), name, namespace)


def check(claim: Mapping[str, Any], wanted: VolumeClaim) -> None:
    """Raise InputError for a claim that is smaller than asked for, has other access modes, or is being deleted."""
    where = f"claim {wanted.namespace}/{wanted.name}"
    if claim["metadata"].get("deletionTimestamp"):
        raise InputError(f"{where} is being deleted: wait until it is gone, or set another storage_claim")
    size = claim["spec"]["resources"]["requests"]["storage"]
    if parse_kube_quantity(size) < parse_kube_quantity(wanted.size):
        raise InputError(f"{where} has {size}, storage_size is {wanted.size}: expand the claim or lower the setting")
    modes = claim["spec"].get("accessModes") or []
    if wanted.access_mode not in modes:
        raise InputError(f"{where} has {', '.join(modes)}, and storage_access_mode is {wanted.access_mode}")


def content(claim: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return what the volume of a claim holds, as recorded: name -> record."""
    if claim is None:
        return {}
    annotations = claim["metadata"].get("annotations") or {}
    labels = claim["metadata"].get("labels") or {}
    try:
        found = dict(json.loads(annotations.get(CONTENT, "{}")))
    except ValueError:
        return {}
    return {
        name: dict(one)
        for name, one in found.items()
        if isinstance(one, Mapping) and labels.get(label_of(name)) == str(one.get("sha256"))[:_CHECKSUM]
    }


def lacking(claim: Mapping[str, Any] | None, sources: Iterable[Source]) -> list[Source]:
    """Return the sources that the volume of a claim does not hold, as its labels and annotation say."""
    there = content(claim)
    return [one for one in sources if there.get(one.name, {}).get("key") != one.key]


def label_of(name: str) -> str:
    """Return the label of a source."""
    plain = re.sub(r"[^A-Za-z0-9._-]", ".", name)
    return HOLDS + plain[: _LABEL_NAME - len(HOLDS.partition("/")[2])].strip("._-")


def record(client: Client, namespace: str, name: str, downloaded: Iterable[Mapping[str, Any]]) -> None:
    """Write what was downloaded into labels and annotation of a claim."""
    found = {**content(find(client, namespace, name)), **{one["name"]: dict(one) for one in downloaded}}
    labels = {label_of(one): record["sha256"][:_CHECKSUM] for one, record in found.items()}
    patch = {"metadata": {"labels": labels, "annotations": {CONTENT: json.dumps(found, sort_keys=True)}}}
    path = client.kind("v1", "PersistentVolumeClaim").path(namespace, name)
    client.request("PATCH", path, patch, content_type=MERGE_PATCH)
