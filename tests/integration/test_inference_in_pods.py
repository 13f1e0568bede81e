# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests from pods of a real node to simulated servers in another pod, joined with the truth log of the servers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import model_servers as support
import pytest
import rehearsal
import suite_prerequisites
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.inference_spec import (
    DRIVER,
    SPEC,
    InferenceSpec,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import inference_in_pods
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import (
    build_timeline_of_requests,
)
from load_world import World, world_on
from model_servers import read_rows
from pod_clients import INDEX, REAL, PodClients, command_of, processes_of

LACKING = suite_prerequisites.real_node_lacks()
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(LACKING), reason=LACKING)]

PORTS = (8000, 8001)
OPEN = {"arrival": {"type": "constant", "rate": 20}}
TOLERATIONS = [{"key": REAL, "operator": "Exists"}]


@dataclass
class PodServers:
    """Two simulated servers in one pod. urls: as this machine reaches them; in_cluster: as pods do."""

    world: World
    urls: list[str]
    in_cluster: list[str]
    truth_path: Path
    read: int = 0

    def truth(self, count: int) -> dict[str, list[dict[str, Any]]]:
        """Return the lines of the requests since the last call by their id, as soon as there are ``count``."""
        deadline = time.monotonic() + 15
        while True:
            lines = self.truth_path.read_text(encoding="utf-8").splitlines()
            found: dict[str, list[dict[str, Any]]] = {}
            for line in map(json.loads, lines[self.read :]):
                if line["request_id"].startswith(f"{support.RUN}-001-") and "warm-up" not in line["request_id"]:
                    found.setdefault(line["request_id"], []).append(line)
            if sum(map(len, found.values())) >= count or time.monotonic() > deadline:
                self.read = len(lines)
                return found
            time.sleep(0.1)


def await_value(look: Callable[[], Any], what: str, patience: float = 180.0) -> Any:
    deadline = time.monotonic() + patience
    while not (value := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
    return value


@pytest.fixture(scope="module")
def servers(rehearsal_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodServers]:
    name = f"infpods-{os.environ.get('PYTEST_XDIST_WORKER', 'only')}"
    components = ["python-image", "model-server-image"]
    info = cluster_lifecycle.create_or_repair_instance(
        rehearsal.options(rehearsal_folder, name, components=components), rehearsal.quiet
    )
    with world_on(info["kubeconfig"], tmp_path_factory.mktemp("world")) as world:
        yield start_servers(world)
    cluster_lifecycle.remove_instance(rehearsal.options(rehearsal_folder, name, force=True), rehearsal.quiet)


def start_servers(world: World) -> PodServers:
    client, place = world.client, world.namespace
    listen = ",".join(f"0.0.0.0:{port}" for port in PORTS)
    command = ["/model-server", "-listen", listen, "-truth", "/truth/log", "-settings", json.dumps(support.QUICK)]
    container = {"name": "servers", "image": "localhost/seatrial/model-server:1", "command": command,
                 "readinessProbe": {"httpGet": {"path": "/health", "port": PORTS[0]}, "periodSeconds": 1},
                 "volumeMounts": [{"name": "truth", "mountPath": "/truth"}]}  # fmt: skip
    spec = {"nodeSelector": {REAL: "true"}, "tolerations": TOLERATIONS, "containers": [container],
            "automountServiceAccountToken": False, "volumes": [{"name": "truth", "emptyDir": {}}]}  # fmt: skip
    meta = {"name": "models", "namespace": place, "labels": {"app": "models"}}
    ports = [{"name": f"http{port}", "port": port, "targetPort": port} for port in PORTS]
    service = {"type": "LoadBalancer", "selector": {"app": "models"}, "ports": ports}
    pod = client.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    client.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": service})

    def address() -> str:
        found = client.get(client.kind("v1", "Service"), "models", place) or {}
        ingress = ((found.get("status") or {}).get("loadBalancer") or {}).get("ingress") or [{}]
        return str(ingress[0].get("ip") or "")

    def process() -> int:
        uid = pod["metadata"]["uid"]
        return next((pid for pid in processes_of(uid) if command_of(pid).startswith(b"/model-server")), 0)

    host = await_value(address, "the load balancer gives an address")
    path = Path("/proc", str(await_value(process, "the servers start")), "root", "truth", "log")
    urls = [f"http://{host}:{port}" for port in PORTS]
    for url in urls:
        support._await(url)
    return PodServers(world, urls, [f"http://models.{place}.svc:{port}" for port in PORTS], path)


@pytest.fixture
def point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEATRIAL_VALIDATE", "1")
    return tmp_path / "points" / "001"


def load_params(servers: PodServers, point: Path, **more: Any) -> dict[str, Any]:
    """Return the options of module inference_load for two clients in pods."""
    driver = {name: option.get("default") for name, option in SPEC[DRIVER]["options"].items()}
    driver |= {
        "kubeconfig": servers.world.kubeconfig, "context": "", "urls": servers.in_cluster,
        "image": "localhost/seatrial/python:1", "node_selector": {REAL: "true"}, "tolerations": TOLERATIONS,
        "requests": {"cpu": "50m", "memory": "64Mi"}, "security_context": {"runAsUser": 65534, "runAsGroup": 65534},
        **more.pop("driver", {}),
    }  # fmt: skip
    return support.options(point, servers.urls, clients=2, driver=driver, progress_file=None, **more)


def send_from_pods(servers: PodServers, point: Path, **more: Any) -> dict[str, Any]:
    params = load_params(servers, point, **more)
    spec = InferenceSpec.from_params(params)
    return inference_in_pods.run_inference_load_in_pods(params, spec, StepDirectory(None), ProgressLog(None))


def expect_exact(point: Path, truth: dict[str, list[dict[str, Any]]]) -> None:
    """Each request that was answered is the server's, and the server got no request twice."""
    assert all(len(lines) == 1 for lines in truth.values())
    for row in read_rows(point, "request"):
        if row["outcome"] == "lost":
            continue
        line = truth[row["name"]][0]
        assert row["outcome"] == "succeeded", row
        assert row["output_tokens"] == line["output_tokens"] == row["asked_tokens"]
        assert row["chunks"] == len(line["writes"]) == len(row["times"]) + 1
        assert row["prompt_tokens"] == line["prompt_tokens"] and row["server"] == line["server"]


def require_nothing_left(servers: PodServers) -> None:
    client = servers.world.client
    await_value(lambda: not PodClients.left_of(client, support.RUN), "nothing is left of the load", 120)


def client_processes(client: Client) -> dict[int, int]:
    """Return client -> the first process of its container."""
    found = {}
    for pod in client.list(client.kind("v1", "Pod"), "", f"perfscale.seatrial/run={support.RUN}")[0]:
        if INDEX in pod["metadata"]["labels"] and (pod.get("status") or {}).get("phase") == "Running":
            pids = [pid for pid in processes_of(pod["metadata"]["uid"]) if b"pod_main" in command_of(pid)]
            found |= {int(pod["metadata"]["labels"][INDEX]): pid for pid in pids[:1]}
    return found


def in_mid_load(servers: PodServers, count: int, do: Callable[[], None]) -> threading.Thread:
    """Do something once the servers have answered so many further requests."""
    before = len(servers.truth_path.read_text(encoding="utf-8").splitlines())

    def wait() -> None:
        await_value(
            lambda: len(servers.truth_path.read_text(encoding="utf-8").splitlines()) >= before + count, "requests"
        )
        do()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def kill_client(servers: PodServers, number: int) -> None:
    os.kill(client_processes(servers.world.client)[number], signal.SIGKILL)


@pytest.mark.parametrize("model", [{**OPEN, "turns": 1}, {**OPEN, "turns": 3}, {"streams": {"count": 4}, "turns": 1}])
def test_one_process_two_processes_and_two_pods_send_the_same_requests(
    servers: PodServers, tmp_path: Path, point: Path, model: dict[str, Any]
) -> None:
    load = {"count": 60, "output_tokens": {"type": "uniform", "low": 1, "high": 30}, "warm_up": 4, **model}
    seen = []
    for name, clients in (("one", 1), ("two", 2), ("pods", 2)):
        folder = tmp_path / name / "001"
        if name == "pods":
            result = send_from_pods(servers, folder, **load, api_key="key-of-a-test")
        else:
            result = support.send(folder, servers.urls, clients=clients, **load)
        count = 60 * model["turns"]
        assert result["counts"]["succeeded"] == result["counts"]["planned"] == count, result["msg"]
        truth = servers.truth(count)
        expect_exact(folder, truth)
        rows = read_rows(folder, "request")
        assert sorted(row["name"] for row in rows) == sorted(truth)
        assert sorted(row["index"] for row in read_rows(folder, "sent")) == list(range(count))
        asked = {row["index"]: (row["model"], row["asked_tokens"], row["conversation"], row["turn"]) for row in rows}
        seen.append(((folder / "plan.jsonl").read_bytes(), asked))
    assert seen[0] == seen[1] == seen[2]
    [one, other] = read_rows(folder, "client")
    assert (one["client"], other["client"]) == (0, 1) and abs(one["started"] - other["started"]) < 1.0
    table = build_timeline_of_requests(folder, support.RUN, "001")
    assert [clock["client"] for clock in table.header["clocks"]] == [0, 1]
    assert all(clock["offset"][0] == clock["offset"][1] for clock in table.header["clocks"]), "one machine, one clock"
    for row in read_rows(folder, "request"):
        write = truth[row["name"]][0]["writes"][0] / 1e9
        assert abs(row["first_token"] - write) < 0.5, "the node of the pods is this machine"
    if "arrival" in model:
        start = {client["client"]: client["started"] for client in (one, other)}
        for row in (row for row in read_rows(folder, "sent") if row["index"] % model["turns"] == 0):
            conversation = row["index"] // model["turns"]
            assert row["due"] == pytest.approx(start[conversation % 2] + conversation / 20, abs=1e-4)
    words = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file())
    assert "key-of-a-test" not in words
    require_nothing_left(servers)


def test_a_client_that_is_killed_is_made_again_and_says_what_is_lost(servers: PodServers, point: Path) -> None:
    thread = in_mid_load(servers, 300, lambda: kill_client(servers, 1))
    result = send_from_pods(servers, point, count=1000, output_tokens=20, **OPEN)
    thread.join()
    counts = result["counts"]
    assert "client 1 was made again 1 time" in result["msg"], result["msg"]
    assert counts["planned"] == 1000 == counts["succeeded"] + counts["lost"] and counts["lost"] > 0
    truth = servers.truth(counts["succeeded"])
    expect_exact(point, truth)
    sent = {row["index"]: row for row in read_rows(point, "sent")}
    assert sorted(sent) == list(range(1000))
    lost = sorted(sent.keys() - {row["index"] for row in read_rows(point, "request")})
    assert len(lost) == counts["lost"] and {index % 2 for index in lost} == {1}
    assert lost == list(range(lost[0], lost[-1] + 2, 2)) or any(sent[index]["sent"] for index in lost)
    table = build_timeline_of_requests(point, support.RUN, "001")
    assert list(table.outcome).count("lost") == counts["lost"]
    require_nothing_left(servers)


def test_a_pod_that_is_deleted_hands_over_all_it_knows(servers: PodServers, point: Path) -> None:
    client = servers.world.client

    def delete() -> None:
        for pod in client.list(client.kind("v1", "Pod"), "", f"perfscale.seatrial/run={support.RUN}")[0]:
            if pod["metadata"]["labels"].get(INDEX) == "0":
                client.delete(client.kind("v1", "Pod"), pod["metadata"]["name"], pod["metadata"]["namespace"])

    thread = in_mid_load(servers, 100, delete)
    result = send_from_pods(servers, point, count=400, output_tokens=20, **OPEN)
    thread.join()
    assert "client 0 was made again" in result["msg"], result["msg"]
    truth = servers.truth(result["counts"]["succeeded"])
    expect_exact(point, truth)
    assert sorted(row["index"] for row in read_rows(point, "sent")) == list(range(400))
    assert all(row["sent"] for row in read_rows(point, "sent")), "nothing is unknown"
    assert len(read_rows(point, "request")) == 400
    require_nothing_left(servers)


def test_a_closed_model_ends_with_one_sentence_if_a_client_is_killed(servers: PodServers, point: Path) -> None:
    thread = in_mid_load(servers, 100, lambda: kill_client(servers, 1))
    load = {"streams": {"count": 4, "think_time": 0.1, "duration": 60}}
    with pytest.raises(ProcessError, match="the pod of client 1 was killed. In a closed model nobody knows"):
        send_from_pods(servers, point, output_tokens=20, **load)
    thread.join()
    assert read_rows(point, "end")[-1]["reason"].startswith("failed: ")
    expect_exact(point, servers.truth(100))
    require_nothing_left(servers)


def test_servers_that_pods_cannot_reach_end_the_load_before_it_begins(servers: PodServers, point: Path) -> None:
    with pytest.raises((AccessError, ProcessError), match="the name nowhere.invalid has no address"):
        send_from_pods(servers, point, count=20, driver={"urls": ["http://nowhere.invalid:8000"]}, **OPEN)
    assert not read_rows(point, "sent")
    require_nothing_left(servers)


DRIVE = """
import sys
sys.path[:0] = {path!r}
import json
import test_inference_in_pods as test
params = json.loads({params!r})
spec = test.InferenceSpec.from_params(params)
test.inference_in_pods.run_inference_load_in_pods(params, spec, test.StepDirectory(None), test.ProgressLog(None))
"""


def start_controller(servers: PodServers, point: Path, load: dict[str, Any]) -> subprocess.Popen[str]:
    """Send a load from pods by another process."""
    path = [str(Path(__file__).parent), *(folder for folder in sys.path if folder)]
    code = DRIVE.format(path=path, params=json.dumps(load_params(servers, point, **load)))
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)


def test_an_interrupted_controller_keeps_what_its_pods_have_sent(servers: PodServers, point: Path) -> None:
    load = {"count": 2000, "output_tokens": 20, **OPEN}
    controller = start_controller(servers, point, load)
    in_mid_load(servers, 150, lambda: controller.send_signal(signal.SIGINT)).join()
    _output, errors = controller.communicate(timeout=150)
    sent = sorted(row["index"] for row in read_rows(point, "sent"))
    assert controller.returncode != 0 and f"the pods have ended after {len(sent):,} of 2,000 requests" in errors, errors
    truth = servers.truth(len(sent))
    assert 150 <= len(sent) < 2000
    assert sorted(int(name.rpartition("-")[2]) for name in truth) == sent, "nothing that was sent is unknown"
    expect_exact(point, truth)
    assert not (point / "elsewhere.json").exists() and "SIGINT" in read_rows(point, "end")[-1]["reason"]
    require_nothing_left(servers)
    with pytest.raises(InputError, match="clients in pods do not continue one: begin a new run"):
        send_from_pods(servers, point, **load)


def test_a_controller_that_is_killed_finds_its_pods_again(servers: PodServers, point: Path) -> None:
    load = {"count": 600, "output_tokens": 20, **OPEN}
    controller = start_controller(servers, point, load)
    in_mid_load(servers, random.randrange(50, 200), controller.kill).join()
    controller.wait(timeout=30)
    result = send_from_pods(servers, point, **load)
    assert result["counts"]["succeeded"] == 600, result["msg"]
    truth = servers.truth(600)
    expect_exact(point, truth)
    assert len(truth) == 600 and len(read_rows(point, "session")) == 1
    again = send_from_pods(servers, point, **load)
    assert not again["changed"] and again["counts"] == result["counts"]
    assert files.read_json(point / "elsewhere.json")["removed"]
    require_nothing_left(servers)
