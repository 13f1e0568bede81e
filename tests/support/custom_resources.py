# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects checked by the schema of their CRD, as an API server checks them with strict field validation."""

from __future__ import annotations

from typing import Any

import jsonschema
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cached_and_user_programs,
    component_manifests,
    component_spec,
    provide_component_programs,
)
from rehearsal import CACHE, COMPONENTS, quiet


def definitions(component: str) -> list[dict[str, Any]]:
    """Return the CRDs of a component of the rehearsal cluster, from the cache that ``make setup`` fills."""
    part = component_spec.load_component(COMPONENTS / component)
    sources = cached_and_user_programs.ProgramSources(CACHE)
    crds = provide_component_programs.provide_component_programs([part], sources, quiet)[0][component].crds
    assert crds is not None
    return component_manifests.read_yaml_objects(crds)


def validator(components: list[str]) -> dict[tuple[str, str], jsonschema.protocols.Validator]:
    """Return (apiVersion, kind) -> what validates an object of it."""
    return validators_of([definition for name in components for definition in definitions(name)])


def validators_of(crds: list[dict[str, Any]]) -> dict[tuple[str, str], jsonschema.protocols.Validator]:
    """Return (apiVersion, kind) -> what validates an object of it, from CRDs."""
    found = {}
    for one in crds:
        for version in one["spec"]["versions"]:
            key = f"{one['spec']['group']}/{version['name']}", one["spec"]["names"]["kind"]
            schema = _strict(version["schema"]["openAPIV3Schema"])
            schema.setdefault("properties", {})["metadata"] = {"type": "object"}
            found[key] = jsonschema.Draft202012Validator(schema)
    return found


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a structural schema as JSON Schema that permits no unknown field."""
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    made = {key: schema[key] for key in ("type", "enum", "required", "minimum", "maximum", "minItems") if key in schema}
    if schema.get("nullable"):
        made["type"] = [made["type"], "null"]
    if "properties" in schema:
        made["properties"] = {name: _strict(one) for name, one in schema["properties"].items()}
        made["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    elif isinstance(schema.get("additionalProperties"), dict):
        made["additionalProperties"] = _strict(schema["additionalProperties"])
    if "items" in schema:
        made["items"] = _strict(schema["items"])
    return made
