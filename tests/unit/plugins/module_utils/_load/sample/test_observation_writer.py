"""From events to rows: nothing said twice, nothing lost, what ended stays ended."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.observation_writer import (
    ObservationWriter,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.workload_by_owner import OwnerIndex
from hypothesis import given, settings
from hypothesis import strategies as st
from observed_objects import KIND, PHASES, ObservedWorld, as_served


def test_who_reaches_the_stage_of_a_release_is_reported_once_and_who_ends_as_well() -> None:
    for own, wanted in ((True, [(1, "running"), (2, "failed"), (1, "succeeded"), (3, "deleted")]), (False, [])):
        world = ObservedWorld(own)
        world.tally.reports = "running"
        world.observer = ObservationWriter(KIND, own, world.tally, world.write)
        for index, phase in ((1, "Pending"), (1, "Running"), (2, "Failed"), (1, "Succeeded"), (3, "Pending")):
            world.see(index, phase)
        world.see(3, "Pending", "DELETED")
        assert world.tally.reached == wanted


def test_a_life_is_told_in_its_changes() -> None:
    world = ObservedWorld()
    world.see(1, "Pending", "ADDED")
    world.see(1, "Pending")
    world.see(1, "Running")
    world.see(1, "Running")
    world.see(1, "Succeeded")
    world.see(1, "Succeeded", "DELETED")
    assert world.values() == [
        {"created": "2026-11-21T05:00:00Z"},
        {"running": True},
        {"running": None, "succeeded": True},
        {},
    ]
    assert [row["event"] for row in world.rows] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert world.observer.events == 6
    first = world.rows[0]
    assert (first["owners"], first["index"], first["gpus"], first["simulated"]) == (["o-1"], 1, 4.0, True)
    assert "gpus" not in world.rows[1]


def test_what_failed_says_why() -> None:
    world = ObservedWorld()
    world.see(1, "Failed", "ADDED", message="the node was shut down")
    assert world.rows[0]["reason"] == "the node was shut down"


def test_the_tally_follows_and_an_end_is_final() -> None:
    world = ObservedWorld()
    for index in range(4):
        world.see(index, "Running", "ADDED")
    world.see(0, "Succeeded")
    world.see(1, "Failed")
    world.see(2, None, "DELETED")
    assert world.tally.counts() == {"seen": 4, "running": 1, "succeeded": 1, "failed": 1, "deleted": 1}
    world.see(0, None, "DELETED")
    assert world.tally.counts()["succeeded"] == 1 and world.tally.waiting(5) == [3]


def test_pods_of_a_workload_show_that_it_runs_and_end_nothing() -> None:
    world = ObservedWorld(own=False)
    world.see(1, "Running", "ADDED")
    world.see(1, "Succeeded")
    world.see(1, None, "DELETED")
    assert world.tally.counts() == {"seen": 0, "running": 1, "succeeded": 0, "failed": 0, "deleted": 0}


def test_a_pod_made_again_under_its_name_is_another_life() -> None:
    world = ObservedWorld(own=False)
    world.see(1, "Failed", "ADDED", uid="first")
    world.see(1, "Running", "ADDED", uid="second")
    assert [(row["uid"], sorted(row["values"])) for row in world.rows] == [
        ("first", ["created", "failed"]),
        ("second", ["created", "running"]),
    ]


@pytest.mark.parametrize("relisted", [False, True])
def test_a_stage_at_deletion_is_reached_by_whatever_shows_that_an_object_is_gone(relisted: bool) -> None:
    released = {"name": "released", "deleted": True, "writer": "controller"}
    world = ObservedWorld(own=False)
    kind = stage_definitions.compile_stages_of_kind(
        {**KIND.definition, "stages": [*KIND.definition["stages"], released]}
    )
    world.observer = ObservationWriter(kind, False, world.tally, world.write)
    world.see(0, "Running", "ADDED")
    world.see(0, "Succeeded")
    if relisted:
        world.observer.relisted(20.0, "50", [], "relist")
    else:
        world.see(0, "Succeeded", "DELETED")
    assert ["released" in values for values in world.values()] == [False, False, True]
    assert world.values()[-1] == {"released": True}


def test_an_object_with_the_index_of_another_point_belongs_to_its_owner_only() -> None:
    world, owners = ObservedWorld(own=False), OwnerIndex()
    point = {run_labels.RUN: "t1", run_labels.POINT: "002"}
    world.observer = ObservationWriter(KIND, False, world.tally, world.write, owners, None, point)
    for uid, labels, owner in (
        ("other-point", {**point, run_labels.POINT: "001", run_labels.INDEX: "3"}, "gone"),
        ("other-run", {**point, run_labels.RUN: "t0", run_labels.INDEX: "3"}, "gone"),
        ("labelled", {**point, run_labels.INDEX: "4"}, "gone"),
        ("owned", {**point, run_labels.POINT: "001", run_labels.INDEX: "3"}, "workload-5"),
    ):
        pod = world.pod(0, "Running", uid)
        pod["metadata"] |= {"labels": labels, "ownerReferences": [{"uid": owner}]}
        owners.add("workload-5", 5)
        world.observer.take(10.0, "list", "ADDED", pod)
    assert [(row["uid"], row["index"]) for row in world.rows] == [("labelled", 4), ("owned", 5)]


def test_after_a_list_what_is_missing_is_gone() -> None:
    world = ObservedWorld()
    for index in range(3):
        world.see(index, "Running", "ADDED")
    world.see(1, "Running", "ADDED", "relist")
    world.observer.relisted(99.0, "50", {"u-1"}, "relist")
    gone = world.rows[3:]
    assert sorted((row["index"], row["event"], row["how"], row["resource_version"]) for row in gone) == [
        (0, "DELETED", "relist", "50"),
        (2, "DELETED", "relist", "50"),
    ]
    assert world.tally.counts()["deleted"] == 2


EVENTS = st.lists(
    st.tuples(st.integers(0, 4), PHASES, st.sampled_from(["MODIFIED", "MODIFIED", "DELETED"])), max_size=40
)


@settings(deadline=None)
@given(EVENTS, st.integers(0, 40))
def test_a_session_that_takes_over_says_what_one_that_never_ended_would(
    events: list[tuple[int, str, str]], cut: int
) -> None:
    whole, first = ObservedWorld(), ObservedWorld()
    for index, phase, event in events:
        whole.see(index, phase, event)
    for index, phase, event in events[:cut]:
        first.see(index, phase, event)
    second = ObservedWorld()
    second.version = first.version
    for row in first.rows:
        second.observer.recall(row)
    for index, phase, event in events[cut:]:
        second.see(index, phase, event)
    assert first.rows + second.rows == whole.rows
    assert second.tally == whole.tally


@settings(deadline=None)
@given(EVENTS)
def test_the_rows_alone_tell_every_value(events: list[tuple[int, str, str]]) -> None:
    world = ObservedWorld()
    truth: dict[str, str] = {}
    for index, phase, event in events:
        world.see(index, phase, event)
        truth[f"u-{index}"] = phase
        if event == "DELETED":
            del truth[f"u-{index}"]
    told: dict[str, dict[str, Any]] = {}
    for row in world.rows:
        told.setdefault(row["uid"], {}).update(row["values"])
        if row["event"] == "DELETED":
            del told[row["uid"]]
    shown = {uid: {name for name, value in values.items() if value} - {"created"} for uid, values in told.items()}
    assert shown == {uid: set() if phase == "Pending" else {phase.lower()} for uid, phase in truth.items()}


def test_the_first_row_of_a_bound_pod_names_its_node_and_no_other_does() -> None:
    world = ObservedWorld()
    world.see(1, "Pending", "ADDED")
    world.see(1, "Running")
    world.see(1, "Succeeded")
    world.see(2, "Running", "ADDED")
    assert [row.get("node") for row in world.rows] == [None, "node-1", None, "node-2"]


REASONS = st.sampled_from(["", "0/2 nodes are available", "no nodes available to schedule pods"])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), REASONS, st.sampled_from(["MODIFIED", "MODIFIED", "DELETED"]))))
def test_what_hinders_a_pod_is_what_it_said_last(events: list[tuple[int, str, str]]) -> None:
    scheduled = {"name": "scheduled", "condition": "PodScheduled", "writer": "scheduler"}
    kind = stage_definitions.compile_stages_of_kind({"api_version": "v1", "kind": "Pod", "stages": [scheduled]})
    world = ObservedWorld(own=False)
    world.observer = ObservationWriter(kind, False, world.tally, world.write)
    world.tally.run(0)  # what runs waits for nothing
    truth: dict[int, str] = {}
    for index, reason, event in events:
        thing = world.pod(index, "Pending")
        condition = {"type": "PodScheduled", "status": "False" if reason else "True", "message": reason}
        thing["status"]["conditions"] = [condition]
        world.read(as_served(event, thing, True))
        truth[index] = reason if event != "DELETED" else ""
    said = sum(bool(reason) for index, reason in truth.items() if index)
    assert sum(number for number, _text in world.tally.reasons()) == said


def test_a_version_with_signs_of_json_changes_no_row() -> None:
    world = ObservedWorld()
    pod = world.pod(1, "Running")
    pod["metadata"]["resourceVersion"] = 'x","values":{"failed":true},"y":"'
    world.observer.take(5.0, "watch", "ADDED", pod)
    assert world.rows[0]["resource_version"] == pod["metadata"]["resourceVersion"]
    assert "failed" not in world.rows[0]["values"] and "y" not in world.rows[0]
