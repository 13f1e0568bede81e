"""The load engine against a real API server: exactness when killed, interrupted, refused; sampling alone."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

import drive_workload
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import kubeconfig, why_pod_waits_or_cannot_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds.sampling_spec import SamplingSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import early_load_end
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds
from cutting_proxy import CuttingProxy
from load_world import CONFIG, SUSPENDED, World, final, group_is_gone, wait_until_created


def test_a_load_that_is_killed_and_taken_up_again_is_exact(world: World) -> None:
    count = 300
    chance = random.Random(20261121)
    kills = 0
    for _attempt in range(6):
        process = world.start(count=count)
        time.sleep(chance.uniform(0.4, 1.4))
        if process.poll() is None:
            # Only the submitter: its sampler must notice by itself.
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait(120)
        process.stdout.close()
        assert group_is_gone(process.pid), "the sampler outlived its submitter"
        if kills == 3:
            break
    assert kills, "the load was over before the first kill: nothing was tried"
    found = world.submit(count=count)
    assert found["counts"]["created"] + found["counts"]["already_mine"] == count
    assert world.names() == sorted(f"{world.run_id}-001-{index}" for index in range(count))
    seen = final(world.rows("ledger", "attempt"))
    assert set(seen.values()) == {1} and len(seen) == count
    again = world.submit(count=count)
    assert (again["changed"], again["counts"]["created"] + again["counts"]["already_mine"]) == (False, count)


def test_every_object_is_watched_from_before_it_is_sent(world: World) -> None:
    found = world.submit(count=40, canary_rate=50)
    watching = world.rows("observations", "watching")
    assert {row["kind"] for row in watching} == {"Job", "Pod"}
    first = min(row["sent"] for row in world.rows("ledger", "attempt"))
    assert max(row["at"] for row in watching) < first
    events = world.rows("observations", "event")
    assert sorted(row["index"] for row in events if row["event"] == "ADDED") == list(range(40))
    assert {row["how"] for row in events} == {"watch"}
    # The uid and version of the ledger are those that the watch shows.
    told = {row["uid"]: row["resource_version"] for row in world.rows("ledger", "attempt")}
    assert {row["uid"]: row["resource_version"] for row in events if row["event"] == "ADDED"} == told
    versions = [int(row["resource_version"]) for row in world.rows("observations", "canary")]
    assert versions and versions == sorted(set(versions))
    assert found["events"] >= 40
    assert world.rows("observations", "end")[0]["lag"]["n"] > 0
    machine = world.rows("ledger", "end")[-1]["machine"]
    assert machine["cpus"] >= 1 and machine["load"] > 0, "how busy the machine was stands in the ledger"
    leases = world.client.list(world.client.kind("coordination.k8s.io/v1", "Lease"), world.namespace)[0]
    assert leases == [], "the canary is still there"


def test_related_objects_come_first_and_share_the_index(world: World) -> None:
    content = CONFIG.replace("{{ name }}", "{{ name }}-cfg") + "---" + SUSPENDED
    found = world.submit(count=7, templates=[{"name": "pair", "content": content}])
    assert found["counts"]["created"] == 7
    by_index: dict[int, list[str]] = {}
    for row in world.rows("ledger", "attempt"):
        by_index.setdefault(row["index"], []).append(row["kind"])
    assert by_index == {index: ["ConfigMap", "Job"] for index in range(7)}


def test_what_the_server_refuses_is_kept_with_its_reason(world: World) -> None:
    quota = {"hard": {"count/jobs.batch": "5"}}
    world.client.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q", "namespace": world.namespace},
            "spec": quota,
        }
    )
    deadline = time.monotonic() + 120
    kind = world.client.kind("v1", "ResourceQuota")
    while not (world.client.get(kind, "q", world.namespace) or {}).get("status", {}).get("hard"):
        assert time.monotonic() < deadline, "the quota was never taken up"
        time.sleep(0.1)
    found = world.submit(count=12, in_flight=1)
    assert (found["counts"]["created"], found["counts"]["refused"], found["counts"]["unsent"]) == (5, 7, 0)
    assert found["refusals"][0]["reason"] == "Forbidden" and "exceeded quota" in found["refusals"][0]["message"]


def test_a_name_that_someone_else_holds_is_refused_and_left_alone(world: World) -> None:
    name = f"{world.run_id}-001-2"
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": world.namespace}}
    uid = world.client.create(theirs)["metadata"]["uid"]
    found = world.submit(count=4, templates=[{"name": "cm", "content": CONFIG}])
    assert (found["counts"]["created"], found["counts"]["already_mine"], found["counts"]["refused"]) == (3, 0, 1)
    assert "does not carry this load's labels" in found["refusals"][0]["message"]
    held = world.client.get(world.client.kind("v1", "ConfigMap"), name, world.namespace)
    assert held is not None and held["metadata"]["uid"] == uid and "labels" not in held["metadata"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_load_ends_at_once_and_says_how_far_it_got(world: World, number: signal.Signals) -> None:
    process = world.start(count=500, arrival={"rate": 50})
    wait_until_created(world, 5)
    os.killpg(process.pid, number)
    found = drive_workload.result(process)
    assert (
        found["failed"] == "Interrupted" and f"interrupted by {number.name}" in found["msg"] and "/500" in found["msg"]
    )
    assert group_is_gone(process.pid)
    assert world.rows("ledger", "end")[-1]["reason"].startswith("interrupted")
    assert world.rows("observations", "end")[-1]["reason"]
    created = len(world.names())
    written = len(final(world.rows("ledger", "attempt")))
    # What was under way may have arrived without its answer being written down: no more than the in-flight limit.
    assert written <= created <= written + 16


def test_a_second_submitter_on_the_same_directory_refuses(world: World) -> None:
    first = world.start(count=100, arrival={"rate": 20})
    deadline = time.monotonic() + 120
    while not (world.point_dir / "ledger.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGSTOP)  # however long the start of the second takes, the first is still there
    try:
        second = world.submit(count=100, arrival={"rate": 20})
    finally:
        os.killpg(first.pid, signal.SIGCONT)
    assert second["failed"] == "OwnershipError" and "another submitter" in second["msg"]
    assert drive_workload.result(first)["counts"]["created"] == 100


def test_another_load_on_the_same_directory_is_refused_before_anything_is_created(world: World) -> None:
    world.submit(count=3)
    other = world.submit(count=4)
    assert other["failed"] == "InputError" and "its count is 3, now it would be 4" in other["msg"]
    assert len(world.names()) == 3


def test_a_mistake_in_a_template_shows_before_the_load(world: World) -> None:
    wrong = SUSPENDED.replace("suspend: true", "suspend: true\n  paralelism: 3")
    found = world.submit(templates=[{"name": "job", "content": wrong}])
    assert found["failed"] == "InputError"
    assert "template 'job': the API server refuses its first Job" in found["msg"] and "paralelism" in found["msg"]
    assert world.names() == []


def test_sampling_alone_finishes_what_a_submitter_did_not_wait_for(world: World) -> None:
    world.submit(count=6)
    jobs = world.client.kind("batch/v1", "Job")
    sampler = world.start("sample", timeout=110)
    deadline = time.monotonic() + 120
    while len(world.rows("observations", "watching")) < 4:
        assert time.monotonic() < deadline, "the second sampler never watched"
        time.sleep(0.05)

    # What ends a suspended job without a node: its end is written as a controller would.
    def complete(name: str) -> None:
        now = "2026-01-01T00:00:00Z"
        done = {"type": "Complete", "status": "True", "lastTransitionTime": now}
        before = {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now}
        status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": [before, done]}
        world.client.request(
            "PATCH",
            jobs.path(world.namespace, name, "status"),
            {"status": status},
            content_type="application/merge-patch+json",
        )

    names = world.names()
    for name in names[:5]:
        complete(name)
    world.client.delete(jobs, names[5], world.namespace, {"propagationPolicy": "Background"})
    found = drive_workload.result(sampler)
    assert (found["counts"]["seen"], found["counts"]["succeeded"], found["counts"]["deleted"], found["timed_out"]) == (
        6,
        5,
        1,
        False,
    )
    assert [row["kind"] for row in world.rows("observations", "gap")] == ["*"]
    again = drive_workload.result(world.start("sample", timeout=20))
    assert (again["counts"]["succeeded"], again["counts"]["deleted"], again["counts"]["unfinished"]) == (5, 1, 0)


def test_a_timeout_says_what_is_still_waited_for_and_loses_nothing(world: World) -> None:
    found = world.submit(count=3, wait=True, timeout=3)
    assert found["timed_out"] and found["counts"]["unfinished"] == 3
    assert found["waiting_for"] == [f"{world.run_id}-001-{index}" for index in range(3)]
    assert "After 3 s 3 had not ended: " in found["msg"]
    assert len(world.rows("observations", "event")) >= 3


def test_connections_that_are_cut_cost_no_object_and_no_event(world: World) -> None:
    access = world.client.access
    count = 200
    with CuttingProxy(access.host, access.port) as proxy:
        process = world.start(count=count, arrival={"rate": 50}, kubeconfig=world.through(proxy.port))
        wait_until_created(world, 5)
        rounds = 0
        while process.poll() is None and (rounds < 8 or proxy.cuts <= 10):
            proxy.cut()
            rounds += 1
            time.sleep(0.4)
        found = drive_workload.result(process)
        assert proxy.cuts > 10
    counts = found["counts"]
    assert (counts["created"] + counts["already_mine"], counts["refused"]) == (count, 0)
    assert counts["retries"] > 0
    assert len(world.names()) == count
    rows = world.rows("ledger", "attempt")
    assert {row["outcome"] for row in rows} & {"ambiguous", "retry"}
    assert set(final(rows).values()) == {1}
    seen = {row["index"] for row in world.rows("observations", "event") if row["kind"] == "Job"}
    assert seen == set(range(count))


def test_a_sampler_that_is_killed_stops_the_load_and_the_next_call_tells_the_gap(world: World) -> None:
    process = world.start(count=200, arrival={"rate": 50})
    wait_until_created(world, 5)
    os.kill(world.rows("observations", "session")[0]["pid"], signal.SIGKILL)
    found = drive_workload.result(process)
    assert found["failed"] == "ProcessError" and "the sampler ended unexpectedly" in found["msg"]
    assert len(world.names()) < 200
    again = world.submit(count=200, arrival={"rate": 50})
    assert again["counts"]["created"] + again["counts"]["already_mine"] == 200 == len(world.names())
    assert [row["kind"] for row in world.rows("observations", "gap")] == ["*"]
    seen = {row["index"] for row in world.rows("observations", "event")}
    assert seen == set(range(200))


# A thousand GPUs in one pod: whatever nodes another test has made, none has them.
TOO_LARGE = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ name }}"}
spec:
  template:
    metadata:
      labels: {{ labels | to_json }}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: none, resources: {limits: {"nvidia.com/gpu": 1000}}}]
"""

#: A Job that the Job controller leaves to another one.
ALONE = TOO_LARGE.replace("spec:\n  template", "spec:\n  managedBy: example.com/none\n  template", 1)


def test_what_can_never_be_scheduled_says_why_meanwhile_and_ends_early(world: World) -> None:
    progress = world.folder / "progress"
    found = world.submit(
        count=3,
        wait=True,
        timeout=110,
        templates=[{"name": "job", "content": TOO_LARGE}],
        progress_file=str(progress),
    )
    assert found.get("timed_out") is False, found
    assert "can never be scheduled" in found["stopped"]
    assert "The load was ended early: pod " in found["msg"] and found["counts"]["unfinished"] == 3
    assert ", 3 pending: " in progress.read_text(encoding="utf-8")
    assert world.rows("ledger", "end")[-1]["reason"].startswith("stopped: ")


def test_where_no_pod_can_be_made_the_warnings_say_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_load_end, "FIRST_CHECK_AFTER", 0.0)
    world.client.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none", "namespace": world.namespace},
            "spec": {"hard": {"pods": "0"}},
        }
    )
    content = SUSPENDED.replace("suspend: true", "suspend: false")
    world.submit(count=2, templates=[{"name": "job", "content": content}])
    task = SamplingSpec(world.run_id, "001", world.point_dir, world.namespace, "", (), frozenset(), (), 0)
    looked = early_load_end.StalledLoad(kubeconfig.load_context_access(world.kubeconfig), task)
    deadline = time.monotonic() + 120
    while not looked.reasons:
        assert time.monotonic() < deadline, "nothing was said of the pods that the quota forbids"
        looked.look({"running": 0}, 2)
        time.sleep(0.1)
    assert "exceeded quota" in looked.reasons[0][1] and looked.unschedulable == ""


ASKING = TOO_LARGE.replace('{limits: {"nvidia.com/gpu": 1000}}', "{requests: {cpu: 2}, limits: {cpu: 2}}")


def limit(world: World, kind: str, spec: dict[str, Any]) -> None:
    """Create a ResourceQuota or a LimitRange, and wait until the quota is in force."""
    metadata = {"name": "bound", "namespace": world.namespace}
    world.client.create({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec})
    deadline = time.monotonic() + 60
    while kind == "ResourceQuota":
        (quota,) = world.client.list(world.client.kind("v1", kind), world.namespace)[0]
        if quota.get("status", {}).get("hard"):
            return
        assert time.monotonic() < deadline, "the quota was never taken up"
        time.sleep(0.1)


def limit_range(**item: Any) -> dict[str, Any]:
    return {"limits": [{"type": "Container", **item}]}


@pytest.mark.parametrize(
    ("kind", "spec", "why"),
    [
        ("ResourceQuota", {"hard": {"requests.cpu": "1"}}, "ResourceQuota bound: one pod needs 2 requests.cpu"),
        ("LimitRange", limit_range(max={"cpu": "1"}), "LimitRange bound: container c has 2 cpu"),
    ],
)
def test_a_load_whose_pods_are_never_permitted_ends_early(
    world: World, kind: str, spec: dict[str, Any], why: str
) -> None:
    limit(world, kind, spec)
    found = world.submit(count=3, wait=True, timeout=110, templates=[{"name": "job", "content": ASKING}])
    assert found.get("timed_out") is False, found
    assert f"the pods of Job {world.run_id}-001-0 can never be created: {why}" in found["stopped"]
    assert found["counts"]["unfinished"] == 3


@pytest.mark.parametrize(
    ("kind", "spec", "resources"),
    [
        ("ResourceQuota", {"hard": {"cpu": "1"}}, {"requests": {"cpu": "1001m"}}),
        ("ResourceQuota", {"hard": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}}),
        ("ResourceQuota", {"hard": {"cpu": "1"}}, {}),
        ("ResourceQuota", {"hard": {"limits.memory": "1Gi"}}, {"requests": {"memory": "1Gi"}}),
        ("ResourceQuota", {"hard": {"requests.example.com/gpu": "1"}}, {"limits": {"example.com/gpu": "2"}}),
        ("ResourceQuota", {"hard": {"requests.ephemeral-storage": "1Gi"}}, {}),
        ("ResourceQuota", {"hard": {"count/pods": "0"}}, {}),
        ("ResourceQuota", {"hard": {"pods": "0"}, "scopes": ["NotBestEffort"]}, {}),
        ("LimitRange", limit_range(max={"cpu": "1"}), {"limits": {"cpu": "2"}}),
        ("LimitRange", limit_range(max={"cpu": "1"}), {}),
        ("LimitRange", limit_range(min={"cpu": "1"}), {"requests": {"cpu": "500m"}}),
        ("LimitRange", limit_range(default={"cpu": "1"}, max={"cpu": "4"}), {"requests": {"cpu": "1"}}),
        ("LimitRange", {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}, {"limits": {"cpu": "2"}}),
    ],
)
def test_the_api_server_refuses_the_same_pods(
    world: World, kind: str, spec: dict[str, Any], resources: dict[str, Any]
) -> None:
    limit(world, kind, spec)
    pod = {"containers": [{"name": "c", "image": "none", "resources": resources}]}
    metadata = {"name": "p", "namespace": world.namespace}
    kinds = (world.client.kind("v1", of) for of in ("ResourceQuota", "LimitRange"))
    found = [world.client.list(of, world.namespace)[0] for of in kinds]
    try:
        world.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
        refused = False
    except ApiError as error:
        assert error.status == 403, error
        refused = True
    assert bool(why_pod_waits_or_cannot_run.why_never_created(pod, *found)) == refused


def test_a_kind_that_no_controller_takes_up_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_load_end, "FIRST_CHECK_AFTER", 0.0)
    world.submit(count=2, templates=[{"name": "job", "content": ALONE}])
    job = stage_definitions.compile_stages_of_kind(workload_kinds.load_kind_by_name_or_path("job").definition)
    own = frozenset({"Job"})
    task = SamplingSpec(world.run_id, "001", world.point_dir, world.namespace, "", (job,), own, (), 0)
    looked = early_load_end.StalledLoad(kubeconfig.load_context_access(world.kubeconfig), task)
    for _time in range(2):
        looked.look({"running": 0}, 2)
    assert looked.reasons == [(2, "no controller has written a status of the Job: does its operator run?")]
    assert looked.unschedulable == ""
