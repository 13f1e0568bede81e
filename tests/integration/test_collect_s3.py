"""Files of a load in pods, through the API server and, if they are too large, a real S3 server, whoever is killed.

The kubelet is a stand-in.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import servers
import stand_in_kubelet
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    DataError,
    InputError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import host_or_pod_load, load_in_pods
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.result_bucket import ResultStore
from load_world import World
from playbook import ROOT

pytestmark = pytest.mark.long

COUNT, CLIENTS = 40, 2
#: A controller that can be killed, and that kills itself before or after a call if it gets these words as well.
CONTROLLER = """
import json, os, signal, sys
from pathlib import Path
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import (
    client_results, load_pods_lifecycle, pod_files_through_configmaps, load_in_pods, result_bucket
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory

def kill(when, where, name):
    owners = {
        "pod": load_pods_lifecycle.DriverPod,
        "s3": result_bucket.ResultStore,
        "parts": pod_files_through_configmaps,
        "join": client_results,
    }
    owner = owners[where]
    original = getattr(owner, name)
    def call(*words, **named):
        if when == "after":
            original(*words, **named)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(owner, name, call)

if sys.argv[2:]:
    kill(*sys.argv[2:])
load_in_pods.run_load_in_pods(json.loads(Path(sys.argv[1]).read_text()), StepDirectory(None))
"""
#: Where a controller is killed one after another: before, in and after the download, before the removal.
KILLS = {
    "s3": [("before", "s3", "fetch"), ("after", "s3", "fetch"), ("after", "join", "join_files_of_clients"),
           ("before", "pod", "remove")],
    "api": [("before", "parts", "fetch_handed_over_files"), ("after", "parts", "fetch_handed_over_files"),
            ("after", "join", "join_files_of_clients"), ("before", "pod", "remove")],
}  # fmt: skip


def until(true: Callable[[], Any], what: str, patience: float = 90.0) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, f"not within {patience:g} s: {what}"
        time.sleep(0.2)


class Site:
    """A controller, a node for pods, and an S3 server."""

    def __init__(self, world: World, kubelet: stand_in_kubelet.Kubelet, folder: Path, address: str) -> None:
        self.world, self.kubelet, self.folder, self.address = world, kubelet, folder, address
        self.point = folder / "run" / "points" / "001"
        self.s3 = {
            "url": "s3://results/loads", "endpoint": address, "region": "us-east-1",
            "access_key": servers.S3_KEYS[0], "secret_key": servers.S3_KEYS[1],
        }  # fmt: skip

    def given(self, **more: Any) -> dict[str, Any]:
        """Options of module workload_remote for a load of which the API server may get nothing but the ledger."""
        usual = self.world.options
        request = {name: usual[name] for name in ("templates", "stages", "namespace", "settle", "wait")}
        load = {"count": COUNT, "arrival": {"type": "constant", "rate": 10}, "canary_rate": 2, "clients": CLIENTS}
        return {
            "kubeconfig": self.world.kubeconfig, "context": "", "driver_kubeconfig": self.world.kubeconfig,
            "driver_context": "", "run_id": self.world.run_id, "point": "001", "point_dir": str(self.point),
            "driver_image": "registry.example.com/never-pulled:1", "driver_namespace": "", "driver_keep": 120,
            "driver_requests": {}, "driver_limits": {}, "driver_node_selector": self.kubelet.selector,
            "driver_tolerations": self.kubelet.tolerations, "driver_start_timeout": 60.0,
            "elsewhere_reconnect": 60.0, "lock_dir": None, "step_dir": None, "progress_file": None,
            "driver_restarts": 1, "driver_security_context": {}, "state": "present", "request": {**request, **load},
            "ca_file": None, "collect_bytes": 0, "collect_s3": self.s3, **more,
        }  # fmt: skip

    @property
    def store(self) -> ResultStore:
        found = ResultStore.from_params(self.given(), self.world.run_id, "001", CLIENTS)
        assert found is not None
        return found

    def objects(self) -> list[dict[str, Any]]:
        """Everything that the load has in its namespace."""
        client, found = self.world.client, []
        for kind in ("ConfigMap", "Secret"):
            found += client.list(client.kind("v1", kind), f"seatrial-load-{self.world.run_id}")[0]
        return found

    def complete(self) -> None:
        """Check that the point has all files, and that nothing is left elsewhere."""
        rows = list(files.read_json_lines(self.point / "ledger.jsonl"))
        made = Counter(row["index"] for row in rows if row["type"] == "attempt" and row["outcome"] == "created")
        assert made == dict.fromkeys(range(COUNT), 1)
        seen = {
            row["index"] for row in files.read_json_lines(self.point / "observations.jsonl") if row["type"] == "event"
        }
        assert seen >= set(range(COUNT)), "the observations of all clients are there"
        assert self.store.uploaded_clients() == []
        assert not (self.point / "clients").exists()

    def no_secrets(self) -> None:
        """Check that no file of the run has the credentials or a URL."""
        for path in self.folder.rglob("run/**/*"):
            if path.is_file():
                text = path.read_bytes()
                assert servers.S3_KEYS[1].encode() not in text and b"X-Amz-Signature" not in text, path


@pytest.fixture
def site(world: World, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with (
        servers.s3(tmp_path_factory.mktemp("s3")) as address,
        stand_in_kubelet.Kubelet(world.kubeconfig, f"stand-in-{world.run_id}", tmp_path / "kubelet") as kubelet,
    ):
        made = Site(world, kubelet, tmp_path, address)
        yield made
        client = world.client
        client.delete(client.kind("v1", "Namespace"), f"seatrial-load-{world.run_id}")


def test_files_wait_in_the_pods_for_a_server_and_for_urls_that_are_valid(site: Site, monkeypatch) -> None:
    with pytest.raises(ProcessError, match="no S3 server is set.*set workload_collect_s3 and call the same task again"):
        load_in_pods.run_load_in_pods(site.given(collect_s3={}), StepDirectory(None))
    assert files.read_json(site.point / host_or_pod_load.FILE)["state"] == host_or_pod_load.STARTED
    # The URLs that the next session gives have expired before a pod uses them; it then gives others.
    made = []

    def secret(of: ResultStore) -> dict[str, str]:
        made.append(of)
        found = original(replace(of, lifetime=1) if len(made) == 1 else of)
        if len(made) == 1:
            time.sleep(2.1)
        return found

    original = ResultStore.secret
    monkeypatch.setattr(ResultStore, "secret", secret)
    done = load_in_pods.run_load_in_pods(site.given(), StepDirectory(None))
    assert done["found"] and done["counts"]["created"] == COUNT and len(made) >= 2
    site.complete()
    site.no_secrets()
    record = files.read_json(site.point / host_or_pod_load.FILE)
    assert record["state"] == host_or_pod_load.FETCHED
    assert record["collect"]["keys"] == [f"loads/{site.world.run_id}/001/{client}.gz" for client in range(CLIENTS)]
    assert record["removed"] is True


@pytest.mark.parametrize("way", sorted(KILLS))
def test_the_next_call_collects_everything_wherever_the_controller_was_killed(site: Site, way: str) -> None:
    given = site.given() if way == "s3" else site.given(collect_s3={}, collect_bytes=1 << 28)
    asked = site.folder / "given.json"
    asked.write_text(json.dumps(given))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "collections")}
    for kill in KILLS[way]:
        controller = subprocess.run([sys.executable, "-c", CONTROLLER, str(asked), *kill], env=environment, timeout=240)
        assert controller.returncode == -signal.SIGKILL, kill
        assert site.store.uploaded_clients() == ([0, 1] if way == "s3" else []), "what was uploaded stays"
    assert files.read_json(site.point / host_or_pod_load.FILE)["state"] == host_or_pod_load.FETCHED
    done = load_in_pods.run_load_in_pods(given, StepDirectory(None))
    assert (done["found"], done["counts"]["created"], done["counts"]["unknown"]) == (True, COUNT, 0)
    site.complete()
    client = site.world.client
    space = client.kind("v1", "Namespace")
    until(lambda: client.get(space, f"seatrial-load-{site.world.run_id}") is None, "nothing is left of it")
    assert load_in_pods.run_load_in_pods(given, StepDirectory(None))["counts"]["created"] == COUNT


def test_what_was_uploaded_after_the_controller_was_killed_is_found(site: Site) -> None:
    asked = site.folder / "given.json"
    asked.write_text(json.dumps(site.given()))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "collections")}
    controller = subprocess.Popen([sys.executable, "-c", CONTROLLER, str(asked)], env=environment)
    until(lambda: len(site.world.names()) >= 3 or controller.poll() is not None, "the load begins")
    assert controller.poll() is None
    record = files.read_json(site.point / host_or_pod_load.FILE)
    assert record["collect"]["bucket"] == "results", "it is known before anything was uploaded"
    controller.send_signal(signal.SIGKILL)
    controller.wait(120)
    for one in site.objects():
        assert servers.S3_KEYS[1] not in json.dumps(one), "the pods have no credentials"
    until(lambda: site.store.uploaded_clients() == [0, 1], "the pods upload their files without a controller")
    # A damaged object is refused, and stays; so does the load.
    held = s3.create_s3_client(site.store.location)
    whole = held.get_object(Bucket="results", Key=site.store.key(0))["Body"].read()
    held.put_object(Bucket="results", Key=site.store.key(0), Body=whole[:-20] + bytes(20))
    with pytest.raises(DataError, match="its checksum is not that of the files that were sent"):
        load_in_pods.run_load_in_pods(site.given(), StepDirectory(None))
    assert site.store.uploaded_clients() == [0, 1] and not (site.point / "ledger.jsonl").exists()
    held.put_object(Bucket="results", Key=site.store.key(0), Body=whole)
    # The bucket cannot be reached: an error of access, and nothing is lost either.
    wrong = {**site.s3, "secret_key": "wrong"}
    with pytest.raises(AccessError, match="check access key, secret key and the bucket's policy"):
        load_in_pods.run_load_in_pods(site.given(collect_s3=wrong), StepDirectory(None))
    # GIVE_BACK ends the load and brings its files home.
    assert load_in_pods.remove_load_from_pods(site.given(state="absent", request={}), StepDirectory(None))["changed"]
    site.complete()
    site.no_secrets()
    assert not (site.point / host_or_pod_load.FILE).exists()


def test_a_server_that_cannot_be_used_is_named_before_anything_is_made(site: Site) -> None:
    for more, words in (
        ({"url": "s3://no-such-bucket/x"}, "workload_collect_s3 cannot be used: .*create the bucket first"),
        ({"url": "results"}, "is not s3://bucket/prefix"),
        ({"secret_key": "wrong"}, "check the secret key"),
    ):
        with pytest.raises(InputError, match=words):
            load_in_pods.run_load_in_pods(site.given(collect_s3={**site.s3, **more}), StepDirectory(None))
        client = site.world.client
        assert client.get(client.kind("v1", "Namespace"), f"seatrial-load-{site.world.run_id}") is None
        assert not (site.point / host_or_pod_load.FILE).exists()
