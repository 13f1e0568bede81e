# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Management states of the components of a DataScienceCluster, as patches and checks. Pure functions."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import (
    conditions_by_type,
    field_at_path,
    format_object_title,
    split_field_path,
)

MANAGED, REMOVED = "Managed", "Removed"


def known_components(definition: Mapping[str, Any]) -> list[str]:
    """Return the components in the stored version of the definition of DataScienceCluster, [] if it lists none."""
    versions = field_at_path(dict(definition), "spec.versions", [])
    stored: Mapping[str, Any] = next((version for version in versions if version.get("storage")), {})
    path = "schema.openAPIV3Schema.properties.spec.properties.components.properties"
    return sorted(field_at_path(stored, path, {}))


def check_components(asked: Sequence[str], there: Sequence[str]) -> None:
    """Raise InputError for a component that the product does not have."""
    for name in asked:
        if there and name not in there:
            raise InputError(
                f"components: the DataScienceCluster has no '{name}'{suggest_similar_name(name, there)}; it"
                f" has {', '.join(there)}"
            )


def exact_components(asked: Sequence[str], there: Sequence[str]) -> dict[str, Any]:
    """Return a section ``components`` in which exactly the requested ones are Managed and all others Removed."""
    return {name: {"managementState": MANAGED if name in asked else REMOVED} for name in sorted({*asked, *there})}


def spec_with_settings(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``spec`` with values set by path (``components.kserve.serving.managementState``, "spec." is optional).

    Raises InputError for a path through a value that is not a dictionary.
    """
    result = copy.deepcopy(dict(spec))
    for path, value in settings.items():
        parts = split_field_path(path)
        if parts and parts[0] == "spec":
            parts = parts[1:]
        if not parts:
            raise InputError(f"settings: '{path}' is not a path below spec")
        place: Any = result
        for part in parts[:-1]:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise InputError(f"settings: '{path}' goes through '{part}', which is not a dictionary")
        place[parts[-1]] = value
    return result


def unmanaged_components(resource: Mapping[str, Any], asked: Sequence[str]) -> dict[str, str]:
    """Return the requested components that a DataScienceCluster does not manage, with their state ("" if unset)."""
    states = {name: str(field_at_path(dict(resource), f"spec.components.{name}.managementState", "")) for name in asked}
    return {name: state for name, state in states.items() if state != MANAGED}


def check_adoption(
    existing: dict[str, Any], lacking: Mapping[str, str], settings: Mapping[str, Any], adopt: bool
) -> None:
    """Raise OwnershipError if a DataScienceCluster of somebody else would have to be changed without ``adopt``."""
    if lacking and not adopt:
        raise OwnershipError(
            f"{format_object_title(existing)}, which this run did not create, does not manage"
            f" {', '.join(sorted(lacking))}:"
            " left unchanged. rhoai_adopt=true adds them for the duration of the run"
        )
    wanted = spec_with_settings(field_at_path(existing, "spec", {}), settings)
    if wanted != field_at_path(existing, "spec", {}):
        raise OwnershipError(
            f"{format_object_title(existing)}, which this run did not create, does not have the requested"
            f" {', '.join(sorted(settings))}:"
            " left unchanged. Components can be added to it (rhoai_adopt), settings cannot"
        )


def note_key(run_id: str) -> str:
    """Return the annotation in which a run records what it added to a DataScienceCluster of somebody else."""
    return f"perfscale.seatrial/added-by-{run_id}"


def recorded_additions(resource: Mapping[str, Any], run_id: str) -> dict[str, str]:
    """Return the components that a run added, with the state that each had before."""
    text = (field_at_path(dict(resource), "metadata.annotations") or {}).get(note_key(run_id)) or "{}"
    return dict(json.loads(text))


def adding_patch(lacking: Mapping[str, str], before: Mapping[str, str], run_id: str) -> dict[str, Any]:
    """Return the merge patch that adds components and records their states from before."""
    components = {name: {"managementState": MANAGED} for name in lacking}
    note = json.dumps({**lacking, **before}, sort_keys=True)
    return {"metadata": {"annotations": {note_key(run_id): note}}, "spec": {"components": components}}


def removal_patch(added: Mapping[str, str], run_id: str) -> dict[str, Any]:
    """Return the merge patch that reverts adding()."""
    components = {name: {"managementState": state} if state else None for name, state in added.items()}
    return {"metadata": {"annotations": {note_key(run_id): None}}, "spec": {"components": components}}


def why_not_ready(resource: Mapping[str, Any], asked: Sequence[str]) -> list[str]:
    """Return why a DataScienceCluster is not ready: its phase, and the requested components that are not ready."""
    item = dict(resource)
    seen = field_at_path(item, "status.observedGeneration")
    if seen is not None and seen < field_at_path(item, "metadata.generation", 0):
        return ["its operator has not processed the last change yet"]
    by_name = {kind.lower(): condition for kind, condition in conditions_by_type(item).items()}
    bad = []
    for name in asked:
        readiness = by_name.get(f"{name}ready".lower())
        if readiness is not None and readiness.get("status") != "True":
            bad.append(f"{name}: {readiness.get('reason', '')}: {readiness.get('message', '')}".rstrip(": "))
    phase = field_at_path(item, "status.phase", "not set")
    if phase != "Ready":
        bad = bad or [
            str(
                field_at_path(item, "status.errorMessage")
                or by_name.get("ready", {}).get("message")
                or "no reason given"
            )
        ]
        return [f"phase {phase}", *bad]
    return bad
