# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a cluster against the requirements of a run; return the findings and the least RBAC."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import cluster_properties
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import rbac, why_pod_waits_or_cannot_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    field_at_path,
    get_label,
    is_condition_true,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.served_fields import ServedSchemas

from . import duration_and_capacity_estimate

OK, MISSING, NOTE = "ok", "missing", "note"
#: The oldest Kubernetes version that this collection is tested with.
OLDEST = (1, 28)
#: Up to this many points get a line each; for more, only the total is shown.
_SOME_POINTS = 3
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


@dataclass(frozen=True)
class ExaminationSpec:
    """The requirements of a run. namespaces, kinds: those of the run. points: number -> plan as in meta/doctor.yml."""

    phases: Sequence[str]
    permissions: Sequence[Mapping[str, Any]]
    kinds: Sequence[str]
    namespaces: Sequence[str]
    storage_classes: Sequence[str]
    points: Mapping[str, dict[str, Any]]
    heavy: Sequence[str] = ()
    exclusive: bool = False
    #: Settings whose values are kinds: setting, used, and by value kinds, required (with all parts), install.
    alternatives: Sequence[Mapping[str, Any]] = ()
    conflicts: Sequence[Mapping[str, Any]] = ()  # of kinds of workloads: has, lacks (<version>/<kind>/<field>), why
    subject: str = ""
    run_id: str = ""  # the id of the run as it occurs in names
    nodes: Sequence[Mapping[str, Any]] = ()  # those that the run creates, as in meta/doctor.yml
    installs: str = ""  # what phase prepare installs, which may bring kinds and resources
    others: bool = True  # whether to check who else uses the cluster


@dataclass
class CheckResults:
    """The checks so far: result, name and detail of each."""

    checks: list[dict[str, str]] = field(default_factory=list)

    def add(self, result: str, name: str, detail: str) -> None:
        """Add one check."""
        self.checks.append({"result": result, "check": name, "detail": detail})

    @property
    def missing(self) -> int:
        """Number of checks that found something missing."""
        return sum(1 for check in self.checks if check["result"] == MISSING)


def run_cluster_checks(client: Client, spec: ExaminationSpec) -> dict[str, Any]:
    """Run all checks; change nothing. Raises AccessError if the API server can't be reached."""
    findings = CheckResults()
    version = client.request("GET", "/version")
    if not isinstance(version, dict) or not {"major", "minor", "gitVersion"} <= version.keys():
        raise AccessError(f"{client.access.server} is no API server: it has no version")
    number = tuple(int("".join(re.findall("[0-9]", str(version[key])))[:9] or 0) for key in ("major", "minor"))
    oldest = ".".join(map(str, OLDEST))
    detail = (
        version["gitVersion"] if number >= OLDEST else f"{version['gitVersion']}, this is tried with {oldest} and later"
    )
    findings.add(OK if number >= OLDEST else NOTE, "Kubernetes", detail)
    nodes = _request_if_permitted(findings, "nodes", lambda: client.list(client.kind("v1", "Node"))[0])
    has_nodes = nodes is not None and _check_nodes(nodes, spec, findings)
    explained = _check_alternatives(client, spec, findings)
    _check_kinds(client, spec, explained, findings)
    _check_conflicts(client, spec, findings)
    there = {name: _does_namespace_exist(client, name, spec.run_id) for name in spec.namespaces}
    needed = rbac.rights_needed_in_phases(spec.permissions, spec.phases, there)
    lacking = rbac.rights_refused_by_server(client, needed)
    for text in rbac.format_rights(lacking):
        findings.add(MISSING, "permission", text)
    if not lacking:
        findings.add(OK, "permissions", f"all {len(needed)} that phases {', '.join(spec.phases)} need")
    _check_storage_classes(client, spec, findings)
    estimates = _check_capacity(client, spec, nodes if has_nodes else None, findings)
    for name in (name for name, is_there in there.items() if is_there):
        _check_quotas(client, name, estimates, findings)
    if spec.others:
        _check_other_gpu_users(client, spec, findings)
    return {
        "checks": findings.checks,
        "missing": findings.missing,
        "estimates": [vars(estimate) for estimate in estimates],
        "rbac": rbac.rbac_manifests(needed, rbac.rbac_object_name_for_user(spec.subject), spec.subject),
    }


def estimate_without_cluster(spec: ExaminationSpec) -> dict[str, Any]:
    """Return what is known without a cluster: the load of each point, if everything fits, and the least RBAC."""
    findings = CheckResults()
    findings.add(
        NOTE, "cluster", "none is named (cluster_kubeconfig): nothing is checked, and each load is assumed to fit"
    )
    estimates = []
    for point, load in spec.points.items():
        plan = duration_and_capacity_estimate.load_of_planned_point(point, load)
        point_estimate = duration_and_capacity_estimate.estimate_by_scheduling(
            plan, plan.gpus * plan.workloads, real=True
        )
        if point_estimate is not None:
            estimates.append(point_estimate)
    _add_load_estimates(estimates, findings, some=len(estimates))
    needed = rbac.rights_needed_in_phases(spec.permissions, spec.phases, dict.fromkeys(spec.namespaces, False))
    return {
        "checks": findings.checks,
        "missing": findings.missing,
        "estimates": [vars(estimate) for estimate in estimates],
        "rbac": rbac.rbac_manifests(needed, rbac.rbac_object_name_for_user(spec.subject), spec.subject),
    }


def _request_if_permitted(findings: CheckResults, what: str, ask: Callable[[], Any]) -> Any:
    """Return the result of ``ask``; None and a note if the server refuses the request."""
    try:
        return ask()
    except ApiError as error:
        findings.add(NOTE, what, f"can't be read: {error.reason or error}")
        return None


def _check_nodes(nodes: Sequence[Mapping[str, Any]], spec: ExaminationSpec, findings: CheckResults) -> bool:
    """Check the nodes; return whether pods can be scheduled, now or once the run has created its nodes."""
    ready = sum(is_condition_true(node, "Ready") for node in nodes)
    gpus = sum(cluster_properties.gpu_products(nodes).values())
    detail = f"{ready} of {len(nodes)} Ready, {gpus} GPUs"
    if spec.nodes:
        findings.add(OK, "nodes", f"{detail}; {' and '.join(map(_created_nodes, spec.nodes))} by the run itself")
        return True
    if not nodes:
        findings.add(MISSING, "nodes", "the cluster has no node, so nothing can be scheduled")
    elif not ready:
        findings.add(MISSING, "nodes", f"none of {len(nodes)} nodes is Ready, so nothing can be scheduled")
    else:
        findings.add(OK if ready == len(nodes) else NOTE, "nodes", detail)
    return ready > 0


def _created_nodes(entry: Mapping[str, Any]) -> str:
    """Return the nodes that the run creates for an entry, as text."""
    has = ", ".join(f"{text} {name}" for name, text in (entry.get("allocatable") or {}).items())
    return f"{entry.get('count') or 'some'} more{f' with {has} each' if has else ''}"


def _check_kinds(client: Client, spec: ExaminationSpec, explained: Collection[str], findings: CheckResults) -> None:
    there = []
    for text in (text for text in spec.kinds if text not in explained):
        kind, missing = _find_kind(client, str(text))
        if kind:
            there.append(kind)
        else:
            findings.add(*_unless_installed(spec, "kind", missing))
    if there:
        findings.add(OK, "kinds", ", ".join(there))


def _find_kind(client: Client, text: str) -> tuple[str, str]:
    """Return the first kind of "<version>/<kind> or ..." that the server has; if there is none, empty and why."""
    missing = ""
    for name in text.split(" or "):
        version, _slash, kind = name.rpartition("/")
        try:
            client.kind(version, kind)
        except InputError as error:
            missing = missing or str(error)
        else:
            return f"{kind} ({version})", ""
    return "", missing


def _check_conflicts(client: Client, spec: ExaminationSpec, findings: CheckResults) -> None:
    """Report releases on the server that do not go together, by the fields that its kinds have."""
    served = ServedSchemas(client)

    def has(text: str) -> bool | None:
        """Return whether the server has a field, None without its kind in any version."""
        version, kind, field_path = text.rsplit("/", 2)
        if served.has_field(version, kind, field_path):
            return True
        group = version.rpartition("/")[0]
        kinds = {(known.kind, known.api_version.rpartition("/")[0]) for known in client.kinds()}
        return False if (kind, group) in kinds else None

    def is_there(conflict: Mapping[str, Any]) -> bool:
        return bool(has(conflict["has"])) and has(conflict["lacks"]) is False

    for conflict in spec.conflicts:
        if _request_if_permitted(findings, "versions", functools.partial(is_there, conflict)):
            findings.add(MISSING, "versions", str(conflict["why"]))


def _check_alternatives(client: Client, spec: ExaminationSpec, findings: CheckResults) -> set[str]:
    """Check that the server has the kinds of the values that settings have, and name the values that it could run.

    Returns the kinds that are missing for them, which need no finding of their own.
    """
    explained: set[str] = set()
    for entry in spec.alternatives:
        name, kinds = entry["setting"], entry["kinds"]
        if len(kinds) < 2:
            continue
        lacking = {
            value: [kind for kind in entry["required"][value] if not _find_kind(client, kind)[0]] for value in kinds
        }
        fitting = [value for value in kinds if not lacking[value]]
        for value in (value for value in entry["used"] if lacking[value]):
            explained.update(lacking[value])
            needed = " and ".join(_kind_text(text) for text in lacking[value])
            detail = (
                f"{name}={value} needs {needed}, which the cluster does not have: install {entry['install'][value]}"
            )
            if fitting:
                detail += f", or set {' or '.join(f'{name}={other}' for other in fitting)}"
            findings.add(*_unless_installed(spec, name, detail))
        if set(entry["used"]) <= set(fitting):
            findings.add(
                OK, name, f"{', '.join(entry['used'])} is used; the cluster has the kinds of {', '.join(fitting)}"
            )
    return explained


def _kind_text(text: str) -> str:
    """Return "<kind> (<version>)" of the first of "<version>/<kind> or ..."."""
    version, _slash, kind = text.split(" or ")[0].rpartition("/")
    return f"{kind} ({version})"


def _unless_installed(spec: ExaminationSpec, check: str, detail: str) -> tuple[str, str, str]:
    """Return the check of a missing item: a note if an operator that phase prepare installs may provide it."""
    if not spec.installs:
        return MISSING, check, detail
    return NOTE, check, f"{detail}; phase prepare installs {spec.installs} before it is needed"


def _does_namespace_exist(client: Client, name: str, run_id: str) -> bool:
    """Return whether a namespace exists; if reading it is forbidden, whether its name lacks the run id."""
    try:
        return client.get(client.kind("v1", "Namespace"), name, metadata_only=True) is not None
    except ApiError:
        return not run_id or run_id not in name


def _check_storage_classes(client: Client, spec: ExaminationSpec, findings: CheckResults) -> None:
    if not spec.storage_classes:
        return
    classes = _request_if_permitted(
        findings, "storage classes", lambda: client.list(client.kind("storage.k8s.io/v1", "StorageClass"))[0]
    )
    if classes is None:
        return
    known = {
        storage_class["metadata"]["name"]: storage_class["metadata"].get("annotations") or {}
        for storage_class in classes
    }
    default = [name for name, notes in known.items() if notes.get(_DEFAULT_CLASS) == "true"]
    for name in spec.storage_classes:
        if name in known or (not name and default):
            findings.add(OK, "storage class", name or f"{default[0]}, the default")
        else:
            detail = f"{name} is not there" if name else "the cluster has no default storage class, and none is named"
            findings.add(MISSING, "storage class", f"{detail}; there are: {', '.join(sorted(known)) or 'none'}")


def _check_capacity(
    client: Client, spec: ExaminationSpec, nodes: Sequence[Mapping[str, Any]] | None, findings: CheckResults
) -> list[duration_and_capacity_estimate.LoadEstimate]:
    """Check whether the load of each point fits, and estimate it; without nodes, everything is assumed to fit."""
    estimates: list[duration_and_capacity_estimate.LoadEstimate] = []
    lacking: dict[str, list[str]] = {}
    real = nodes is None or any(not get_label(node, run_labels.SIMULATED) for node in nodes)
    for point, load in spec.points.items():
        plan = duration_and_capacity_estimate.load_of_planned_point(point, load)
        has = (
            [*nodes, *duration_and_capacity_estimate.node_objects_to_create(spec.nodes, plan.selector)]
            if nodes is not None
            else []
        )
        short = duration_and_capacity_estimate.why_capacity_is_missing(plan, has) if nodes is not None else ""
        if short:
            lacking.setdefault(short, []).append(point)
            continue
        gpus = duration_and_capacity_estimate.count_node_gpus(plan, has) if has else plan.gpus * plan.workloads
        point_estimate = duration_and_capacity_estimate.estimate_by_scheduling(plan, gpus, real)
        if point_estimate is not None:
            estimates.append(point_estimate)
    for short, points in lacking.items():
        detail = f"{_format_point_names(points)}: {short}"
        later = _future_capacity_reason(client, spec)
        findings.add(NOTE if later else MISSING, "room", f"{detail}; {later}" if later else detail)
    _add_load_estimates(estimates, findings)
    return estimates


def _future_capacity_reason(client: Client, spec: ExaminationSpec) -> str:
    """Return why missing capacity may exist when it is needed, else an empty string."""
    if spec.installs:
        return f"phase prepare installs {spec.installs} before it is needed"
    if any(not entry.get("allocatable") for entry in spec.nodes):
        return "what the nodes that the run makes will have is not known yet"
    scaler = why_pod_waits_or_cannot_run.find_node_autoscaler(client)
    return f"{scaler} may add nodes" if scaler else ""


def _format_point_names(names: Sequence[str]) -> str:
    return f"point{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _add_load_estimates(
    estimates: Sequence[duration_and_capacity_estimate.LoadEstimate], findings: CheckResults, some: int = _SOME_POINTS
) -> None:
    for estimate in estimates if len(estimates) <= some else ():
        findings.add(OK, "plan", f"point {estimate.point}: {estimate.text()}")
    if len(estimates) > 1:
        findings.add(OK, "plan", duration_and_capacity_estimate.format_total_estimate(estimates))


def _check_quotas(
    client: Client,
    namespace: str,
    estimates: Sequence[duration_and_capacity_estimate.LoadEstimate],
    findings: CheckResults,
) -> None:
    quotas = _request_if_permitted(
        findings, "quotas", lambda: client.list(client.kind("v1", "ResourceQuota"), namespace)[0]
    )
    most = {
        "pods": max((estimate.pods_at_once for estimate in estimates), default=0),
        "requests.nvidia.com/gpu": max((estimate.gpus_at_once for estimate in estimates), default=0),
    }
    for quota in quotas or ():
        for resource, wanted in most.items():
            hard, used = (field_at_path(quota, f'status.{part}["{resource}"]') for part in ("hard", "used"))
            if hard is not None:
                left = parse_kube_quantity(hard) - parse_kube_quantity(used or 0)
                detail = (
                    f"{resource} in {namespace}: {left:g} left by {quota['metadata']['name']},"
                    f" {wanted:g} wanted at once"
                )
                findings.add(OK if left >= wanted else MISSING, "quota", detail)


def _check_other_gpu_users(client: Client, spec: ExaminationSpec, findings: CheckResults) -> None:
    """Check who else uses GPUs now: their load would affect the measurement."""
    pods = _request_if_permitted(
        findings,
        "other users",
        lambda: client.list(client.kind("v1", "Pod"), field_selector="status.phase=Running")[0],
    )
    if pods is None:
        return
    with expect_documented_form("list of pods", pods):
        having = [
            pod for pod in pods if run_labels.RUN not in (pod["metadata"].get("labels") or {}) and _count_pod_gpus(pod)
        ]
        gpus = sum(map(_count_pod_gpus, having))
        places = sorted({pod["metadata"]["namespace"] for pod in having})
    if having:
        detail = f"{len(having)} pods of others have {gpus:g} GPUs, in {', '.join(places[:5])}"
        findings.add(NOTE, "other users", detail)
    else:
        findings.add(OK, "other users", "no pod of others has a GPU")
    if spec.heavy and not spec.exclusive:
        detail = f"preset {spec.heavy[0]} is heavy: cluster_exclusive=true must say that nobody else uses the cluster"
        findings.add(MISSING, "exclusive use", detail)


def _count_pod_gpus(pod: Mapping[str, Any]) -> float:
    limits = [(container.get("resources") or {}).get("limits") or {} for container in pod["spec"]["containers"]]
    return sum(parse_kube_quantity(limit.get(name, 0)) for limit in limits for name in cluster_properties.GPU_RESOURCES)
