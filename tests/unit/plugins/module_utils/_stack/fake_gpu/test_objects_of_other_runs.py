"""Simulated nodes, KWOK and the fake-gpu-operator beside another run that creates its own at the same time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import (
    advertised_gpus,
    fake_gpu_operator,
    fake_nodes,
    kwok_on_real_cluster,
    simulated_node_pool,
)
from object_store import ObjectStore

RUN, OTHER = "t1129-aaaaaa", "t1129-bbbbbb"
PERMISSION = kwok_on_real_cluster.FakeNodePermission(allowed=True, kwok_image="i", stages="[]")
POOL = simulated_node_pool.NodePoolSpec(2, run_id=RUN, permission=PERMISSION)


def nothing(_text: str) -> None:
    """Say nothing."""


def remove_operator(client: Client) -> list[str]:
    return fake_gpu_operator.remove_fake_gpu_operator(client, RUN, 5, nothing)


REMOVALS: list[tuple[list[dict[str, Any]], Callable[[Client], Any]]] = [
    (kwok_on_real_cluster.kwok_manifests(PERMISSION, RUN), lambda c: kwok_on_real_cluster.remove_kwok(c, RUN, False)),
    (fake_gpu_operator.operator_manifests(fake_gpu_operator.FakeGpuOperatorSpec(), RUN), remove_operator),
]


@pytest.mark.parametrize(("manifests", "remove"), REMOVALS)
def test_what_another_run_has_created_since_the_look_is_kept(
    manifests: list[dict[str, Any]], remove: Callable[[Client], Any], tmp_path: Path
) -> None:
    store = ObjectStore()
    for manifest in manifests:
        store.put_manifest(manifest)
    titles = store.titles()

    def before(method: str, _path: str) -> Any:
        if method == "DELETE":  # another cleanup of the run was faster
            for stored in list(store.objects.values()):
                meta = stored["metadata"]
                place = stored["apiVersion"], stored["kind"], meta["name"], meta.get("namespace", "")
                store.put(*place, labels={run_labels.RUN: OTHER})
        return None

    store.before = before
    with store.client(tmp_path) as client:
        assert remove(client) == []
        assert store.titles() == titles
        store.before = lambda _method, _path: None
        assert remove(client) == [] and store.titles() == titles


@pytest.mark.parametrize(("manifests", "remove"), REMOVALS)
def test_what_the_run_has_installed_is_removed(
    manifests: list[dict[str, Any]], remove: Callable[[Client], Any], tmp_path: Path
) -> None:
    store = ObjectStore()
    for manifest in manifests:
        store.put_manifest(manifest)
    with store.client(tmp_path) as client:
        assert len(remove(client)) == len(manifests)
    assert store.titles() == []


def test_nodes_that_another_run_has_created_since_the_look_are_kept(tmp_path: Path) -> None:
    store = ObjectStore()
    labels = {run_labels.SIMULATED: "true", run_labels.POOL: POOL.pool}
    for name in ("fake-gpu-0000", "fake-gpu-0001"):
        store.put("v1", "Node", name, labels={**labels, run_labels.RUN: RUN})

    def before(method: str, path: str) -> Any:
        if (method, path.rpartition("/")[2]) == ("DELETE", "fake-gpu-0001"):
            store.put("v1", "Node", "fake-gpu-0001", labels={**labels, run_labels.RUN: OTHER})
        return None

    store.before = before
    with store.client(tmp_path) as client:
        assert fake_nodes.remove_fake_nodes(client, POOL, 5, nothing)["changed"]
    assert store.titles() == ["Node fake-gpu-0001"]


def test_nothing_stays_whose_label_a_webhook_takes(tmp_path: Path) -> None:
    store = ObjectStore()
    store.drops = "perfscale.seatrial/"
    with store.client(tmp_path) as client:
        with pytest.raises(OwnershipError, match="from Namespace seatrial-kwok, .* so it was removed again"):
            kwok_on_real_cluster.install_kwok(client, PERMISSION, RUN)
        pool = simulated_node_pool.NodePoolSpec(
            2, run_id=RUN, permission=kwok_on_real_cluster.FakeNodePermission(allowed=True)
        )
        with pytest.raises(OwnershipError, match=r"2 of 2 requests failed, the first: .* from Node fake-gpu-0000"):
            fake_nodes.create_fake_nodes(client, pool, 5, nothing)
    assert store.titles() == []


def test_a_node_whose_mark_a_webhook_takes_keeps_no_label_of_a_gpu(tmp_path: Path) -> None:
    store = ObjectStore()
    store.drops = "perfscale.seatrial/"
    store.put("v1", "Node", "worker", labels={"a": "b"})
    labels = advertised_gpus.gpu_node_labels(2, "simulated-X", 1024)
    with store.client(tmp_path) as client, pytest.raises(OwnershipError, match="fake-gpus from Node worker"):
        advertised_gpus.add_gpus_to_node_status(client, "a=b", labels, RUN, 5, nothing)
    assert store.named("Node", "worker")["metadata"]["labels"] == {"a": "b"}
