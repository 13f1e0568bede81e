"""Clusters on a cloud, made by a stand-in for openshift-install (tests/support/stand_in): no cloud was ever asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import cluster_folder_processes
from role_lab import Lab
from stand_in.place import StandIn

PULL_SECRET = json.dumps({"auths": {"registry.example.com": {"auth": "cGF5bG9hZC1jYW5hcnk="}}})
CANARIES = ("cGF5bG9hZC1jYW5hcnk=", "cloud-secret-canary", "KuBe-adMin-CaNary")
RUN_ID = "g1-ipi-run"


class Cloud(Lab):
    """Role cluster with the stand-in."""

    def __init__(self, folder: Path, kubeconfig: str) -> None:
        super().__init__(folder, RUN_ID)
        self.stand_in = StandIn(folder / "stand-in", kubeconfig=kubeconfig, credential="cloud-secret-canary")
        self.env = {
            **self.stand_in.environment,
            "SEATRIAL_CLUSTER_PULL_SECRET": PULL_SECRET,
            "SEATRIAL_CLUSTER_IPI_ACCESS_KEY_ID": "AKIAMADEUP",
            "SEATRIAL_CLUSTER_IPI_SECRET_ACCESS_KEY": "cloud-secret-canary",
        }
        self.installs = folder / "installs"
        self.words = self.settings(
            cluster_provider="openshift_ipi",
            cluster_installer=self.stand_in.program(),
            cluster_installer_dir=str(self.installs),
            cluster_metadata_store=str(folder / "store"),
            cluster_base_domain="perf.example.com",
            cluster_ipi_region="us-east-2",
            cluster_tags={"Project": "seatrial", "TicketId": "4711"},
            cluster_lifetime="6h",
        )


@pytest.fixture
def cloud(tmp_path: Path, rehearsal: Any) -> Iterator[Cloud]:
    made = Cloud(tmp_path, str(rehearsal.kubeconfig))
    yield made
    for folder in (tmp_path / "installs").glob("*"):
        cluster_folder_processes.stop_processes_of_folder(folder, 1.0)


def test_a_cluster_is_made_told_and_destroyed_and_no_secret_is_left_anywhere(cloud: Cloud) -> None:
    done = cloud.run("acquire", *cloud.words, "-e", "cluster_ipi_compute_spot=true", "-e", "cluster_fips=true", "-vvv")
    assert done.code == 0, done.output
    ((infra, standing),) = cloud.stand_in.cloud.items()
    assert standing["machines"] == 6 and standing["spot"] is True and standing["fips"] is True
    assert {"Project": "seatrial", "TicketId": "4711", "Owner": RUN_ID, "TimeToLive": "6h"}.items() <= (
        standing["tags"].items()
    )
    record = cloud.clusters["sutest"]
    assert record == cloud.clusters["driver"]
    assert record["state"] == "acquired" and record["owned"] and record["simulated"]
    assert (
        record["provider_data"]["metadata"]["infraID"] == infra
        and record["expires"] == standing["tags"]["ExpirationDate"]
    )
    assert files.read_json(cloud.folder / "store" / f"{RUN_ID}.json")["metadata"]["infraID"] == infra

    back = cloud.run("release", *cloud.words)
    assert back.code == 0 and cloud.stand_in.cloud == {}, back.output
    assert list(cloud.installs.iterdir()) == [] and list((cloud.folder / "store").iterdir()) == []
    told = done.output + back.output + cloud.everything()
    assert [one for one in CANARIES if one in told] == []


def test_two_clusters_are_made_at_the_same_time_each_as_its_host_says(cloud: Cloud) -> None:
    cloud.hosts({"sutest": {}, "driver": {"cluster_ipi_variant": "single_node", "cluster_ipi_region": "eu-west-1"}})
    cloud.stand_in.configure(together=2)  # neither is done before the other was begun
    done = cloud.run("acquire,release", *cloud.words)
    assert done.code == 0, done.output
    assert cloud.stand_in.seen == [("us-east-2", 6), ("eu-west-1", 1)]
    assert [cloud.clusters[host]["name"] for host in ("sutest", "driver")] == [RUN_ID, f"{RUN_ID}-driver"]
    assert cloud.stand_in.cloud == {}


@pytest.mark.long
def test_a_failed_install_leaves_a_bundle_and_is_destroyed_also_from_another_machine(cloud: Cloud) -> None:
    cloud.stand_in.configure(fail={"bootstrap": "Cluster operator etcd Degraded: no quorum"})
    done = cloud.run("acquire", *cloud.words, "-e", "cluster_keep_failed=true")
    assert done.code != 0
    assert "openshift-install create cluster: Cluster operator etcd Degraded: no quorum" in done.flat(), done.output
    record = cloud.clusters["sutest"]
    assert record["state"] == "failed" and "etcd Degraded" in record["failure"]
    names = sorted(path.name for path in Path(record["bundle"]).iterdir())
    assert names == ["installer.log", "log-bundle-20261121000000.tar.gz", "output.log"]
    kept = cloud.run("release", *cloud.words, "-e", "cluster_keep_failed=true")
    assert kept.code == 0 and cloud.stand_in.cloud != {} and "(cluster_keep_failed)" in kept.flat(), kept.output

    (cloud.run_dir / "cluster.yml").unlink()
    there = ["-e", f"cluster_installer_dir={cloud.folder}/another-machine", "-e", f"cluster_release_named={RUN_ID}"]
    back = cloud.run("release", *cloud.words, *there)
    assert back.code == 0 and cloud.stand_in.cloud == {}, back.output


@pytest.mark.long
def test_what_can_not_be_right_is_told_before_the_cloud_is_asked(cloud: Cloud) -> None:
    more = ["-e", '{"cluster_ipi_install_config": {"platform": {"aws": {"usrTags": {}}}}}']
    done = cloud.run("acquire", *cloud.words, *more)
    message = "install-config.yaml: platform.aws.usrTags is not a documented field (did you mean 'userTags'?)"
    assert done.code != 0 and message in done.flat(), done.output
    assert cloud.stand_in.seen == []
