# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What OLM has installed and why an installation failed, from OLM, catalogs, Deployments, Pods and Events. Read-only.

The objects that the causes were read from are saved in the directory of the step, with secrets masked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import Gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.capture_files import cleaned
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import (
    conditions,
    event_time,
    field_at,
    label,
    title,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from . import existing, objects

if TYPE_CHECKING:
    from .installation import OperatorInstallation

#: Maximum number of events, and of bytes of each pod's log, that are saved.
EVENTS = 50
LOG_BYTES = 200_000

#: Kinds whose objects in an operator's namespace are saved.
_KINDS = (
    ("operators.coreos.com/v1alpha1", "Subscription"),
    ("operators.coreos.com/v1alpha1", "InstallPlan"),
    ("operators.coreos.com/v1alpha1", "ClusterServiceVersion"),
    ("operators.coreos.com/v1", "OperatorGroup"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "DaemonSet"),
    ("v1", "Pod"),
)


def failure_causes(client: Client, cache: WatchCache, installation: OperatorInstallation, step: Step) -> list[str]:
    """Return the causes as sentences, the most direct one first, and save the objects that they were read from.

    A failed request adds no cause: it must not hide the original failure.
    """
    found: list[str] = []
    found += _subscription(cache, installation)
    found += _catalog(cache, installation)
    found += _plan(cache, installation)
    found += unmet_requirements(installation.csv())
    try:
        namespace, catalogs = installation.namespace, installation.operator.catalog_namespace
        pods = _objects(client, "v1", "Pod", namespace)
        found += workload_causes(_objects(client, "apps/v1", "Deployment", namespace), pods)
        known = " ".join(found)
        found += [one for one in newest_warnings(_objects(client, "v1", "Event", namespace)) if _text(one) not in known]
        save_namespace(client, namespace, pods, step)
        if installation.operator.brings_catalog and catalogs != namespace:
            save_namespace(client, catalogs, _objects(client, "v1", "Pod", catalogs), step)
    except (SeatrialError, OSError) as error:
        step.log(f"can't look for further causes: {error}")
    return list(dict.fromkeys(found))


def _objects(client: Client, api_version: str, kind: str, namespace: str) -> list[dict[str, Any]]:
    return client.list(client.kind(api_version, kind), namespace)[0]


def _subscription(cache: WatchCache, installation: OperatorInstallation) -> list[str]:
    if installation.existing is None:
        return []
    meta = installation.existing.subscription["metadata"]
    found = cache.get("Subscription", meta["namespace"], meta["name"])
    bad = ("ResolutionFailed", "CatalogSourcesUnhealthy", "BundleUnpackFailed", "InstallPlanFailed")
    return [
        f"{name}: {one.get('message') or one.get('reason')}"
        for name, one in conditions(found).items()
        if name in bad and one.get("status") == "True" and str(one.get("message")) not in installation.waits
    ]


def _catalog(cache: WatchCache, installation: OperatorInstallation) -> list[str]:
    name = installation.operator.catalog or (installation.offer.catalog if installation.offer else "")
    namespace = installation.offer.catalog_namespace if installation.offer else installation.operator.catalog_namespace
    if not name:
        return []
    found = cache.get("CatalogSource", namespace, name)
    if found is None:
        return [f"catalog {namespace}/{name} does not exist"]
    state = field_at(found, "status.connectionState.lastObservedState", "not checked yet")
    message = field_at(found, "status.message", "")
    if state == "READY":
        return []
    return [f"catalog {name} is {state} at {field_at(found, 'status.connectionState.address', '?')} {message}".strip()]


def _plan(cache: WatchCache, installation: OperatorInstallation) -> list[str]:
    lines: list[str] = []
    for plan in cache.all("InstallPlan"):
        if plan["metadata"]["namespace"] != installation.namespace:
            continue
        for one in conditions(plan).values():
            if one.get("status") == "False" and one.get("message"):
                lines.append(f"{title(plan)}: {one['message']}")
        for look in field_at(plan, "status.bundleLookups", []):
            for one in look.get("conditions") or []:
                if one.get("message") and one.get("type") in ("BundleLookupFailed", "BundleLookupPending"):
                    lines.append(f"{title(plan)}: {one['message']}")
    return lines


def unmet_requirements(csv: dict[str, Any] | None) -> list[str]:
    """Return up to three requirements that a ClusterServiceVersion reports as not met."""
    bad = [
        f"{one.get('kind')} {one.get('name')}: {one.get('message') or one.get('status')}"
        for one in field_at(csv, "status.requirementStatus", [])
        if one.get("status") not in ("Present", "Satisfied", "PresentNotSatisfied")
        or (one.get("status") == "PresentNotSatisfied" and one.get("kind") != "ServiceAccount")
    ]
    return bad[:3]


def workload_causes(deployments: Iterable[dict[str, Any]], pods: Iterable[dict[str, Any]]) -> list[str]:
    """Return messages of unavailable Deployments and of pods that do not run, six at most."""
    lines: list[str] = []
    for one in deployments:
        wanted = field_at(one, "spec.replicas", 1)
        if field_at(one, "status.availableReplicas", 0) < wanted:
            message = conditions(one).get("Available", {}).get("message", "")
            lines.append(
                f"{title(one)} has {field_at(one, 'status.availableReplicas', 0)} of {wanted} pods: {message}".rstrip(
                    ": "
                )
            )
    for one in pods:
        lines += [f"{title(one)}: {text}" for text in pod_trouble(one)]
    return lines[:6]


def pod_trouble(pod: dict[str, Any]) -> list[str]:
    """Return why a pod does not run: it is not scheduled, or a container waits or failed."""
    scheduled = conditions(pod).get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return [f"{scheduled.get('reason')}: {scheduled.get('message')}"]
    found = []
    for one in field_at(pod, "status.containerStatuses", []) + field_at(pod, "status.initContainerStatuses", []):
        waiting, ended = field_at(one, "state.waiting"), field_at(one, "state.terminated")
        if waiting and waiting.get("reason") not in ("ContainerCreating", "PodInitializing"):
            found.append(f"container {one['name']}: {waiting.get('reason')}: {waiting.get('message', '')}".rstrip(": "))
        elif ended and ended.get("exitCode"):
            found.append(
                f"container {one['name']} exited with {ended['exitCode']}: {ended.get('message', '')}".rstrip(": ")
            )
    return found


def newest_warnings(events: Iterable[dict[str, Any]]) -> list[str]:
    """Return the two newest warnings."""
    bad = [one for one in events if one.get("type") == "Warning"]
    bad.sort(key=event_time)
    return [
        f"event of {field_at(event, 'involvedObject.kind')} {field_at(event, 'involvedObject.name')}: "
        f"{event.get('message', '')}".rstrip()
        for event in bad[-2:]
    ]


def _text(sentence: str) -> str:
    return sentence.partition(": ")[2]


def save_namespace(client: Client, namespace: str, pods: Iterable[dict[str, Any]], step: Step) -> None:
    """Write objects, events and pod logs of a namespace into the step's directory, with secrets masked."""
    if step.path is None:
        return
    import yaml
    from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files

    folder = step.path / "artifacts" / namespace
    folder.mkdir(parents=True, exist_ok=True)
    objects: list[dict[str, Any]] = []
    for api_version, kind in _KINDS:
        objects += _objects(client, api_version, kind, namespace)
    gate = Gate({})
    text = yaml.safe_dump_all([files.plain(cleaned(one)) for one in objects])
    files.replace_text(folder / "objects.yml", gate.masked(text))
    events = sorted(_objects(client, "v1", "Event", namespace), key=event_time)[-EVENTS:]
    lines = [f"{event_time(one)} {one.get('type')} {one.get('reason')} {one.get('message', '')}" for one in events]
    files.replace_text(folder / "events.log", gate.masked("".join(f"{line}\n" for line in lines)))
    pod_kind = client.kind("v1", "Pod")
    for pod in pods:
        name = pod["metadata"]["name"]
        try:
            text = client.text(pod_kind.path(namespace, name, "log"), {"limitBytes": LOG_BYTES})
        except (SeatrialError, OSError) as error:
            text = f"no log: {error}\n"
        files.replace_text(folder / f"{name}.log", gate.masked(text))


def installed_operators(client: Client, packages: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return one entry for each Subscription, of all packages or of ``packages`` only. [] on a cluster without OLM."""
    try:
        subscriptions = _list_olm(client, "Subscription")
        csvs = _list_olm(client, "ClusterServiceVersion", f"!{existing.COPIED}")
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


def save_state(client: Client, found: Sequence[dict[str, Any]], step: Step, more: Sequence[str] = ()) -> None:
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
        save_namespace(client, namespace, pods, step)
        for pod in pods:
            for status in field_at(pod, "status.containerStatuses", []):
                images[status.get("image", "")] = status.get("imageID", "")
    files.write_yaml(folder / "images.yml", images, head="image: image id (digest) that runs")


def _operands(client: Client, one: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the custom resources of the kinds that an operator provides."""
    items: list[dict[str, Any]] = []
    csv = client.get(client.kind(objects.V1ALPHA1, "ClusterServiceVersion"), one["csv"], one["namespace"])
    for owned in field_at(csv, "spec.customresourcedefinitions.owned", []):
        group = owned["name"].partition(".")[2]
        try:
            items += client.list(client.kind(f"{group}/{owned['version']}", owned["kind"]))[0]
        except InputError:
            continue
    return items


def _list_olm(client: Client, kind: str, selector: str = "") -> list[dict[str, Any]]:
    return client.list(client.kind(objects.V1ALPHA1, kind), label_selector=selector)[0]


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
