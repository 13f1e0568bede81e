"""Clients of a load in pods of a real node: killed at random moments, they create each workload once and lose none.

SEATRIAL_KILLS=50 .venv/bin/pytest -n 2 -v -m long tests/integration/test_clients_in_pods.py -k whoever   # 50 rounds
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import rehearsal as support
import suite_prerequisites
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from breakable_cluster import BreakableCluster
from killed_runs import give_back
from load_world import World, final, without_rights, world_on
from playbook import begin, play, run_dirs
from pod_clients import ON_REAL_NODE, PodClients

LACKING = suite_prerequisites.real_node_lacks()
#: Image python is made by the first run that uses it.
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(LACKING), reason=LACKING)]

CLIENTS, COUNT = 3, 120
#: The numbers come from a seed, and the image has no numpy.
ARRIVAL = {"type": "poisson", "rate": 8.0}
#: Rounds of the test of kills, which also are the seeds; each kills once or twice, four of them in each way.
ROUNDS = int(os.environ.get("SEATRIAL_KILLS", "4"))
#: The first of them, to continue a series.
FIRST = int(os.environ.get("SEATRIAL_FIRST_SEED", "0"))


@pytest.fixture(scope="module")
def breakable(rehearsal_folder: Path) -> Iterator[BreakableCluster]:
    """One control plane with a real node for all tests."""
    name = f"pods-{os.environ.get('PYTEST_XDIST_WORKER', 'only')}"
    yield BreakableCluster(support.options(rehearsal_folder, name, components=["python-image"]))
    cluster_lifecycle.remove_instance(support.options(rehearsal_folder, name, force=True), support.quiet)


@pytest.fixture
def world(breakable: BreakableCluster, tmp_path: Path) -> Iterator[World]:
    with world_on(breakable.info["kubeconfig"], tmp_path) as found:
        yield found


def test_a_run_whose_clients_are_pods_passes(rehearsal_folder: Path, tmp_path: Path) -> None:
    settings = {"rehearsal_data_dir": str(rehearsal_folder), "workload_clients": 4}
    words = ["-e", "preset=light,driver_pods", "-e", json.dumps(settings)]
    done = play(*words, project="workload_scale", artifacts=tmp_path, timeout=1800)
    assert done.code == 0 and "PASS" in done.output, done.output
    points = sorted((run_dirs(tmp_path)[0] / "points").iterdir())
    for point in points:
        clients = {row["client"] for row in files.read_json_lines(point / "ledger.jsonl") if row["type"] == "session"}
        assert clients == set(range(4))
        rows = [row for row in files.read_json_lines(point / "ledger.jsonl") if row["type"] == "attempt"]
        found = Counter((row["kind"], row["name"]) for row in rows if row["outcome"] in ("created", "already_mine"))
        assert {row["index"] for row in rows} == set(range(6)) and set(found.values()) == {1}
    assert len(points) == 3


class Round:
    """One load that somebody disturbs."""

    def __init__(self, load: PodClients, cluster: BreakableCluster, chance: random.Random) -> None:
        self.load, self.cluster, self.chance = load, cluster, chance
        self.restarted = False

    def wait_for_a_moment(self) -> None:
        """Wait for a random one: while pods are started now and then, mostly while the load is sent."""
        load = self.load
        if self.chance.random() < 0.2:
            time.sleep(self.chance.uniform(0.0, 12.0))
            return
        enough = self.chance.randrange(COUNT - 10)
        while not load.ended and len(load.world.names()) < enough:
            time.sleep(0.1)

    def client(self) -> str:
        """Kill the first process of a container, and so all of them."""
        found = self.load.processes()
        victim = self.chance.choice(sorted(found) or [-1])
        with contextlib.suppress(ProcessLookupError):
            if found:
                os.kill(found[victim], signal.SIGKILL)
        return f"client {victim}" if found else ""

    def pod(self) -> str:
        """Delete a pod."""
        found = self.load.pods()
        if not found:
            return ""
        meta = self.chance.choice(found)["metadata"]
        client = self.load.world.client
        client.delete(client.kind("v1", "Pod"), meta["name"], meta["namespace"])
        return f"pod {meta['name']}"

    def controller(self) -> str:
        """Kill the controller; the same call is made again."""
        ended = self.load.ended
        self.load.end()
        self.load.controller = self.load.begin()
        return "" if ended else "controller"

    def server(self) -> str:
        """Kill the API server and start it again."""
        self.cluster.restart_api_server()
        self.restarted = True
        return "API server"

    def over(self) -> None:
        """Wait for the load; a call that did not survive the API server is made again."""
        for _call in range(3):
            if self.load.controller.wait(timeout=600) == 0:
                return
            assert self.restarted, self.load.said()[-6000:]
            print("    called again", flush=True)
            self.load.controller = self.load.begin()
        raise AssertionError(self.load.said()[-6000:])


WAYS: list[Callable[[Round], str]] = [Round.client, Round.pod, Round.controller, Round.server]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_whoever_is_killed_each_workload_is_created_once_and_accounted_for(
    seed: int, breakable: BreakableCluster, world: World, tmp_path: Path
) -> None:
    chance, began = random.Random(seed), time.monotonic()
    # Without the circuit breaker, which ends a load when its API server is in trouble.
    more = {"workload_driver_restarts": 6, "workload_breaker_latency": 0}
    load = PodClients(world, tmp_path, CLIENTS, COUNT, workload_arrival=ARRIVAL, **more)
    done = Round(load, breakable, chance)
    try:
        for way in (WAYS[seed % len(WAYS)], *chance.sample(WAYS, chance.randrange(2))):
            done.wait_for_a_moment()
            at = len(world.names())
            print(f"\nround {seed}: killed {way(done) or 'nothing, too early or too late'} at {at}", flush=True)
        done.over()
    finally:
        load.end()
    print(f"round {seed}: {time.monotonic() - began:.0f} s", flush=True)
    assert world.names() == load.wanted()
    rows = [row for row in files.read_json_lines(load.point / "ledger.jsonl") if row["type"] == "attempt"]
    assert sorted(final(rows)) == load.wanted() and set(final(rows).values()) == {1}
    assert set(Counter(row["outcome"] for row in rows)) <= {"created", "already_mine", "retry", "ambiguous"}
    table = timeline_builder.build_timeline_of_workloads(load.point, world.run_id, "001")
    assert Counter(table.outcome) == {"unfinished": COUNT} and table.contradictions == {}
    load.require_nothing_left()


def test_the_workloads_of_a_client_that_is_lost_are_named(world: World, tmp_path: Path) -> None:
    load = PodClients(world, tmp_path, CLIENTS, COUNT, workload_arrival=ARRIVAL, workload_driver_restarts=0)
    try:
        load.until(lambda: len(world.names()) >= 40 and 1 in load.processes(), "the load begins")
        os.kill(load.processes()[1], signal.SIGKILL)
        assert load.controller.wait(timeout=300) == 2, load.said()[-3000:]
    finally:
        load.end()
    result = files.read_json(load.point / "elsewhere.json")["result"]
    rows = list(files.read_json_lines(load.point / "ledger.jsonl"))
    known = final([row for row in rows if row["type"] == "attempt"])
    assert set(known.values()) == {1}
    unknown = [name for name in load.wanted() if name not in known]
    assert unknown and set(unknown) < set(load.wanted(1, CLIENTS)), "those of the others are all known"
    assert result["counts"]["unknown"] == len(unknown) and result["counts"]["planned"] == COUNT
    [lost] = [row for row in rows if row["type"] == "lost"]
    assert lost["client"] == 1 and "exit code 137" in lost["reason"]
    told = f"clients were lost (client 1: {lost['reason']}); the fate of {len(unknown)} workloads is unknown: "
    assert told in result["stopped"] and " ".join(told.split()) in load.said()
    named = result["stopped"].removeprefix(told).removesuffix(", …").split(", ")
    assert named and set(named) <= set(unknown) and (len(named) == len(unknown) or len(named) == 10)
    table = timeline_builder.build_timeline_of_workloads(load.point, world.run_id, "001")
    assert Counter(table.outcome) == {"unfinished": COUNT - len(unknown), "lost": len(unknown)}
    load.require_nothing_left()


def test_a_client_that_is_lost_before_the_start_ends_the_others(world: World, tmp_path: Path) -> None:
    load = PodClients(world, tmp_path, CLIENTS, COUNT, workload_arrival=ARRIVAL, workload_driver_restarts=0)
    try:
        load.until(lambda: 1 in load.processes(), "the pod of client 1 starts")
        os.kill(load.processes()[1], signal.SIGKILL)  # it still imports its modules
        assert load.controller.wait(timeout=120) == 2, "long before workload_start_timeout"
    finally:
        load.end()
    assert "nothing was sent: client 1 was not ready: exit code 137" in load.said(), load.said()[-3000:]
    assert world.names() == []
    load.require_nothing_left()


def test_an_image_that_no_node_has_is_named_and_nothing_is_left(world: World, tmp_path: Path) -> None:
    load = PodClients(
        world, tmp_path, 2, COUNT, workload_arrival=ARRIVAL, workload_driver_image="localhost/seatrial/absent:1"
    )
    try:
        assert load.controller.wait(timeout=240) == 2, load.said()[-3000:]
    finally:
        load.end()
    said = load.said()
    assert "nothing was sent: client 0, 1 was not ready: ErrImagePull: " in said, said
    assert "seatrial/absent:1" in said and world.names() == []
    load.require_nothing_left()


def test_what_the_doctor_prints_is_enough_for_clients_in_pods(world: World, tmp_path: Path) -> None:
    kubeconfig, user = without_rights(world, tmp_path)
    rbac = tmp_path / "rbac.yml"
    given = {
        **ON_REAL_NODE, "doctor_project": "workload_scale", "doctor_phases": ["test", "cleanup"],
        "doctor_subject": user, "doctor_rbac_file": str(rbac), "cluster_kubeconfig": kubeconfig,
        "workload_run_on": "driver_pod", "workload_clients": CLIENTS, "workload_canary_rate": 0,
        "workload_scale_gpus": 0,
        "workload_scale_projects": [{"name": "one", "namespace": world.namespace}],
    }  # fmt: skip
    words = ["-e", json.dumps(given)]
    before = play(*words, artifacts=tmp_path, project="doctor")
    assert before.code == 2 and "jobs.batch in the whole cluster" in before.flat(), before.output
    documents = list(yaml.safe_load_all(rbac.read_text(encoding="utf-8")))
    try:
        for one in documents:
            world.client.create(one)
        after = play(*words, artifacts=tmp_path, project="doctor")
        assert after.code == 0, after.output
        load = PodClients(world, tmp_path, CLIENTS, 12, workload_arrival=ARRIVAL, workload_canary_rate=0,
                          workload_kubeconfig=kubeconfig, workload_driver_kubeconfig=kubeconfig)  # fmt: skip
        try:
            assert load.controller.wait(timeout=300) == 0, load.said()[-3000:]
        finally:
            load.end()
        assert world.names() == load.wanted()
        load.require_nothing_left()
    finally:
        for one in documents:
            meta, kind = one["metadata"], world.client.kind(one["apiVersion"], one["kind"])
            world.client.delete(kind, meta["name"], meta.get("namespace", ""))


def test_clients_whose_controller_was_killed_are_given_back(world: World, tmp_path: Path) -> None:
    given = {
        **ON_REAL_NODE, "cluster_provider": "existing", "cluster_kubeconfig": world.kubeconfig, "doctor_fail": False,
        "workload_run_on": "driver_pod", "workload_clients": CLIENTS, "workload_scale_gpus": 0,
        "workload_scale_count": 2000, "workload_scale_arrival": {"type": "poisson", "rate": 4},
        "workload_scale_projects": [{"name": "one", "namespace": world.namespace}],
    }  # fmt: skip
    words = ["-e", json.dumps(given)]
    process = begin(*words, artifacts=tmp_path / "runs", log=tmp_path / "log", project="workload_scale")
    jobs, client = world.client.kind("batch/v1", "Job"), world.client
    label = "perfscale.seatrial/index"
    deadline = time.monotonic() + 300
    while len(client.list(jobs, world.namespace, label)[0]) < 20:
        assert time.monotonic() < deadline and process.poll() is None, (tmp_path / "log").read_text()[-6000:]
        time.sleep(0.3)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=120)
    [run_dir] = run_dirs(tmp_path / "runs")
    run_id = files.read_yaml(run_dir / "run.yml")["id"]
    place = f"seatrial-load-{run_id}"
    before = [kind for version, kind in (("batch/v1", "Job"), ("v1", "Pod"), ("v1", "Secret"), ("v1", "ConfigMap"))
              if client.list(client.kind(version, kind), place, f"perfscale.seatrial/run={run_id}")[0]]  # fmt: skip
    assert before == ["Job", "Pod", "Secret", "ConfigMap"], "its pods go on"
    given_back = give_back(run_dir)
    assert given_back.returncode == 0, given_back.stdout[-6000:]
    assert files.read_yaml(run_dir / "run.yml")["held"] == []
    assert client.list(jobs, world.namespace, label)[0] == []
    deadline = time.monotonic() + 120
    while left := PodClients.left_of(client, run_id):
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
