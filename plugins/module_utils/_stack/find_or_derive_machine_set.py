# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MachineSets of OpenShift: find one by name or instance type, or derive a new one from a set of workers.

API: machine.openshift.io/v1beta1 (openshift/api, machine/v1beta1). Instance type, spot instance and disk are fields of
providerSpec.value, which differ between clouds; PROVIDERS has their names.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import field_at_path

from . import node_count_for_users
from .node_count_for_users import NodeSize, UserDemand, node_count_and_deciding_limit

VERSION = "machine.openshift.io/v1beta1"
NAMESPACE = "openshift-machine-api"
CLUSTER = "machine.openshift.io/cluster-api-cluster"
SET = "machine.openshift.io/cluster-api-machineset"
ROLE = "machine.openshift.io/cluster-api-machine-role"
#: Annotation of a set that a run created.
RUN = "perfscale.seatrial/made-run"


@dataclass(frozen=True)
class MachineProvider:
    """The fields of one cloud below providerSpec.value. A number in a path is an index."""

    instance_type: str
    spot: tuple[str, Any] | None = None
    disk: tuple[str | int, ...] = ()


#: By providerSpec.value.kind.
PROVIDERS = {
    "AWSMachineProviderConfig": MachineProvider(
        "instanceType", ("spotMarketOptions", {}), ("blockDevices", 0, "ebs", "volumeSize")
    ),
    "GCPMachineProviderSpec": MachineProvider("machineType", ("preemptible", True), ("disks", 0, "sizeGb")),
    "AzureMachineProviderSpec": MachineProvider("vmSize", ("spotVMOptions", {}), ("osDisk", "diskSizeGB")),
    "IBMCloudMachineProviderSpec": MachineProvider("profile"),
}

#: What a simulated user on the driver needs: a small client.
DRIVER_USER = UserDemand(0.25, 2.0)

_TAINT = re.compile(
    r"(?P<key>[A-Za-z0-9][A-Za-z0-9._/-]*)(=(?P<value>[A-Za-z0-9._-]*))?:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute)"
)


@dataclass(frozen=True)
class MachineSetSpec:
    """The requested nodes. ``name`` or ``instance_type`` selects the set; ``disk`` in GiB, 0 keeps that of the base."""

    replicas: int
    name: str = ""
    instance_type: str = ""
    base: str = ""
    taint: str = ""
    spot: bool = False
    disk: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    users: int = 0  # if not 0, the number of machines is computed for them
    user: UserDemand | None = None
    node: NodeSize | None = None  # that of the instance type, if None

    def check(self) -> None:
        """Raise InputError for invalid values."""
        if self.replicas < 0:
            raise InputError(f"node_scaling_count is {self.replicas}, it must be 0 or more")
        if self.users and self.user is None:
            raise InputError(f"node_scaling: {self.users} users, and what one of them needs (user) is not given")
        if not self.name and not self.instance_type:
            raise InputError(
                "set node_scaling_name or node_scaling_instance_type, which select the MachineSet to scale"
            )
        parse_taint(self.taint)


def parse_taint(text: str) -> dict[str, str] | None:
    """Parse a taint ``key=value:Effect``; None for an empty text. Raises InputError."""
    if not text:
        return None
    match = _TAINT.fullmatch(text)
    if not match:
        raise InputError(
            f"node_scaling_taint '{text}' is not a taint: <key>[=<value>]:NoSchedule, :PreferNoSchedule or :NoExecute"
        )
    taint = {"key": match["key"], "effect": match["effect"]}
    return {**taint, "value": match["value"]} if match["value"] else taint


def cloud_provider_and_spec(machine_set: Mapping[str, Any]) -> tuple[MachineProvider, dict[str, Any]]:
    """Return the fields of a set's cloud and its providerSpec.value. Raises InputError if it is unknown."""
    value = field_at_path(dict(machine_set), "spec.template.spec.providerSpec.value", {})
    kind = str(field_at_path(value, "kind", ""))
    if kind not in PROVIDERS:
        raise InputError(
            f"MachineSet {machine_set['metadata']['name']}: unknown kind of providerSpec '{kind}'; instance"
            " types are known "
            f"for {', '.join(sorted(PROVIDERS))}: set node_scaling_name instead"
        )
    return PROVIDERS[kind], value


def instance_type(machine_set: Mapping[str, Any]) -> str:
    """Return a set's instance type; empty if it is unknown."""
    try:
        provider, value = cloud_provider_and_spec(machine_set)
    except InputError:
        return ""
    return str(value.get(provider.instance_type, ""))


def choose_or_derive_machine_set(
    sets: Sequence[dict[str, Any]], spec: MachineSetSpec
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the existing set that matches ``spec``, or None, and the desired set.

    Only the number of replicas of an existing set changes. Raises InputError if it does not match.
    """
    spec.check()
    existing = _find_matching_set(sets, spec)
    if existing is not None:
        wanted = copy.deepcopy(existing)
        wanted["spec"]["replicas"] = spec.replicas
        return existing, wanted
    return None, derive_machine_set(_choose_base_set(sets, spec), spec)


def size_machine_set_for_users(
    sets: Sequence[dict[str, Any]], spec: MachineSetSpec, types: Sequence[Mapping[str, Any]]
) -> tuple[MachineSetSpec, dict[str, Any]]:
    """Return the spec with the number of machines for its users, and how it was computed (empty without users).

    types: further machine types, as for machine_types.size_of(). Raises InputError.
    """
    spec.check()
    if not spec.users or spec.user is None:
        return spec, {}
    existing = _find_matching_set(sets, spec)
    kind = spec.instance_type or (instance_type(existing) if existing is not None else "")
    node = spec.node or node_count_for_users.size_of_machine_type(kind, types)
    sizing = node_count_and_deciding_limit(spec.users, spec.user, node)
    return replace(spec, replicas=sizing["nodes"]), {**sizing, "instance_type": kind}


def _find_matching_set(sets: Sequence[dict[str, Any]], spec: MachineSetSpec) -> dict[str, Any] | None:
    if spec.name:
        named = next((machine_set for machine_set in sets if machine_set["metadata"]["name"] == spec.name), None)
        if named is not None and spec.instance_type and instance_type(named) not in ("", spec.instance_type):
            raise InputError(
                f"MachineSet {spec.name} has machines of type {instance_type(named)}, not {spec.instance_type}"
            )
        if named is not None or spec.instance_type:
            return named
        names = [machine_set["metadata"]["name"] for machine_set in sets]
        raise InputError(
            f"there is no MachineSet '{spec.name}'{suggest_similar_name(spec.name, names)}; there are"
            f" {', '.join(names) or 'none'}. "
            "With node_scaling_instance_type it would be created"
        )
    taint = parse_taint(spec.taint)
    for machine_set in sorted(sets, key=lambda each: each["metadata"]["name"]):
        same = instance_type(machine_set) == spec.instance_type
        if same and (taint is None or taint in _taints(machine_set)):
            return machine_set
    return None


def _choose_base_set(sets: Sequence[dict[str, Any]], spec: MachineSetSpec) -> dict[str, Any]:
    names = sorted(machine_set["metadata"]["name"] for machine_set in sets)
    if spec.base:
        base_set = next((machine_set for machine_set in sets if machine_set["metadata"]["name"] == spec.base), None)
        if base_set is None:
            raise InputError(
                f"node_scaling_base: there is no MachineSet '{spec.base}'{suggest_similar_name(spec.base, names)}"
            )
        return base_set
    workers = [machine_set for machine_set in sets if _machine_role(machine_set) == "worker"] or list(sets)
    if not workers:
        raise InputError("there is no MachineSet to derive one from: this cluster does not create its machines")
    return min(workers, key=lambda worker: worker["metadata"]["name"])


def _machine_role(machine_set: Mapping[str, Any]) -> str:
    return str(field_at_path(dict(machine_set), f'spec.template.metadata.labels["{ROLE}"]', ""))


def _taints(machine_set: Mapping[str, Any]) -> list[Any]:
    taints = field_at_path(dict(machine_set), "spec.template.spec.taints", [])
    return taints if isinstance(taints, list) else []


def derive_machine_set(base: Mapping[str, Any], spec: MachineSetSpec) -> dict[str, Any]:
    """Return a new set like ``base`` with the name, instance type, taint and disk of ``spec``. Raises InputError."""
    body = copy.deepcopy(dict(base["spec"]))
    labels = body["template"].setdefault("metadata", {}).setdefault("labels", {})
    cluster = labels.get(CLUSTER) or base["metadata"]["name"]
    ending = re.sub(r"[^a-z0-9-]+", "-", spec.instance_type.lower()).strip("-")
    name = spec.name or f"{cluster}-{ending}"[:63].rstrip("-")
    body["replicas"] = spec.replicas
    body["selector"] = {"matchLabels": {**(body.get("selector", {}).get("matchLabels") or {}), SET: name}}
    labels[SET] = name
    inner = body["template"]["spec"]
    provider, _value = cloud_provider_and_spec(base)
    value = inner["providerSpec"]["value"]
    value[provider.instance_type] = spec.instance_type
    if spec.spot:
        if provider.spot is None:
            raise InputError(f"node_scaling_spot: machines of {value['kind']} can't be spot instances")
        value[provider.spot[0]] = copy.deepcopy(provider.spot[1])
    elif provider.spot is not None:
        value.pop(provider.spot[0], None)
    if spec.disk:
        _set_disk(value, provider, spec.disk)
    taint = parse_taint(spec.taint)
    if taint is not None:
        inner["taints"] = [
            old_taint for old_taint in inner.get("taints") or [] if old_taint.get("key") != taint["key"]
        ] + [taint]
        # Pods that are dedicated to the tainted nodes select them by a label with the taint's key and value.
        spec = replace(spec, labels={taint["key"]: taint.get("value", ""), **spec.labels})
    if spec.labels:
        inner.setdefault("metadata", {}).setdefault("labels", {}).update(spec.labels)
    return {
        "apiVersion": VERSION,
        "kind": "MachineSet",
        "metadata": {
            "name": name,
            "namespace": base["metadata"].get("namespace", NAMESPACE),
            "labels": dict(base["metadata"].get("labels") or {}),
        },
        "spec": body,
    }


def _set_disk(value: dict[str, Any], provider: MachineProvider, size: int) -> None:
    at: Any = value
    try:
        for part in provider.disk[:-1]:
            at = at[part]
        at[provider.disk[-1]] = size
    except (KeyError, IndexError, TypeError) as error:
        raise InputError(
            f"node_scaling_disk: the MachineSet has no disk at {'.'.join(map(str, provider.disk)) or value['kind']}"
        ) from error
