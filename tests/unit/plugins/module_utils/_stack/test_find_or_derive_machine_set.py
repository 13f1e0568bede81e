"""Which MachineSet is scaled, and what one looks like that is derived from a set of workers."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import find_or_derive_machine_set
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.find_or_derive_machine_set import MachineSetSpec
from machine_api_simulator import machine_set


def sets() -> list[dict]:
    return [machine_set("lab-x7k2p-worker-b", 2), machine_set("lab-x7k2p-worker-a", 3)]


def value(one: dict) -> dict:
    return one["spec"]["template"]["spec"]["providerSpec"]["value"]


def test_a_set_that_is_named_is_scaled_and_keeps_everything_else() -> None:
    there, wanted = find_or_derive_machine_set.choose_or_derive_machine_set(
        sets(), MachineSetSpec(5, name="lab-x7k2p-worker-b")
    )
    assert there is not None
    expected = copy.deepcopy(there)
    expected["spec"]["replicas"] = 5
    assert wanted == expected


def test_the_first_set_of_an_instance_type_is_scaled() -> None:
    there, wanted = find_or_derive_machine_set.choose_or_derive_machine_set(
        sets(), MachineSetSpec(5, instance_type="m6i.xlarge")
    )
    assert there is not None and wanted["metadata"]["name"] == "lab-x7k2p-worker-a"


@pytest.mark.parametrize("odd", [None, [], 5, "x", {"value": []}, {"value": 5}, {"value": {"kind": []}}])
def test_a_set_whose_cloud_is_unknown_is_left_out(odd: object) -> None:
    others = machine_set("lab-a", 1)
    others["spec"]["template"]["spec"]["providerSpec"] = odd
    there, _wanted = find_or_derive_machine_set.choose_or_derive_machine_set(
        [others, *sets()], MachineSetSpec(5, instance_type="m6i.xlarge")
    )
    assert there is not None and there["metadata"]["name"] == "lab-x7k2p-worker-a"
    with pytest.raises(InputError, match="MachineSet lab-a: unknown kind of providerSpec"):
        find_or_derive_machine_set.cloud_provider_and_spec(others)


@pytest.mark.parametrize("spec", [None, {}, {"template": 5}, {"template": {"spec": {"taints": 5}, "metadata": []}}])
def test_a_set_of_another_form_is_not_chosen(spec: object) -> None:
    odd = {**machine_set("lab-a", 1), "spec": spec}
    wish = MachineSetSpec(5, instance_type="g5.2xlarge", taint="only-users=yes:NoSchedule")
    there, wanted = find_or_derive_machine_set.choose_or_derive_machine_set([odd, *sets()], wish)
    assert there is None and wanted["spec"]["template"]["spec"]["taints"]


def test_a_set_of_another_instance_type_is_derived_from_the_first_workers() -> None:
    wish = MachineSetSpec(4, instance_type="g5.2xlarge", taint="only-users=yes:NoSchedule", spot=True, disk=200)
    there, made = find_or_derive_machine_set.choose_or_derive_machine_set(sets(), wish)
    assert there is None
    assert made["metadata"]["name"] == "lab-x7k2p-g5-2xlarge" and made["spec"]["replicas"] == 4
    assert made["spec"]["selector"]["matchLabels"][find_or_derive_machine_set.SET] == "lab-x7k2p-g5-2xlarge"
    template = made["spec"]["template"]
    assert template["metadata"]["labels"][find_or_derive_machine_set.SET] == "lab-x7k2p-g5-2xlarge"
    assert template["spec"]["taints"] == [{"key": "only-users", "effect": "NoSchedule", "value": "yes"}]
    assert template["spec"]["metadata"]["labels"]["only-users"] == "yes"
    assert value(made)["instanceType"] == "g5.2xlarge" and value(made)["spotMarketOptions"] == {}
    assert value(made)["blockDevices"][0]["ebs"]["volumeSize"] == 200
    assert value(made)["ami"] == value(sets()[1])["ami"], "the rest is as the workers have it"
    assert "status" not in made and "resourceVersion" not in made["metadata"]


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (MachineSetSpec(1), "set node_scaling_name or node_scaling_instance_type"),
        (MachineSetSpec(-1, name="x"), "it must be 0 or more"),
        (MachineSetSpec(1, name="lab-x7k2p-worker-c"), "did you mean 'lab-x7k2p-worker-"),
        (MachineSetSpec(1, name="lab-x7k2p-worker-a", instance_type="g5.xlarge"), "has machines of type m6i.xlarge"),
        (MachineSetSpec(1, instance_type="g5.xlarge", taint="only users"), "is not a taint"),
        (MachineSetSpec(1, instance_type="g5.xlarge", base="nothing"), "there is no MachineSet 'nothing'"),
    ],
)
def test_what_can_not_be_meant_is_one_error(wish: MachineSetSpec, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_or_derive_machine_set.choose_or_derive_machine_set(sets(), wish)


def test_a_cloud_that_is_not_known_is_refused_for_instance_types_and_fine_by_name() -> None:
    other = machine_set("lab-worker", 1)
    value(other)["kind"] = "SomethingElseSpec"
    with pytest.raises(InputError, match="SomethingElseSpec"):
        find_or_derive_machine_set.choose_or_derive_machine_set([other], MachineSetSpec(1, instance_type="large"))
    assert (
        find_or_derive_machine_set.choose_or_derive_machine_set([other], MachineSetSpec(2, name="lab-worker"))[1][
            "spec"
        ]["replicas"]
        == 2
    )


def test_a_cluster_without_machine_sets_says_so() -> None:
    with pytest.raises(InputError, match="does not create its machines"):
        find_or_derive_machine_set.choose_or_derive_machine_set([], MachineSetSpec(1, instance_type="m6i.xlarge"))
