"""Sampling what others submit, against the audit log, which the sampler does not see: each interval meets its write."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import audit_truth
import drive_workload
import pytest
import rehearsal as support
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds
from breakable_cluster import BreakableCluster
from cutting_proxy import CuttingProxy
from foreign_loads import ClientLoop, by_kubectl, cron_job, job, of_kube_burner, queue
from load_world import World, world_on
from playbook import begin, play, run_dirs

#: How long the long test samples, seconds; the load ends a minute before.
DURATION = float(os.environ.get("SAMPLE_SECONDS", "3600"))
STAGES_OF_JOBS = ("created", "pods_scheduled", "pods_running", "pods_succeeded", "succeeded")


def definitions(*kinds: str) -> list[dict[str, Any]]:
    return [workload_kinds.load_kind_by_name_or_path(kind).definition for kind in kinds]


def follow(world: World, *kinds: str, **options: Any) -> Any:
    """Begin to follow the Jobs of the world's namespace; return the process when it watches."""
    given = {
        "kubeconfig": world.kubeconfig,
        "run_id": world.run_id,
        "point_dir": str(world.point_dir),
        "namespaces": [world.namespace],
        "submitted_by": "others",
        "stages": definitions("job", *kinds, "pod"),
        "duration": 240,
        **options,
    }
    before = len(world.rows("observations", "watching")) if (world.point_dir / "observations.jsonl").exists() else 0
    process = drive_workload.start("sample", given, world.folder)
    wait_until(world, "watching", before + 2 + len(kinds))
    return process


def wait_until(world: World, kind: str, number: int, patience: float = 240) -> None:
    """Wait until the observations have this many rows of a type."""
    path = world.point_dir / "observations.jsonl"
    deadline = time.monotonic() + patience
    while not path.exists() or path.read_bytes().count(f'"type":"{kind}"'.encode()) < number:
        assert time.monotonic() < deadline, f"no {number} rows of type {kind}"
        time.sleep(0.05)


def wait_until_succeeded(world: World, number: int, patience: float = 240) -> None:
    """Wait until the sampler has seen the success of so many Jobs."""
    deadline = time.monotonic() + patience
    while len(done := succeeded(world)) < number:
        assert time.monotonic() < deadline, f"{len(done)} and not {number} Jobs have succeeded"
        time.sleep(0.1)


def succeeded(world: World) -> set[int]:
    """The indices of the Jobs whose success is in the observations."""
    rows = world.rows("observations", "event")
    return {row["index"] for row in rows if row["kind"] == "Job" and row["values"].get("succeeded")}


def end(world: World, process: Any) -> dict[str, Any]:
    """End the sampling by its file."""
    (world.point_dir / "END").touch()
    return drive_workload.result(process)


def check_against_the_audit_log(table: TimelineTable, log: Path, namespace: str, least: int) -> dict[str, list[float]]:
    """Require that each interval of each row meets its write; return the widths by stage."""
    truth = audit_truth.stages_of_foreign_jobs(log, namespace)
    widths: dict[str, list[float]] = {}
    missed = []
    for stage in STAGES_OF_JOBS:
        known = 0
        for row, name in enumerate(table.name):
            first, last = table.earliest[stage][row], table.latest[stage][row]
            window = truth[stage].get(name)
            if last != last or window is None:
                continue
            known += 1
            widths.setdefault(stage, []).append(last - first)
            if not (first <= window[1] and last >= window[0]):
                missed.append((name, stage, window[0] - last, first - window[1]))
        assert known >= least, f"{stage}: only {known} rows have an entry in the audit log"
    assert not missed, f"{len(missed)} intervals miss their write: {missed[:5]}"
    return widths


def test_each_row_of_a_foreign_load_meets_the_audit_log_through_a_restart_and_a_410(
    own_instance: Any, tmp_path: Path
) -> None:
    cluster = BreakableCluster(own_instance("foreign", components=[]))
    with world_on(cluster.info["kubeconfig"], tmp_path) as world:
        fake_nodes.create_fake_nodes(
            world.client, simulated_node_pool.NodePoolSpec(4, pool="foreign"), 240, support.quiet
        )
        by_kubectl(world.kubeconfig, world.namespace, job("earlier"))
        with CuttingProxy(world.client.access.host, world.client.access.port) as proxy:
            sampler = follow(world, kubeconfig=world.through(proxy.port), label_selector="app=foreign")
            by_kubectl(world.kubeconfig, world.namespace, *(job(f"by-kubectl-{number}") for number in range(5)))
            by_kubectl(world.kubeconfig, world.namespace, {**job("another"), "metadata": {"name": "another"}})
            burner = ClientLoop(world.kubeconfig, world.namespace, of_kube_burner, 10, most=10)
            loop = ClientLoop(world.kubeconfig, world.namespace, lambda number: job(f"loop-{number}"), 5)
            wait_until(world, "workload", 25)
            proxy.refusing = True
            proxy.cut()
            cluster.restart_api_server(how=signal.SIGTERM)
            cluster.compact()
            time.sleep(1)
            proxy.refusing = False
            wait_until(world, "workload", len(burner.sent | loop.sent) + 25)
            names = {f"by-kubectl-{number}" for number in range(5)} | loop.finish() | burner.finish()
            wait_until_succeeded(world, len(names))
            found = end(world, sampler)
        assert found["ended_by"] == "END was written" and found["counts"]["succeeded"] == len(names), found
        gaps = world.rows("observations", "gap")
        assert {row["kind"] for row in gaps if row["reason"].startswith("relisted")} == {"Job", "Pod"}, gaps
        table = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001")
        assert set(table.name) == names and len(table) == len(names)
        assert Counter(table.outcome) == {"succeeded": len(names)} and not table.contradictions
        assert not table.header["notes"] and table.header["sent_is"] == "created"
        # What came and went while nothing was watched shows no pods_running.
        widths = check_against_the_audit_log(table, Path(cluster.info["cluster"]["audit_log"]), world.namespace, 40)
        print({stage: round(median(found), 4) for stage, found in widths.items()}, table.header["dated_by"])
        assert {"revision clock", "creationTimestamp"} <= set(table.header["dated_by"]["created"])
        leases = world.client.kind("coordination.k8s.io/v1", "Lease")
        assert not world.client.list(leases, world.namespace)[0], "the canary is still there"


def test_without_a_canary_nothing_is_written_and_the_widths_say_so(world: World, rehearsal: support.Rehearsal) -> None:
    log = Path(rehearsal.info["cluster"]["audit_log"])
    fake_nodes.create_fake_nodes(world.client, simulated_node_pool.NodePoolSpec(2, pool="sampled"), 240, support.quiet)
    by_kubectl(world.kubeconfig, world.namespace, *(job(f"earlier-{number}") for number in range(3)))
    time.sleep(1.5)
    begun = log.stat().st_size
    sampler = follow(world, canary_rate=0, existing=True, idle=8)
    loop = ClientLoop(world.kubeconfig, world.namespace, lambda number: job(f"loop-{number}"), 10, most=20)
    found = drive_workload.result(sampler)
    loop.join()
    assert found["ended_by"] == "nothing changed for 8 s" and found["counts"]["succeeded"] == 23, found
    with open(log, encoding="utf-8") as stream:
        stream.seek(begun)
        written = [
            row for row in stream if all(one in row for one in (world.namespace, "perfscale.seatrial", "leases"))
        ]
    assert not written
    table = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001")
    assert set(table.outcome) == {"succeeded"} and not table.contradictions
    widths = check_against_the_audit_log(table, log, world.namespace, 20)
    assert "revision clock" not in {source for found in table.header["dated_by"].values() for source in found}
    assert max(widths["created"]) < 5


def test_a_killed_sampler_continues_and_what_came_in_between_is_dated_by_the_gap(
    world: World, rehearsal: support.Rehearsal
) -> None:
    fake_nodes.create_fake_nodes(world.client, simulated_node_pool.NodePoolSpec(2, pool="sampled"), 240, support.quiet)
    by_kubectl(world.kubeconfig, world.namespace, job("earlier"))
    sampler = follow(world)
    loop = ClientLoop(world.kubeconfig, world.namespace, lambda number: job(f"loop-{number}"), 5)
    wait_until(world, "workload", 8)
    os.killpg(sampler.pid, signal.SIGKILL)
    sampler.communicate(timeout=120)
    time.sleep(2)
    sampler = follow(world)
    wait_until(world, "workload", len(loop.sent) + 5)
    names = loop.finish()
    wait_until_succeeded(world, len(names))
    found = end(world, sampler)
    table = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001")
    assert sorted(table.name) == sorted(names) and found["counts"]["succeeded"] == len(names)
    assert [gap["reason"] for gap in table.header["gaps"]] == ["no sampler was running: an earlier one had ended"]
    assert not table.contradictions
    check_against_the_audit_log(table, Path(rehearsal.info["cluster"]["audit_log"]), world.namespace, 10)


def options(kubeconfig: str, namespace: str, **more: Any) -> list[str]:
    """The words of a user who samples a namespace."""
    given = {"cluster_kubeconfig": kubeconfig, "sample_namespaces": [namespace], "metrics_url": "", **more}
    return ["-e", json.dumps(given)]


def sampled_folder(artifacts: Path, process: Any, log: Path) -> Path:
    """Return the run directory as soon as its point is sampled."""
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        for folder in run_dirs(artifacts):
            path = folder / "points" / "001" / "observations.jsonl"
            if path.exists() and path.read_bytes().count(b'"type":"watching"') >= 2:
                return folder
        time.sleep(0.1)
    raise AssertionError(f"nothing is sampled: {log.read_text(encoding='utf-8')[-3000:]}")


@pytest.mark.long
def test_the_playbook_reports_a_foreign_load_meanwhile_and_when_the_file_ends_it(world: World, tmp_path: Path) -> None:
    fake_nodes.create_fake_nodes(world.client, simulated_node_pool.NodePoolSpec(2, pool="sampled"), 240, support.quiet)
    artifacts, log = tmp_path / "artifacts", tmp_path / "log"
    words = options(world.kubeconfig, world.namespace, sample_label_selector="app=foreign", preset="jobs")
    process = begin(*words, artifacts=artifacts, log=log, project="sample")
    folder = sampled_folder(artifacts, process, log)
    by_kubectl(world.kubeconfig, world.namespace, *(job(f"mine-{number}") for number in range(6)))
    time.sleep(3)
    done = play("--tags", "report", "-e", f"run_dir={folder}", artifacts=artifacts, project="sample")
    assert done.code == 0, done.output
    assert "Where the times are from" in (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert process.poll() is None, log.read_text(encoding="utf-8")
    (folder / "points" / "001" / "END").touch()
    assert process.wait(600) == 0, log.read_text(encoding="utf-8")
    text = log.read_text(encoding="utf-8")
    assert "to end it: touch" in text and "END was written" in text
    assert " + waiting for workloads " in text, "the summary does not count the time of sampling as Ansible's"
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert "from the stage created, because others sent the load" in page and "revision clock" in page
    kpis = {one["name"]: one for one in json.loads((folder / "points" / "001" / "kpis.json").read_text())["kpis"]}
    assert kpis["workloads_succeeded"]["value"] == 6 and 0 < kpis["time_to_running_p95"]["value"] < 60
    assert json.loads((folder / "verdict.json").read_text())["verdict"] == "pass"
    assert not list(folder.glob("lock-*.json")), "a lock would keep out the run whose load is sampled"
    assert not world.client.list(world.client.kind("coordination.k8s.io/v1", "Lease"), world.namespace)[0]


def test_objects_that_the_selector_leaves_out_are_named(world: World) -> None:
    process = follow(world, label_selector="kube-burner-job=old", duration=12)
    world.client.create(
        {**of_kube_burner(1), "metadata": {**of_kube_burner(1)["metadata"], "namespace": world.namespace}}
    )
    found = drive_workload.result(process)
    assert found["counts"]["seen"] == 0
    assert (
        f"1 Job appeared that kube-burner-job=old leaves out, such as {world.namespace}/node-density-1" in found["msg"]
    )
    assert "kube-burner.io/job=node-density" in found["msg"]


def test_a_load_may_create_its_kind_and_its_namespace_later(world: World) -> None:
    simulation = {
        "api_version": "later.example.com/v1",
        "kind": "Later",
        "stages": [
            {"name": "created", "field": "metadata.creationTimestamp", "writer": "api-server"},
            {"name": "done", "jmespath": "length(status.phases) > `0`", "writer": "controller", "ends": "succeeded"},
        ],
    }
    namespace = f"{world.namespace}-later"
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "laters.later.example.com"},
        "spec": {
            "group": "later.example.com",
            "scope": "Namespaced",
            "names": {"plural": "laters", "singular": "later", "kind": "Later"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    given = {
        "kubeconfig": world.kubeconfig,
        "run_id": world.run_id,
        "point_dir": str(world.point_dir),
        "namespaces": [namespace, world.namespace],
        "submitted_by": "others",
        "stages": [simulation],
        "label_selector": "mine",
        "duration": 120,
        "count": 2,
    }
    process = drive_workload.start("sample", given, world.folder)
    wait_until(world, "follows", 1)
    crd = world.client.kind_of(definition)
    thing: dict[str, Any] = {"apiVersion": "later.example.com/v1", "kind": "Later"}
    try:
        world.client.create(definition)
        world.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        deadline = time.monotonic() + 60
        while True:
            try:
                world.client.create({**thing, "metadata": {"name": "other", "namespace": namespace}})
                break
            except (ApiError, InputError):
                assert time.monotonic() < deadline
                time.sleep(0.5)
        wait_until(world, "watching", 2)
        time.sleep(8)
        for number in range(2):
            metadata = {"name": f"x{number}", "namespace": namespace, "labels": {"mine": "1"}}
            world.client.create({**thing, "metadata": metadata, "status": {"phases": ["Done"]}})
        found = drive_workload.result(process)
    finally:
        world.client.delete(crd, "laters.later.example.com")
        world.client.delete(world.client.kind("v1", "Namespace"), namespace)
    assert found["counts"]["succeeded"] == 2, found
    assert {row["namespace"] for row in world.rows("observations", "workload")} == {namespace}


@pytest.mark.long
def test_a_load_that_never_comes_is_an_error_that_names_the_selectors(world: World, tmp_path: Path) -> None:
    fake_nodes.create_fake_nodes(world.client, simulated_node_pool.NodePoolSpec(1, pool="sampled"), 240, support.quiet)
    words = options(world.kubeconfig, world.namespace, sample_label_selector="app=other", sample_duration=2)
    done = play(*words, "--tags", "cluster,test", artifacts=tmp_path / "artifacts", project="sample")
    assert done.code != 0
    assert "No workload was seen: check sample_namespaces, sample_label_selector" in done.flat(), done.output


@pytest.mark.long
def test_a_long_foreign_load_meets_the_audit_log_through_a_restart_and_a_410(own_instance: Any, tmp_path: Path) -> None:
    """By the playbook, from kubectl, a client, a CronJob, a user of Kueue, and in kube-burner's way of naming."""
    cluster = BreakableCluster(own_instance("foreign", components=["kueue"]))
    artifacts, log = tmp_path / "artifacts", tmp_path / "log"
    with world_on(cluster.info["kubeconfig"], tmp_path) as world:
        fake_nodes.create_fake_nodes(
            world.client, simulated_node_pool.NodePoolSpec(10, pool="foreign"), 240, support.quiet
        )
        by_kubectl(world.kubeconfig, world.namespace, *queue(world.namespace))
        with CuttingProxy(world.client.access.host, world.client.access.port) as proxy:
            words = options(world.through(proxy.port), world.namespace, preset="kueue", sample_duration=DURATION)
            began = time.monotonic()
            process = begin(*words, artifacts=artifacts, log=log, project="sample")
            folder = sampled_folder(artifacts, process, log)
            world.point_dir = folder / "points" / "001"
            by_kubectl(world.kubeconfig, world.namespace, cron_job("cron"))
            queued = {"kueue.x-k8s.io/queue-name": "users"}
            loops = [
                ClientLoop(world.kubeconfig, world.namespace, lambda number: job(f"loop-{number}"), 1.5),
                ClientLoop(world.kubeconfig, world.namespace, of_kube_burner, 0.5),
                ClientLoop(world.kubeconfig, world.namespace, lambda number: job(f"queued-{number}", queued), 0.5),
            ]
            typed = 0
            broken = [
                (0.3, lambda: cluster.restart_api_server(how=signal.SIGTERM)),
                (0.6, lambda: forget(cluster, proxy)),
            ]
            while process.poll() is None and (broken or time.monotonic() - began < DURATION - 60):
                by_kubectl(world.kubeconfig, world.namespace, *(job(f"typed-{typed}-{one}") for one in range(3)))
                typed += 1
                time.sleep(10)
                if broken and time.monotonic() - began > broken[0][0] * DURATION:
                    broken.pop(0)[1]()
            sent = set().union(*(loop.finish() for loop in loops))
            assert process.wait(300) == 0, log.read_text(encoding="utf-8")[-5000:]
        table = timeline_builder.build_timeline_of_workloads(world.point_dir, table_run(folder), "001")
        audit = Path(cluster.info["cluster"]["audit_log"])
        widths = check_against_the_audit_log(table, audit, world.namespace, int(0.8 * len(sent)))
        print({stage: (round(median(found), 4), len(found)) for stage, found in widths.items()})
        print(Counter(table.outcome), table.header["dated_by"], table.header["gaps"])
        assert sent <= set(table.name) and not table.contradictions and not broken
        assert len(sent) + 3 * typed <= len(table)
        assert {name.rsplit("-", 1)[0] for name in table.name} >= {"cron", "loop", "queued", "node-density", "typed-0"}
        assert table.seen("workload_admitted") >= 0.9 * sum(name.startswith("queued-") for name in table.name)
        assert any(gap["reason"].startswith("relisted") for gap in table.header["gaps"])
        assert Counter(table.outcome)["succeeded"] >= len(table) - 5, Counter(table.outcome)
        assert json.loads((folder / "verdict.json").read_text())["verdict"] == "pass"


def table_run(folder: Path) -> str:
    return str(yaml.safe_load((folder / "run.yml").read_text(encoding="utf-8"))["id"])


def forget(cluster: BreakableCluster, proxy: CuttingProxy) -> None:
    """Let the watches break, and let neither etcd nor the API server remember what happened meanwhile."""
    proxy.refusing = True
    proxy.cut()
    time.sleep(1)
    cluster.restart_api_server(how=signal.SIGTERM)
    cluster.compact()
    time.sleep(1)
    proxy.refusing = False
