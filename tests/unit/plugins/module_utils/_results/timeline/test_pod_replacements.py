"""Pods that were preempted and recreated: the gang keeps its size and is complete with the new pods."""

from __future__ import annotations

import json

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import (
    pod_lifetimes,
    timeline_builder,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.stage_interval_assignment import (
    SeenObject,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.watch_event_assignment import (
    PodReplacements,
)
from run_directory import RUN, World, write_point

KINDS = {"Pod": {"stages": [{"name": "running"}, {"name": "succeeded", "ends": "succeeded"}]}}
KNOWN = {"running": (1, []), "succeeded": (2, [])}


def test_a_pod_that_was_deleted_and_made_again_is_no_member() -> None:
    replaced, members = PodReplacements(KINDS, KNOWN), [3, 2]
    replaced.see(SeenObject(0, 1), "DELETED")
    replaced.see(SeenObject(1, 3), "DELETED")  # it had succeeded: nothing came to nothing
    assert replaced.subtract_replaced_pods(members, lambda _row: True) == {0: (3, [1])}
    assert members == [2, 2]


def test_a_gang_that_ended_without_its_pods_keeps_them() -> None:
    replaced, members = PodReplacements(KINDS, KNOWN), [1]
    replaced.see(SeenObject(0, 1), "DELETED")
    assert replaced.subtract_replaced_pods(members, lambda _row: True) == {}
    assert members == [1]


def test_of_a_gang_that_waits_for_new_pods_none_got_anywhere() -> None:
    replaced, members = PodReplacements(KINDS, KNOWN), [1]
    replaced.see(SeenObject(0, 1), "DELETED")
    assert replaced.subtract_replaced_pods(members, lambda _row: False) == {0: (1, [1])}
    assert members == [1]


def preempted(folder, index, version=10**6):
    """Delete the first pod of a workload before its end and replace it by another one."""
    path = folder / "observations.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    pods = (one for one in records if one["type"] == "event" and one["kind"] == "Pod")
    uid = next(one["uid"] for one in pods if one["index"] == index)
    changed, replacement = [], []
    for one in records:
        if one.get("uid") != uid:
            changed.append(one)
            continue
        replacement.append({**one, "uid": "again", "name": f"{one['name']}-again"})
        if not one["values"].get("succeeded") and one["event"] != "DELETED":
            changed.append(one)
            last = one
    gone = {**last, "event": "DELETED", "values": {}}
    place = changed.index(last) + 1
    changed[place:place] = [gone]
    later = [one for one in changed if one["type"] != "end"]
    ends = [one for one in changed if one["type"] == "end"]
    path.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in [*later, *replacement, *ends]))


def test_a_preempted_gang_is_whole_when_its_pods_came_again(tmp_path) -> None:
    folder = write_point(tmp_path / "000", World(count=3, workers=1))
    before = timeline_builder.build_timeline_of_workloads(folder, RUN, "000")
    preempted(folder, 1)
    after = timeline_builder.build_timeline_of_workloads(folder, RUN, "000")
    assert after.pods == before.pods == [2, 2, 2]
    assert after.gpus == before.gpus
    assert after.latest["pods_succeeded"][1] == after.latest["pods_succeeded"][1]  # there, and no NaN
    assert after.outcome == before.outcome


def test_every_life_is_told_with_how_it_ended(tmp_path) -> None:
    folder = write_point(tmp_path / "000", World(count=3, workers=1))
    preempted(folder, 1)
    found = pod_lifetimes.read_pod_lifetimes(folder, RUN, "000")
    assert sorted(one.end for one in found.pods if one.index == 1) == ["deleted", "succeeded", "succeeded"]
    assert {one.end for one in found.pods if one.index != 1} == {"succeeded"}
    assert {one.index for one in pod_lifetimes.read_pod_lifetimes(folder, RUN, "000", [2]).pods} == {2}
    for one in found.pods:
        assert pod_lifetimes.midpoint_of_span(one.scheduled) <= pod_lifetimes.midpoint_of_span(one.running)


#: A claim that was made before the pod's end counts, also if its watch delivers it later; one made after it does not.
@pytest.mark.parametrize(("later", "reached"), [(-1, True), (1, False)])
@pytest.mark.parametrize("end_is_followed", [False, True])
def test_a_claim_is_of_a_pod_that_had_not_ended_when_it_was_made(tmp_path, later, reached, end_is_followed) -> None:
    path, records, pods, claim = claims_of_a_point(tmp_path / "000")
    ended = next(one for one in pods if one["values"].get("succeeded"))
    version = int(ended["resource_version"])
    place = records.index(ended) + 1
    records.insert(place, {**claim(ended, "own", allocated=True), "resource_version": str(version + later)})
    if end_is_followed:  # such as the removal of a finalizer
        records.insert(place, {**ended, "resource_version": str(version + 2)})
    assert allocated_at(path, records) == [False, reached]


def test_a_pod_made_again_under_the_name_of_one_that_failed_has_claims(tmp_path) -> None:
    path, records, pods, claim = claims_of_a_point(tmp_path / "000")
    ended = next(one for one in pods if one["values"].get("succeeded"))
    records.remove(ended)
    version = int(ended["resource_version"])
    failed = {**ended, "values": {**ended["values"], "succeeded": None, "failed": True}}
    again = {**pods[0], "uid": "again", "resource_version": str(version + 2)}
    own = {**claim(again, "own", allocated=True), "resource_version": str(version + 3)}
    records += [failed, again, {**again, "resource_version": str(version + 4)}, own]
    assert allocated_at(path, records) == [False, True]


def test_a_claim_that_is_made_again_for_a_pod_that_has_ended_is_not_waited_for(tmp_path) -> None:
    path, records, pods, claim = claims_of_a_point(tmp_path / "000")
    ended = next(one for one in pods if one["values"].get("succeeded"))
    records.insert(records.index(pods[0]) + 1, claim(pods[0], "first", allocated=True))
    again = {**claim(ended, "again"), "resource_version": str(int(ended["resource_version"]) + 1)}
    records.insert(records.index(ended) + 1, again)
    assert allocated_at(path, records) == [False, True]


def claims_of_a_point(folder):
    """Return observations, their records, the events of the second workload's pod, and what makes a claim of a pod."""
    path = write_point(folder, World(count=2, workers=0)) / "observations.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    claims = {"stages": [{"name": "allocated", "writer": "scheduler", "depends_on": ["Pod.created"]}]}
    next(one for one in records if one["type"] == "stages")["kinds"]["ResourceClaim"] = claims
    pods = [one for one in records if one["type"] == "event" and one["kind"] == "Pod" and one["index"] == 1]

    def claim(pod, name: str, **values) -> dict:
        own = {"kind": "ResourceClaim", "uid": name, "name": name, "owners": [pod["uid"]], "values": values}
        return {**pod, **own, "event": "ADDED"}

    return path, records, pods, claim


def allocated_at(path, records) -> list[bool]:
    """Return for each workload whether all of its claims were allocated."""
    path.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in records))
    allocated = timeline_builder.build_timeline_of_workloads(path.parent, RUN, "000").latest["resourceclaim_allocated"]
    return [moment == moment for moment in allocated]
