"""A cleanup while others change the cluster: what gets the label late, is created again, or can't be changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.delete_by_label import (
    CleanupTimeout,
    RunCleanup,
)
from object_store import ObjectStore
from scripted_server import status_object

RUN = "t1129-aaaaaa"
OURS = {run_labels.RUN: RUN}
CRD = "apiextensions.k8s.io/v1"
THEIRS = [{"manager": "kubectl"}]


def clean(store: ObjectStore, tmp_path: Path, said: list[str] | None = None) -> Any:
    """Clean up the run."""
    with store.client(tmp_path) as client:
        return RunCleanup(client, RUN, say=(said if said is not None else []).append).clean(20)


def end_of_wait(store: ObjectStore, path: str, polls: int = 3) -> Any:
    """Return a hook that removes the object after some polls of its kind."""
    seen = iter(range(polls))

    def poll() -> None:
        if store.deleted and next(seen, None) is None:
            store.objects.pop(path, None)

    return poll


def test_a_namespace_that_gets_the_label_while_another_is_deleted_is_kept_for_its_owners(tmp_path: Path) -> None:
    store = ObjectStore()
    store.put("v1", "Namespace", "mine", labels=OURS, finalizers=["slow"])
    store.put("v1", "Namespace", "payments")
    store.put("v1", "Secret", "db", "payments", managedFields=THEIRS)
    poll = end_of_wait(store, "/api/v1/namespaces/mine")

    def before(method: str, path: str) -> Any:
        if (method, path) == ("DELETE", "/api/v1/namespaces/mine"):
            store.named("Namespace", "payments")["metadata"]["labels"] = dict(OURS)
        if (method, path) == ("GET", "/api/v1/namespaces"):
            poll()
        return None

    store.before = before
    outcome = clean(store, tmp_path)
    assert outcome.handed_over == ["Namespace payments"] and outcome.deleted == {"Namespace": 1}
    assert store.titles() == ["Namespace payments", "Secret db"]
    assert store.named("Namespace", "payments")["metadata"]["labels"] == {}


def test_a_definition_that_gets_the_label_while_another_is_deleted_is_kept_with_its_objects(tmp_path: Path) -> None:
    store = ObjectStore()
    store.put(CRD, "CustomResourceDefinition", "mine.example.com", labels=OURS, finalizers=["slow"])
    store.put(CRD, "CustomResourceDefinition", "things.example.com")
    store.put("example.com/v1", "Thing", "theirs", "team")
    path = f"/apis/{CRD}/customresourcedefinitions"
    poll = end_of_wait(store, f"{path}/mine.example.com")

    def before(method: str, asked: str) -> Any:
        if (method, asked) == ("DELETE", f"{path}/mine.example.com"):
            store.named("CustomResourceDefinition", "things.example.com")["metadata"]["labels"] = dict(OURS)
        if (method, asked) == ("GET", path):
            poll()
        return None

    store.before = before
    assert clean(store, tmp_path).handed_over == ["CustomResourceDefinition things.example.com"]
    assert store.titles() == ["CustomResourceDefinition things.example.com", "Thing theirs"]


def kept_namespace() -> ObjectStore:
    """Return a server on which the run's namespace has an object of others, and the run another object."""
    store = ObjectStore()
    store.put("v1", "Namespace", "mine", labels=OURS)
    store.put("v1", "Secret", "db", "mine", managedFields=THEIRS)
    store.put("example.com/v1", "Thing", "ours", "other", labels=OURS)
    store.put(CRD, "CustomResourceDefinition", "mine.example.com", labels=OURS)
    return store


@pytest.mark.parametrize("again", [False, True])
def test_a_kept_namespace_that_is_deleted_or_created_again_meanwhile_is_left_alone(again: bool, tmp_path: Path) -> None:
    store, other = kept_namespace(), {run_labels.RUN: "t1129-bbbbbb"}

    def before(method: str, path: str) -> Any:
        if method == "PATCH":
            del store.objects[path]
            if again:
                store.put("v1", "Namespace", "mine", labels=other)
        return None

    store.before = before
    outcome = clean(store, tmp_path)
    assert outcome.handed_over == [] and outcome.deleted == {"Thing": 1, "CustomResourceDefinition": 1}
    if again:
        assert store.named("Namespace", "mine")["metadata"]["labels"] == other
        assert "annotations" not in store.named("Namespace", "mine")["metadata"]


@pytest.mark.parametrize("status", [400, 409, 422, 500])
def test_a_label_that_can_not_be_removed_fails_the_cleanup_after_the_rest_is_deleted(
    status: int, tmp_path: Path
) -> None:
    store, said = kept_namespace(), list[str]()
    store.before = lambda method, _path: (status, status_object(status, "No", "denied")) if method == "PATCH" else None
    with pytest.raises(ApiError, match=rf"our label is left on Namespace mine: PATCH .*{status}.*denied"):
        clean(store, tmp_path, said)
    assert store.titles() == ["Namespace mine", "Secret db"]
    assert any(
        "Namespace mine is kept with our label, which could not be removed, because it has" in one for one in said
    )


def test_a_label_that_may_not_be_removed_is_reported_only(tmp_path: Path) -> None:
    store = kept_namespace()
    store.before = lambda method, _path: (403, status_object(403, "Forbidden", "no")) if method == "PATCH" else None
    assert clean(store, tmp_path).handed_over == ["Namespace mine"]


def tenant_object(**fields: Any) -> ObjectStore:
    """Return a server with an object of a tenant that has the label of the run, and objects of the run."""
    store = ObjectStore()
    store.put("v1", "ConfigMap", "a", "tenant", labels=OURS, **fields)
    store.put("v1", "Secret", "s", "other", labels=OURS)
    store.put("rbac.authorization.k8s.io/v1", "ClusterRole", "ours", labels=OURS)
    store.put("v1", "Node", "ours", labels=OURS)
    store.put(CRD, "CustomResourceDefinition", "mine.example.com", labels=OURS)
    return store


@pytest.mark.parametrize("status", [403, 422, 500])
def test_an_object_that_can_not_be_deleted_fails_the_cleanup_after_the_rest_is_deleted(
    status: int, tmp_path: Path
) -> None:
    store, place = tenant_object(), "/api/v1/namespaces/tenant/configmaps/a"
    no = (status, status_object(status, "No", "denied"))
    store.before = lambda method, path: no if (method, path) == ("DELETE", place) else None
    with pytest.raises(ApiError, match=rf"our label is left on ConfigMap tenant/a: DELETE .*{status}.*denied"):
        clean(store, tmp_path)
    assert store.titles() == ["ConfigMap a"]


def test_an_object_that_can_not_be_deleted_and_goes_with_its_namespace_is_no_error(tmp_path: Path) -> None:
    store, place = tenant_object(), "/api/v1/namespaces/tenant"
    store.put("v1", "Namespace", "tenant", labels=OURS)

    def before(method: str, path: str) -> Any:
        if (method, path) == ("DELETE", place):
            del store.objects[f"{place}/configmaps/a"]
        return (403, status_object(403, "No", "denied")) if (method, path[-2:]) == ("DELETE", "/a") else None

    store.before = before
    deleted = {"Secret": 1, "ClusterRole": 1, "Node": 1, "Namespace": 1, "CustomResourceDefinition": 1}
    assert clean(store, tmp_path).deleted == deleted and store.titles() == []


def test_an_object_with_a_finalizer_of_others_keeps_no_other_object_from_its_deletion(tmp_path: Path) -> None:
    store = tenant_object(finalizers=["tenant/never"])
    with (
        store.client(tmp_path) as client,
        pytest.raises(CleanupTimeout, match="still 1 ConfigMap: ConfigMap tenant/a .*finalizer tenant/never") as raised,
    ):
        RunCleanup(client, RUN).clean(0.5)
    assert store.titles() == ["ConfigMap a"] and raised.value.left == {"ConfigMap": 1}
    assert raised.value.deleted == {"Secret": 1, "ClusterRole": 1, "Node": 1, "CustomResourceDefinition": 1}


def test_a_timeout_names_what_the_server_refused_to_delete_too(tmp_path: Path) -> None:
    store = tenant_object(finalizers=["tenant/never"])
    no = (403, status_object(403, "No", "denied"))
    store.before = lambda method, path: no if method == "DELETE" and path.endswith("clusterroles/ours") else None
    with (
        store.client(tmp_path) as client,
        pytest.raises(CleanupTimeout, match=r"still 1 ConfigMap.*left on ClusterRole"),
    ):
        RunCleanup(client, RUN).clean(0.5)
    assert store.titles() == ["ClusterRole ours", "ConfigMap a"]


def test_a_definition_goes_though_an_object_of_the_run_is_held_by_a_finalizer(tmp_path: Path) -> None:
    store = ObjectStore()
    store.put("example.com/v1", "Thing", "held", "team", labels=OURS, finalizers=["slow"])
    store.put(CRD, "CustomResourceDefinition", "things.example.com", labels=OURS)
    with store.client(tmp_path) as client, pytest.raises(CleanupTimeout, match="Thing team/held"):
        RunCleanup(client, RUN).clean(0.5)
    assert store.titles() == ["Thing held"]


def volume_bound_to(store: ObjectStore, namespace: str, **claim: Any) -> None:
    """Put the volume of the run, and the claim that is bound to it."""
    store.put("v1", "PersistentVolume", "ours", labels=OURS)
    store.put("v1", "PersistentVolumeClaim", "data", namespace, **claim)
    uid = store.objects[f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data"]["metadata"]["uid"]
    bound = {"claimRef": {"namespace": namespace, "name": "data", "uid": uid}}
    store.objects["/api/v1/persistentvolumes/ours"]["spec"] = bound


def test_a_volume_that_a_claim_of_others_is_bound_to_is_kept_without_our_label(tmp_path: Path) -> None:
    store, said = ObjectStore(), list[str]()
    volume_bound_to(store, "tenant", managedFields=[{"manager": "kubectl-create"}])
    outcome = clean(store, tmp_path, said)
    assert outcome.handed_over == ["PersistentVolume ours"]
    assert sorted(store.titles()) == ["PersistentVolume ours", "PersistentVolumeClaim data"]
    assert "run" not in str(store.objects["/api/v1/persistentvolumes/ours"]["metadata"].get("labels"))
    assert "because claim tenant/data of others is bound to it" in "".join(said)


def test_a_volume_goes_with_a_claim_of_the_run_or_of_nobody(tmp_path: Path) -> None:
    store = ObjectStore()
    volume_bound_to(store, "tenant", labels=OURS)
    clean(store, tmp_path)
    assert store.titles() == []
    volume_bound_to(store, "tenant")
    del store.objects["/api/v1/namespaces/tenant/persistentvolumeclaims/data"]
    clean(store, tmp_path)
    assert store.titles() == []


def test_a_volume_is_kept_if_the_claims_there_may_not_be_listed(tmp_path: Path) -> None:
    store = ObjectStore()
    volume_bound_to(store, "tenant", labels={})
    no = (403, status_object(403, "No", "denied"))
    store.before = lambda _method, path: no if path.endswith("/persistentvolumeclaims") else None
    assert clean(store, tmp_path).handed_over == ["PersistentVolume ours"]
