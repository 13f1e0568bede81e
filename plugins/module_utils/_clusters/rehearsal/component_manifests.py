# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that the components need in the cluster: CRDs, roles, bindings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import untrusted_input
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import wait_until
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    conditions_by_type,
    is_condition_true,
)

from .cached_and_user_programs import ComponentPrograms
from .component_spec import RehearsalComponent, replace_placeholders

MANAGER = "seatrial-rehearsal"
#: On a CRD: digest of what was applied. To apply one again costs the API server as much as the first time.
APPLIED = "perfscale.seatrial/applied"


def read_yaml_objects(path: Path, values: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
    """Return the objects in a YAML file, which are documents or a list; with ``values``, replace its placeholders."""
    text = path.read_text(encoding="utf-8")
    return _parse_yaml_objects(replace_placeholders(text, values, str(path)) if values is not None else text, str(path))


def yaml_list_to_documents(text: str) -> str:
    """Return the objects of a YAML list as YAML documents, which is what programs read."""
    import yaml

    return (
        yaml.safe_dump_all(_parse_yaml_objects(text, "the objects"), sort_keys=False, explicit_start=True)
        if text
        else ""
    )


def _parse_yaml_objects(text: str, where: str) -> list[dict[str, Any]]:
    entries = [entry for entry in untrusted_input.parse_yaml_documents(text, where) if entry]
    return [inner for entry in entries for inner in (entry if isinstance(entry, list) else [entry])]


def component_objects(
    components: list[RehearsalComponent], programs: Mapping[str, ComponentPrograms], values: Mapping[str, object]
) -> list[dict[str, Any]]:
    """Return all objects of the components, CRDs first. Raises InputError for an unknown placeholder."""
    bundled = {name for part in components for name in part.bundled_crds}
    definitions = [
        _served_definition(document)
        for part in programs.values()
        if part.crds is not None
        for document in read_yaml_objects(part.crds)
        if document["metadata"]["name"] not in bundled
    ]
    others = [
        document
        for part in components
        if part.objects
        for document in read_yaml_objects(part.folder / part.objects, values)
    ]
    return [*definitions, *others]


def _served_definition(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a CRD as it is applied.

    The API server converts its versions, because the service of a webhook has no pod here. Its schemas have no
    descriptions: three fifths of a CRD with a pod template, for which the API server needs a third of a second each.
    """
    spec = definition.get("spec", {})
    versions = [
        {key: _without_descriptions(value) if key == "schema" else value for key, value in version.items()}
        for version in spec.get("versions", [])
    ]
    conversion = {"conversion": {"strategy": "None"}} if "conversion" in spec else {}
    return {**definition, "spec": {**spec, **({"versions": versions} if versions else {}), **conversion}}


def _without_descriptions(schema: Any) -> Any:
    """Return a JSON schema without its texts. A property may be named description: its value is a schema."""
    if isinstance(schema, list):
        return [_without_descriptions(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value if key in ("default", "enum") else _without_descriptions(value)
        for key, value in schema.items()
        if key != "description" or isinstance(value, dict)
    }


def apply_component_objects(client: Client, objects: list[dict[str, Any]], timeout: float) -> list[str]:
    """Apply objects and wait until CRDs are served; return the names of changed objects.

    An object that is being deleted is created again once it is gone: the API server accepts a change of it and then
    deletes it. A CRD that was applied as it is here is left alone. timeout: seconds for each deletion and each CRD.
    Raises ApiError, WaitTimeout.
    """
    changed: list[str] = []
    for manifest in map(_with_digest, objects):
        kind = client.kind_of(manifest)
        name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace", "")
        before = client.get(kind, name, namespace, metadata_only=True)
        if before is not None and "deletionTimestamp" in before["metadata"]:
            _await_deletion(client, manifest, timeout)
            before = None
        digest = manifest["metadata"].get("annotations", {}).get(APPLIED)
        if before is not None and digest and before["metadata"].get("annotations", {}).get(APPLIED) == digest:
            continue
        after = client.apply(manifest, MANAGER)
        if before is None or before["metadata"]["resourceVersion"] != after["metadata"]["resourceVersion"]:
            changed.append(f"{manifest['kind']} {name}")
    for manifest in objects:
        if manifest["kind"] == "CustomResourceDefinition":
            _await_established(client, manifest, timeout)
    return changed


def _with_digest(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a CRD with the digest of its content; other objects are returned as they are."""
    if manifest["kind"] != "CustomResourceDefinition":
        return manifest
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), APPLIED: digest}}}


def await_kinds_of_kwok_described(client: Client, components: list[RehearsalComponent], timeout: float) -> None:
    """Wait until the API server describes the kinds that KWOK plays, without which it ends. Raises WaitTimeout."""
    played = [stage for part in components if part.stages for stage in read_yaml_objects(part.folder / part.stages)]
    versions = {str(stage["spec"]["resourceRef"]["apiGroup"]) for stage in played}
    paths = {f"apis/{version}" for version in versions if "/" in version}

    def look() -> tuple[bool | None, str]:
        missing = paths.difference(client.request("GET", "/openapi/v3")["paths"])
        return (None if missing else True), f"/openapi/v3 lacks {', '.join(sorted(missing))}"

    if paths:
        _poll_silently(look, timeout, f"kinds of components are not described after {timeout:.0f} s")


def _await_deletion(client: Client, manifest: dict[str, Any], timeout: float) -> None:
    kind, name, namespace = (
        client.kind_of(manifest),
        manifest["metadata"]["name"],
        manifest["metadata"].get("namespace", ""),
    )

    def look() -> tuple[bool | None, str]:
        remaining = client.get(kind, name, namespace, metadata_only=True)
        if remaining is None:
            return True, ""
        return None, f"finalizers {', '.join(remaining['metadata'].get('finalizers', [])) or 'none'}"

    _poll_silently(look, timeout, f"{manifest['kind']} {name} is still being deleted after {timeout:.0f} s")


def _await_established(client: Client, definition: dict[str, Any], timeout: float) -> None:
    kind, name = client.kind_of(definition), definition["metadata"]["name"]

    def look() -> tuple[bool | None, str]:
        served = client.get(kind, name)
        if is_condition_true(served, "Established"):
            return True, ""
        states = [
            f"{which}={condition['status']}: {condition.get('message', '')}"
            for which, condition in conditions_by_type(served).items()
        ]
        return None, "; ".join(states) or "no conditions yet"

    _poll_silently(look, timeout, f"{name} is not served after {timeout:.0f} s")


def _poll_silently(look: Callable[[], tuple[bool | None, str]], timeout: float, late: str) -> None:
    wait_until(look, timeout, say=lambda _message: None, late=lambda state: f"{late}: {state}", pause=0.05)
