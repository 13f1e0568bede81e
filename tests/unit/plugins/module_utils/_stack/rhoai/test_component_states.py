"""A DataScienceCluster of this run gets exactly the requested components; to others they are only added."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, OwnershipError
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
    section = component_states.exact_components(["ray"], THERE)
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

    found = component_states.known_components({"spec": {"versions": [version(False, ["old"]), version(True, THERE)]}})
    assert found == THERE
    with pytest.raises(InputError, match=r"has no 'dashbord' \(did you mean 'dashboard'\?\); it has dashboard, kserve"):
        component_states.check_components(["dashbord"], found)


def test_settings_change_values_by_path_and_nothing_else() -> None:
    base = {"components": {"kserve": {"managementState": "Managed"}}}
    found = component_states.spec_with_settings(
        base, {'spec.components.kserve["a.b"].c': 1, "components.kserve.x": "y"}
    )
    assert found == {"components": {"kserve": {"managementState": "Managed", "a.b": {"c": 1}, "x": "y"}}}
    assert base == {"components": {"kserve": {"managementState": "Managed"}}}
    with pytest.raises(InputError, match="goes through 'managementState'"):
        component_states.spec_with_settings(base, {"components.kserve.managementState.x": 1})


def test_a_cluster_of_somebody_else_is_not_changed_without_adopt() -> None:
    theirs = cluster(dashboard="Managed", ray="Removed")
    lacking = component_states.unmanaged_components(theirs, ["dashboard", "ray", "kserve"])
    assert lacking == {"ray": "Removed", "kserve": ""}
    with pytest.raises(OwnershipError, match="does not manage kserve, ray: left unchanged"):
        component_states.check_adoption(theirs, lacking, {}, adopt=False)
    component_states.check_adoption(theirs, lacking, {}, adopt=True)
    component_states.check_adoption(theirs, {}, {"components.dashboard.managementState": "Managed"}, adopt=False)
    with pytest.raises(OwnershipError, match="does not have the requested components.dashboard.x"):
        component_states.check_adoption(theirs, {}, {"components.dashboard.x": 1}, adopt=True)


@given(st.dictionaries(st.sampled_from(THERE), STATES), st.lists(st.sampled_from(THERE), unique=True))
def test_additions_to_a_cluster_of_somebody_else_are_reverted_exactly(states: dict[str, str], asked: list[str]) -> None:
    before = cluster(**{name: state for name, state in states.items() if state})
    once = apply(
        before, component_states.adding_patch(component_states.unmanaged_components(before, asked), {}, "run-0001")
    )
    assert component_states.unmanaged_components(once, asked) == {}
    noted = component_states.recorded_additions(once, "run-0001")
    # A second installation adds more, and must not forget what was there first.
    twice = apply(
        once, component_states.adding_patch(component_states.unmanaged_components(once, THERE), noted, "run-0001")
    )
    after = apply(
        twice, component_states.removal_patch(component_states.recorded_additions(twice, "run-0001"), "run-0001")
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
