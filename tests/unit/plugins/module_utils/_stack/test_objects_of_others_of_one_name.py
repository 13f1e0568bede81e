"""Objects of others that have the name of ours: of a job with a volume, of the preload of an image, a MachineSet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import (
    find_or_derive_machine_set,
    image_preload,
    node_scaling,
    volume_job,
)
from object_store import ObjectStore

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
