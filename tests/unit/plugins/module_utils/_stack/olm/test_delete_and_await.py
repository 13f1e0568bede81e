"""Versions that appear again after their removal: those of OLM are deleted, those of a colleague are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm.delete_and_await import (
    DeletionResult,
    RecreatedObjects,
    delete_objects_and_wait,
)
from object_store import ObjectStore

V1ALPHA1 = "operators.coreos.com/v1alpha1"
VERSION = (V1ALPHA1, "ClusterServiceVersion", "op.v1", "ops")


def delete_versions(store: ObjectStore, owner: dict[str, Any], tmp_path: Path) -> bool:
    """Delete versions as the removal of an operator with this version does."""
    with store.client(tmp_path) as client:

        def delete(objects: Any) -> None:
            delete_objects_and_wait(client, objects, 1e12, DeletionResult(), lambda _text: None)

        return RecreatedObjects(client, delete, [owner]).delete_versions()


@pytest.mark.parametrize(
    ("namespace", "fields", "kept"),
    [
        ("ops", {"status": {"installedCSV": "op.v1"}}, True),
        ("ops", {"status": {"currentCSV": "op.v1", "state": "UpgradePending"}}, True),
        ("ops", {"status": {"currentCSV": "op.v2"}, "spec": {"startingCSV": "op.v1"}}, True),
        ("ops", {"spec": {"name": "op"}}, True),  # OLM has not resolved it yet
        ("ops", {"status": {"installedCSV": "another.v1", "currentCSV": "another.v2"}}, False),
        ("elsewhere", {"status": {"currentCSV": "op.v1"}}, False),
    ],
)
def test_a_version_that_a_subscription_of_a_colleague_installs_is_kept(
    namespace: str, fields: dict[str, Any], kept: bool, tmp_path: Path
) -> None:
    store = ObjectStore()
    owner = store.put(*VERSION)
    store.put(*VERSION)  # again, with another uid
    store.put(V1ALPHA1, "Subscription", "theirs", namespace).update(fields)
    assert delete_versions(store, owner, tmp_path) is not kept
    assert ("ClusterServiceVersion op.v1" in store.titles()) is kept


def test_a_version_that_olm_recreated_without_a_subscription_is_deleted(tmp_path: Path) -> None:
    store = ObjectStore()
    owner = store.put(*VERSION)
    store.put(*VERSION)
    assert delete_versions(store, owner, tmp_path)
    assert store.titles() == []
