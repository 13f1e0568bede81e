# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MachineSets of OpenShift: found by name or instance type, derived from a worker set, scaled, waited for, put back.

API: machine.openshift.io/v1beta1 (openshift/api, machine/v1beta1). What a cloud calls an instance type, a spot instance
and a disk lies in its own part of the object, providerSpec.value; PROVIDERS says where.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, nearest

VERSION = "machine.openshift.io/v1beta1"
NAMESPACE = "openshift-machine-api"
CLUSTER = "machine.openshift.io/cluster-api-cluster"
SET = "machine.openshift.io/cluster-api-machineset"
ROLE = "machine.openshift.io/cluster-api-machine-role"
#: Annotation of a set that a run made.
RUN = "perfscale.seatrial/made-run"


@dataclass(frozen=True)
class MachineProvider:
    """Where one cloud's settings lie below providerSpec.value. A path's number is an index."""

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

_TAINT = re.compile(
    r"(?P<key>[A-Za-z0-9][A-Za-z0-9._/-]*)(=(?P<value>[A-Za-z0-9._-]*))?:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute)"
)


@dataclass(frozen=True)
class MachineSetSpec:
    """Which nodes are wanted. ``name`` or ``instance_type`` says which set; ``disk`` in GiB, 0 as the base has it."""

    replicas: int
    name: str = ""
    instance_type: str = ""
    base: str = ""
    taint: str = ""
    spot: bool = False
    disk: int = 0
    labels: dict[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise InputError for what can't be meant."""
        if self.replicas < 0:
            raise InputError(f"node_scaling_count is {self.replicas}, it must be 0 or more")
        if not self.name and not self.instance_type:
            raise InputError("give node_scaling_name or node_scaling_instance_type: which MachineSet is to be scaled?")
        taint_of(self.taint)


def taint_of(text: str) -> dict[str, str] | None:
    """Return the taint that ``key=value:Effect`` means, None for an empty text. Raises InputError."""
    if not text:
        return None
    found = _TAINT.fullmatch(text)
    if not found:
        raise InputError(
            f"node_scaling_taint '{text}' is no taint: <key>[=<value>]:NoSchedule, :PreferNoSchedule or :NoExecute"
        )
    taint = {"key": found["key"], "effect": found["effect"]}
    return {**taint, "value": found["value"]} if found["value"] else taint


def provider_of(one: Mapping[str, Any]) -> tuple[MachineProvider, dict[str, Any]]:
    """Return what is known of a set's cloud, and its part of the object. Raises InputError for an unknown one."""
    value = one["spec"]["template"]["spec"].get("providerSpec", {}).get("value") or {}
    kind = str(value.get("kind", ""))
    if kind not in PROVIDERS:
        raise InputError(
            f"MachineSet {one['metadata']['name']} is of {kind or 'no kind that it says'}, and instance types are "
            f"known of {', '.join(sorted(PROVIDERS))}: name a MachineSet (node_scaling_name) instead"
        )
    return PROVIDERS[kind], value


def instance_type(one: Mapping[str, Any]) -> str:
    """Return a set's instance type; empty where nobody knows."""
    try:
        provider, value = provider_of(one)
    except InputError:
        return ""
    return str(value.get(provider.instance_type, ""))


def chosen(sets: Sequence[dict[str, Any]], wish: MachineSetSpec) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the set that there is for this wish, or None, and the set as it should be.

    A set that there is keeps what it is: only its number of replicas changes, and it must be what was asked for.
    Raises InputError.
    """
    wish.check()
    there = _found(sets, wish)
    if there is not None:
        wanted = copy.deepcopy(there)
        wanted["spec"]["replicas"] = wish.replicas
        return there, wanted
    return None, derived(_base(sets, wish), wish)


def _found(sets: Sequence[dict[str, Any]], wish: MachineSetSpec) -> dict[str, Any] | None:
    if wish.name:
        named = next((one for one in sets if one["metadata"]["name"] == wish.name), None)
        if named is not None and wish.instance_type and instance_type(named) not in ("", wish.instance_type):
            raise InputError(
                f"MachineSet {wish.name} has machines of type {instance_type(named)}, not {wish.instance_type}"
            )
        if named is not None or wish.instance_type:
            return named
        names = [one["metadata"]["name"] for one in sets]
        raise InputError(
            f"there is no MachineSet '{wish.name}'{nearest(wish.name, names)}; there are {', '.join(names) or 'none'}. "
            "With node_scaling_instance_type it would be made"
        )
    taint = taint_of(wish.taint)
    for one in sorted(sets, key=lambda each: each["metadata"]["name"]):
        same = instance_type(one) == wish.instance_type
        if same and (taint is None or taint in (one["spec"]["template"]["spec"].get("taints") or [])):
            return one
    return None


def _base(sets: Sequence[dict[str, Any]], wish: MachineSetSpec) -> dict[str, Any]:
    names = sorted(one["metadata"]["name"] for one in sets)
    if wish.base:
        found = next((one for one in sets if one["metadata"]["name"] == wish.base), None)
        if found is None:
            raise InputError(f"node_scaling_base: there is no MachineSet '{wish.base}'{nearest(wish.base, names)}")
        return found
    workers = [one for one in sets if _role(one) == "worker"] or list(sets)
    if not workers:
        raise InputError("there is no MachineSet to derive one from: this cluster does not make its machines itself")
    return min(workers, key=lambda one: one["metadata"]["name"])


def _role(one: Mapping[str, Any]) -> str:
    return str((one["spec"]["template"].get("metadata", {}).get("labels") or {}).get(ROLE, ""))


def derived(base: Mapping[str, Any], wish: MachineSetSpec) -> dict[str, Any]:
    """Return a new set like ``base``, of another instance type, with its own name, taint, disk. Raises InputError."""
    spec = copy.deepcopy(dict(base["spec"]))
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    cluster = labels.get(CLUSTER) or base["metadata"]["name"]
    ending = re.sub(r"[^a-z0-9-]+", "-", wish.instance_type.lower()).strip("-")
    name = wish.name or f"{cluster}-{ending}"[:63].rstrip("-")
    spec["replicas"] = wish.replicas
    spec["selector"] = {"matchLabels": {**(spec.get("selector", {}).get("matchLabels") or {}), SET: name}}
    labels[SET] = name
    inner = spec["template"]["spec"]
    provider, _value = provider_of(base)
    value = inner["providerSpec"]["value"]
    value[provider.instance_type] = wish.instance_type
    if wish.spot:
        if provider.spot is None:
            raise InputError(f"node_scaling_spot: machines of {value['kind']} can't be spot instances")
        value[provider.spot[0]] = copy.deepcopy(provider.spot[1])
    elif provider.spot is not None:
        value.pop(provider.spot[0], None)
    if wish.disk:
        _set_disk(value, provider, wish.disk)
    taint = taint_of(wish.taint)
    if taint is not None:
        inner["taints"] = [one for one in inner.get("taints") or [] if one.get("key") != taint["key"]] + [taint]
        # What is dedicated to the tainted nodes finds them by the taint's own key and value.
        wish = replace(wish, labels={taint["key"]: taint.get("value", ""), **wish.labels})
    if wish.labels:
        inner.setdefault("metadata", {}).setdefault("labels", {}).update(wish.labels)
    return {
        "apiVersion": VERSION,
        "kind": "MachineSet",
        "metadata": {
            "name": name,
            "namespace": base["metadata"].get("namespace", NAMESPACE),
            "labels": dict(base["metadata"].get("labels") or {}),
        },
        "spec": spec,
    }


def _set_disk(value: dict[str, Any], provider: MachineProvider, size: int) -> None:
    at: Any = value
    try:
        for part in provider.disk[:-1]:
            at = at[part]
        at[provider.disk[-1]] = size
    except (KeyError, IndexError, TypeError) as error:
        raise InputError(
            f"node_scaling_disk: the MachineSet says nothing of a disk at "
            f"{'.'.join(map(str, provider.disk)) or value['kind']}"
        ) from error
