"""The load engine against a real API server: exactness when killed, interrupted, refused; sampling alone."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import drive_workload
import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import pool
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import Kind
from cutting_proxy import CuttingProxy

STAGES = Path(__file__).resolve().parents[2] / "roles" / "workload" / "files" / "stages"
SUSPENDED = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ name }}"}
spec:
  suspend: true
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: none}]}
"""
CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ name }}"}
"""


class Bench:
    """A namespace of its own, and calls into it."""

    def __init__(self, client: Client, kubeconfig: str, namespace: str, folder: Path) -> None:
        self.client = client
        self.namespace = namespace
        self.folder = folder
        self.point_dir = folder / "points" / "001"
        self.run_id = namespace
        self.options: dict[str, Any] = {
            "kubeconfig": kubeconfig,
            "run_id": self.run_id,
            "point_dir": str(self.point_dir),
            "namespace": namespace,
            "count": 20,
            "arrival": {"type": "closed"},
            "templates": [{"name": "job", "content": SUSPENDED}],
            "stages": [yaml.safe_load((STAGES / f"{kind}.yml").read_text()) for kind in ("job", "pod")],
            "wait": False,
            "settle": 0.2,
        }

    def start(self, what: str = "submit", **options: Any) -> Any:
        return drive_workload.start(what, {**self.options, **options}, self.folder)

    def submit(self, **options: Any) -> dict[str, Any]:
        return drive_workload.result(self.start("submit", **options))

    def names(self, api_version: str = "batch/v1", kind: str = "Job") -> list[str]:
        found, _version = self.client.list(
            self.client.kind(api_version, kind), self.namespace, f"perfscale.seatrial/run={self.run_id}"
        )
        return sorted(one["metadata"]["name"] for one in found)

    def rows(self, name: str, *types: str) -> list[dict[str, Any]]:
        return [row for row in _files.read_lines(self.point_dir / f"{name}.jsonl") if row["type"] in types]


@pytest.fixture
def bench(rehearsal: Any, tmp_path: Path) -> Iterator[Bench]:
    client = Client.from_kubeconfig(rehearsal.kubeconfig)
    namespace = f"wl-{random.SystemRandom().randrange(16**8):08x}"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    yield Bench(client, rehearsal.kubeconfig, namespace, tmp_path)
    for kind in ("Job", "Lease"):
        found = client.kind("batch/v1" if kind == "Job" else "coordination.k8s.io/v1", kind)
        client.request("DELETE", found.path(namespace), {"propagationPolicy": "Background"})
    client.delete(Kind("v1", "Namespace", "namespaces", False), namespace)
    client.close()


def final(rows: list[dict[str, Any]]) -> Counter[str]:
    """How often each name has a final row."""
    return Counter(row["name"] for row in rows if row["outcome"] in ("created", "already_mine", "refused"))


def group_is_gone(leader: int, within: float = 5.0) -> bool:
    """Whether no process of a group is left."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            os.killpg(leader, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def wait_until_created(bench: Bench, number: int) -> None:
    """Wait until the ledger tells of so many objects."""
    ledger = bench.point_dir / "ledger.jsonl"
    deadline = time.monotonic() + 30
    while not (ledger.exists() and ledger.read_bytes().count(b'"created"') >= number):
        assert time.monotonic() < deadline, "nothing was created"
        time.sleep(0.02)


def test_a_load_that_is_killed_and_taken_up_again_is_exact(bench: Bench) -> None:
    count = 300
    chance = random.Random(20261121)
    kills = 0
    for _attempt in range(6):
        process = bench.start(count=count)
        time.sleep(chance.uniform(0.4, 1.4))
        if process.poll() is None:
            # Only the submitter: its sampler must notice by itself.
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait(10)
        process.stdout.close()
        assert group_is_gone(process.pid), "the sampler outlived its submitter"
        if kills == 3:
            break
    assert kills, "the load was over before the first kill: nothing was tried"
    found = bench.submit(count=count)
    assert found["counts"]["created"] + found["counts"]["already_mine"] == count
    assert bench.names() == sorted(f"{bench.run_id}-001-{index}" for index in range(count))
    seen = final(bench.rows("ledger", "attempt"))
    assert set(seen.values()) == {1} and len(seen) == count
    again = bench.submit(count=count)
    assert (again["changed"], again["counts"]["created"] + again["counts"]["already_mine"]) == (False, count)


def test_every_object_is_watched_from_before_it_is_sent(bench: Bench) -> None:
    found = bench.submit(count=40, canary_rate=50)
    watching = bench.rows("observations", "watching")
    assert {row["kind"] for row in watching} == {"Job", "Pod"}
    first = min(row["sent"] for row in bench.rows("ledger", "attempt"))
    assert max(row["at"] for row in watching) < first
    events = bench.rows("observations", "event")
    assert sorted(row["index"] for row in events if row["event"] == "ADDED") == list(range(40))
    assert {row["how"] for row in events} == {"watch"}
    # The uid and version of the ledger are those that the watch shows.
    told = {row["uid"]: row["resource_version"] for row in bench.rows("ledger", "attempt")}
    assert {row["uid"]: row["resource_version"] for row in events if row["event"] == "ADDED"} == told
    versions = [int(row["resource_version"]) for row in bench.rows("observations", "canary")]
    assert versions and versions == sorted(set(versions))
    assert found["events"] >= 40
    assert bench.rows("observations", "end")[0]["lag"]["n"] > 0
    leases = bench.client.list(bench.client.kind("coordination.k8s.io/v1", "Lease"), bench.namespace)[0]
    assert leases == [], "the canary is still there"


def test_related_objects_come_first_and_share_the_index(bench: Bench) -> None:
    content = CONFIG.replace("{{ name }}", "{{ name }}-cfg") + "---" + SUSPENDED
    found = bench.submit(count=7, templates=[{"name": "pair", "content": content}])
    assert found["counts"]["created"] == 7
    by_index: dict[int, list[str]] = {}
    for row in bench.rows("ledger", "attempt"):
        by_index.setdefault(row["index"], []).append(row["kind"])
    assert by_index == {index: ["ConfigMap", "Job"] for index in range(7)}


def test_what_the_server_refuses_is_kept_with_its_reason(bench: Bench) -> None:
    quota = {"hard": {"count/jobs.batch": "5"}}
    bench.client.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q", "namespace": bench.namespace},
            "spec": quota,
        }
    )
    deadline = time.monotonic() + 20
    kind = bench.client.kind("v1", "ResourceQuota")
    while not (bench.client.get(kind, "q", bench.namespace) or {}).get("status", {}).get("hard"):
        assert time.monotonic() < deadline, "the quota was never taken up"
        time.sleep(0.1)
    found = bench.submit(count=12, in_flight=1)
    assert (found["counts"]["created"], found["counts"]["refused"], found["counts"]["unsent"]) == (5, 7, 0)
    assert found["refusals"][0]["reason"] == "Forbidden" and "exceeded quota" in found["refusals"][0]["message"]


def test_a_name_that_someone_else_holds_is_refused_and_left_alone(bench: Bench) -> None:
    name = f"{bench.run_id}-001-2"
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": bench.namespace}}
    uid = bench.client.create(theirs)["metadata"]["uid"]
    found = bench.submit(count=4, templates=[{"name": "cm", "content": CONFIG}])
    assert (found["counts"]["created"], found["counts"]["already_mine"], found["counts"]["refused"]) == (3, 0, 1)
    assert "does not carry this load's labels" in found["refusals"][0]["message"]
    held = bench.client.get(bench.client.kind("v1", "ConfigMap"), name, bench.namespace)
    assert held is not None and held["metadata"]["uid"] == uid and "labels" not in held["metadata"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_load_ends_at_once_and_says_how_far_it_got(bench: Bench, number: signal.Signals) -> None:
    process = bench.start(count=500, arrival={"rate": 50})
    wait_until_created(bench, 5)
    os.killpg(process.pid, number)
    found = drive_workload.result(process, timeout=15)
    assert (
        found["failed"] == "Interrupted" and f"interrupted by {number.name}" in found["msg"] and "/500" in found["msg"]
    )
    assert group_is_gone(process.pid)
    assert bench.rows("ledger", "end")[-1]["reason"].startswith("interrupted")
    assert bench.rows("observations", "end")[-1]["reason"]
    created = len(bench.names())
    written = len(final(bench.rows("ledger", "attempt")))
    # What was under way may have arrived without its answer being written down: no more than the in-flight limit.
    assert written <= created <= written + 16


def test_a_second_submitter_on_the_same_directory_refuses(bench: Bench) -> None:
    first = bench.start(count=100, arrival={"rate": 20})
    deadline = time.monotonic() + 30
    while not (bench.point_dir / "ledger.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    second = bench.submit(count=100, arrival={"rate": 20})
    assert second["failed"] == "OwnershipError" and "another submitter" in second["msg"]
    assert drive_workload.result(first)["counts"]["created"] == 100


def test_another_load_on_the_same_directory_is_refused_before_anything_is_created(bench: Bench) -> None:
    bench.submit(count=3)
    other = bench.submit(count=4)
    assert other["failed"] == "InputError" and "its count is 3, now it would be 4" in other["msg"]
    assert len(bench.names()) == 3


def test_a_mistake_in_a_template_shows_before_the_load(bench: Bench) -> None:
    wrong = SUSPENDED.replace("suspend: true", "suspend: true\n  paralelism: 3")
    found = bench.submit(templates=[{"name": "job", "content": wrong}])
    assert found["failed"] == "InputError"
    assert "template 'job': the API server refuses its first Job" in found["msg"] and "paralelism" in found["msg"]
    assert bench.names() == []


def test_sampling_alone_finishes_what_a_submitter_did_not_wait_for(bench: Bench) -> None:
    bench.submit(count=6)
    jobs = bench.client.kind("batch/v1", "Job")
    sampler = bench.start("sample", timeout=60)
    deadline = time.monotonic() + 30
    while len(bench.rows("observations", "watching")) < 4:
        assert time.monotonic() < deadline, "the second sampler never watched"
        time.sleep(0.05)

    # What ends a suspended job without a node: its end is written as a controller would.
    def complete(name: str) -> None:
        now = "2026-01-01T00:00:00Z"
        done = {"type": "Complete", "status": "True", "lastTransitionTime": now}
        before = {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now}
        status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": [before, done]}
        bench.client.request(
            "PATCH",
            jobs.path(bench.namespace, name, "status"),
            {"status": status},
            content_type="application/merge-patch+json",
        )

    names = bench.names()
    assert pool.first_error(pool.each(names[:5], complete)) is None
    bench.client.delete(jobs, names[5], bench.namespace, {"propagationPolicy": "Background"})
    found = drive_workload.result(sampler)
    assert (found["counts"]["seen"], found["counts"]["succeeded"], found["counts"]["deleted"], found["timed_out"]) == (
        6,
        5,
        1,
        False,
    )
    assert [row["kind"] for row in bench.rows("observations", "gap")] == ["*"]
    again = drive_workload.result(bench.start("sample", timeout=20))
    assert (again["counts"]["succeeded"], again["counts"]["deleted"], again["counts"]["unfinished"]) == (5, 1, 0)


def test_a_timeout_says_what_is_still_waited_for_and_loses_nothing(bench: Bench) -> None:
    found = bench.submit(count=3, wait=True, timeout=1)
    assert found["timed_out"] and found["counts"]["unfinished"] == 3
    assert found["waiting_for"] == [f"{bench.run_id}-001-{index}" for index in range(3)]
    assert "After 1 s 3 had not ended: " in found["msg"]
    assert len(bench.rows("observations", "event")) >= 3


def test_connections_that_are_cut_cost_no_object_and_no_event(bench: Bench) -> None:
    access = bench.client.access
    document = yaml.safe_load(Path(bench.options["kubeconfig"]).read_text())
    count = 200
    with CuttingProxy(access.host, access.port) as proxy:
        for one in document["clusters"]:
            one["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
        path = bench.folder / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        process = bench.start(count=count, arrival={"rate": 50}, kubeconfig=str(path))
        wait_until_created(bench, 5)
        for _round in range(8):
            proxy.cut()
            time.sleep(0.4)
        found = drive_workload.result(process)
        assert proxy.cuts > 10
    counts = found["counts"]
    assert (counts["created"] + counts["already_mine"], counts["refused"]) == (count, 0)
    assert counts["retries"] > 0
    assert len(bench.names()) == count
    rows = bench.rows("ledger", "attempt")
    assert {row["outcome"] for row in rows} & {"ambiguous", "retry"}
    assert set(final(rows).values()) == {1}
    seen = {row["index"] for row in bench.rows("observations", "event") if row["kind"] == "Job"}
    assert seen == set(range(count))


def test_a_sampler_that_is_killed_stops_the_load_and_the_next_call_tells_the_gap(bench: Bench) -> None:
    process = bench.start(count=200, arrival={"rate": 50})
    wait_until_created(bench, 5)
    os.kill(bench.rows("observations", "session")[0]["pid"], signal.SIGKILL)
    found = drive_workload.result(process)
    assert found["failed"] == "ProcessError" and "the sampler ended unexpectedly" in found["msg"]
    assert len(bench.names()) < 200
    again = bench.submit(count=200, arrival={"rate": 50})
    assert again["counts"]["created"] + again["counts"]["already_mine"] == 200 == len(bench.names())
    assert [row["kind"] for row in bench.rows("observations", "gap")] == ["*"]
    seen = {row["index"] for row in bench.rows("observations", "event")}
    assert seen == set(range(200))
