"""Plan, ledger and observations are joined to one row per planned workload."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_directory import EPOCH, RUN, World, write_point


def outside(world, table):
    """Return the true times outside of their bounds: (index, stage)."""
    truth = dict(world.truth)
    for index in range(world.count):
        for stage in ("created", "scheduled", "running", "succeeded"):
            pods = [
                truth[index, f"pod{n}_{stage}"] for n in range(world.workers + 1) if (index, f"pod{n}_{stage}") in truth
            ]
            if pods:
                truth[index, f"pods_{stage}_first"] = min(pods)
                truth[index, f"pods_{stage}"] = max(pods)
    seen = [(index, stage, moment) for (index, stage), moment in truth.items() if stage in table.earliest]
    assert seen
    # What came and went while the watch was blind was not seen at all.
    return [
        (index, stage)
        for index, stage, moment in seen
        if not (table.earliest[stage][index] <= moment <= table.latest[stage][index])
        and not (world.gap and table.latest[stage][index] != table.latest[stage][index])
    ]


def copied(folder, parent, *names):
    """Return a new point directory that contains these files of ``folder``."""
    copy = parent / "000"
    copy.mkdir()
    for name in names:
        (copy / f"{name}.jsonl").write_bytes((folder / f"{name}.jsonl").read_bytes())
    return copy


def edit(path, change):
    """Rewrite a JSON-lines file: ``change`` gets each record and returns it, another, or None to leave it out."""
    records = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in records if one is not None))


def test_every_planned_workload_has_a_row_whatever_became_of_it(mixed):
    world, _folder, table = mixed
    assert len(table) == world.count
    for index, fate in world.outcomes.items():
        assert table.outcome[index] == fate
    assert Counter(table.outcome)["succeeded"] == world.count - len(world.outcomes)


def test_every_true_moment_lies_within_its_bounds_also_across_a_gap(mixed):
    world, _folder, table = mixed
    assert outside(world, table) == []


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.0, 2.0, 20.0]),
    st.one_of(st.none(), st.tuples(st.floats(0, 2), st.floats(2, 5))),
    st.integers(0, 2),
)
def test_bounds_hold_for_any_seed_canary_rate_and_gap(tmp_path_factory, seed, canary, gap, workers):
    world = World(count=4, seed=seed, canary=canary, gap=gap, workers=workers, run_for=2.0)
    folder = write_point(tmp_path_factory.mktemp("any") / "000", world)
    table = timeline_builder.build_timeline_of_workloads(folder, RUN, "000")
    assert outside(world, table) == []
    assert table.contradictions == {}


def test_a_canary_narrows_the_bounds(tmp_path):
    widths = []
    for number, canary in enumerate((0.0, 50.0)):
        world = World(count=6, canary=canary)
        table = timeline_builder.build_timeline_of_workloads(write_point(tmp_path / f"{number}", world), RUN, "000")
        widths.append(max(table.latest["pods_running"][row] - table.earliest["pods_running"][row] for row in range(6)))
    assert widths[1] < 0.1 < widths[0]


def test_censored_are_those_that_were_under_way_when_nothing_more_was_seen(mixed):
    _world, _folder, table = mixed
    by_outcome = dict(zip(table.outcome, table.censored, strict=True))
    assert by_outcome == {
        "succeeded": False,
        "failed": False,
        "refused": False,
        "unsent": False,
        "unfinished": True,
        "deleted": True,
        "lost": True,
    }


def test_the_end_of_a_lifetime_is_a_stage_from_the_first_request_to_the_last_answer(good, tmp_path):
    _world, folder, table = good
    assert "stopped" not in table.earliest
    copy = copied(folder, tmp_path, "plan", "ledger", "observations")
    over = table.header["end"]
    stops = [(1, over, 0), (2, over + 1, 200), (1, over + 2, 404), (3, over + 3, 500)]
    with open(copy / "ledger.jsonl", "a", encoding="utf-8") as ledger:
        for index, sent, status in stops:
            row = {"type": "stop", "index": index, "name": table.name[index], "kind": table.kind[index]}
            moments = {"intended": over, "sent": sent, "answered": sent + 0.5, "status": status}
            ledger.write(json.dumps({**row, **moments}, separators=(",", ":")) + "\n")
    stopped = timeline_builder.build_timeline_of_workloads(copy, RUN, "000")
    assert stopped.seen("stopped") == 2
    bounds = [(stopped.earliest["stopped"][row], stopped.latest["stopped"][row]) for row in (1, 2)]
    assert bounds == [(over, over + 2.5), (over + 1, over + 1.5)]
    assert stopped.stages[-1]["name"] == "stopped" and stopped.stages[-1]["needs"] == ["succeeded"]
    assert not stopped.stages[-1]["simulated"] and not stopped.contradictions
    assert Counter(stopped.outcome) == Counter(table.outcome)


def test_a_release_is_a_stage_before_those_that_wait_for_it(good, tmp_path):
    _world, folder, table = good
    assert "released" not in table.earliest
    copy = copied(folder, tmp_path, "plan", "ledger", "observations")

    def waits(row):
        if row["type"] == "stages":
            stages = next(iter(row["kinds"].values()))["stages"]
            stages[1] = {**stages[1], "depends_on": ["released"]}
        return row

    edit(copy / "observations.jsonl", waits)
    begun = table.header["start"]
    with open(copy / "ledger.jsonl", "a", encoding="utf-8") as ledger:
        for released, sent, status in ((2, begun, 503), (2, begun + 0.5, 200), (3, begun + 0.7, 200)):
            row = {"type": "release", "name": "x", "released": released, "intended": begun, "resource_version": "9"}
            moments = {"sent": sent, "answered": sent + 0.1, "status": status}
            ledger.write(json.dumps({**row, **moments}, separators=(",", ":")) + "\n")
    found = timeline_builder.build_timeline_of_workloads(copy, RUN, "000")
    bounds = [(found.earliest["released"][row], found.latest["released"][row]) for row in (0, 1, 2)]
    wanted = [(begun, begun + 0.6), (begun, begun + 0.6), (begun + 0.7, begun + 0.7 + 0.1)]
    assert bounds == [pytest.approx(one) for one in wanted], "from the first request to the answer of the last"
    assert found.seen("released") == 3
    names = [one["name"] for one in found.stages]
    own = next(iter(_definitions(copy).values()))["stages"]
    released = found.stages[names.index("released")]
    assert released["writer"] == "client" and released["needs"] == [own[0]["name"]] and not released["ends"]
    assert "released" in found.stages[names.index(own[1]["name"])]["needs"]


def _definitions(folder):
    rows = [json.loads(line) for line in (folder / "observations.jsonl").read_text().splitlines()]
    return next(row["kinds"] for row in rows if row["type"] == "stages")


def test_gpus_and_pods_of_a_gang_are_summed(mixed):
    _world, _folder, table = mixed
    assert (table.pods[0], table.gpus[0]) == (2, 2.0)
    assert (table.pods[7], table.gpus[7]) == (0, 0.0)


def test_a_gang_is_not_there_before_its_last_pod(good, tmp_path):
    world, folder, _table = good
    copy = copied(folder, tmp_path, "plan", "ledger", "observations")

    def without_one_start(record):
        lost = record.get("name", "").endswith("00002-worker-0") and record.get("values", {}).get("running")
        return None if lost else record

    edit(copy / "observations.jsonl", without_one_start)
    table = timeline_builder.build_timeline_of_workloads(copy, RUN, "000")
    assert table.seen("pods_running") == world.count - 1
    assert table.seen("pods_running_first") == world.count
    assert table.outcome[2] == "succeeded"


def test_bounds_the_wrong_way_round_are_kept_and_told(good, tmp_path):
    _world, folder, _table = good
    copy = copied(folder, tmp_path, "plan", "ledger", "observations")

    def too_early(record):
        if record.get("name", "").endswith("00001") and record.get("values", {}).get("running"):
            record["received"] = EPOCH - 100
        return record

    edit(copy / "observations.jsonl", too_early)
    table = timeline_builder.build_timeline_of_workloads(copy, RUN, "000")
    assert table.earliest["running"][1] > table.latest["running"][1] == EPOCH - 100
    assert table.contradictions[1][0].startswith("running: after 1.")


def test_an_object_found_by_its_owner_needs_no_label(good, tmp_path):
    _world, folder, expected = good
    copy = copied(folder, tmp_path, "plan", "ledger", "observations")
    edit(
        copy / "observations.jsonl",
        lambda one: {**one, "index": None} if one.get("kind") == "Pod" and "uid" in one else one,
    )
    table = timeline_builder.build_timeline_of_workloads(copy, RUN, "000")
    assert [table.pods[row] for row in range(len(table))] == [expected.pods[row] for row in range(len(table))]


def test_a_pod_made_again_under_its_name_counts_once(good, tmp_path):
    _world, folder, expected = good
    copy = copied(folder, tmp_path, "plan", "ledger", "observations")
    with open(copy / "observations.jsonl", "a") as stream:
        again = {
            "type": "event", "received": EPOCH + 60, "how": "watch", "event": "ADDED", "kind": "Pod",
            "namespace": "seatrial", "name": f"{RUN}-00000-master-0", "uid": "another", "owners": ["job-0"], "index": 0,
            "resource_version": "999999", "values": {"created": "2026-11-21T00:00:00Z"},
        }  # fmt: skip
        stream.write(json.dumps(again, separators=(",", ":")) + "\n")
    table = timeline_builder.build_timeline_of_workloads(copy, RUN, "000")
    assert table.pods[0] == expected.pods[0]
    assert table.latest["pods_created"][0] == expected.latest["pods_created"][0]


def test_an_object_that_comes_with_a_workload_is_not_the_workload(good, tmp_path):
    _world, folder, expected = good
    copy = copied(folder, tmp_path, "plan", "observations")
    lines = []
    for line in (folder / "ledger.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["type"] == "attempt":
            early = {
                **record,
                "kind": "ConfigMap",
                "uid": "other",
                "sent": record["sent"] - 0.001,
                "resource_version": "1",
            }
            lines.append(json.dumps({**early, "answered": record["sent"]}))
        lines.append(line)
    (copy / "ledger.jsonl").write_text("\n".join(lines) + "\n")
    table = timeline_builder.build_timeline_of_workloads(copy, RUN, "000")
    assert table.kind == expected.kind
    assert table.uid == expected.uid
    assert table.attempts == expected.attempts
    assert table.moments["sent"][0] == pytest.approx(expected.moments["sent"][0] - 0.001)


def test_without_observations_the_ledger_still_tells_when_it_was_created(good, tmp_path):
    world, folder, _table = good
    copy = copied(folder, tmp_path, "plan", "ledger")
    table = timeline_builder.build_timeline_of_workloads(copy, RUN, "000")
    assert table.outcome == ["unfinished"] * world.count
    assert all(
        table.earliest["created"][row] <= world.truth[row, "created"] <= table.latest["created"][row]
        for row in range(8)
    )
    assert table.header["notes"] == ["observations.jsonl is missing"]


def test_without_a_plan_the_ledger_names_the_workloads(good, tmp_path):
    world, folder, _table = good
    copy = copied(folder, tmp_path, "ledger", "observations")
    table = timeline_builder.build_timeline_of_workloads(copy, RUN, "000")
    assert len(table) == world.count
    assert set(table.outcome) == {"succeeded"}


def test_torn_and_damaged_lines_are_left_out_and_told(good, tmp_path):
    _world, folder, _table = good
    copy = copied(folder, tmp_path, "plan")
    (copy / "ledger.jsonl").write_bytes((folder / "ledger.jsonl").read_bytes()[:-20])
    lines = (folder / "observations.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "observations.jsonl").write_bytes(b"".join([*lines[:50], b"\x00\x00broken\n", *lines[50:]]))
    notes = timeline_builder.build_timeline_of_workloads(copy, RUN, "000").header["notes"]
    assert notes == [
        "the last line of ledger.jsonl is truncated: its writer was killed",
        "1 damaged line of observations.jsonl left out",
    ]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize(
    ("name", "key"),
    [("plan", "offset"), ("ledger", "sent"), ("observations", "received"), ("observations", "answered")],
)
def test_a_line_with_a_number_that_is_not_finite_is_left_out_and_told(good, tmp_path, name, key, number):
    _world, folder, _table = good
    copy = copied(folder, tmp_path, "plan", "ledger", "observations")
    lines = (folder / f"{name}.jsonl").read_text().splitlines()
    place = next(place for place, line in enumerate(lines) if isinstance(json.loads(line).get(key), float))
    lines[place] = json.dumps({**json.loads(lines[place]), key: "?"}).replace('"?"', number)
    (copy / f"{name}.jsonl").write_text("\n".join([*lines, ""]))
    table = timeline_builder.build_timeline_of_workloads(copy, RUN, "000")
    assert f"1 damaged line of {name}.jsonl left out" in table.header["notes"]
    times = [column for part in (table.earliest, table.latest) for column in part.values()]
    assert not np.isinf(np.array(times, dtype=float)).any()


def test_an_empty_folder_gives_an_empty_timeline(tmp_path):
    table = timeline_builder.build_timeline_of_workloads(tmp_path, RUN, "000")
    assert len(table) == 0
    assert len(table.header["notes"]) == 3


def test_a_closed_loop_has_no_due_times(tmp_path):
    table = timeline_builder.build_timeline_of_workloads(
        write_point(tmp_path / "000", World(count=3, closed_loop=True)), RUN, "000"
    )
    assert all(value != value for value in table.moments["intended"])


def test_a_later_session_on_another_anchor_is_read_on_the_first_clock(good, tmp_path):
    """A clock that was set forward by an hour between two sessions of one boot changes nothing."""
    _world, folder, expected = good
    copy = copied(folder, tmp_path, "plan", "ledger")
    moved = {"received", "sent", "answered", "at"}
    lines = []
    for line in (folder / "observations.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["type"] == "session":
            record["anchor"]["wall"] += 3600
        else:
            record.update({key: record[key] + 3600 for key in moved & record.keys()})
        lines.append(json.dumps(record, separators=(",", ":")))
    (copy / "observations.jsonl").write_text("\n".join(lines) + "\n")
    table = timeline_builder.build_timeline_of_workloads(copy, RUN, "000")
    for row in range(len(table)):
        assert table.latest["running"][row] == pytest.approx(expected.latest["running"][row], abs=1e-5)


def test_kinds_of_another_etcd_are_dated_without_their_resource_versions(tmp_path):
    """Their revisions are far above ours and would date all events to the end of the run."""
    world = World(count=12, seed=5)
    folder = tmp_path / "000"
    write_point(folder, world)

    def moved(record):
        if record["type"] == "event" and record["kind"] == "Pod":
            return {**record, "resource_version": str(int(record["resource_version"]) + 10**9)}
        return record

    path = folder / "observations.jsonl"
    edit(path, moved)
    assert outside(world, timeline_builder.build_timeline_of_workloads(folder, RUN, "000"))
    with open(path, "a") as stream:
        stream.write('{"type":"store","at":1.0,"kind":"Pod","ruler":false}\n')
    table = timeline_builder.build_timeline_of_workloads(folder, RUN, "000")
    assert outside(world, table) == [] and not table.contradictions
    widths = [
        last - first for first, last in zip(table.earliest["pods_created"], table.latest["pods_created"], strict=True)
    ]
    # The stated second, wider by what the offset of the server's clock may be.
    assert max(widths) <= 2.1


def test_a_gang_may_be_asked_for_its_last_member(tmp_path):
    world = World(count=4, workers=2)
    folder = tmp_path / "000"
    write_point(folder, world)

    def asked(record):
        if record["type"] == "stages":
            for stage in record["kinds"]["Pod"]["stages"]:
                if stage["name"] == "running":
                    stage["gang"] = ["first", "last", "all"]
        return record

    edit(folder / "observations.jsonl", asked)
    table = timeline_builder.build_timeline_of_workloads(folder, RUN, "000")
    assert [table.latest["pods_running_last"][row] for row in range(4)] == [
        table.latest["pods_running"][row] for row in range(4)
    ]
    assert all(table.latest["pods_running_first"][row] <= table.latest["pods_running_last"][row] for row in range(4))
