"""A load by several clients gives the timeline of one client, but for widths, whatever their clocks show."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.common_clock_of_clients import (
    ClientClocks,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_directory import RUN, World, write_point
from split_point import WrongClock, split

STAGES = ("created", "accepted", "running", "succeeded")
#: Clocks that are wrong by up to a day, and whose rates differ by as much as those of slewed clocks.
CLOCKS = st.builds(WrongClock, st.floats(-86400, 86400), st.floats(-0.004, 0.004))


def both(folder, world, clocks, **more):
    """Return the timelines of the same point as one client and as several recorded it."""
    one = write_point(folder / "one", world)
    many = split(one, folder / "many", clocks, **more)
    return (
        timeline_builder.build_timeline_of_workloads(one, RUN, "000"),
        timeline_builder.build_timeline_of_workloads(many, RUN, "000"),
        many,
    )


def reference_of(folder, clocks):
    found = ClientClocks(point_reader.read_point_inputs(folder))
    return clocks[int(found.reference.partition("@")[0])]


def outside(world, table, clock):
    """Return the true moments outside of their bounds."""
    wrong = []
    for (index, stage), moment in world.truth.items():
        if stage in STAGES:
            low, high = table.earliest[stage][index], table.latest[stage][index]
            if not low <= clock.shows(moment) <= high:
                wrong.append((index, stage, low - clock.shows(moment), high - clock.shows(moment)))
    return wrong


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10_000), st.lists(CLOCKS, min_size=2, max_size=5), st.one_of(st.none(), st.just((0.5, 2.0))))
def test_every_moment_lies_within_its_bounds_for_any_clocks(tmp_path_factory, seed, clocks, gap):
    world = World(count=11, seed=seed, canary=15.0 * len(clocks), run_for=2.0, rate=5.0, gap=gap)
    _one, many, folder = both(tmp_path_factory.mktemp("any"), world, clocks)
    found = outside(world, many, reference_of(folder, clocks))
    found = [one for one in found if not (gap and math.isnan(one[2]))]  # came and went while the watch was blind
    assert found == []
    assert many.contradictions == {} and many.header["notes"] == []


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10_000), st.lists(CLOCKS, min_size=2, max_size=4))
def test_several_clients_give_the_timeline_of_one_but_for_widths(tmp_path_factory, seed, clocks):
    fates = {3: "failed", 4: "unfinished", 5: "deleted", 6: "refused", 7: "lost", 10: "unsent"}
    world = World(count=12, seed=seed, canary=20.0 * len(clocks), outcomes=fates, run_for=2.0, rate=5.0)
    one, many, folder = both(tmp_path_factory.mktemp("any"), world, clocks)
    for name in ("index", "name", "kind", "template", "outcome", "censored", "pods", "gpus", "attempts", "uid"):
        assert getattr(one, name) == getattr(many, name), name
    clock = reference_of(folder, clocks)
    for stage in one.earliest:
        for row in range(12):
            assert math.isnan(one.earliest[stage][row]) == math.isnan(many.earliest[stage][row]), (stage, row)
            if not math.isnan(one.latest[stage][row]):
                # Both contain the true moment, so they overlap.
                low, high = (clock.moment(found[stage][row]) for found in (many.earliest, many.latest))
                assert low <= one.latest[stage][row] + 1e-5 and one.earliest[stage][row] <= high + 1e-5, (stage, row)
    for row in range(12):
        late = [table.moments["sent"][row] - table.moments["intended"][row] for table in (one, many)]
        if row != 10:
            assert late[0] == pytest.approx(late[1], abs=1e-3), "the lateness is that of the client's own clock"


def test_a_row_is_as_wide_as_on_its_own_clock_and_as_the_offset_is_uncertain(tmp_path):
    clocks = [WrongClock(), WrongClock(3600, 1e-4), WrongClock(-7200, -1e-4)]
    world = World(count=30, canary=60, rate=10, run_for=2.0)
    _one, many, folder = both(tmp_path, world, clocks)
    widths = {part: sorted(many.latest["running"][row] - many.earliest["running"][row]
                           for row in range(30) if row % 3 == part) for part in range(3)}  # fmt: skip
    reference = next(entry["client"] for entry in many.header["clocks"] if entry["reference"])
    for entry in many.header["clocks"]:
        low, high = entry["offset"]
        assert low <= 0 <= high if entry["reference"] else abs((low + high) / 2) > 3000
        assert high - low < 0.06
        median = widths[entry["client"]][5]
        assert median <= widths[reference][5] + 0.06
    assert outside(world, many, reference_of(folder, clocks)) == []


def test_clients_on_one_machine_share_its_clock(tmp_path):
    clocks = [WrongClock(), WrongClock(3.5), WrongClock(-7.25)]
    world = World(count=30, canary=60, rate=10, run_for=2.0)
    one, apart, _folder = both(tmp_path / "apart", world, clocks)
    _one, joint, folder = both(tmp_path / "joint", world, clocks, one_machine=True)
    assert outside(world, joint, reference_of(folder, clocks)) == []

    def median(table):
        spans = zip(table.earliest["running"], table.latest["running"], strict=True)
        return sorted(latest - earliest for earliest, latest in spans)[15]

    assert median(joint) < 0.8 * median(apart)
    assert median(joint) == pytest.approx(median(one), rel=0.1)  # as if one client had written all canaries
    assert [entry["offset"][1] - entry["offset"][0] for entry in joint.header["clocks"]] == [0, 0, 0]


@pytest.mark.parametrize("drift", [0.05, -0.05, 0.3])
def test_a_clock_that_runs_wrong_is_noticed_and_gets_wider_bounds(tmp_path, drift):
    clocks = [WrongClock(), WrongClock(100, drift)]
    world = World(count=20, canary=40, rate=2, run_for=2.0)
    _one, many, folder = both(tmp_path, world, clocks)
    assert outside(world, many, reference_of(folder, clocks)) == []
    assert any("differs by more than clocks do" in note for note in many.header["notes"])


def test_a_clock_that_jumps_is_told(tmp_path):
    one = write_point(tmp_path / "one", World(count=12, canary=40, rate=2))
    many = split(one, tmp_path / "many", [WrongClock(), WrongClock(50)])
    path = many / "observations.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    client, canaries = 0, 0
    for row in rows:
        client = row.get("client", client)
        if client == 1 and row["type"] == "canary":
            canaries += 1
            if canaries > 60:
                row["sent"], row["answered"] = row["sent"] + 30, row["answered"] + 30
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    table = timeline_builder.build_timeline_of_workloads(many, RUN, "000")
    assert any("it has jumped" in note for note in table.header["notes"])


def test_a_client_without_files_leaves_its_workloads_unknown(tmp_path):
    world = World(count=12, canary=60, rate=5, run_for=2.0)
    clocks = [WrongClock(), WrongClock(9), WrongClock(-9)]
    _one, many, folder = both(tmp_path, world, clocks, lost=[1])
    assert Counter(many.outcome) == {"succeeded": 8, "lost": 4}
    assert [index for index, fate in zip(many.index, many.outcome, strict=True) if fate == "lost"] == [1, 4, 7, 10]
    assert many.header["notes"] == [
        "client 1 of 3 was lost (its node is gone): nothing is known of 4 workloads (1, 4, 7, 10)"
    ]
    wrong = outside(world, many, reference_of(folder, clocks))
    assert {index for index, *_rest in wrong} == {1, 4, 7, 10}


@pytest.mark.parametrize("clients", [1, 2])
def test_a_workload_that_a_killed_session_created_without_a_record_is_not_dated_by_the_next(tmp_path, clients):
    """The next session finds the object: its first recorded request was sent long after the creation."""
    world = World(count=8, canary=60, rate=2, run_for=2.0)
    folder = write_point(tmp_path / "one", world)
    path = folder / "ledger.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if row["type"] == "attempt" and row["index"] in (2, 5) and row["kind"] == "PyTorchJob":
            row["sent"], row["answered"] = row["sent"] + 2.5, row["answered"] + 2.5
            row["status"], row["outcome"], row["resource_version"] = 409, "already_mine", None
    kept = [row for row in rows if row.get("index") not in (2, 5) or row.get("kind") == "PyTorchJob"]
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in kept))
    clocks = [WrongClock(), WrongClock(70, 1e-3)][:clients]
    many = split(folder, tmp_path / "many", clocks) if clients > 1 else folder
    table = timeline_builder.build_timeline_of_workloads(many, RUN, "000")
    clock = reference_of(many, clocks) if clients > 1 else clocks[0]
    assert table.contradictions == {} and outside(world, table, clock) == []
    for index in (2, 5):
        assert table.moments["sent"][index] <= table.latest["created"][index] < table.moments["answered"][index] - 2
