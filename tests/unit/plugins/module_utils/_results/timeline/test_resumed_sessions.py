"""Requests of a killed session may not be recorded: no interval begins with the first one that is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.common_clock_of_clients import (
    ClientClocks,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from resumed_point import FIRST_ATTEMPTS, resume
from run_directory import EPOCH, RUN, World, write_point
from split_point import WrongClock, split

STAGES = ("created", "accepted", "running", "succeeded")
CLOCKS = st.builds(WrongClock, st.floats(-86400, 86400), st.floats(-0.004, 0.004))


def outside(world: World, table: TimelineTable, clock: WrongClock) -> list[tuple[Any, ...]]:
    """Return the true moments outside of their bounds, of stages that were seen."""
    found = []
    for (index, stage), moment in world.truth.items():
        if stage in STAGES and not math.isnan(table.latest[stage][index]):
            low, high = table.earliest[stage][index], table.latest[stage][index]
            if not low <= clock.shows(moment) <= high:
                found.append((index, stage, low - clock.shows(moment), high - clock.shows(moment)))
    return found


KILLED = (st.integers(0, 10_000), st.floats(1, 4), st.floats(0, 3), st.sampled_from(sorted(FIRST_ATTEMPTS)))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(*KILLED)
def test_every_moment_of_a_resumed_load_lies_within_its_bounds(tmp_path_factory, seed, at, lost, first):
    world = World(count=24, seed=seed, canary=20, run_for=2.0, rate=5.0)
    folder = tmp_path_factory.mktemp("any")
    one = write_point(folder / "one", world)
    many = resume(one, folder / "resumed", EPOCH + at, lost, first)
    table = timeline_builder.build_timeline_of_workloads(many, RUN, "000")
    assert outside(world, table, WrongClock()) == [] and table.contradictions == {}
    for row in range(24):
        assert not table.moments["sent"][row] > table.latest["created"][row], "it was sent before it was created"


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(*KILLED, st.lists(CLOCKS, min_size=2, max_size=3), st.one_of(st.none(), CLOCKS))
@example(0, 1.5, 2.0, "found", [WrongClock(1.0), WrongClock()], WrongClock())
def test_the_same_holds_for_several_clients_of_which_one_goes_on_elsewhere(
    tmp_path_factory, seed, at, lost, first, clocks, again
):
    world = World(count=24, seed=seed, canary=15.0 * len(clocks), run_for=2.0, rate=5.0)
    folder = tmp_path_factory.mktemp("any")
    resumed = resume(write_point(folder / "one", world), folder / "resumed", EPOCH + at, lost, first)
    many = split(resumed, folder / "many", clocks, again={} if again is None else {0: again})
    table = timeline_builder.build_timeline_of_workloads(many, RUN, "000")
    client, _at, boot = ClientClocks(point_reader.read_point_inputs(many)).reference.partition("@")
    clock = again if again is not None and "-again" in boot else clocks[int(client)]
    assert outside(world, table, clock) == []


def _with_rows(folder: Path, rows: list[dict[str, Any]], before: str) -> None:
    """Insert rows into the ledger before the first row of a type."""
    path = folder / "ledger.jsonl"
    known = [json.loads(line) for line in path.read_text().splitlines()]
    place = [row["type"] for row in known].index(before)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [*known[:place], *rows, *known[place:]]))


def _session(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "ledger.jsonl").read_text().splitlines()[0])


@pytest.mark.parametrize(("status", "resumed"), [(404, True), (200, True), (404, False), (200, False)])
def test_a_stop_that_an_earlier_session_may_have_sent_begins_with_the_completion(tmp_path, status, resumed):
    world = World(count=4, canary=40, rate=2, run_for=2.0)
    folder = write_point(tmp_path / "p", world)
    sent = EPOCH + 20
    stop = {"type": "stop", "index": 1, "name": "n", "kind": "PyTorchJob", "status": status, "intended": sent - 5,
            "sent": sent, "answered": sent + 0.1}  # fmt: skip
    _with_rows(folder, [*([_session(folder)] if resumed else []), stop], "end")
    table = timeline_builder.build_timeline_of_workloads(folder, RUN, "000")
    if status == 200 and not resumed:
        assert table.earliest["stopped"][1] == sent
    else:
        assert table.earliest["stopped"][1] == table.earliest["succeeded"][1] < sent - 5
    assert table.latest["stopped"][1] == pytest.approx(sent + 0.1) and table.contradictions == {}


@pytest.mark.parametrize("resumed", [True, False])
def test_a_release_that_is_repeated_dates_nothing_by_its_old_version(tmp_path, resumed):
    """The Lease has the value already: the server answers with the version of the first write."""
    world = World(count=6, canary=40, rate=2, run_for=2.0)
    folder = write_point(tmp_path / "p", world)
    version = next(json.loads(line)["resource_version"] for line in (folder / "observations.jsonl").open()
                   if '"type":"canary"' in line)  # fmt: skip
    sent = EPOCH + 2.5
    release = {"type": "release", "name": "n", "released": 4, "status": 200, "intended": sent, "sent": sent,
               "answered": sent + 0.1, "resource_version": version}  # fmt: skip
    _with_rows(folder, [*([_session(folder)] if resumed else []), release], "end")
    inputs = point_reader.read_point_inputs(folder)
    assert (version, sent, sent + 0.1) not in inputs.clocks[point_reader.ONE].writes or not resumed
    inputs.kinds["PyTorchJob"]["stages"][-1] = {**inputs.kinds["PyTorchJob"]["stages"][-1], "depends_on": ["released"]}
    table = timeline_builder.build_timeline_from_inputs(inputs, RUN, "000")
    if resumed:
        assert outside(world, table, WrongClock()) == []
        assert table.earliest["released"][1] == table.earliest["created"][1]
    else:
        assert table.earliest["released"][1] == sent
