"""A load in a pod of the driver cluster, with the rights of its own service account; the kubelet is a stand-in."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import stand_in_kubelet
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    ProcessError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import host_or_pod_load, load_in_pods
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.load_in_pods import LoadInPod
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from load_play import LoadPlay
from load_world import World, final

KINDS = (("batch/v1", "Job"), ("v1", "Pod"), ("v1", "Secret"), ("v1", "ConfigMap"), ("v1", "ServiceAccount"),
         ("rbac.authorization.k8s.io/v1", "Role"), ("rbac.authorization.k8s.io/v1", "RoleBinding"),
         ("rbac.authorization.k8s.io/v1", "ClusterRole"))  # fmt: skip


class Site(LoadPlay):
    """A controller with a run directory; a node whose stand-in kubelet runs the load's pod."""

    def __init__(self, world: World, kubelet: stand_in_kubelet.Kubelet, folder: Path) -> None:
        self.kubelet = kubelet
        self.place = f"seatrial-load-{world.run_id}"
        settings = {
            "workload_run_on": "driver_pod",
            "workload_driver_kubeconfig": world.kubeconfig,
            "workload_driver_context": "",
            "workload_driver_simulated": False,
            "workload_driver_image": "registry.example.com/never-pulled:1",
            "workload_driver_node_selector": kubelet.selector,
            "workload_driver_tolerations": kubelet.tolerations,
            "workload_canary_rate": 5,
        }
        super().__init__(world, folder, {}, settings)

    def given(self, **more: Any) -> dict[str, Any]:
        """Options of module workload_remote for a load that lasts."""
        usual = self.world.options
        request = {name: usual[name] for name in ("templates", "stages", "namespace", "settle", "wait")}
        return {
            "kubeconfig": self.world.kubeconfig, "context": "", "driver_kubeconfig": self.world.kubeconfig,
            "driver_context": "", "run_id": self.world.run_id, "point": "001", "point_dir": str(self.point),
            "driver_image": "registry.example.com/never-pulled:1", "driver_namespace": "", "driver_keep": 60,
            "driver_restarts": 0, "collect_bytes": 1 << 28, "collect_s3": {}, "ca_file": None,
            "driver_security_context": {}, "driver_requests": {}, "driver_limits": {},
            "driver_node_selector": self.kubelet.selector, "driver_tolerations": self.kubelet.tolerations,
            "driver_start_timeout": 240.0, "elsewhere_reconnect": 60.0, "lock_dir": None, "step_dir": None,
            "progress_file": None,
            "request": {**request, "count": 2000, "arrival": {"type": "constant", "rate": 5}, "canary_rate": 0},
            **more,
        }  # fmt: skip

    def other_target(self) -> str:
        """Return a kubeconfig of the same cluster by another name, so that it is another target."""
        other = self.folder / "target-kubeconfig"
        config = yaml.safe_load(Path(self.world.kubeconfig).read_text(encoding="utf-8"))
        for one in config["clusters"]:
            one["cluster"]["server"] = one["cluster"]["server"].replace("127.0.0.1", "localhost")
        other.write_text(yaml.safe_dump(config), encoding="utf-8")
        return str(other)

    def begin_with(self, log: str, **values: Any) -> subprocess.Popen[bytes]:
        """Start a controller with these variables."""
        more = self.folder / f"{log}.yml"
        files.write_yaml(more, values)
        return self.begin(log, "-e", f"@{more}")

    def workloads(self) -> list[str]:
        return [name for name in self.world.names() if name.startswith(self.world.run_id)]

    def left(self) -> list[str]:
        """What there is of the load itself, wherever it lies."""
        client = self.world.client
        selector = f"perfscale.seatrial/run={self.world.run_id},perfscale.seatrial/load=001"
        found = [f"{kind} {one['metadata']['name']}" for version, kind in KINDS
                 for one in client.list(client.kind(version, kind), "", selector)[0]]  # fmt: skip
        space = client.get(client.kind("v1", "Namespace"), self.place)
        return found + ([f"Namespace {self.place}"] if space else [])

    def killed(self, process: subprocess.Popen[bytes], log: str, workloads: int) -> None:
        """Let the load make so many workloads, then kill the controller."""
        until(lambda: len(self.workloads()) >= workloads or process.poll() is not None, "the load begins")
        assert process.poll() is None, self.said(log)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=120)


@pytest.fixture
def site(world: World, tmp_path: Path) -> Iterator[Site]:
    with stand_in_kubelet.Kubelet(world.kubeconfig, f"stand-in-{world.run_id}", tmp_path / "kubelet") as kubelet:
        made = Site(world, kubelet, tmp_path)
        yield made
        client = world.client
        client.delete(client.kind("v1", "Namespace"), made.place)


def until(true: Any, what: str, patience: float = 240.0) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, f"not within {patience:g} s: {what}"
        time.sleep(0.1)


def test_a_load_in_a_pod_outlives_its_controller_and_its_files_come_back(site: Site) -> None:
    load = {"workload_count": 100, "workload_arrival": {"type": "constant", "rate": 8}}
    site.killed(site.begin_with("first.log", **load), "first.log", 5)
    before = len(site.workloads())
    until(lambda: len(site.workloads()) > before + 5, "it goes on without a controller")
    second = site.begin_with("second.log", **load)
    assert second.wait(timeout=240) == 0, site.said("second.log")
    assert "found the load again by its run id" in site.said("second.log")
    assert "100 of 100 created" in site.said("second.log"), "its own progress is shown"
    rows = list(files.read_json_lines(site.point / "ledger.jsonl"))
    assert Counter(row["outcome"] for row in rows if row["type"] == "attempt") == {"created": 100}
    assert len([row for row in rows if row["type"] == "session"]) == 1, "one load, never begun anew"
    seen = {row["type"] for row in files.read_json_lines(site.point / "observations.jsonl")}
    assert {"canary", "event"} & seen, seen
    assert len(site.workloads()) == 100
    assert files.read_json(site.point / "elsewhere.json")["state"] == "fetched"
    until(lambda: not site.left(), f"nothing is left of it: {site.left()}")


def test_a_load_against_another_cluster_has_no_rights_on_its_own_and_is_ended_by_whoever_cleans_up(site: Site) -> None:
    client = site.world.client
    given = site.given(kubeconfig=site.other_target())
    site.point.mkdir(parents=True)
    host_or_pod_load.write_load_record(site.point, host_or_pod_load.DRIVER_POD, "", host_or_pod_load.STARTED)
    load = LoadInPod(given, client, StepDirectory(None))
    pod = load.pod
    assert load.begin(True) is False and load.begin(True) is True
    until(lambda: len(site.workloads()) >= 3, "the load begins")
    (process,) = site.kubelet.processes.values()
    assert process.poll() is None, "the load goes on"
    assert not [one for one in site.left() if "target" in one or "Cluster" in one], "no rights here"
    stop = site.begin_with("stop.log", entry="stop")
    assert stop.wait(timeout=240) == 0, site.said("stop.log")
    assert process.poll() is not None
    assert not (site.point / host_or_pod_load.FILE).exists()
    until(lambda: not site.left(), f"nothing is left of it: {site.left()}")
    assert pod.remove() is False, "safe twice"


def test_a_pod_that_does_not_begin_or_dies_is_said_with_its_own_words(site: Site) -> None:
    nowhere = site.given(driver_node_selector={"no": "such-node"}, driver_start_timeout=1.0)

    def told() -> str:
        with pytest.raises(WaitTimeout, match="did not start within 1 s: ") as raised:
            load_in_pods.run_load_in_pods(nowhere, StepDirectory(None))
        return str(raised.value)

    until(lambda: "within 1 s: Unschedulable: " in told(), "the error has the scheduler's reason")
    assert load_in_pods.remove_load_from_pods(nowhere, StepDirectory(None))["changed"]
    until(lambda: not site.left(), f"the give-back takes it away: {site.left()}")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(load_in_pods.run_load_in_pods, site.given(), StepDirectory(None))
        until(lambda: len(site.workloads()) >= 3 or asked.done(), "the load begins")
        (process,) = site.kubelet.processes.values()
        os.killpg(process.pid, signal.SIGKILL)
        with pytest.raises(ProcessError, match="died without a result: exit code 137, Error"):
            asked.result(240)
    load_in_pods.remove_load_from_pods(site.given(), StepDirectory(None))


def of_clients(site: Site) -> dict[int, subprocess.Popen[bytes]]:
    """Return the process of the last pod of each client."""
    pod = site.world.client.kind("v1", "Pod")
    selector = f"perfscale.seatrial/run={site.world.run_id},perfscale.seatrial/load=001"
    pods = site.world.client.list(pod, "", selector)[0]
    ordered = sorted(pods, key=lambda one: one["metadata"]["creationTimestamp"])
    number = "batch.kubernetes.io/job-completion-index"
    processes = site.kubelet.processes
    return {
        int(one["metadata"]["labels"][number]): processes[one["metadata"]["uid"]]
        for one in ordered
        if one["metadata"]["uid"] in processes
    }


def kill_client(site: Site, number: int) -> None:
    until(lambda: number in of_clients(site) and of_clients(site)[number].poll() is None, f"client {number} runs")
    os.killpg(of_clients(site)[number].pid, signal.SIGKILL)


@pytest.mark.long
def test_a_killed_pod_of_several_is_made_again_and_resumes(site: Site) -> None:
    request = {**site.given()["request"], "clients": 3, "count": 240, "arrival": {"type": "constant", "rate": 6},
               "canary_rate": 5, "seed": 3}  # fmt: skip
    given = site.given(driver_restarts=2, request=request)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(load_in_pods.run_load_in_pods, given, StepDirectory(None))
        until(lambda: len(site.workloads()) >= 60 or asked.done(), "the load begins")
        kill_client(site, 1)
        result = asked.result(240)
    assert [one["sessions"] for one in result["clients"]] == [1, 2, 1], "the others were not disturbed"
    assert (result["counts"]["planned"], result["counts"]["unknown"], result["stopped"]) == (240, 0, "")
    assert result["counts"]["created"] + result["counts"]["already_mine"] == 240 == len(site.workloads())
    rows = [row for row in files.read_json_lines(site.point / "ledger.jsonl") if row["type"] == "attempt"]
    assert Counter(final(rows).values()) == {1: 240}
    table = timeline_builder.build_timeline_of_workloads(site.point, site.world.run_id, "001")
    assert Counter(table.outcome) == {"unfinished": 240} and table.contradictions == {}
    until(lambda: not site.left(), f"nothing is left of it: {site.left()}")
    leases = site.world.client.kind("coordination.k8s.io/v1", "Lease")
    selector = f"perfscale.seatrial/run={site.world.run_id}"
    assert site.world.client.list(leases, site.world.namespace, selector)[0] == []
    assert load_in_pods.run_load_in_pods(given, StepDirectory(None))["changed"] is False


@pytest.mark.long
def test_the_kubeconfig_of_another_target_stays_until_the_last_client_has_ended(site: Site) -> None:
    request = {**site.given()["request"], "clients": 3, "count": 60, "arrival": {"type": "poisson", "rate": 6}}
    given = site.given(driver_restarts=2, request=request, kubeconfig=site.other_target())
    client = site.world.client
    load = LoadInPod(given, client, StepDirectory(None))
    assert load.begin(False) is False
    secret = client.kind("v1", "Secret")
    until(lambda: len(site.workloads()) >= 10, "the load begins")
    kill_client(site, 1)  # the pod that is made again needs the kubeconfig; the others end before it
    until(
        lambda: client.get(secret, load.pod.spec.name, site.place) is None, "the Secret is deleted without a controller"
    )
    assert all(one.ended for one in load.pod.status().clients), "not before the last has ended"
    result = load_in_pods.run_load_in_pods(given, StepDirectory(None))
    assert [one["sessions"] for one in result["clients"]] == [1, 2, 1] and result["counts"]["unknown"] == 0
    assert len(site.workloads()) == 60
    until(lambda: not site.left(), f"nothing is left of it: {site.left()}")


def test_a_load_starts_while_the_namespace_of_the_point_before_is_being_deleted(site: Site) -> None:
    client, given = site.world.client, site.given()
    space = client.kind("v1", "Namespace")
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": site.place}})
    # A finalizer keeps it until the load has seen that it is being deleted.
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "namespace": site.place}}
    client.create({**held, "metadata": {**held["metadata"], "finalizers": ["example.com/test"]}})
    client.delete(space, site.place)
    lines: list[str] = []
    load = LoadInPod(given, client, StepDirectory(None))
    pod = load.pod
    pod.say = lines.append
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(load.begin, False)
        until(lambda: lines or asked.done(), "it waits for the deletion")
        release = client.kind("v1", "ConfigMap").path(site.place, "held")
        client.request("PATCH", release, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
        assert asked.result(120) is False, lines
    assert lines[0] == f"waits for the deletion of namespace {site.place}"
    assert pod.remove()
    until(lambda: not site.left(), f"nothing is left of it: {site.left()}")


def test_what_can_not_be_right_is_told_before_anything_is_made(site: Site) -> None:
    for more, words in (
        ({"driver_image": ""}, "workload_driver_image is empty"),
        ({"driver_namespace": "no-such-namespace"}, "has no namespace 'no-such-namespace'"),
        ({"request": {**site.given()["request"], "templates": [{"content": "{{ nobody }}"}]}}, "'nobody' is undefined"),
    ):
        with pytest.raises(InputError, match=words):
            load_in_pods.run_load_in_pods(site.given(**more), StepDirectory(None))
        assert not site.left() and not (site.point / host_or_pod_load.FILE).exists()
