"""OpenShift AI 3 and 2.25 are installed with what components need through the real OLM, and removed completely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pod_servers
import pytest
import rehearsal as support
import snapshot
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    OwnershipError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm import (
    install_operators,
    operator_removal,
    operator_specs,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.rhoai import data_science_cluster
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.rhoai_release import (
    RhoaiRequest,
    release_facts_and_checks,
)

GROUP = "datasciencecluster.opendatahub.io"
RUN = "run-0001"


@pytest.fixture(scope="module")
def client(rehearsal_folder: Path) -> Iterator[Client]:
    """A separate cluster, since operators affect a whole cluster."""
    options = support.options(rehearsal_folder, "rhoai", components=["olm"])
    kubeconfig = cluster_lifecycle.create_or_repair_instance(options, support.quiet)["kubeconfig"]
    with Client.from_kubeconfig(kubeconfig) as client:
        fake_nodes.create_fake_nodes(client, simulated_node_pool.NodePoolSpec(2, pool="test-rhoai"), 60, support.quiet)
        yield client
    cluster_lifecycle.remove_instance(support.options(rehearsal_folder, "rhoai", force=True), support.quiet)


@pytest.fixture
def before(client: Client) -> Iterator[set[snapshot.ComparedObject]]:
    """All objects before the test. The test must leave exactly these."""
    found = snapshot.settled(client)
    yield found
    assert snapshot.left(client, found) == []


def operators(
    version: str, *components: str, prerequisites: bool = True, optional: Sequence[str] = ()
) -> list[operator_specs.OperatorSpec]:
    release = release_facts_and_checks(RhoaiRequest(version, components=components, optional_operators=optional))
    needed = release["prerequisites"] if prerequisites else []
    main = {"package": "rhods-operator", "namespace": "redhat-ods-operator", "watches": "all"}
    kept = {name: release[name] for name in ("channel", "version", "major", "creates")}
    return operator_specs.read_operators([*needed, {**main, **kept}])


def ensure(
    client: Client, version: str, *components: str, state: str = "present", timeout: float = 90
) -> dict[str, Any]:
    release = release_facts_and_checks(RhoaiRequest(version, components=components))
    wanted = data_science_cluster.DataScienceSpec(
        RUN, api_version=release["api_version"], components=release["components"], timeout=timeout
    )
    return data_science_cluster.ensure_data_science_cluster_state(client, wanted, state, StepDirectory(None), print)


def take_away(client: Client, kept: Sequence[str] = ()) -> None:
    """Remove everything but the operators that are kept for the objects of others."""
    wanted = data_science_cluster.DataScienceSpec(RUN, timeout=90)
    data_science_cluster.ensure_data_science_cluster_state(client, wanted, "absent", StepDirectory(None), print)
    gone = operator_removal.remove_operators(client, operator_removal.RemovalSpec(RUN, crds=True, timeout=120), print)
    operators_kept = [note.partition(":")[0] for note in gone["kept"] if note.startswith("Subscription")]
    assert sorted(operators_kept) == [f"Subscription {name}" for name in kept]


def cluster(client: Client, version: str) -> dict[str, Any]:
    (found,) = client.list(client.kind(f"{GROUP}/{version}", "DataScienceCluster"))[0]
    return dict(found)


def test_version_3_is_installed_with_its_prerequisites_and_removed(
    client: Client, before: set[snapshot.ComparedObject]
) -> None:
    asked = ("dashboard", "trainer", "kueue=Unmanaged")
    wanted = operators("3", *asked, optional=["leader-worker-set"])
    made = install_operators.install_operators(client, wanted, RUN, 180, StepDirectory(None), print)
    assert [one["csv"] for one in made["operators"]] == [
        "cert-manager-operator.v1.18.0",
        "jobset-operator.v1.0.0",
        "kueue-operator.v1.3.2",
        "leader-worker-set.v1.0.0",
        "rhods-operator.3.5.0",
    ]
    assert not install_operators.install_operators(client, wanted, RUN, 60, StepDirectory(None), print)["changed"]
    client.kind("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")  # served
    with pytest.raises(OwnershipError, match="stored as v2, not as the requested v1.*rhoai_version=3"):
        ensure(client, "2", "dashboard")

    assert ensure(client, "3", *asked)["components"] == ["dashboard", "trainer"]
    assert not ensure(client, "3", *asked)["changed"]
    found = cluster(client, "v2")
    assert {entry["apiVersion"] for entry in found["metadata"]["managedFields"]} == {f"{GROUP}/v2"}
    assert found["spec"]["components"]["kueue"]["managementState"] == "Unmanaged"
    assert found["spec"]["components"]["ray"]["managementState"] == "Removed"

    path = client.kind(f"{GROUP}/v2", "DataScienceCluster").path("", "default-dsc")
    managed = {"spec": {"components": {"kueue": {"managementState": "Managed"}}}}
    with pytest.raises(ApiError, match="Managed is no longer supported"):
        client.request("PATCH", path, managed, content_type=MERGE_PATCH)
    with pytest.raises(ApiError, match="only one is allowed: default-dsc"):
        client.create({"apiVersion": f"{GROUP}/v2", "kind": "DataScienceCluster", "metadata": {"name": "other"}})
    # What the role avoids: written as v1, trainer is lost without an error. The next call puts it back.
    client.request(
        "PATCH", path.replace("/v2/", "/v1/"), {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE_PATCH
    )
    assert "trainer" not in cluster(client, "v2")["spec"]["components"]
    assert ensure(client, "3", *asked)["changed"]

    # A colleague's JobSet needs its operator, and that operator needs the certificates of cert-manager.
    theirs = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "theirs"}}
    client.create({**theirs, "metadata": {"name": "theirs", "namespace": "default"}})
    take_away(client, ["cert-manager-operator/openshift-cert-manager-operator", "openshift-jobset-operator/job-set"])
    client.delete(client.kind_of(theirs), "theirs", "default")
    # A JobSet that a workload of the run owns is the run's, without its label.
    labels = {"perfscale.seatrial/run": RUN}
    metadata = {"name": "ours", "namespace": "default", "labels": labels}
    ours = client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ours", "uid": ours["metadata"]["uid"]}
    client.create({**theirs, "metadata": {"name": "ours", "namespace": "default", "ownerReferences": [owner]}})
    take_away(client)
    client.delete(client.kind_of(ours), "ours", "default")
    lease = client.kind("coordination.k8s.io/v1", "Lease")
    assert client.get(lease, "cert-manager-controller", "kube-system") is None


def test_version_3_without_the_jobset_operator_says_what_trainer_lacks(
    client: Client, before: set[snapshot.ComparedObject]
) -> None:
    found = operators("3", "trainer", prerequisites=False)
    install_operators.install_operators(client, found, RUN, 180, StepDirectory(None), print)
    with pytest.raises(WaitTimeout):
        ensure(client, "3", "trainer", timeout=1)
    pod_servers.wait_for(
        lambda: "there is no JobSetOperator" in str(cluster(client, "v2").get("status")), "the operator misses JobSet's"
    )
    with pytest.raises(WaitTimeout, match="trainer: .*there is no JobSetOperator named cluster"):
        ensure(client, "3", "trainer", timeout=1)
    take_away(client)


@pytest.mark.long  # molecule's scenario rhoai installs and removes 2.25 too
def test_version_2_25_is_installed_and_removed(client: Client, before: set[snapshot.ComparedObject]) -> None:
    asked = ("dashboard", "trainingoperator", "kueue")
    made = install_operators.install_operators(client, operators("2", *asked), RUN, 180, StepDirectory(None), print)
    assert [one["csv"] for one in made["operators"]] == ["rhods-operator.2.25.11"]
    with pytest.raises(OwnershipError, match="stored as v1, not as the requested v2.*rhoai_version=2"):
        ensure(client, "3", "dashboard")
    assert ensure(client, "2", *asked)["components"] == ["dashboard", "kueue", "trainingoperator"]
    assert cluster(client, "v1")["spec"]["components"]["codeflare"]["managementState"] == "Removed"
    take_away(client)
