"""Objects whose labels a webhook of the cluster takes: no clean-up would find them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.lost_labels import refuse_lost_labels
from object_store import ObjectStore
from scripted_server import status_object

LABELS = {run_labels.RUN: "t1129-aaaaaa", "app": "x"}
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "namespace": "ns", "labels": LABELS}}
PATH = "/api/v1/namespaces/ns/configmaps"


@pytest.mark.parametrize("stored", [None, {}, {"metadata": None}, {"metadata": {"labels": LABELS}}])
def test_a_reply_with_the_labels_or_without_an_object_is_accepted(stored: Any) -> None:
    refuse_lost_labels("https://lab", MANIFEST, stored)
    refuse_lost_labels("https://lab", {"kind": "Secret", "metadata": {"name": "x"}}, {"metadata": {"name": "x"}})


@pytest.mark.parametrize("labels", [{}, None, {"app": "x"}, {run_labels.RUN: "t1129-bbbbbb"}])
def test_an_object_without_a_label_that_was_sent_is_refused(labels: Any) -> None:
    with pytest.raises(OwnershipError, match="https://lab takes the label perfscale.seatrial/run from ConfigMap ns/mi"):
        refuse_lost_labels("https://lab", MANIFEST, {"metadata": {"labels": labels}})
    refuse_lost_labels("https://lab", MANIFEST, {"metadata": {"labels": {run_labels.RUN: LABELS[run_labels.RUN]}}})


def test_the_error_says_that_an_object_could_not_be_removed_again() -> None:
    def undo() -> None:
        raise ApiError("DELETE: 500", 500)

    with pytest.raises(OwnershipError, match="find it, and it could not be removed again: DELETE: 500"):
        refuse_lost_labels("https://lab", MANIFEST, {"metadata": {"labels": {}}}, undo)


def test_what_is_created_without_its_label_is_deleted_by_its_uid(tmp_path: Path) -> None:
    store = ObjectStore()
    store.drops = "perfscale.seatrial/"
    with store.client(tmp_path) as client:
        for create in (
            lambda: client.create(MANIFEST),
            lambda: client.create_once(PATH, MANIFEST),
            lambda: client.post(PATH, MANIFEST),
        ):
            with pytest.raises(OwnershipError, match="find it, so it was removed again"):
                create()
    assert store.titles() == [] and store.deleted == [f"{PATH}/mine"] * 3


def test_another_object_of_the_name_is_not_deleted_in_its_place(tmp_path: Path) -> None:
    store = ObjectStore()
    store.drops = "perfscale.seatrial/"

    def before(method: str, path: str) -> Any:
        if method == "DELETE":
            store.put("v1", "ConfigMap", "mine", "ns")
        return None

    store.before = before
    with store.client(tmp_path) as client, pytest.raises(OwnershipError):
        client.create(MANIFEST)
    assert store.titles() == ["ConfigMap mine"] and store.deleted == []


def test_nothing_is_deleted_after_a_dry_run_or_a_refusal(tmp_path: Path) -> None:
    store = ObjectStore()
    store.drops = "perfscale.seatrial/"
    with store.client(tmp_path) as client:
        with pytest.raises(OwnershipError, match="would not find it$"):
            client.create(MANIFEST, {"dryRun": "All"})
        assert store.deleted == [] and not client.create_once(PATH, MANIFEST)
        store.before = lambda method, _path: (403, status_object(403, "Forbidden", "no")) if method == "POST" else None
        with pytest.raises(ApiError):
            client.create(MANIFEST)
    assert store.deleted == []
