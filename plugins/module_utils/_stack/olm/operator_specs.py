# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators to install: options of module olm_operator and their validation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import field_at_path

READY_OPTIONS: dict[str, Any] = {
    "condition": {"type": "str"},
    "field": {"type": "str"},
    "equals": {"type": "str"},
    "available": {"type": "bool", "default": False},
    "metrics": {"type": "list", "elements": "str"},
    "port": {"type": "int", "default": 9400},
}
EXPECTED_OPTIONS: dict[str, Any] = {
    "api_version": {"type": "str", "required": True},
    "kind": {"type": "str", "required": True},
    "namespace": {"type": "str", "default": ""},
    "names": {"type": "list", "elements": "str", "default": []},
    "labels": {"type": "dict", "default": {}},
    "at_least": {"type": "int", "default": 1},
    "ready": {"type": "dict", "required": True, "options": READY_OPTIONS},
}
OPERAND_OPTIONS: dict[str, Any] = {
    "kind": {"type": "str"},
    "manifest": {"type": "dict"},
    "name": {"type": "str"},
    "namespace": {"type": "str"},
    "patch": {"type": "dict"},
    "append": {"type": "dict"},
    "needs": {"type": "list", "elements": "dict"},
    "single": {"type": "bool", "default": False},
    "ready": {"type": "dict", "options": READY_OPTIONS},
}
NAMED_RESOURCE: dict[str, Any] = {"kind": {"type": "str", "required": True}, "name": {"type": "str", "required": True}}
CREATED_OBJECT_OPTIONS: dict[str, Any] = {
    name: EXPECTED_OPTIONS[name] for name in ("api_version", "kind", "namespace", "names", "labels")
}
CREATED_OPTIONS: dict[str, Any] = {
    "definitions": {"type": "list", "elements": "str", "default": []},
    "operands": {"type": "list", "elements": "dict", "default": [], "options": NAMED_RESOURCE},
    "namespaces": {"type": "list", "elements": "str", "default": []},
    "objects": {"type": "list", "elements": "dict", "default": [], "options": CREATED_OBJECT_OPTIONS},
}
OPERATOR_OPTIONS: dict[str, Any] = {
    "package": {"type": "str", "required": True},
    "namespace": {"type": "str", "required": True},
    "catalog": {"type": "str", "default": ""},
    "catalog_namespace": {"type": "str", "default": "openshift-marketplace"},
    "catalog_image": {"type": "str", "default": ""},
    "catalog_address": {"type": "str", "default": ""},
    "catalog_pull_secret": {"type": "str", "default": "", "no_log": False},
    "channel": {"type": "str", "default": ""},
    "any_channel": {"type": "bool", "default": False},
    "version": {"type": "str", "default": ""},
    "major": {"type": "str", "default": ""},
    "approval": {"type": "str", "choices": ["auto", "Manual", "Automatic"], "default": "auto"},
    "watches": {"type": "str", "choices": ["auto", "own", "all"], "default": "auto"},
    "environment": {"type": "dict", "default": {}},
    "monitoring": {"type": "bool", "default": False},
    "objects": {"type": "list", "elements": "dict", "default": []},
    "operand": {"type": "dict", "options": OPERAND_OPTIONS},
    "expect": {"type": "list", "elements": "dict", "default": [], "options": EXPECTED_OPTIONS},
    "creates": {"type": "dict", "options": CREATED_OPTIONS},
}

MODULE_OPTIONS: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    **ansible_module.CLUSTER,
    "run_id": {"type": "str", "required": True},
    "operators": {"type": "list", "elements": "dict", "default": [], "options": OPERATOR_OPTIONS},
    "pull_secrets": {"type": "dict", "default": {}, "no_log": True},
    "packages": {"type": "list", "elements": "str", "default": []},
    "operands": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": NAMED_RESOURCE,
    },
    "namespaces": {"type": "list", "elements": "str", "default": []},
    "crds": {"type": "bool", "default": False},
    "force_finalizers": {"type": "bool", "default": False},
    "hand_over": {"type": "bool", "default": False},
    "timeout": {"type": "float", "default": 900},
}


#: Where OpenShift keeps the catalogs that serve all namespaces.
MARKETPLACE = "openshift-marketplace"

#: Where OpenShift keeps an OperatorGroup for operators that serve all namespaces.
GLOBAL_NAMESPACE = "openshift-operators"

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")


@dataclass(frozen=True)
class ReadyCondition:
    """When an object is ready. One of: a condition that is True; a field that equals a value (any except 0 if none is
    given); all pods of a workload available; a pod that serves metrics of these names at ``port``."""

    condition: str = ""
    field: str = ""
    equals: str = ""
    available: bool = False
    metrics: Sequence[str] = ()
    port: int = 9400


@dataclass(frozen=True)
class ExpectedObjects:
    """Objects that must exist and be ready before the installation is complete, by name or label."""

    api_version: str
    kind: str
    ready: ReadyCondition
    namespace: str = ""
    names: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    at_least: int = 1


@dataclass(frozen=True)
class OperandSpec:
    """The custom resource to create once the operator runs: an example of its CSV, or a complete manifest."""

    kind: str = ""
    manifest: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    namespace: str = ""
    patch: dict[str, Any] = field(default_factory=dict)
    append: dict[str, list[Any]] = field(default_factory=dict)
    needs: Sequence[dict[str, Any]] = ()
    single: bool = False
    ready: ReadyCondition | None = None


@dataclass(frozen=True)
class CreatedObjects:
    """What an operator itself creates in the cluster, without OLM, so that it is removed with the operator.

    definitions: names of CustomResourceDefinitions. operands: kind and name.
    objects: api_version, kind, and names or labels (an empty value is any); with namespace, only those in it.
    """

    definitions: Sequence[str] = ()
    operands: Sequence[Mapping[str, str]] = ()
    namespaces: Sequence[str] = ()
    objects: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def from_record(cls, record: Any) -> Self:
        """Return what an annotation records. Raises LookupError, TypeError, ValueError for another form."""
        created = cls(**record)
        texts = [(each["kind"], each["name"]) for each in created.operands]
        for each in created.objects:
            labels = dict(each.get("labels") or {})
            texts.append((each["api_version"], each["kind"], *labels, *labels.values()))
            texts.append((*(each.get("names") or ()), each.get("namespace") or ""))
        names = [*created.definitions, *created.namespaces]
        if not all(isinstance(values, list) for values in record.values()) or not all(map(_NAME.match, names)):
            raise ValueError("the record lists no names")
        if not all(isinstance(text, str) for group in texts for text in group):
            raise TypeError("names are texts")
        return created


@dataclass(frozen=True)
class OperatorSpec:
    """One operator to install."""

    package: str
    namespace: str
    catalog: str = ""
    catalog_namespace: str = MARKETPLACE
    catalog_image: str = ""
    catalog_address: str = ""
    catalog_pull_secret: str = ""
    channel: str = ""
    any_channel: bool = False
    version: str = ""
    major: str = ""
    approval: str = "auto"
    watches: str = "auto"
    environment: dict[str, str] = field(default_factory=dict)
    monitoring: bool = False
    objects: Sequence[dict[str, Any]] = ()
    operand: OperandSpec | None = None
    expect: Sequence[ExpectedObjects] = ()
    creates: CreatedObjects = field(default_factory=CreatedObjects)

    @property
    def brings_catalog(self) -> bool:
        """Whether the CatalogSource is created for this operator."""
        return bool(self.catalog_image or self.catalog_address)

    @property
    def manual(self) -> bool:
        """Whether InstallPlans wait for an approval. With a version they must, or OLM upgrades to the newest."""
        return self.approval == "Manual" or (self.approval == "auto" and bool(self.version))


def read_operators(entries: Sequence[Mapping[str, Any]]) -> list[OperatorSpec]:
    """Return the operators of the module's option. Raises InputError naming the operator and the value."""
    operators: list[OperatorSpec] = []
    for values in entries:
        values = {name: value for name, value in values.items() if value is not None}
        operand = values.pop("operand", None)
        creates = CreatedObjects(**values.pop("creates", {}))
        package = values["package"]
        expect = [_parse_expected_objects(each, package) for each in values.pop("expect", ())]
        parsed = _parse_operand(operand, package) if operand else None
        operator = OperatorSpec(**values, operand=parsed, expect=expect, creates=creates)
        _check_operator_spec(operator)
        if any(other.package == operator.package for other in operators):
            raise InputError(f"operators: duplicate package '{operator.package}'")
        operators.append(operator)
    return operators


def _parse_operand(values: Mapping[str, Any], package: str) -> OperandSpec:
    options = {name: value for name, value in values.items() if value is not None}
    ready = _parse_ready_condition(options.pop("ready", None), f"{package}: operand.ready")
    operand = OperandSpec(**options, ready=ready)
    if bool(operand.kind) == bool(operand.manifest):
        raise InputError(
            f"operators: {package}: operand requires either kind (of an example of the operator) or manifest"
        )
    if operand.manifest and not (
        operand.manifest.get("apiVersion") and operand.manifest.get("kind") and _operand_name(operand)
    ):
        raise InputError(f"operators: {package}: operand.manifest requires apiVersion, kind and metadata.name")
    return operand


def _parse_ready_condition(values: Mapping[str, Any] | None, where: str) -> ReadyCondition | None:
    options = {name: value for name, value in (values or {}).items() if value}
    if not set(options) - {"port"}:
        return None
    if sum(bool(options.get(name)) for name in ("condition", "field", "available", "metrics")) != 1:
        raise InputError(f"operators: {where} requires exactly one of condition, field, available and metrics")
    return ReadyCondition(**options)


def _parse_expected_objects(values: Mapping[str, Any], package: str) -> ExpectedObjects:
    options = {name: value for name, value in values.items() if value is not None}
    ready = _parse_ready_condition(options.pop("ready", None), f"{package}: expect: ready")
    if ready is None:
        raise InputError(f"operators: {package}: expect: {options.get('kind')}: ready is missing")
    return ExpectedObjects(**options, ready=ready)


def _operand_name(operand: OperandSpec) -> str:
    return operand.name or str(field_at_path(operand.manifest, "metadata.name", ""))


def _check_operator_spec(operator: OperatorSpec) -> None:
    for what in ("package", "namespace", "catalog", "catalog_namespace"):
        value = getattr(operator, what)
        if (value or what in ("package", "namespace")) and not _NAME.match(value):
            raise InputError(f"operators: {operator.package}: {what} '{value}' is not a valid Kubernetes name")
    if operator.brings_catalog and not operator.catalog:
        raise InputError(
            f"operators: {operator.package}: catalog_image and catalog_address require catalog, the CatalogSource"
        )
    for each in operator.creates.objects:
        if not each.get("names") and not each.get("labels"):
            raise InputError(
                f"operators: {operator.package}: creates: objects: {each.get('kind')} requires names or labels;"
                " without them all objects of the kind would be removed"
            )
    if operator.catalog_image and operator.catalog_address:
        raise InputError(f"operators: {operator.package}: give one of catalog_image and catalog_address")
    if operator.catalog_pull_secret and not operator.catalog_image:
        raise InputError(f"operators: {operator.package}: catalog_pull_secret requires catalog_image")
    if operator.version and operator.approval == "Automatic":
        raise InputError(
            f"operators: {operator.package}: approval Automatic would upgrade version {operator.version} to"
            " the newest version of"
            " its channel. Remove approval or version"
        )
    if operator.watches == "own" and operator.namespace == GLOBAL_NAMESPACE:
        raise InputError(
            f"operators: {operator.package}: operators in {GLOBAL_NAMESPACE} watch all namespaces, not their own"
        )


def append_to_lists(base: Mapping[str, Any], more: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return ``base`` with items added to its lists, by dotted path. Items that a list already has are not repeated."""
    result = dict(base)
    for path, items in more.items():
        head, _dot, rest = path.partition(".")
        if rest:
            inner = result.get(head)
            result[head] = append_to_lists(inner if isinstance(inner, Mapping) else {}, {rest: items})
        else:
            have = list(result.get(head) or [])
            result[head] = have + [item for item in items if item not in have]
    return result
