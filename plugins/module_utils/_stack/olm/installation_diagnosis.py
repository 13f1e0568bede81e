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
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import SecretScanner
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.capture_contents import mask_object_secrets
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    conditions_by_type,
    event_time,
    expect_object_form,
    field_at_path,
    format_object_title,
    get_label,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from . import existing_olm_objects, operator_objects

if TYPE_CHECKING:
    from .installation_state_machine import OperatorInstallation

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


def causes_of_failed_installation(
    client: Client, cache: WatchCache, installation: OperatorInstallation, step: StepDirectory
) -> list[str]:
    """Return the causes as sentences, the most direct one first, and save the objects that they were read from.

    A failed request, or an object of another form, adds no cause: it must not hide the original failure.
    """
    causes: list[str] = []
    causes += _subscription_failure_causes(cache, installation)
    causes += _catalog_failure_causes(cache, installation)
    try:
        causes += _install_plan_failure_causes(cache, installation)
        causes += unmet_requirements(installation.csv())
        namespace, catalogs = installation.namespace, installation.operator.catalog_namespace
        pods = _list_objects(client, "v1", "Pod", namespace)
        causes += causes_in_deployments_and_pods(_list_objects(client, "apps/v1", "Deployment", namespace), pods)
        known = " ".join(causes)
        causes += [
            warning
            for warning in newest_warnings(_list_objects(client, "v1", "Event", namespace))
            if _text_after_colon(warning) not in known
        ]
        save_namespace_diagnostics(client, namespace, pods, step)
        if installation.operator.brings_catalog and catalogs != namespace:
            save_namespace_diagnostics(client, catalogs, _list_objects(client, "v1", "Pod", catalogs), step)
    except (SeatrialError, OSError) as error:
        step.log(f"can't look for further causes: {error}")
    return list(dict.fromkeys(causes))


def _list_objects(client: Client, api_version: str, kind: str, namespace: str) -> list[dict[str, Any]]:
    return client.list(client.kind(api_version, kind), namespace)[0]


def _subscription_failure_causes(cache: WatchCache, installation: OperatorInstallation) -> list[str]:
    if installation.existing is None:
        return []
    meta = installation.existing.subscription["metadata"]
    subscription = cache.get("Subscription", meta["namespace"], meta["name"])
    bad = ("ResolutionFailed", "CatalogSourcesUnhealthy", "BundleUnpackFailed", "InstallPlanFailed")
    return [
        f"{name}: {condition.get('message') or condition.get('reason')}"
        for name, condition in conditions_by_type(subscription).items()
        if name in bad and condition.get("status") == "True" and str(condition.get("message")) not in installation.waits
    ]


def _catalog_failure_causes(cache: WatchCache, installation: OperatorInstallation) -> list[str]:
    name = installation.operator.catalog or (installation.offer.catalog if installation.offer else "")
    namespace = installation.offer.catalog_namespace if installation.offer else installation.operator.catalog_namespace
    if not name:
        return []
    source = cache.get("CatalogSource", namespace, name)
    if source is None:
        return [f"catalog {namespace}/{name} does not exist"]
    state = field_at_path(source, "status.connectionState.lastObservedState", "not checked yet")
    message = field_at_path(source, "status.message", "")
    if state == "READY":
        return []
    return [
        f"catalog {name} is {state} at {field_at_path(source, 'status.connectionState.address', '?')} {message}".strip()
    ]


def _install_plan_failure_causes(cache: WatchCache, installation: OperatorInstallation) -> list[str]:
    lines: list[str] = []
    for plan in cache.all("InstallPlan"):
        if plan["metadata"]["namespace"] != installation.namespace:
            continue
        for condition in conditions_by_type(plan).values():
            if condition.get("status") == "False" and condition.get("message"):
                lines.append(f"{format_object_title(plan)}: {condition['message']}")
        with expect_object_form(plan):
            lookups = [
                each
                for look in field_at_path(plan, "status.bundleLookups", [])
                for each in look.get("conditions") or []
            ]
            lines += [
                f"{format_object_title(plan)}: {condition['message']}"
                for condition in lookups
                if condition.get("message") and condition.get("type") in ("BundleLookupFailed", "BundleLookupPending")
            ]
    return lines


def unmet_requirements(csv: dict[str, Any] | None) -> list[str]:
    """Return up to three requirements that a ClusterServiceVersion reports as not met."""
    with expect_object_form(csv or {}):
        bad = [
            f"{requirement.get('kind')} {requirement.get('name')}:"
            f" {requirement.get('message') or requirement.get('status')}"
            for requirement in field_at_path(csv, "status.requirementStatus", [])
            if requirement.get("status") not in ("Present", "Satisfied", "PresentNotSatisfied")
            or (requirement.get("status") == "PresentNotSatisfied" and requirement.get("kind") != "ServiceAccount")
        ]
    return bad[:3]


def causes_in_deployments_and_pods(deployments: Iterable[dict[str, Any]], pods: Iterable[dict[str, Any]]) -> list[str]:
    """Return messages of unavailable Deployments and of pods that do not run, six at most."""
    lines: list[str] = []
    for deployment in deployments:
        wanted = field_at_path(deployment, "spec.replicas", 1)
        if field_at_path(deployment, "status.availableReplicas", 0) < wanted:
            message = conditions_by_type(deployment).get("Available", {}).get("message", "")
            lines.append(
                f"{format_object_title(deployment)} has"
                f" {field_at_path(deployment, 'status.availableReplicas', 0)} of {wanted}"
                f" pods: {message}".rstrip(": ")
            )
    for pod in pods:
        lines += [f"{format_object_title(pod)}: {text}" for text in why_pod_does_not_run(pod)]
    return lines[:6]


def why_pod_does_not_run(pod: dict[str, Any]) -> list[str]:
    """Return why a pod does not run: it is not scheduled, or a container waits or failed."""
    scheduled = conditions_by_type(pod).get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return [f"{scheduled.get('reason')}: {scheduled.get('message')}"]
    reasons = []
    for container in field_at_path(pod, "status.containerStatuses", []) + field_at_path(
        pod, "status.initContainerStatuses", []
    ):
        waiting, ended = field_at_path(container, "state.waiting"), field_at_path(container, "state.terminated")
        if waiting and waiting.get("reason") not in ("ContainerCreating", "PodInitializing"):
            reasons.append(
                f"container {container['name']}: {waiting.get('reason')}: {waiting.get('message', '')}".rstrip(": ")
            )
        elif ended and ended.get("exitCode"):
            reasons.append(
                f"container {container['name']} exited with {ended['exitCode']}: {ended.get('message', '')}".rstrip(
                    ": "
                )
            )
    return reasons


def newest_warnings(events: Iterable[dict[str, Any]]) -> list[str]:
    """Return the two newest warnings."""
    bad = [event for event in events if event.get("type") == "Warning"]
    bad.sort(key=event_time)
    return [
        f"event of {field_at_path(event, 'involvedObject.kind')} {field_at_path(event, 'involvedObject.name')}: "
        f"{event.get('message', '')}".rstrip()
        for event in bad[-2:]
    ]


def _text_after_colon(sentence: str) -> str:
    return sentence.partition(": ")[2]


def save_namespace_diagnostics(
    client: Client, namespace: str, pods: Iterable[dict[str, Any]], step: StepDirectory
) -> None:
    """Write objects, events and pod logs of a namespace into the step's directory, with secrets masked."""
    if step.path is None:
        return
    import yaml
    from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files

    folder = step.path / "artifacts" / namespace
    folder.mkdir(parents=True, exist_ok=True)
    objects: list[dict[str, Any]] = []
    for api_version, kind in _KINDS:
        objects += _list_objects(client, api_version, kind, namespace)
    gate = SecretScanner({})
    text = yaml.safe_dump_all([files.to_plain_types(mask_object_secrets(resource)) for resource in objects])
    files.replace_text(folder / "objects.yml", gate.masked(text))
    events = sorted(_list_objects(client, "v1", "Event", namespace), key=event_time)[-EVENTS:]
    lines = [
        f"{event_time(event)} {event.get('type')} {event.get('reason')} {event.get('message', '')}" for event in events
    ]
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
        csvs = _list_olm(client, "ClusterServiceVersion", f"!{existing_olm_objects.COPIED}")
    except InputError:
        return []
    by_place = {(csv["metadata"]["namespace"], csv["metadata"]["name"]): csv for csv in csvs}
    operators = []
    for subscription in subscriptions:
        name = str(field_at_path(subscription, "spec.name", ""))
        if packages and name not in packages:
            continue
        namespace = subscription["metadata"]["namespace"]
        csv = by_place.get(
            (
                namespace,
                str(
                    field_at_path(subscription, "status.installedCSV")
                    or field_at_path(subscription, "status.currentCSV")
                    or ""
                ),
            )
        )
        operators.append(_installed_operator_entry(name, namespace, subscription, csv))
    return sorted(operators, key=lambda each: (each["package"], each["namespace"]))


def save_state_of_operators(
    client: Client, operators: Sequence[dict[str, Any]], step: StepDirectory, more: Sequence[str] = ()
) -> None:
    """Save the state of operators in the step's directory: versions, custom resources, objects, logs and images.

    more: further namespaces, where they exist.
    """
    if step.path is None:
        return
    folder = step.path / "artifacts"
    folder.mkdir(exist_ok=True)
    files.write_yaml(folder / "operators.yml", list(operators))
    operands = [item for operator in operators for item in _list_custom_resources(client, operator)]
    files.write_yaml(folder / "operands.yml", [mask_object_secrets(item) for item in operands])
    images: dict[str, str] = {}
    namespaces = {operator["namespace"] for operator in operators} | {
        operand["metadata"].get("namespace", "") for operand in operands
    }
    kind = client.kind("v1", "Namespace")
    namespaces |= {name for name in more if client.get(kind, name, metadata_only=True) is not None}
    for namespace in sorted(namespaces - {""}):
        pods, _version = client.list(client.kind("v1", "Pod"), namespace)
        save_namespace_diagnostics(client, namespace, pods, step)
        for pod in pods:
            for status in field_at_path(pod, "status.containerStatuses", []):
                images[status.get("image", "")] = status.get("imageID", "")
    files.write_yaml(folder / "images.yml", images, head="image: image id (digest) that runs")


def _list_custom_resources(client: Client, operator: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the custom resources of the kinds that an operator provides."""
    items: list[dict[str, Any]] = []
    csv = client.get(
        client.kind(operator_objects.V1ALPHA1, "ClusterServiceVersion"), operator["csv"], operator["namespace"]
    )
    if csv is None:
        return items
    with expect_object_form(csv):
        for owned in field_at_path(csv, "spec.customresourcedefinitions.owned", []):
            group = owned["name"].partition(".")[2]
            try:
                items += client.list(client.kind(f"{group}/{owned['version']}", owned["kind"]))[0]
            except InputError:
                continue
    return items


def _list_olm(client: Client, kind: str, selector: str = "") -> list[dict[str, Any]]:
    return client.list(client.kind(operator_objects.V1ALPHA1, kind), label_selector=selector)[0]


def _installed_operator_entry(
    package: str, namespace: str, subscription: dict[str, Any], csv: dict[str, Any] | None
) -> dict[str, Any]:
    images = [each.get("image", "") for each in field_at_path(csv, "spec.relatedImages", [])]
    return {
        "package": package,
        "namespace": namespace,
        "catalog": field_at_path(subscription, "spec.source", ""),
        "channel": field_at_path(subscription, "spec.channel", ""),
        "approval": field_at_path(subscription, "spec.installPlanApproval", ""),
        "csv": field_at_path(csv, "metadata.name", ""),
        "version": field_at_path(csv, "spec.version", ""),
        "phase": field_at_path(csv, "status.phase", ""),
        "message": field_at_path(csv, "status.message", ""),
        "images": sorted(filter(None, images)),
        "run": get_label(subscription, run_labels.RUN),
        "trouble": [
            f"{name}: {each.get('message') or each.get('reason')}"
            for name, each in conditions_by_type(subscription).items()
            if each.get("status") == "True" and name in ("ResolutionFailed", "CatalogSourcesUnhealthy")
        ],
    }
