"""The diff of a call shows the changed fields of each object, and no secret."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.server_side_apply import (
    ObjectDiff,
    apply_manifests_with_diff,
)


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

    def delete_seen(self, kind: str, metadata: dict[str, Any]) -> None:
        self.there = {"deleted": (kind, metadata["name"], metadata["uid"])}


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


class Webhook(OneObject):
    """A cluster that takes the labels from what is created."""

    def apply(self, manifest: dict[str, Any], check: bool) -> dict[str, Any]:
        return {**manifest, "metadata": {**manifest["metadata"], "labels": {}, "uid": "u1"}}


def test_an_object_whose_label_a_webhook_takes_does_not_stay() -> None:
    client: Any = Webhook({})
    wanted = [{"kind": "ConfigMap", "metadata": {"name": "new", "labels": {run_labels.RUN: "a"}}}]
    with pytest.raises(OwnershipError, match="takes the label .*ConfigMap new.* so it was removed again"):
        apply_manifests_with_diff(client, wanted)
    assert client.there == {"deleted": ("ConfigMap", "new", "u1")}
