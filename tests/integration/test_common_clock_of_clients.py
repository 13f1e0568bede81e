"""Clients whose clocks are wrong and drift: every interval of their timeline against the API server's audit log."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import audit_truth
import drive_workload
import pytest
import rehearsal as support
import wrong_clock_client
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.workload_plan import WorkloadPlan
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import load_in_local_processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import load_spec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import (
    revision_and_server_clocks,
    timeline_builder,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.common_clock_of_clients import (
    ClientClocks,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.revision_and_server_clocks import (
    MAX_DRIFT,
    ClockOffset,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from load_bench import REAL_TEMPLATE
from load_world import World, world_on
from split_point import WrongClock

STAGES = ("created", "pods_scheduled", "pods_running", "pods_succeeded", "succeeded")
CLIENTS, COUNT, RATE = 4, 160, 8
#: Seconds by which a clock is wrong: no interval is that wide, so a join without offsets is noticed.
LEAST, MOST = 20.0, 86400.0
#: Seconds by which written times and those computed here may differ.
ROUNDED = 1e-5
#: Of the load: REPEAT=20 .venv/bin/pytest … runs more, each with clocks and arrivals of another seed.
SEEDS = range(int(os.environ.get("REPEAT", "1")))


class NoOffset(ClockOffset):
    """What a timeline would use that believes what clocks show."""

    def earliest(self, at: float) -> float:
        return at

    def latest(self, at: float) -> float:
        return at


def wrong_clocks(seed: int, drift: float) -> list[WrongClock]:
    chance = random.Random(seed)
    return [
        WrongClock(chance.choice((-1, 1)) * chance.uniform(LEAST, MOST), chance.uniform(-drift, drift))
        for _client in range(CLIENTS)
    ]


def submit(world: World, clocks: Sequence[WrongClock], patch: pytest.MonkeyPatch, **more: Any) -> dict[str, Any]:
    """Run a load whose clients have these clocks; the controller, which is this process, has the true one."""
    given = drive_workload.defaults({**world.options, "clients": CLIENTS, **more}, load_spec.SUBMIT)
    programs = [wrong_clock_client.interpreter(world.folder / f"python-{n}", one) for n, one in enumerate(clocks)]
    start = load_in_local_processes.start_client

    def start_client(given: Mapping[str, Any], request: LoadSpec, plan: WorkloadPlan, number: int) -> bool:
        with pytest.MonkeyPatch.context() as on_that_machine:
            on_that_machine.setattr(sys, "executable", programs[number])
            return start(given, request, plan, number)

    patch.setattr(load_in_local_processes, "start_client", start_client)
    return load_in_local_processes.run_local_clients(
        given, LoadSpec.from_params(given), StepDirectory(None), ProgressLog(None)
    )


def missed(table: TimelineTable, truth: dict[str, dict[int, audit_truth.Window]], clock: WrongClock) -> list[str]:
    """Return the intervals outside of which the write was, as the clock of the timeline shows its times."""
    found = []
    for stage in STAGES:
        assert len(truth[stage]) == COUNT, f"{stage}: the audit log tells of {len(truth[stage])}"
        for row, index in enumerate(table.index):
            received, answered = (clock.shows(one) for one in truth[stage][index])
            earliest, latest = table.earliest[stage][row], table.latest[stage][row]
            if not (earliest <= answered and latest >= received):
                found.append(f"{stage} {index}: {received - latest:.3f} s late, {earliest - answered:.3f} s early")
    return found


def misjudged(folder: Path, clocks: Sequence[WrongClock]) -> list[float]:
    """Return how far, in seconds, moments of a client lie outside of their bounds on the clock of the timeline.

    The moments at which its own writes were sent and answered: what the other clock showed then is known exactly.
    """
    inputs = point_reader.read_point_inputs(folder)
    joined = ClientClocks(inputs)
    reference = clocks[int(joined.reference.partition("@")[0])]
    found = []
    for key, one in inputs.clocks.items():
        for at in (moment for _version, *both in one.writes for moment in both):
            assert one.client is not None
            shown = reference.shows(clocks[one.client].moment(at))
            found.append(max(joined.earliest(key, at) - shown, shown - joined.latest(key, at)))
    assert len(found) > 100 * CLIENTS
    return [one for one in found if one > ROUNDED]


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("drift", [0.004, 0.03], ids=["within-the-assumed-drift", "beyond-it"])
def test_intervals_of_clients_with_wrong_clocks_meet_the_audit_log(
    own_instance: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drift: float, seed: int
) -> None:
    clocks = wrong_clocks(seed + int(os.environ.get("FIRST_SEED", "0")), drift)
    info = cluster_lifecycle.create_or_repair_instance(own_instance("clocks", components=[]), support.quiet)
    audit_log = Path(info["cluster"]["audit_log"])
    with world_on(info["kubeconfig"], tmp_path) as world:
        fake_nodes.create_fake_nodes(world.client, simulated_node_pool.NodePoolSpec(50), 120, support.quiet)
        found = submit(
            world,
            clocks,
            monkeypatch,
            count=COUNT,
            seed=seed,
            arrival={"type": "poisson", "rate": RATE},
            templates=[{"name": "job", "content": REAL_TEMPLATE, "parameters": {"run_seconds": 2}}],
            wait=True,
            timeout=600,
            settle=1,
        )
        assert found["counts"]["succeeded"] == COUNT, found["msg"]
        truth = audit_truth.stages_of_jobs(audit_log, world.run_id)
        table = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001")
        joined = ClientClocks(point_reader.read_point_inputs(world.point_dir))
        reference = int(joined.reference.partition("@")[0])
        wrong = missed(table, truth, clocks[reference])
        of = COUNT * len(STAGES)
        print(f"\n{of - len(wrong)} of {of} intervals meet the write; {table.header['notes']}; the clocks:")
        for entry, clock in zip(table.header["clocks"], clocks, strict=True):
            rows = [row for row, index in enumerate(table.index) if index % CLIENTS == entry["client"]]
            widths = [table.latest[stage][row] - table.earliest[stage][row] for stage in STAGES for row in rows]
            low, high = entry["offset"]
            print(
                f"  client {entry['client']}: {clock.ahead:+.3f} s, {clock.drift * 100:+.3f} %, offset known to "
                f"{(high - low) * 1e3:.1f} ms, widths P50 {median(widths) * 1e3:.0f} ms, max {max(widths) * 1e3:.0f} ms"
                f"{', the reference' if entry['reference'] else ''}"
            )
        assert wrong == [] and table.contradictions == {}
        assert misjudged(world.point_dir, clocks) == []
        if drift <= MAX_DRIFT:  # the server's clock is the true one
            narrow = timeline_builder.build_timeline_of_workloads(
                world.point_dir, world.run_id, "001", audit_log=audit_log
            )
            assert missed(narrow, truth, clocks[reference]) == []
            assert narrow.contradictions == {} and narrow.header["notes"] == []
        monkeypatch.setattr(revision_and_server_clocks, "ClockOffset", NoOffset)
        naive = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001")
        others = COUNT * (CLIENTS - 1) // CLIENTS
        assert len(missed(naive, truth, clocks[reference])) == others * len(STAGES), "the audit log shows wrong times"
