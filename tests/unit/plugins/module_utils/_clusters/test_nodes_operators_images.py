# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is recorded of a cluster at the end of a point, on an API server that answers as scripted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import (
    cluster_properties,
    nodes_operators_images,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from scripted_server import ScriptedServer, status_object

RUN = "t1121-abcdef"
DIGEST, OTHER = (f"sha256:{letter * 64}" for letter in "ab")
OLM = "/apis/operators.coreos.com/v1alpha1"
NODES = [
    {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "NVIDIA-L40S"}},
        "status": {"allocatable": {"cpu": "7910m", "memory": memory, "nvidia.com/gpu": "4"}},
    }
    for name, memory in (("a", "65011712Ki"), ("b", "65010000Ki"))
]


def csv(package: str, version: str, namespace: str, phase: str = "Succeeded", **labels: str) -> dict[str, Any]:
    named = {f"operators.coreos.com/{package}.{namespace}": "", **labels}
    metadata = {"name": f"{package}.v{version}", "namespace": namespace, "labels": named}
    return {"metadata": metadata, "spec": {"version": version}, "status": {"phase": phase}}


def pod(image: str, image_id: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "labels": {run_labels.RUN: RUN}},
        "spec": {"containers": [{"name": "main", "image": image}]},
        "status": {"containerStatuses": [{"name": "main", "image": "docker.io/else", "imageID": image_id}]},
    }


CLUSTER: dict[str, Any] = {
    "/api/v1/nodes": NODES,
    f"{OLM}/clusterserviceversions": [
        csv("rhods-operator", "2.19.0", "rhods"),
        csv("nfd", "4.18.1", "nfd"),
        csv("nfd", "4.18.0", "nfd", "Replacing"),
    ],
    "/api/v1/pods": [pod("quay.io/x/trainer:v2", f"quay.io/x/trainer@{DIGEST}"), pod("a:1", "")],
    "/api/v1/namespaces/nfd/pods": [
        pod(f"reg.example.com/nfd@{OTHER}", f"docker-pullable://reg.example.com/nfd@{OTHER}")
    ],
    "/api/v1/namespaces/rhods/pods": [],
}
KINDS = {
    "/api/v1": [
        {"name": "nodes", "kind": "Node", "namespaced": False, "verbs": ["list"]},
        {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list"]},
    ],
    OLM: [{"name": "clusterserviceversions", "kind": "ClusterServiceVersion", "namespaced": True, "verbs": ["list"]}],
}


def server_of(objects: dict[str, Any], refused: tuple[str, ...] = ()) -> ScriptedServer:
    def answer(asked: Any) -> Any:
        path = asked.path.partition("?")[0]
        if path in refused:
            return 403, status_object(403, "Forbidden", "you may not")
        if path in KINDS and (path != OLM or f"{OLM}/clusterserviceversions" in objects):
            return 200, {"resources": KINDS[path]}
        if path == "/apis":
            return 200, {"groups": []}
        if path in objects:
            return 200, {"metadata": {"resourceVersion": "7"}, "items": objects[path]}
        return 404, status_object(404, "NotFound", "not found")

    return ScriptedServer(answer)


def gathered(folder: Path, server: ScriptedServer) -> dict[str, Any]:
    with server, Client.from_kubeconfig(server.kubeconfig(folder / "kubeconfig")) as client:
        return nodes_operators_images.gather_cluster_facts(client, RUN)


def test_nodes_operators_and_images_are_recorded(tmp_path: Path) -> None:
    server = server_of(CLUSTER)
    assert gathered(tmp_path, server) == {
        "nodes": {"count": 2, "cpus": 15.82, "memory_gib": 124, "gpus": 8, "gpu_products": {"NVIDIA-L40S": 8}},
        "operators": {"nfd": "4.18.1", "rhods-operator": "2.19.0"},
        "images": {"quay.io/x/trainer:v2": DIGEST, "reg.example.com/nfd": OTHER},
    }
    asked = [one.path for one in server.asked]
    assert any("clusterserviceversions" in one and "%21olm.copiedFrom" in one for one in asked), "no copies"
    assert any(one.startswith("/api/v1/pods?") and f"run%3D{RUN}" in one for one in asked), "pods of the run only"


def test_a_cluster_without_olm_has_no_operators(tmp_path: Path) -> None:
    found = gathered(tmp_path, server_of({"/api/v1/nodes": NODES, "/api/v1/pods": []}))
    assert (sorted(found), found["images"]) == (["images", "nodes"], {})


def test_what_may_not_be_read_is_absent_and_named(tmp_path: Path) -> None:
    refused = ("/api/v1/nodes", f"{OLM}/clusterserviceversions", "/api/v1/pods")
    found = gathered(tmp_path, server_of(CLUSTER, refused))
    assert sorted(found) == ["notes"]
    assert [one.partition(":")[0] for one in found["notes"]] == ["nodes", "pods of the run"]
    assert "you may not" in found["notes"][0]


def test_the_file_of_a_point_fits_its_schema_and_stays_if_nothing_changed(tmp_path: Path) -> None:
    (tmp_path / "points" / "001-2").mkdir(parents=True)
    found = gathered(tmp_path, server_of(CLUSTER))
    folder = nodes_operators_images.point_folder(str(tmp_path), "001-2")
    results = [nodes_operators_images.write_ran_json(folder, RUN, found) for _time in range(2)]
    with pytest.raises(InputError, match="has no point 002"):
        nodes_operators_images.point_folder(str(tmp_path), "002")
    said = "point 001-2 ran with 2 nodes, 2 operators, 2 images"
    assert results == [(True, said), (False, said)]
    document = files.read_json(tmp_path / "points/001-2/ran.json")
    files.validate_schema_if_enabled("ran/1", document)
    assert document["operators"]["nfd"] == "4.18.1"


def test_versions_of_a_package_that_differ_between_namespaces_are_both_named() -> None:
    found = cluster_properties.operators_from_csvs([csv("nfd", "2", "b"), csv("nfd", "1", "a")])
    assert (found.versions, found.namespaces) == ({"nfd": "1, 2"}, ("a", "b"))


def test_an_operator_without_olms_label_goes_by_its_name() -> None:
    one = {"metadata": {"name": "packageserver", "namespace": "olm"}, "spec": {}}
    assert cluster_properties.operators_from_csvs([one]).versions == {"packageserver": "packageserver"}


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("quay.io/a/b:v1", "quay.io/a/b:v1"),
        (f"quay.io/a/b@{DIGEST}", "quay.io/a/b"),
        (f"me:secret@reg.example.com:5000/a/b:v1@{DIGEST}", "reg.example.com:5000/a/b:v1"),
        ("busybox", "busybox"),
    ],
)
def test_an_image_goes_by_repository_and_tag_without_credentials(reference: str, name: str) -> None:
    assert nodes_operators_images.image_without_digest_or_credentials(reference) == name


def test_two_digests_of_one_tag_are_both_recorded() -> None:
    found = nodes_operators_images.image_digests_by_tag([pod("a:1", OTHER), pod("a:1", DIGEST)])
    assert found == {"a:1": f"{DIGEST}, {OTHER}"}


def test_the_gpus_that_pods_of_the_run_have_held_are_recorded_by_node(tmp_path: Path) -> None:
    def holds(node: str, *gpus: str) -> dict[str, Any]:
        containers = [{"name": "x", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": one}}} for one in gpus]
        return {**pod("a:1", ""), "spec": {"nodeName": node, "containers": containers}, "status": {}}

    pods = [holds("a", "2"), holds("a", "1", "1"), holds("b"), holds("gone", "4"), pod("a:1", "")]
    found = gathered(tmp_path, server_of({"/api/v1/nodes": NODES, "/api/v1/pods": pods}))
    assert found["gpus"] == {"a": {"product": "NVIDIA-L40S", "allocatable": 4, "held": 4, "pods": 2}}
    document = {"schema": "ran/1", "run": RUN, "point": "000", "at": "2026-11-21T05:00:00Z", **found}
    files.validate_schema_if_enabled("ran/1", document)
