"""ROSA and OSD clusters, with stand-ins for rosa, ocm and the service (tests/support/stand_in)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    ProcessError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift.managed_openshift import (
    ManagedClusterTools,
)
from role_lab import Lab
from stand_in.place import StandIn

TOKEN = "offline-canary-5bQ"
SETTINGS = {
    "cluster_managed_region": "us-east-2",
    "cluster_version": "4.19.9",
    "cluster_managed_compute_type": "m6i.xlarge",
}


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    (tmp_path / "kubeconfig").write_text("kind: Config\n", encoding="utf-8")
    return StandIn(tmp_path / "stand-in", kubeconfig=str(tmp_path / "kubeconfig"), token=TOKEN)


def manager(
    stand_in: StandIn, flavour: str = "rosa", run_id: str = "t1121-k3f9xa", token: str = TOKEN
) -> ManagedClusterTools:
    programs = {name: stand_in.program(name) for name in ("rosa", "ocm")}
    folder = stand_in.folder.parent / "install"
    one = ManagedClusterTools(flavour, "perf", run_id, folder, programs, token, stand_in.environment, print, 0.05)
    one.log_in()
    return one


def service(stand_in: StandIn) -> list[dict[str, Any]]:
    path = stand_in.folder / "managed.json"
    return list(json.loads(path.read_text()).values()) if path.exists() else []


@pytest.mark.parametrize("flavour", ["rosa", "osd"])
def test_a_cluster_is_asked_for_once_used_and_deleted_with_what_was_made_for_it(
    stand_in: StandIn, flavour: str
) -> None:
    one = manager(stand_in, flavour)
    tags = {"Project": "seatrial", "ExpirationDate": "2026-11-21T18:00:00.000Z"}
    assert one.create(SETTINGS, tags, "2026-11-21T18:00:00.000Z") is True
    assert one.create(SETTINGS, tags, "") is False, "a second call finds it"
    (made,) = service(stand_in)
    assert made["properties"]["seatrial_run"] == "t1121-k3f9xa" and made["nodes"]["compute"] == 2
    assert tags.items() <= (made.get("tags") or made["properties"]).items()
    path = one.kubeconfig(one.await_ready(30))
    assert Path(path).read_text() == "kind: Config\n" and Path(path).stat().st_mode & 0o077 == 0
    assert one.delete(30) is True and service(stand_in) == [] and not one.folder.exists()
    assert manager(stand_in, flavour).delete(30) is False


def test_a_cluster_of_another_run_is_neither_used_nor_deleted(stand_in: StandIn) -> None:
    manager(stand_in, run_id="t1121-others").create(SETTINGS, {}, "")
    for what in (lambda one: one.create(SETTINGS, {}, ""), lambda one: one.delete(5)):
        with pytest.raises(OwnershipError, match="cluster perf exists and belongs to run t1121-others"):
            what(manager(stand_in))
    assert len(service(stand_in)) == 1


def test_a_failed_one_says_why_and_leaves_its_log_and_can_be_deleted(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.configure(broken="Your AWS account has insufficient quota")
    one = manager(stand_in)
    one.create(SETTINGS, {}, "")
    with pytest.raises(ProcessError, match="cluster perf: error: Your AWS account has insufficient quota"):
        one.await_ready(30)
    assert one.logs(tmp_path / "bundle") == ["cluster.yml", "install.log"]
    assert one.delete(30) and service(stand_in) == []


def test_what_was_made_for_a_cluster_is_deleted_also_when_only_the_cluster_could_be(stand_in: StandIn) -> None:
    one = manager(stand_in)
    one.create(SETTINGS, {}, "")
    for stuck in ("operator-roles", "oidc-provider", "oidc-provider"):
        stand_in.configure(stuck=stuck)
        with pytest.raises(ProcessError, match=f"Access denied to {stuck}"):
            manager(stand_in).delete(30)
        assert service(stand_in) == []
    stand_in.configure(stuck="")
    assert manager(stand_in).delete(30) is True
    assert manager(stand_in).delete(30) is False


def test_what_can_not_be_right_is_told(stand_in: StandIn) -> None:
    with pytest.raises(InputError, match="cluster_managed_region is required"):
        manager(stand_in).create({}, {}, "")
    with pytest.raises(InputError, match="cluster_managed_subnets is required"):
        manager(stand_in).create({**SETTINGS, "cluster_managed_hosted": True}, {}, "")
    with pytest.raises(ProcessError, match="ocm get /api.*Not logged in"):
        manager(stand_in, token="wrong").find()
    stand_in.configure(polls=10_000)
    one = manager(stand_in)
    one.create(SETTINGS, {}, "")
    with pytest.raises(WaitTimeout, match="cluster perf is still pending after 0.2 s"):
        one.await_ready(0.2)


@pytest.mark.long
def test_role_cluster_takes_and_gives_back_a_managed_one(tmp_path: Path, stand_in: StandIn, rehearsal: Any) -> None:
    lab = Lab(tmp_path, "g1-managed")
    stand_in.configure(kubeconfig=str(rehearsal.kubeconfig))
    lab.env = {**stand_in.environment, "SEATRIAL_CLUSTER_MANAGED_TOKEN": TOKEN}
    words = lab.settings(
        **SETTINGS,
        cluster_provider="managed",
        cluster_managed_rosa=stand_in.program("rosa"),
        cluster_managed_ocm=stand_in.program("ocm"),
        cluster_managed_interval=0.2,
        cluster_installer_dir=str(tmp_path / "installs"),
    )
    done = lab.run("acquire,release", *words, "-vvv")
    assert done.code == 0, done.output
    record = lab.clusters["sutest"]
    assert record["provider"] == "managed" and record["simulated"] and record["state"] == "released"
    assert service(stand_in) == [] and TOKEN not in done.output + lab.everything()
