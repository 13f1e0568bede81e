# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Management states of the components of a DataScienceCluster, as patches and checks. Pure functions."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    OwnershipError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    conditions_by_type,
    expect_object_form,
    field_at_path,
    format_object_title,
    split_field_path,
)

MANAGED, UNMANAGED, REMOVED = "Managed", "Unmanaged", "Removed"


def parse_components(
    entries: Sequence[str],
    known: Mapping[str, Sequence[str]] | None = None,
    product: str = "the product",
    instead: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the state of each component of entries ``name`` or ``name=State``.

    Args:
        entries: The requested components. A bare name means Managed.
        known: The components with their permitted states, None if any is permitted.
        product: What has these components, for messages.
        instead: Names of other versions of the product, and the component that replaces each, "" if none does.

    Raises:
        InputError: A component or its state is not known; names the nearest right one.
    """
    states: dict[str, str] = {}
    for entry in entries:
        name, _equals, state = entry.partition("=")
        state = state or MANAGED
        if known is not None and name not in known:
            other = (instead or {}).get(name)
            hint = f"; it has {other} instead" if other else "" if other == "" else suggest_similar_name(name, known)
            raise InputError(f"'{name}': {product} has no such component{hint}; it has {', '.join(sorted(known))}")
        allowed = known[name] if known is not None else (MANAGED, UNMANAGED, REMOVED)
        if state not in allowed:
            misspelt = suggest_similar_name(state, allowed) if state not in (MANAGED, UNMANAGED, REMOVED) else ""
            fitting = misspelt or f" (use {name}={allowed[0]})"
            raise InputError(f"'{entry}': {name} can't be {state} in {product}{fitting}; it is {' or '.join(allowed)}")
        if states.setdefault(name, state) != state:
            raise InputError(f"'{entry}': {name} is {states[name]} in another entry")
    return states


def stored_version(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored version of a CustomResourceDefinition."""
    return next((each for each in field_at_path(dict(definition), "spec.versions", []) if each.get("storage")), {})


def components_in_definition(version: Mapping[str, Any]) -> list[str]:
    """Return the components in a version of the definition of DataScienceCluster, [] if it lists none."""
    path = "schema.openAPIV3Schema.properties.spec.properties.components.properties"
    return sorted(field_at_path(dict(version), path, {}))


def check_components_exist(asked: Collection[str], there: Sequence[str]) -> None:
    """Raise InputError for a component that the product does not have."""
    for name in asked:
        if there and name not in there:
            raise InputError(
                f"components: the DataScienceCluster has no '{name}'{suggest_similar_name(name, there)}; it"
                f" has {', '.join(there)}"
            )


def components_section_of_exactly(asked: Mapping[str, str], there: Sequence[str]) -> dict[str, Any]:
    """Return a section ``components`` in which the requested ones have their state and all others are Removed."""
    return {name: {"managementState": asked.get(name, REMOVED)} for name in sorted({*asked, *there})}


def spec_with_values_by_path(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
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


def components_in_other_state(resource: Mapping[str, Any], asked: Mapping[str, str]) -> dict[str, str]:
    """Return the requested components that have another state in a DataScienceCluster, with that state ("" if unset).

    A component that is requested as Removed and has no state is not lacking.
    """
    states = {name: str(field_at_path(dict(resource), f"spec.components.{name}.managementState", "")) for name in asked}
    return {name: state for name, state in states.items() if (state or REMOVED) != asked[name]}


def check_foreign_cluster_may_change(
    existing: dict[str, Any],
    lacking: Mapping[str, str],
    asked: Mapping[str, str],
    settings: Mapping[str, Any],
    adopt: bool,
) -> None:
    """Raise OwnershipError if a DataScienceCluster of somebody else would have to be changed without ``adopt``.

    Components can be added with it; one that is there in another state stays as it is.
    """
    others = sorted(name for name, state in lacking.items() if asked[name] == REMOVED or state not in ("", REMOVED))
    if others:
        raise OwnershipError(
            f"{format_object_title(existing)}, which this run did not create, has another state of"
            f" {', '.join(others)}: left unchanged. Components can be added to it (rhoai_adopt), not changed"
        )
    if lacking and not adopt:
        raise OwnershipError(
            f"{format_object_title(existing)}, which this run did not create, does not manage"
            f" {', '.join(sorted(lacking))}:"
            " left unchanged. rhoai_adopt=true adds them for the duration of the run"
        )
    wanted = spec_with_values_by_path(field_at_path(existing, "spec", {}), settings)
    if wanted != field_at_path(existing, "spec", {}):
        raise OwnershipError(
            f"{format_object_title(existing)}, which this run did not create, does not have the requested"
            f" {', '.join(sorted(settings))}:"
            " left unchanged. Components can be added to it (rhoai_adopt), settings cannot"
        )


def added_components_annotation(run_id: str) -> str:
    """Return the annotation in which a run records what it added to a DataScienceCluster of somebody else."""
    return f"perfscale.seatrial/added-by-{run_id}"


def recorded_additions(resource: Mapping[str, Any], run_id: str) -> dict[str, str]:
    """Return the components that a run added, with the state that each had before."""
    text = (field_at_path(dict(resource), "metadata.annotations") or {}).get(
        added_components_annotation(run_id)
    ) or "{}"
    try:
        additions = parse_json(text)
    except ValueError:
        additions = None
    if not isinstance(additions, dict):
        name = added_components_annotation(run_id)
        raise DataError(f"annotation {name} of {format_object_title(resource)} is damaged")
    return additions


def patch_adding_components(
    lacking: Mapping[str, str], before: Mapping[str, str], run_id: str, asked: Mapping[str, str]
) -> dict[str, Any]:
    """Return the merge patch that gives components the requested states and records those from before."""
    components = {name: {"managementState": asked[name]} for name in lacking}
    note = json.dumps({**lacking, **before}, sort_keys=True)
    return {
        "metadata": {"annotations": {added_components_annotation(run_id): note}},
        "spec": {"components": components},
    }


def patch_removing_components(added: Mapping[str, str], run_id: str) -> dict[str, Any]:
    """Return the merge patch that reverts adding()."""
    components = {name: {"managementState": state} if state else None for name, state in added.items()}
    return {
        "metadata": {"annotations": {added_components_annotation(run_id): None}},
        "spec": {"components": components},
    }


def why_not_ready(resource: Mapping[str, Any], asked: Collection[str]) -> list[str]:
    """Return why a DataScienceCluster is not ready: its phase, and the requested components that are not ready.

    Raises DataError for one of another form.
    """
    item = dict(resource)
    with expect_object_form(item):
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
