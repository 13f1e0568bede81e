"""Objects of others that have the name of ours: of a job with a volume, of the preload of an image, a MachineSet."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import (
    find_or_derive_machine_set,
    image_preload,
    node_scaling,
    volume_job,
)
from object_store import ObjectStore
from scripted_server import Asked

RUN = "t1129-aaaaaa"
OURS = {run_labels.RUN: RUN}
JOB = volume_job.VolumeJob("p", f"storage-vol-{RUN}", "ns", "vol", RUN, "i", "print()", {})
PRELOAD = image_preload.ImagePreloadSpec("ns", "i", RUN, 1.0)
OBJECTS = [("batch/v1", "Job"), ("v1", "ConfigMap"), ("v1", "Secret")]


@pytest.mark.parametrize("labels", [{}, {"team": "b"}, {run_labels.RUN: "t1129-bbbbbb"}])
def test_objects_of_the_name_without_the_label_of_the_run_are_kept(labels: dict[str, str], tmp_path: Path) -> None:
    store = ObjectStore()
    for api_version, kind in OBJECTS:
        store.put(api_version, kind, JOB.name, "ns", labels=labels)
    store.put("apps/v1", "DaemonSet", PRELOAD.name, "ns", labels=labels)
    titles = store.titles()
    with store.client(tmp_path) as client:
        volume_job.remove_volume_job(client, JOB)
        image_preload.delete_daemon_set(client, PRELOAD)
    assert store.titles() == titles and store.deleted == []


def test_the_objects_of_the_run_are_deleted(tmp_path: Path) -> None:
    store = ObjectStore()
    for api_version, kind in OBJECTS:
        store.put(api_version, kind, JOB.name, "ns", labels=OURS)
    store.put("apps/v1", "DaemonSet", PRELOAD.name, "ns", labels=OURS)
    with store.client(tmp_path) as client:
        volume_job.remove_volume_job(client, JOB)
        image_preload.delete_daemon_set(client, PRELOAD)
    assert store.titles() == []


def test_a_machine_set_that_others_have_created_since_the_look_is_kept(tmp_path: Path) -> None:
    store, place = ObjectStore(), (find_or_derive_machine_set.VERSION, "MachineSet", "ms", "openshift-machine-api")
    store.put(*place, annotations={find_or_derive_machine_set.RUN: RUN})

    def before(method: str, _path: str) -> Any:
        if method == "DELETE":
            store.put(*place, annotations={"team": "b"})
        return None

    store.before = before
    entry = {"name": "ms", "created": True, "before": 0, "wanted": 1}
    record = tmp_path / "scaling.json"
    record.write_text(json.dumps({"schema": "scaling/1", "sets": [entry], "namespaces": []}), encoding="utf-8")
    with store.client(tmp_path) as client:
        node_scaling.NodeScaler(client, record, RUN, lambda _text: None).restore(5)
    assert store.titles() == ["MachineSet ms"] and store.deleted == []


PLACE = (find_or_derive_machine_set.VERSION, "MachineSet", "ms", "openshift-machine-api")


def scaled_set(store: ObjectStore, replicas: int, **fields: Any) -> None:
    """Put the MachineSet, or let it be changed."""
    store.put(*PLACE, **fields)["spec"] = {"replicas": replicas}


def change_before_patch(store: ObjectStore, sent: list[dict[str, Any]], replicas: int, **fields: Any) -> None:
    """Let the MachineSet be changed just before it is patched; note the patches that are accepted."""
    answer = store.answer
    waiting = [True]

    def changing(asked: Asked) -> Any:
        if asked.method == "PATCH" and waiting:
            waiting.clear()
            scaled_set(store, replicas, resourceVersion="2", **fields)
        said = answer(asked)
        if asked.method == "PATCH" and said[0] == 200:
            sent.append(json.loads(asked.body)["spec"])
        return said

    store.answer = changing  # type: ignore[method-assign]


def restore(store: ObjectStore, tmp_path: Path) -> dict[str, Any]:
    entry = {"name": "ms", "created": False, "before": 0, "wanted": 1}
    record = tmp_path / "scaling.json"
    record.write_text(json.dumps({"schema": "scaling/1", "sets": [entry], "namespaces": []}), encoding="utf-8")
    with store.client(tmp_path) as client:
        return node_scaling.NodeScaler(client, record, RUN, lambda _text: None).restore(5)


@pytest.mark.parametrize(("replicas", "uid"), [(9, "u"), (1, "another")])
def test_a_machine_set_that_others_change_at_the_moment_of_its_restoration_is_left(
    replicas: int, uid: str, tmp_path: Path
) -> None:
    store, sent = ObjectStore(), list[dict[str, Any]]()
    scaled_set(store, 1, uid="u")
    change_before_patch(store, sent, replicas, uid=uid)
    assert restore(store, tmp_path)["left"] == ["somebody changed MachineSet ms at the same moment"] and sent == []


def test_a_machine_set_whose_status_changes_at_the_moment_of_its_restoration_is_scaled_back(tmp_path: Path) -> None:
    store, sent = ObjectStore(), list[dict[str, Any]]()
    scaled_set(store, 1, uid="u")
    change_before_patch(store, sent, 1, uid="u")
    assert restore(store, tmp_path)["left"] == [] and sent == [{"replicas": 0}]


def test_a_machine_set_that_others_scale_at_the_same_moment_is_not_scaled_nor_recorded(tmp_path: Path) -> None:
    store, sent = ObjectStore(), list[dict[str, Any]]()
    scaled_set(store, 0, uid="u")
    seen = copy.deepcopy(store.named("MachineSet", "ms"))
    change_before_patch(store, sent, 9, uid="u")
    record = tmp_path / "scaling.json"
    with store.client(tmp_path) as client, pytest.raises(OwnershipError, match="changed MachineSet ms at the same"):
        scaler = node_scaling.NodeScaler(client, record, RUN, lambda _text: None)
        scaler._change(seen, {"metadata": {"name": "ms"}, "spec": {"replicas": 3}}, {}, False)
    assert node_scaling.read_change_records(record)["sets"] == [] and sent == []
