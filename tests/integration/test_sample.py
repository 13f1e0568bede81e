"""Sampling what others submit, against the audit log, which the sampler does not see: each interval meets its write."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import audit_truth
import drive_workload
import rehearsal as support
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal import fake_nodes
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.timeline_table import Table
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline import timeline_builder
from breakable_cluster import BreakableCluster
from cutting_proxy import CuttingProxy
from foreign_loads import ClientLoop, by_kubectl, job, of_kube_burner
from load_world import STAGES, World, world_on

STAGES_OF_JOBS = ("created", "pods_scheduled", "pods_running", "pods_succeeded", "succeeded")


def definitions(*kinds: str) -> list[dict[str, Any]]:
    return [yaml.safe_load((STAGES / f"{kind}.yml").read_text(encoding="utf-8")) for kind in kinds]


def follow(world: World, *kinds: str, **options: Any) -> Any:
    """Begin to follow the Jobs of the world's namespace; return the process when it watches."""
    given = {
        "kubeconfig": world.kubeconfig,
        "run_id": world.run_id,
        "point_dir": str(world.point_dir),
        "namespaces": [world.namespace],
        "stages": definitions("job", *kinds, "pod"),
        "duration": 240,
        **options,
    }
    process = drive_workload.start("follow", given, world.folder)
    wait_until(world, "watching", 2 + len(kinds))
    return process


def wait_until(world: World, kind: str, number: int, patience: float = 60) -> None:
    """Wait until the observations have this many rows of a type."""
    path = world.point_dir / "observations.jsonl"
    deadline = time.monotonic() + patience
    while not path.exists() or path.read_bytes().count(f'"type":"{kind}"'.encode()) < number:
        assert time.monotonic() < deadline, f"no {number} rows of type {kind}"
        time.sleep(0.05)


def end(world: World, process: Any) -> dict[str, Any]:
    """End the sampling by its file."""
    (world.point_dir / "END").touch()
    return drive_workload.result(process)


def check_against_the_audit_log(table: Table, log: Path, namespace: str, least: int) -> dict[str, list[float]]:
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
        fake_nodes.present(world.client, fake_nodes.NodePoolSpec(4, pool="foreign"), 60, support.quiet)
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
            wait_until(world, "workload", len(names))
            time.sleep(4)
            found = end(world, sampler)
        assert found["ended_by"] == "END was written" and found["counts"]["succeeded"] == len(names), found
        gaps = world.rows("observations", "gap")
        assert {row["kind"] for row in gaps if row["reason"].startswith("relisted")} == {"Job", "Pod"}, gaps
        table = timeline_builder.build(world.point_dir, world.run_id, "001")
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
    fake_nodes.present(world.client, fake_nodes.NodePoolSpec(2, pool="sampled"), 60, support.quiet)
    by_kubectl(world.kubeconfig, world.namespace, *(job(f"earlier-{number}") for number in range(3)))
    time.sleep(1.5)
    begun = log.stat().st_size
    sampler = follow(world, canary_rate=0, existing=True, idle=4)
    loop = ClientLoop(world.kubeconfig, world.namespace, lambda number: job(f"loop-{number}"), 10, most=20)
    found = drive_workload.result(sampler)
    loop.join()
    assert found["ended_by"] == "nothing changed for 4 s" and found["counts"]["succeeded"] == 23, found
    with open(log, encoding="utf-8") as stream:
        stream.seek(begun)
        written = [
            row for row in stream if all(one in row for one in (world.namespace, "perfscale.seatrial", "leases"))
        ]
    assert not written
    table = timeline_builder.build(world.point_dir, world.run_id, "001")
    assert set(table.outcome) == {"succeeded"} and not table.contradictions
    widths = check_against_the_audit_log(table, log, world.namespace, 20)
    assert "revision clock" not in {source for found in table.header["dated_by"].values() for source in found}
    assert max(widths["created"]) < 5
