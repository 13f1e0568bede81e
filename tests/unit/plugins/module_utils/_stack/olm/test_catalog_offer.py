"""Requested operators are validated before anything is changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm import (
    catalog_offer,
    operator_objects,
    operator_specs,
)

NFD = {"package": "nfd", "namespace": "openshift-nfd"}
MODES = [
    {"type": "OwnNamespace", "supported": True},
    {"type": "SingleNamespace", "supported": True},
    {"type": "AllNamespaces", "supported": False},
]


def one(**more: Any) -> operator_specs.OperatorSpec:
    return operator_specs.read_operators([{**NFD, **more}])[0]


def manifest(catalog: str = "redhat", entries: bool = True, modes: list[dict[str, Any]] = MODES) -> dict[str, Any]:
    def channel(name: str, versions: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": name,
            "currentCSV": f"nfd.v{versions[-1]}",
            "currentCSVDesc": {
                "version": versions[-1],
                "installModes": modes,
                "customresourcedefinitions": {"owned": [{"name": "things.example.com"}]},
            },
        }
        if entries:
            found["entries"] = [{"name": f"nfd.v{each}", "version": each} for each in versions]
        return found

    return {
        "metadata": {"name": "nfd"},
        "status": {
            "catalogSource": catalog,
            "catalogSourceNamespace": "openshift-marketplace",
            "defaultChannel": "stable",
            "channels": [channel("stable", ["4.17.0", "4.18.0"]), channel("fast", ["4.19.0"])],
        },
    }


def test_without_a_version_the_newest_of_the_default_channel_is_chosen() -> None:
    offer = catalog_offer.choose_offer(one(), [manifest()])
    assert (offer.channel, offer.csv, offer.watches) == ("stable", "nfd.v4.18.0", "own")
    assert offer.newest and offer.kinds == ("things.example.com",)


@pytest.mark.parametrize("version", ["4.17.0", "v4.17.0", "nfd.v4.17.0"])
def test_a_version_may_be_a_number_with_or_without_v_or_the_name_of_a_csv(version: str) -> None:
    offer = catalog_offer.choose_offer(one(version=version), [manifest()])
    assert offer.csv == "nfd.v4.17.0" and not offer.newest


def test_without_entries_in_a_catalog_the_name_of_a_version_follows_the_newest() -> None:
    assert catalog_offer.choose_offer(one(version="4.16.2"), [manifest(entries=False)]).csv == "nfd.v4.16.2"


@pytest.mark.parametrize(
    ("more", "catalogs", "message"),
    [
        ({"channel": "stabel"}, ["a"], r"no channel 'stabel' \(did you mean 'stable'\?\); catalog a has fast, stable"),
        ({"version": "4.17.1"}, ["a"], r"channel stable has no version '4.17.1' \(did you mean '4.17.0'\?\)"),
        ({}, ["b", "a"], "nfd is in catalogs a, b. Set catalog to one of them"),
        ({"watches": "all"}, ["a"], "can't watch all namespaces: it supports OwnNamespace, SingleNamespace"),
    ],
)
def test_an_unknown_channel_or_version_is_refused_with_the_nearest_name(
    more: dict[str, Any], catalogs: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        catalog_offer.choose_offer(one(**more), [manifest(each) for each in catalogs])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"namespace": "Open Shift"}, "namespace 'Open Shift' is not a valid Kubernetes name"),
        ({"catalog_image": "x"}, "require catalog, the CatalogSource"),
        ({"catalog": "c", "catalog_image": "x", "catalog_address": "y"}, "one of catalog_image and catalog_address"),
        ({"version": "1.0.0", "approval": "Automatic"}, "would upgrade version 1.0.0"),
        ({"namespace": "openshift-operators", "watches": "own"}, "watch all namespaces"),
        ({"operand": {"name": "x"}}, "either kind .* or manifest"),
        (
            {"operand": {"kind": "X", "ready": {"condition": "A", "field": "b"}}},
            "one of condition, field, available and metrics",
        ),
        ({"operand": {"manifest": {"kind": "X"}}}, "requires apiVersion, kind and metadata.name"),
    ],
)
def test_contradictory_options_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        one(**more)


def test_a_duplicate_package_is_refused() -> None:
    with pytest.raises(InputError, match="duplicate package 'nfd'"):
        operator_specs.read_operators([NFD, {**NFD, "namespace": "other"}])


def test_a_version_makes_install_plans_wait_for_approval() -> None:
    assert one(version="1").manual and not one().manual
    assert one(approval="Manual").manual


@pytest.mark.parametrize(
    "status",
    [
        {"channels": [{"name": "stable"}], "defaultChannel": "stable"},
        {"channels": 5},
        {"channels": [{"name": "stable", "currentCSV": "a", "currentCSVDesc": []}], "defaultChannel": {"a": 1}},
    ],
)
def test_a_package_manifest_of_another_form_is_named(status: dict[str, Any]) -> None:
    odd = {"kind": "PackageManifest", "metadata": {"name": "nfd", "namespace": "market"}, "status": status}
    with pytest.raises(DataError, match="PackageManifest market/nfd: the answer has an unexpected form"):
        catalog_offer.choose_offer(one(), [odd])


def test_operators_in_openshift_operators_watch_all_namespaces() -> None:
    modes = [{"type": "OwnNamespace", "supported": True}, {"type": "AllNamespaces", "supported": True}]
    assert catalog_offer.choose_offer(one(namespace="openshift-operators"), [manifest(modes=modes)]).watches == "all"


def test_an_example_is_found_by_kind_and_an_unknown_kind_is_refused() -> None:
    csv = {
        "metadata": {"name": "nfd.v1", "annotations": {"alm-examples": json.dumps([{"kind": "A"}, {"kind": "Bee"}])}}
    }
    assert catalog_offer.example_from_csv(csv, "Bee") == {"kind": "Bee"}
    with pytest.raises(InputError, match=r"no example of kind Be \(did you mean 'Bee'\?\); it has A, Bee"):
        catalog_offer.example_from_csv(csv, "Be")


@pytest.mark.parametrize("text", ["{", "5", "true"])
def test_examples_that_are_no_list_are_said_with_their_version(text: str) -> None:
    csv = {"metadata": {"name": "nfd.v1", "annotations": {"alm-examples": text}}}
    with pytest.raises(InputError, match=r"nfd.v1: its alm-examples are not a JSON list"):
        catalog_offer.example_from_csv(csv, "Be")


def test_items_are_appended_to_lists_without_loss_or_duplicates() -> None:
    base = {"spec": {"daemonsets": {"tolerations": [{"key": "a"}]}}}
    once = operator_specs.append_to_lists(
        base, {"spec.daemonsets.tolerations": [{"key": "b"}, {"key": "a"}], "spec.new": [1]}
    )
    assert once == {"spec": {"daemonsets": {"tolerations": [{"key": "a"}, {"key": "b"}]}, "new": [1]}}
    assert operator_specs.append_to_lists(once, {"spec.daemonsets.tolerations": [{"key": "b"}]}) == once
    assert base == {"spec": {"daemonsets": {"tolerations": [{"key": "a"}]}}}


def test_an_operator_group_fits_if_it_selects_exactly_the_watched_namespaces() -> None:
    own = catalog_offer.choose_offer(one(), [manifest()])
    everything = catalog_offer.choose_offer(
        one(watches="all"), [manifest(modes=[{"type": "AllNamespaces", "supported": True}])]
    )
    group = operator_objects.operator_group_manifest(one(), own, "run-0001")
    assert operator_objects.group_selects_watched_namespaces(
        group, one(), own
    ) and not operator_objects.group_selects_watched_namespaces(group, one(), everything)
    assert operator_objects.group_selects_watched_namespaces(
        {"spec": {}}, one(), everything
    ) and not operator_objects.group_selects_watched_namespaces({"spec": {}}, one(), own)
    assert not operator_objects.group_selects_watched_namespaces(
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}}, one(), everything
    )
    assert not operator_objects.group_selects_watched_namespaces(
        {"spec": {"targetNamespaces": ["openshift-nfd", "other"]}}, one(), own
    )


def test_a_subscription_is_compared_only_in_fields_that_olm_acts_on() -> None:
    offer = catalog_offer.choose_offer(one(version="4.17.0"), [manifest()])
    subscription = operator_objects.subscription_manifest(one(version="4.17.0"), offer, "run-0001")
    found = {"spec": {**subscription["spec"], "startingCSV": "nfd.v4.16.0"}}
    assert operator_objects.differing_spec_fields(found, subscription) == []
    found["spec"]["channel"] = "fast"
    found["spec"]["config"] = {"env": [{"name": "A", "value": "b"}]}
    assert operator_objects.differing_spec_fields(found, subscription) == ["channel", "config"]


def test_a_channel_of_another_major_version_is_refused() -> None:
    assert catalog_offer.choose_offer(one(major="4"), [manifest()]).csv == "nfd.v4.18.0"
    with pytest.raises(
        InputError, match="channel stable has nfd.v4.18.0, which is not version 3; .* channels fast, stable"
    ):
        catalog_offer.choose_offer(one(major="3"), [manifest()])


def test_what_an_operator_creates_itself_is_recorded_in_its_subscription() -> None:
    asked: dict[str, Any] = {
        "definitions": ["things.example.com"],
        "operands": [{"kind": "Thing", "name": "cluster"}],
        "objects": [{"api_version": "v1", "kind": "ConfigMap", "namespace": "kube-system", "names": ["thing"]}],
    }
    operator = one(creates=asked)
    made = operator_objects.subscription_manifest(
        operator, catalog_offer.choose_offer(operator, [manifest()]), "run-0001"
    )
    assert operator_objects.objects_created_by_operator(made) == operator_specs.CreatedObjects(**asked)
    plain = operator_objects.subscription_manifest(one(), catalog_offer.choose_offer(one(), [manifest()]), "run-0001")
    assert "annotations" not in plain["metadata"]
    assert operator_objects.objects_created_by_operator(plain) == operator_specs.CreatedObjects()


def test_objects_that_an_operator_creates_are_named_or_labelled() -> None:
    everything = {"objects": [{"api_version": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "names": []}]}
    with pytest.raises(InputError, match="nfd: creates: objects: ClusterRole requires names or labels"):
        one(creates=everything)
