"""The diff of a call shows the changed fields of each object, and no secret."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.server_side_apply import (
    ObjectDiff,
    apply_manifests_with_diff,
)
from object_store import ObjectStore
from scripted_server import Asked, status_object


def deployment(**spec: Any) -> dict[str, Any]:
    return {"kind": "Deployment", "metadata": {"name": "a", "namespace": "n", "labels": {"x": "1"}}, "spec": spec}


def test_a_patch_shows_the_fields_that_it_names() -> None:
    diff = ObjectDiff()
    patch = {"metadata": {"labels": {"x": None, "y": "2"}}, "spec": {"replicas": 3}}
    diff.patched(deployment(replicas=1, paused=True), patch)
    assert diff.shown() == {
        "before": {"Deployment n/a": {"metadata": {"labels": {"x": "1"}}, "spec": {"replicas": 1}}},
        "after": {"Deployment n/a": {"metadata": {"labels": {"y": "2"}}, "spec": {"replicas": 3}}},
    }


def test_the_state_before_the_first_change_is_kept() -> None:
    diff = ObjectDiff()
    diff.patched(deployment(replicas=1), {"spec": {"replicas": 2}})
    diff.patched(deployment(replicas=2, paused=True), {"spec": {"replicas": 3, "paused": False}})
    assert diff.shown() == {
        "before": {"Deployment n/a": {"spec": {"replicas": 1, "paused": True}}},
        "after": {"Deployment n/a": {"spec": {"replicas": 3, "paused": False}}},
    }


def test_an_object_that_is_created_or_deleted_is_on_one_side_only() -> None:
    diff = ObjectDiff()
    diff.created(deployment(replicas=1))
    diff.patched(deployment(replicas=1), {"spec": {"replicas": 2}})
    diff.deleted({"kind": "Pod", "metadata": {"name": "b"}})
    assert diff.shown() == {"before": {"Pod b": {}}, "after": {"Deployment n/a": deployment(replicas=2)}}


def test_the_content_of_a_secret_is_hidden() -> None:
    diff = ObjectDiff()
    made = {"kind": "Secret", "metadata": {"name": "a"}, "data": {"key": "Y2FuYXJ5"}}
    diff.created(made)
    diff.patched({**made, "metadata": {"name": "b"}}, {"data": {"key": "bmV3"}})
    assert "Y2FuYXJ5" not in str(diff.shown()) and "bmV3" not in str(diff.shown())
    assert diff.before["Secret b"] != diff.after["Secret b"]


class OneObject:
    """A client of a server with one object, a namespace by default, which has these labels."""

    access = SimpleNamespace(server="https://lab")

    def __init__(self, labels: dict[str, str], kind: str = "Namespace") -> None:
        self.there = {"kind": kind, "metadata": {"name": "team", "labels": labels}}

    def kind_of(self, manifest: dict[str, Any]) -> str:
        return str(manifest["kind"])

    def get(self, _kind: str, name: str, _namespace: str) -> dict[str, Any] | None:
        return self.there if name == "team" else None

    def apply(self, manifest: dict[str, Any], check: bool) -> dict[str, Any]:
        if manifest["metadata"]["name"] == "team" and not check:
            self.there = manifest
        return manifest

    def create(self, manifest: dict[str, Any], _query: dict[str, Any]) -> dict[str, Any]:
        return manifest


@pytest.mark.parametrize(
    ("labels", "changed"), [({}, []), ({run_labels.RUN: "b"}, []), ({run_labels.RUN: "a"}, ["team"])]
)
def test_a_namespace_of_others_does_not_get_the_label_by_which_it_would_be_deleted(
    labels: dict[str, str], changed: list[str]
) -> None:
    mine = {"labels": {run_labels.RUN: "a", "x": "1"}}
    wanted: list[dict[str, Any]] = [
        {"kind": "Namespace", "metadata": {"name": name, **mine}} for name in ("team", "new")
    ]
    client: Any = OneObject(labels)
    applied = apply_manifests_with_diff(client, wanted)["applied"]
    assert applied == [f"Namespace {name}" for name in (*changed, "new")]
    assert (client.there["metadata"]["labels"] == labels) is not bool(changed)


@pytest.mark.parametrize("labels", [{}, {run_labels.RUN: "b"}])
def test_an_object_of_others_is_neither_changed_nor_labelled(labels: dict[str, str]) -> None:
    client: Any = OneObject(labels, "LocalQueue")
    wanted = [{"kind": "LocalQueue", "metadata": {"name": "team", "labels": {run_labels.RUN: "a"}}}]
    with pytest.raises(OwnershipError, match="https://lab has LocalQueue team already, and it does not belong to this"):
        apply_manifests_with_diff(client, wanted)
    assert client.there["metadata"]["labels"] == labels
    client.there["metadata"]["labels"] = {run_labels.RUN: "a"}
    assert apply_manifests_with_diff(client, wanted)["changed"] is False


def config(*, api: str = "v1", kind: str = "ConfigMap", **data: str) -> dict[str, Any]:
    place = {} if kind == "Namespace" else {"namespace": "ns"}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": "new", **place, "labels": {run_labels.RUN: "a"}},
        "data": data,
    }


def test_an_object_whose_label_a_webhook_takes_does_not_stay(tmp_path: Path) -> None:
    store = ObjectStore()
    store.drops = run_labels.PREFIX
    with (
        store.client(tmp_path) as client,
        pytest.raises(OwnershipError, match="takes the label .*ConfigMap ns/new.* so it was removed again"),
    ):
        apply_manifests_with_diff(client, [config(x="1")])
    assert store.titles() == []


def put_before(store: ObjectStore, methods: tuple[str, ...], kind: str, **fields: Any) -> None:
    """Let somebody put an object just before the next request with one of these methods."""
    waiting = [True]

    def before(method: str, _path: str) -> Any:
        if method in methods and waiting:
            waiting.clear()
            store.put("v1", kind, "new", "" if kind == "Namespace" else "ns", **fields)
        return None

    store.before = before


def test_an_object_that_others_create_between_look_and_creation_is_theirs(tmp_path: Path) -> None:
    store = ObjectStore()
    put_before(store, ("POST", "PATCH"), "ConfigMap", labels={"team": "b"})
    with store.client(tmp_path) as client, pytest.raises(OwnershipError, match="ConfigMap ns/new already"):
        apply_manifests_with_diff(client, [config(x="1")])
    assert store.named("ConfigMap", "new")["metadata"]["labels"] == {"team": "b"}


def test_a_namespace_that_others_create_between_look_and_creation_is_used_as_it_is(tmp_path: Path) -> None:
    store = ObjectStore()
    put_before(store, ("POST", "PATCH"), "Namespace", labels={"team": "b"})
    with store.client(tmp_path) as client:
        assert not apply_manifests_with_diff(client, [config(kind="Namespace")])["changed"]
    assert store.named("Namespace", "new")["metadata"]["labels"] == {"team": "b"}


@pytest.mark.parametrize(("labels", "theirs"), [({"team": "b"}, True), ({run_labels.RUN: "a"}, False)])
def test_an_object_that_others_change_between_look_and_apply_is_looked_at_again(
    labels: dict[str, str], theirs: bool, tmp_path: Path
) -> None:
    store = ObjectStore()
    uid = store.put("v1", "ConfigMap", "new", "ns", labels={run_labels.RUN: "a"})["metadata"]["uid"]
    put_before(store, ("PATCH",), "ConfigMap", labels=labels, uid=uid, resourceVersion="2")
    with store.client(tmp_path) as client, pytest.raises(OwnershipError) if theirs else nullcontext():
        apply_manifests_with_diff(client, [config(x="1")])
    assert store.named("ConfigMap", "new")["metadata"]["labels"] == labels


def test_an_object_that_changes_at_each_attempt_ends_the_attempts(tmp_path: Path) -> None:
    store, sent = ObjectStore(), list[str]()
    store.put("v1", "ConfigMap", "new", "ns", labels={run_labels.RUN: "a"})

    def before(method: str, path: str) -> Any:
        sent.extend([path] if method == "PATCH" else [])
        return (409, status_object(409, "Conflict", "it changed")) if method == "PATCH" else None

    store.before = before
    with store.client(tmp_path) as client, pytest.raises(ApiError, match="it changed"):
        apply_manifests_with_diff(client, [config(x="1")])
    assert len(sent) == 5


@pytest.mark.parametrize("managers", [["perfscale-seatrial"], ["perfscale-seatrial", "webhook"], []])
def test_the_fields_of_a_created_object_are_those_of_later_applies(managers: list[str], tmp_path: Path) -> None:
    store, patches = ObjectStore(), list[dict[str, Any]]()
    answer = store.answer

    def noting(asked: Asked) -> Any:
        if asked.method == "PATCH":
            patches.append(json.loads(asked.body)["metadata"])
        said = answer(asked)
        if asked.method == "POST":
            said[1]["metadata"]["managedFields"] = [{"manager": one, "operation": "Update"} for one in managers]
        return said

    store.answer = noting  # type: ignore[method-assign]
    with store.client(tmp_path) as client:
        apply_manifests_with_diff(client, [config(x="1")])
    wanted = [{"manager": "perfscale-seatrial", "operation": "Apply"}]
    assert [patch["managedFields"] for patch in patches] == ([wanted] if len(managers) == 1 else [])
    assert all(patch["uid"] == "u1" and patch["resourceVersion"] == "1" for patch in patches)
