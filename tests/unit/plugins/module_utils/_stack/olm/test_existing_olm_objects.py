"""A downgrade of an operator is refused before anything is changed, since OLM never downgrades."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm import existing_olm_objects, operator_specs
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm.catalog_offer import CatalogOffer
from hypothesis import given
from hypothesis import strategies as st


def there(
    installed: str = "nfd.4.18.0", ours: bool = True, channel: str = "stable"
) -> existing_olm_objects.ExistingSubscription:
    found = {
        "kind": "Subscription",
        "metadata": {"name": "nfd", "namespace": "openshift-nfd"},
        "spec": {"channel": channel, "source": "redhat-operators"},
        "status": {"installedCSV": installed},
    }
    return existing_olm_objects.ExistingSubscription(found, ours)


def check(csv: str, existing: existing_olm_objects.ExistingSubscription, **asked: Any) -> None:
    (one,) = operator_specs.read_operators([{"package": "nfd", "namespace": "openshift-nfd", **asked}])
    offer = CatalogOffer("nfd", "redhat-operators", "openshift-marketplace", "stable", csv, False, (), "own")
    existing_olm_objects.check_existing_operators(one, existing, offer)


@pytest.mark.parametrize(
    ("csv", "asked"),
    [
        ("nfd.4.17.0", {"version": "4.17.0"}),
        ("nfd.4.9.12", {"version": "4.9.12"}),
        ("nfd.4.18.0-rc.1", {"version": "4.18.0-rc.1"}),
        ("nfd.4.17.9", {"channel": "old"}),
    ],
)
def test_a_downgrade_is_refused_with_a_remedy(csv: str, asked: dict[str, str]) -> None:
    message = f"nfd.4.18.0 is installed, and OLM does not downgrade to {csv}. Remove it first"
    with pytest.raises(InputError, match=re.escape(message)):
        check(csv, there(), **asked)


@pytest.mark.parametrize(
    ("csv", "asked"),
    [
        ("nfd.4.18.0", {"version": "4.18.0"}),
        ("nfd.4.18.1", {"version": "4.18.1"}),
        ("nfd.4.100.0", {"version": "4.100.0"}),
        ("nfd.4.17.0", {}),  # whatever the channel has: nobody asked for another one
        ("nfd.latest", {"version": "nfd.latest"}),  # no version that can be compared
    ],
)
def test_the_same_and_newer_versions_are_accepted(csv: str, asked: dict[str, str]) -> None:
    check(csv, there(), **asked)


def test_another_version_of_an_operator_of_somebody_else_is_refused() -> None:
    with pytest.raises(OwnershipError, match="this run did not create"):
        check("nfd.4.17.0", there(ours=False), version="4.17.0")


@given(st.tuples(*[st.integers(0, 30)] * 3), st.tuples(*[st.integers(0, 30)] * 3), st.booleans())
def test_versions_are_ordered_by_their_numbers(one: Any, other: Any, letter: bool) -> None:
    def name(version: tuple[int, int, int]) -> str:
        return f"op.{'v' if letter else ''}{'.'.join(map(str, version))}"

    assert existing_olm_objects.is_older_version(name(one), name(other)) == (one < other)
    assert existing_olm_objects.is_older_version(f"{name(one)}-rc.2", f"{name(one)}-rc.10")
    assert existing_olm_objects.is_older_version(f"{name(one)}-rc.2", name(one))
    assert not existing_olm_objects.is_older_version(name(one), f"{name(one)}-rc.2")


def test_another_major_version_and_another_channel_of_somebody_else_are_refused() -> None:
    with pytest.raises(OwnershipError, match="has installed nfd.4.18.0, not version 3: left unchanged"):
        check("nfd.3.1.0", there(ours=False), major="3")
    check("nfd.4.18.0", there(ours=False), major="4")
    with pytest.raises(OwnershipError, match="follows channel 'stable', not 'fast'"):
        check("nfd.4.18.0", there(ours=False), channel="fast")
    check("nfd.4.18.0", there(ours=False), channel="fast", any_channel=True)
