"""A cluster out of a Hive pool: a rehearsal cluster is the hub, another one is what its simulator gives out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import hive_simulator
import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import hive_claim
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from load_world import World
from role_lab import Lab

POOL = "small"


@pytest.fixture
def hub(world: World) -> Iterator[Client]:
    """The hub with its (stand-in) definitions and an empty pool in the world's namespace."""
    client = world.client
    definitions = client.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    for one in hive_simulator.crds():
        if client.get(definitions, one["metadata"]["name"]) is None:
            client.create(one)
    pool = {
        "apiVersion": hive_claim.VERSION,
        "kind": "ClusterPool",
        "metadata": {"name": POOL, "namespace": world.namespace},
    }
    settle(client)
    client.create({**pool, "spec": {"size": 1, "baseDomain": "example.com"}})
    yield client
    for one in client.list(client.kind(hive_claim.VERSION, "ClusterClaim"), world.namespace)[0]:
        path = client.kind(hive_claim.VERSION, "ClusterClaim").path(world.namespace, one["metadata"]["name"])
        client.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=hive_simulator.MERGE_PATCH)
    client.delete(client.kind(hive_claim.VERSION, "ClusterPool"), POOL, world.namespace)


def settle(client: Client) -> None:
    """Wait until the definitions are served."""
    deadline = time.monotonic() + 120
    for kind in hive_simulator.KINDS:
        while True:
            try:
                client.list(client.kind(hive_claim.VERSION, kind))
                break
            except Exception:
                assert time.monotonic() < deadline
                time.sleep(0.1)


def until_it_has_conditions(hub: Client, world: World) -> None:
    """Wait until the simulator has seen the claim."""
    deadline = time.monotonic() + 120
    kind = hub.kind(hive_claim.VERSION, "ClusterClaim")
    while not ((hub.get(kind, "t-claim", world.namespace) or {}).get("status") or {}).get("conditions"):
        assert time.monotonic() < deadline, "the simulator did not see the claim"
        time.sleep(0.1)


def wish(world: World, **more: Any) -> hive_claim.ClaimSpec:
    given = {"name": "t-claim", "namespace": world.namespace, "pool": POOL, "run": "run-first", "timeout": 120.0}
    return hive_claim.ClaimSpec(**{**given, **more})


def quiet(_text: str) -> None:
    """Say nothing."""


def test_a_claim_is_made_once_waited_for_and_given_back_by_role_cluster(
    hub: Client, world: World, tmp_path: Path, own_instance: Callable[..., cluster_lifecycle.RehearsalOptions]
) -> None:
    options = own_instance("hive-claimed", components=[])
    claimed = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    simulator = hive_simulator.HiveSimulator(hub, world.namespace, Path(claimed["kubeconfig"]))
    simulator.start()
    lab = Lab(tmp_path / "lab", "g-hive")
    words = [
        *("-e", "cluster_provider=hive_pool", "-e", f"cluster_hive_kubeconfig={world.kubeconfig}"),
        *("-e", f"cluster_hive_namespace={world.namespace}", "-e", f"cluster_hive_pool={POOL}"),
        *("-e", "cluster_owner=ann", "-e", "cluster_lifetime=3h"),
    ]
    try:
        done = lab.run("acquire", *words)
        assert done.code == 0, done.output
        record = lab.clusters["sutest"]
        assert record["state"] == "acquired" and record["owned"] is True
        assert record["api_host"] == claimed["api_host"], "the cluster that was given out, not the hub"
        assert record["console"] == "https://console.example.com"
        given = datetime.fromisoformat(record["expires"]) - datetime.fromisoformat(record["taken"])
        assert given < timedelta(hours=2.5), "the pool's shorter lifetime counts"
        assert Path(record["kubeconfig"]).stat().st_mode & 0o777 == 0o600
        [made] = simulator.seen
        assert made["spec"] == {"clusterPoolName": POOL, "lifetime": "10800s"}
        assert made["metadata"]["annotations"][hive_claim.OWNER] == "ann"
        done = lab.run("acquire,release", *words)
        assert done.code == 0, done.output
        assert len(simulator.seen) == 1, "the claim was not made again"
    finally:
        simulator.stop()
    assert lab.clusters["sutest"]["state"] == "released" and not Path(record["kubeconfig"]).exists()
    assert hub.list(hub.kind(hive_claim.VERSION, "ClusterClaim"), world.namespace)[0] == []
    assert hub.list(hub.kind(hive_claim.VERSION, "ClusterDeployment"), f"{POOL}-a1b2c")[0] == []
    assert simulator.errors == []


def test_an_empty_pool_is_waited_for_in_the_claims_own_words(hub: Client, world: World, tmp_path: Path) -> None:
    simulator = hive_simulator.HiveSimulator(hub, world.namespace, tmp_path / "none", size=0)
    simulator.start()
    said: list[str] = []
    try:
        asked = wish(world)
        assert hive_claim.create_cluster_claim(hub, asked) is True
        assert hive_claim.create_cluster_claim(hub, asked) is False
        until_it_has_conditions(hub, world)
        with pytest.raises(WaitTimeout) as raised:
            hive_claim.wait_for_claimed_cluster(hub, wish(world, timeout=2.0), tmp_path / "kubeconfig", said.append)
        assert "waits for a cluster (NoClusters: No clusters in pool are ready to be claimed)" in str(raised.value)
        with pytest.raises(OwnershipError):
            hive_claim.delete_cluster_claim(hub, wish(world, run="run-second"))
        assert hive_claim.delete_cluster_claim(hub, asked) is True
        assert hive_claim.delete_cluster_claim(hub, asked) is False
    finally:
        simulator.stop()
    assert said[-1].startswith("claim t-claim of pool small waits")


def test_a_pool_that_is_not_there_is_one_error_before_anything_is_made(hub: Client, world: World) -> None:
    with pytest.raises(InputError) as raised:
        hive_claim.create_cluster_claim(hub, wish(world, pool="smal"))
    assert "has no ClusterPool 'smal' (did you mean 'small'?); there are small" in str(raised.value)
    assert hub.list(hub.kind(hive_claim.VERSION, "ClusterClaim"), world.namespace)[0] == []
