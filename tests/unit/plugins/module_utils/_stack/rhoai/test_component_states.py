"""A DataScienceCluster of this run gets exactly the requested components; to others they are only added."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    OwnershipError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.rhoai import component_states
from hypothesis import given
from hypothesis import strategies as st

THERE = ["dashboard", "kserve", "ray"]
STATES = st.sampled_from(["", "Managed", "Removed", "Unmanaged"])


def cluster(**states: str) -> dict[str, Any]:
    section = {name: {"managementState": state} if state else {} for name, state in states.items()}
    return {"kind": "DataScienceCluster", "metadata": {"name": "theirs"}, "spec": {"components": section}}


def apply(base: Any, patch: Any) -> Any:
    """A JSON merge patch as the API server applies it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(base) if isinstance(base, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply(result.get(name), value)
    return result


def test_exactly_the_requested_components_are_managed_and_all_others_removed() -> None:
    section = component_states.components_section_of_exactly({"ray": "Managed"}, THERE)
    assert {name: value["managementState"] for name, value in section.items()} == {
        "dashboard": "Removed",
        "kserve": "Removed",
        "ray": "Managed",
    }


def test_the_components_are_those_of_the_stored_version() -> None:
    def version(stored: bool, names: list[str]) -> dict[str, Any]:
        section = {"properties": {name: {} for name in names}}
        spec = {"properties": {"components": section}}
        return {"storage": stored, "schema": {"openAPIV3Schema": {"properties": {"spec": spec}}}}

    definition = {"spec": {"versions": [version(False, ["old"]), version(True, THERE)]}}
    found = component_states.components_in_definition(component_states.stored_version(definition))
    assert found == THERE
    with pytest.raises(InputError, match=r"has no 'dashbord' \(did you mean 'dashboard'\?\); it has dashboard, kserve"):
        component_states.check_components_exist(["dashbord"], found)


def test_settings_change_values_by_path_and_nothing_else() -> None:
    base = {"components": {"kserve": {"managementState": "Managed"}}}
    found = component_states.spec_with_values_by_path(
        base, {'spec.components.kserve["a.b"].c': 1, "components.kserve.x": "y"}
    )
    assert found == {"components": {"kserve": {"managementState": "Managed", "a.b": {"c": 1}, "x": "y"}}}
    assert base == {"components": {"kserve": {"managementState": "Managed"}}}
    with pytest.raises(InputError, match="goes through 'managementState'"):
        component_states.spec_with_values_by_path(base, {"components.kserve.managementState.x": 1})


def test_a_cluster_of_somebody_else_is_not_changed_without_adopt() -> None:
    theirs = cluster(dashboard="Managed", ray="Removed")
    asked = dict.fromkeys(["dashboard", "ray", "kserve"], "Managed")
    lacking = component_states.components_in_other_state(theirs, asked)
    assert lacking == {"ray": "Removed", "kserve": ""}
    with pytest.raises(OwnershipError, match="does not manage kserve, ray: left unchanged"):
        component_states.check_foreign_cluster_may_change(theirs, lacking, asked, {}, adopt=False)
    component_states.check_foreign_cluster_may_change(theirs, lacking, asked, {}, adopt=True)
    component_states.check_foreign_cluster_may_change(
        theirs, {}, asked, {"components.dashboard.managementState": "Managed"}, adopt=False
    )
    with pytest.raises(OwnershipError, match="does not have the requested components.dashboard.x"):
        component_states.check_foreign_cluster_may_change(theirs, {}, asked, {"components.dashboard.x": 1}, adopt=True)
    for change in ({"dashboard": "Removed"}, {"dashboard": "Unmanaged"}):
        lacking = component_states.components_in_other_state(theirs, change)
        with pytest.raises(OwnershipError, match="has another state of dashboard: left unchanged"):
            component_states.check_foreign_cluster_may_change(theirs, lacking, change, {}, adopt=True)


ASKED = st.dictionaries(st.sampled_from(THERE), st.sampled_from(["Managed", "Unmanaged", "Removed"]))


@given(st.dictionaries(st.sampled_from(THERE), STATES), ASKED)
def test_additions_to_a_cluster_of_somebody_else_are_reverted_exactly(
    states: dict[str, str], asked: dict[str, str]
) -> None:
    def added(to: dict[str, Any], asked: dict[str, str], noted: dict[str, str]) -> dict[str, Any]:
        lacking = component_states.components_in_other_state(to, asked)
        return dict(apply(to, component_states.patch_adding_components(lacking, noted, "run-0001", asked)))

    before = cluster(**{name: state for name, state in states.items() if state})
    once = added(before, asked, {})
    assert component_states.components_in_other_state(once, asked) == {}
    noted = component_states.recorded_additions(once, "run-0001")
    # A second installation adds more, and must not forget what was there first.
    twice = added(once, dict.fromkeys(THERE, "Managed"), noted)
    after = apply(
        twice,
        component_states.patch_removing_components(component_states.recorded_additions(twice, "run-0001"), "run-0001"),
    )
    assert after["spec"] == before["spec"]


def test_why_a_cluster_is_not_ready_names_the_components() -> None:
    ready = {"status": {"phase": "Ready", "conditions": [{"type": "RayReady", "status": "True"}]}}
    assert component_states.why_not_ready(ready, ["ray"]) == []
    conditions = [{"type": "RayReady", "status": "False", "reason": "DeploymentsNotReady", "message": "0/1"}]
    assert component_states.why_not_ready({"status": {"phase": "Not Ready", "conditions": conditions}}, ["ray"]) == [
        "phase Not Ready",
        "ray: DeploymentsNotReady: 0/1",
    ]
    stale = {"metadata": {"generation": 2}, "status": {"phase": "Ready", "observedGeneration": 1}}
    assert "has not processed" in component_states.why_not_ready(stale, [])[0]


KNOWN = {"kueue": ["Unmanaged", "Removed"], "ray": ["Managed", "Removed"]}


def test_a_component_is_managed_unless_its_entry_names_another_state() -> None:
    assert component_states.parse_components(["ray", "kueue=Unmanaged"], KNOWN) == {
        "ray": "Managed",
        "kueue": "Unmanaged",
    }
    assert component_states.parse_components(["any", "any=Managed"]) == {"any": "Managed"}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("kueue", r"'kueue': kueue can't be Managed in version 3 .use kueue=Unmanaged.; it is Unmanaged or Removed"),
        ("ray=managed", r"ray can't be managed in version 3 .did you mean 'Managed'"),
        ("rya", r"'rya': version 3 has no such component .did you mean 'ray'\?.; it has kueue, ray"),
        ("old", "version 3 has no such component; it has ray instead"),
        ("gone", "'gone': version 3 has no such component; it has kueue, ray"),
        ("=Managed", "'': version 3 has no such component"),
    ],
)
def test_a_component_or_state_that_a_version_does_not_have_is_refused_with_the_nearest(
    entry: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        component_states.parse_components([entry], KNOWN, "version 3", {"old": "ray", "gone": ""})


def test_one_component_cannot_have_two_states() -> None:
    with pytest.raises(InputError, match="ray is Managed in another entry"):
        component_states.parse_components(["ray", "ray=Removed"], KNOWN)


@pytest.mark.parametrize("text", ["{", "1", "[]", "null"])
def test_a_damaged_note_of_added_components_is_said(text: str) -> None:
    name = component_states.added_components_annotation("run-0001")
    resource = {"kind": "DataScienceCluster", "metadata": {"name": "default-dsc", "annotations": {name: text}}}
    with pytest.raises(DataError, match="of DataScienceCluster default-dsc is damaged"):
        component_states.recorded_additions(resource, "run-0001")


@pytest.mark.parametrize("generation", ["2", [], {}])
def test_a_generation_of_another_form_is_said_with_the_object(generation: Any) -> None:
    odd = {**cluster(), "kind": "DataScienceCluster", "status": {"observedGeneration": generation}}
    odd["metadata"] = {"name": "dsc", "generation": 2}
    with pytest.raises(DataError, match="DataScienceCluster dsc: the answer has an unexpected form"):
        component_states.why_not_ready(odd, [])
