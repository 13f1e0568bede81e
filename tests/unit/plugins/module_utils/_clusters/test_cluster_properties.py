# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of a cluster from its nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import cluster_properties
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from scripted_server import Asked, ScriptedServer, status_object

PRODUCT = "NVIDIA-A100-SXM4-80GB"


def node(
    gpus: Any = 0, product: str = PRODUCT, played: bool = False, provider: str = "", instance: str = ""
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "n",
            "labels": {"nvidia.com/gpu.product": product, "node.kubernetes.io/instance-type": instance},
            "annotations": {"kwok.x-k8s.io/node": "fake"} if played else {},
        },
        "spec": {"providerID": provider},
        "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}},
    }


def test_gpus_are_counted_by_product_the_most_frequent_first() -> None:
    nodes = [node(2, "NVIDIA-L40S"), node(8), node(8), node(0), {"metadata": {"name": "bare"}}]
    assert list(cluster_properties.gpu_products(nodes).items()) == [(PRODUCT, 16), ("NVIDIA-L40S", 2)]


def test_a_gpu_without_a_product_label_goes_by_its_resource() -> None:
    one = {"metadata": {"name": "n"}, "status": {"allocatable": {"habana.ai/gaudi": "8"}}}
    assert cluster_properties.gpu_products([one]) == {"habana.ai/gaudi": 8}


def test_a_thousand_gpus_of_a_node_are_counted_though_the_server_writes_them_with_a_unit() -> None:
    assert cluster_properties.gpu_products([node("1k")]) == {PRODUCT: 1000}


@pytest.mark.parametrize(
    ("nodes", "platform", "kind"),
    [
        ([node(played=True), node(played=True)], None, "light"),
        ([node(provider="baremetalhost:///x"), node(instance="m5.metal")], None, "metal"),
        ([node(instance="m5.metal-24xl")], None, "metal"),
        ([node(), node()], "BareMetal", "metal"),
        ([node(provider="aws:///x", instance="g4dn.2xlarge")], "AWS", "virtual"),
        ([node(provider="kind://docker/x")], None, "light"),
        ([node(played=True), node(instance="m5.metal")], None, None),
        ([node()], None, None),
        ([], None, None),
    ],
)
def test_the_kind_is_told_only_where_all_nodes_agree(
    nodes: list[dict[str, Any]], platform: str | None, kind: str | None
) -> None:
    assert cluster_properties.cluster_kind_from_nodes(nodes, platform) == kind


def test_a_cluster_with_played_nodes_is_simulated_whoever_gave_it_to_us() -> None:
    found = cluster_properties.ClusterIdentity("127.0.0.1:1", "v1", nodes=2, nodes_simulated=1).record()
    assert found["simulated"] is True and found["simulated_writers"] == ["node"]


def test_the_record_names_the_real_nodes_of_a_cluster_with_simulated_ones() -> None:
    found = cluster_properties.ClusterIdentity(
        "127.0.0.1:1", "v1", nodes=3, nodes_simulated=2, real_nodes=["real-0"]
    ).record()
    assert found["simulated"] is True and found["real_nodes"] == ["real-0"]
    cluster = {"provider": "rehearsal", "state": "acquired", "owned": True}
    files.validate_schema_if_enabled("cluster/2", {"schema": "cluster/2", "clusters": {"sutest": {**cluster, **found}}})
    assert "3 nodes (2 simulated)" in cluster_properties.format_cluster_record({**cluster, **found}, ["sutest"])
    real = cluster_properties.ClusterIdentity("api.lab.example", "v1", nodes=2, real_nodes=["a", "b"])
    assert "real_nodes" not in real.record()


def test_a_real_cluster_does_not_overrule_what_its_provider_says() -> None:
    assert "simulated" not in cluster_properties.ClusterIdentity("api.lab.example", "v1", nodes=2).record()


def test_the_record_has_the_operators_only_where_they_are_known() -> None:
    known = cluster_properties.ClusterIdentity(
        "h", "v1", nodes=1, cpus=7.9, memory_gib=62, operators={"nfd": "4.18.1"}
    ).record()
    assert (known["cpus"], known["memory_gib"], known["operators"]) == (7.9, 62, {"nfd": "4.18.1"})
    cluster = {"provider": "existing", "state": "acquired", "owned": False, "simulated": False, "simulated_writers": []}
    files.validate_schema_if_enabled("cluster/2", {"schema": "cluster/2", "clusters": {"sutest": {**cluster, **known}}})
    assert "operators" not in cluster_properties.ClusterIdentity("h", "v1").record()


def test_nodes_without_allocatable_resources_count_as_nothing() -> None:
    strange = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "many", "memory": "1500Mi"}}}
    assert cluster_properties.allocatable_totals_of_nodes([strange, {"metadata": {"name": "bare"}}]) == {
        "count": 2, "cpus": 0.0, "memory_gib": 1, "gpus": 0, "gpu_products": {}
    }  # fmt: skip


def test_a_long_list_of_nodes_is_cut() -> None:
    names = [f"n{number:04d}" for number in range(1000)]
    found = cluster_properties.ClusterIdentity("h", "v1", nodes=1000, node_names=names).record()
    assert found["nodes"] == 1000 and found["node_names"] == names[: cluster_properties.NODE_NAMES]


def test_the_line_shows_what_is_simulated_and_who_owns_it() -> None:
    record = {
        "provider": "rehearsal",
        "name": "t1121-abcdef",
        "api_host": "127.0.0.1:20123",
        "version": "v1.36.3",
        "openshift": None,
        "nodes": 4,
        "gpus": 32,
        "gpu_products": {PRODUCT: 32},
        "kind": "light",
        "simulated": True,
        "owned": True,
    }
    assert cluster_properties.format_cluster_record(record, ["sutest", "driver"]) == (
        "sutest and driver: rehearsal cluster t1121-abcdef at 127.0.0.1:20123, Kubernetes v1.36.3, "
        f"4 nodes (simulated), 32 x {PRODUCT} (simulated), owned by this run"
    )
    real = {
        **record,
        "simulated": False,
        "owned": False,
        "openshift": "4.18.7",
        "kind": "metal",
        "nodes": 1,
        "gpu_products": {},
    }
    assert cluster_properties.format_cluster_record(real, ["sutest"]).endswith(
        "OpenShift 4.18.7, Kubernetes v1.36.3, 1 node, no GPUs, metal, not owned by this run"
    )


def test_secrets_that_do_not_exist_are_named_and_their_content_is_not_read(tmp_path: Path) -> None:
    def answer(asked: Asked) -> Any:
        if asked.path == "/api/v1":
            secret = {"name": "secrets", "kind": "Secret", "namespaced": True}
            return 200, {"kind": "APIResourceList", "groupVersion": "v1", "resources": [secret]}
        assert "PartialObjectMetadata" in asked.headers["accept"]
        if asked.path.endswith("/team-a/secrets/token"):
            return 200, {"kind": "PartialObjectMetadata", "metadata": {"name": "token"}}
        return 404, status_object(404, "NotFound", "no such object")

    names = ["team-a/token", "team-a/other", "none/token"]
    with (
        ScriptedServer(answer) as server,
        Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig")) as client,
    ):
        assert cluster_properties.secrets_that_do_not_exist(client, names) == ["team-a/other", "none/token"]


@pytest.mark.parametrize("status", ["text", 5, ["a"], {"allocatable": "all"}, {"allocatable": {"nvidia.com/gpu": {}}}])
@pytest.mark.parametrize("labels", [None, "text", ["a"]])
def test_nodes_with_a_status_of_another_form_count_without_resources(status: Any, labels: Any) -> None:
    nodes = [{"metadata": {"name": "n", "labels": labels}, "status": status}]
    totals = cluster_properties.allocatable_totals_of_nodes(nodes)
    assert (totals["count"], totals["cpus"], totals["gpus"]) == (1, 0.0, 0)
