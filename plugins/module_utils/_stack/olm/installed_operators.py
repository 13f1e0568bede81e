# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators that OLM has installed on a cluster. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.capture.capture_files import cleaned
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import conditions, field_at, label

from . import existing_olm_objects, failure_causes, manifests


def info(client: Client, packages: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return one entry for each Subscription, of all packages or of ``packages`` only. [] on a cluster without OLM."""
    try:
        subscriptions = _list(client, "Subscription")
        csvs = _list(client, "ClusterServiceVersion", f"!{existing_olm_objects.COPIED}")
    except InputError:
        return []
    by_place = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in csvs}
    found = []
    for one in subscriptions:
        name = str(field_at(one, "spec.name", ""))
        if packages and name not in packages:
            continue
        namespace = one["metadata"]["namespace"]
        csv = by_place.get(
            (namespace, str(field_at(one, "status.installedCSV") or field_at(one, "status.currentCSV") or ""))
        )
        found.append(_entry(name, namespace, one, csv))
    return sorted(found, key=lambda each: (each["package"], each["namespace"]))


def capture(client: Client, found: Sequence[dict[str, Any]], step: Step, more: Sequence[str] = ()) -> None:
    """Save the state of operators in the step's directory: versions, custom resources, objects, logs and images.

    more: further namespaces, where they exist.
    """
    if step.path is None:
        return
    folder = step.path / "artifacts"
    folder.mkdir(exist_ok=True)
    files.write_yaml(folder / "operators.yml", list(found))
    operands = [item for one in found for item in _operands(client, one)]
    files.write_yaml(folder / "operands.yml", [cleaned(item) for item in operands])
    images: dict[str, str] = {}
    namespaces = {one["namespace"] for one in found} | {one["metadata"].get("namespace", "") for one in operands}
    kind = client.kind("v1", "Namespace")
    namespaces |= {name for name in more if client.get(kind, name, metadata_only=True) is not None}
    for namespace in sorted(namespaces - {""}):
        pods, _version = client.list(client.kind("v1", "Pod"), namespace)
        failure_causes.keep(client, namespace, pods, step)
        for pod in pods:
            for status in field_at(pod, "status.containerStatuses", []):
                images[status.get("image", "")] = status.get("imageID", "")
    files.write_yaml(folder / "images.yml", images, head="image: image id (digest) that runs")


def _operands(client: Client, one: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the custom resources of the kinds that an operator provides."""
    items: list[dict[str, Any]] = []
    csv = client.get(client.kind(manifests.V1ALPHA1, "ClusterServiceVersion"), one["csv"], one["namespace"])
    for owned in field_at(csv, "spec.customresourcedefinitions.owned", []):
        group = owned["name"].partition(".")[2]
        try:
            items += client.list(client.kind(f"{group}/{owned['version']}", owned["kind"]))[0]
        except InputError:
            continue
    return items


def _list(client: Client, kind: str, selector: str = "") -> list[dict[str, Any]]:
    return client.list(client.kind(manifests.V1ALPHA1, kind), label_selector=selector)[0]


def _entry(package: str, namespace: str, one: dict[str, Any], csv: dict[str, Any] | None) -> dict[str, Any]:
    images = [each.get("image", "") for each in field_at(csv, "spec.relatedImages", [])]
    return {
        "package": package,
        "namespace": namespace,
        "catalog": field_at(one, "spec.source", ""),
        "channel": field_at(one, "spec.channel", ""),
        "approval": field_at(one, "spec.installPlanApproval", ""),
        "csv": field_at(csv, "metadata.name", ""),
        "version": field_at(csv, "spec.version", ""),
        "phase": field_at(csv, "status.phase", ""),
        "message": field_at(csv, "status.message", ""),
        "images": sorted(filter(None, images)),
        "run": label(one, run_labels.RUN),
        "trouble": [
            f"{name}: {each.get('message') or each.get('reason')}"
            for name, each in conditions(one).items()
            if each.get("status") == "True" and name in ("ResolutionFailed", "CatalogSourcesUnhealthy")
        ],
    }
