"""Objects without our labels are found by their owners, in whatever order the watches show them."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample import workload_by_owner
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.observation_writer import (
    ObservationWriter,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.workload_progress_and_waits import (
    WorkloadTally,
)
from hypothesis import given, settings
from hypothesis import strategies as st

#: Workload -> its parts, three generations deep.
KINDS = ("RayJob", "RayCluster", "Pod")


class World:
    """Three kinds, of which only the first carries labels."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.family = workload_by_owner.OwnerIndex()
        self.tally = WorkloadTally()
        self.observers = {}
        for kind in KINDS:
            definition = {
                "api_version": "v1",
                "kind": kind,
                "select": "owners",
                "stages": [{"name": "there", "field": "status.phase", "equals": "There", "writer": "node"}],
            }
            compiled = stage_definitions.compile_stages_of_kind(definition)
            self.observers[kind] = ObservationWriter(compiled, kind == KINDS[0], self.tally, self.write, self.family)

    def write(self, text: str) -> None:
        row = json.loads(text)
        files.validate_schema_if_enabled("observations/1", row)
        self.rows.append(row)

    def see(
        self, generation: int, index: int, version: int, phase: str = "", at: float = 10.0, ours: bool = True
    ) -> None:
        kind = KINDS[generation]
        owner = f"{KINDS[generation - 1]}-{index}{'' if ours else '-theirs'}"
        metadata = {
            "name": f"{kind}-{index}",
            "namespace": "n",
            "uid": f"{kind}-{index}{'' if ours else '-theirs'}",
            "resourceVersion": str(version),
            "labels": {run_labels.INDEX: str(index)} if generation == 0 else {},
            "ownerReferences": [{"uid": owner}] if generation else [],
        }
        self.observers[kind].take(at, "watch", "MODIFIED", {"metadata": metadata, "status": {"phase": phase}})


@settings(deadline=None)
@given(st.permutations([(generation, index) for generation in range(3) for index in range(3)]))
def test_in_any_order_each_part_is_told_with_the_index_of_its_workload(order: list[tuple[int, int]]) -> None:
    world = World()
    for number, (generation, index) in enumerate(order):
        world.see(generation, index, number)
    assert sorted((row["kind"], row["index"]) for row in world.rows) == sorted(
        (kind, index) for kind in KINDS for index in range(3)
    )


def test_what_waited_comes_in_its_order_when_the_owner_is_known() -> None:
    world = World()
    world.see(2, 0, 1)
    world.see(2, 0, 2, "There")
    assert world.rows == []
    world.see(1, 0, 3)
    world.see(0, 0, 4)
    assert [(row["kind"], row["resource_version"], row["values"]) for row in world.rows] == [
        ("RayJob", "4", {}),
        ("RayCluster", "3", {}),
        ("Pod", "1", {}),
        ("Pod", "2", {"there": True}),
    ]


def test_objects_of_others_are_left_out() -> None:
    world = World()
    world.see(0, 0, 1)
    world.see(1, 0, 2, ours=False)
    world.see(2, 0, 3, ours=False)
    assert [row["kind"] for row in world.rows] == ["RayJob"]
    assert [one.events for one in world.observers.values()] == [1, 0, 0]


def test_who_waits_too_long_is_somebody_elses_and_who_is_pushed_out_is_counted() -> None:
    world = World()
    world.see(1, 0, 1, at=0.0)
    world.see(1, 1, 1, at=workload_by_owner.OWNER_TIMEOUT + 1)
    world.see(0, 0, 2)
    world.see(0, 1, 2)
    assert [(row["kind"], row["index"]) for row in world.rows] == [("RayJob", 0), ("RayJob", 1), ("RayCluster", 1)]
    assert world.family.dropped == 0
    for number in range(workload_by_owner.MAX_WAITING + 3):
        world.family.wait(1000.0, [f"owner-{number}"], lambda: None)
    assert world.family.dropped == 2


def test_one_of_several_owners_is_enough_and_counts_once() -> None:
    told: list[int] = []
    found = workload_by_owner.OwnerIndex()
    found.wait(0.0, ["a", "b"], lambda: told.append(1))
    found.add("b", 7)
    found.add("a", 7)
    assert told == [1] and found.index_of(["x", "b"]) == 7


def test_a_session_that_takes_over_knows_the_parts() -> None:
    first, second = World(), World()
    for generation in range(3):
        first.see(generation, 4, generation)
    for row in first.rows:
        second.observers[row["kind"]].recall(row)
    second.see(2, 4, 9, "There")
    assert [(row["kind"], row["index"], row["values"]) for row in second.rows] == [("Pod", 4, {"there": True})]


def test_a_chain_of_owners_that_arrives_from_its_end_needs_no_recursion() -> None:
    found, seen = workload_by_owner.OwnerIndex(), []

    def see(number: int) -> None:
        seen.append(number)
        found.add(str(number), 7)

    for number in range(5000, 0, -1):
        found.wait(0.0, [str(number - 1)], lambda number=number: see(number))  # type: ignore[misc]
    found.add("0", 7)
    assert seen == list(range(1, 5001))
    found.add("x", 8)
    assert found.index_of(["x"]) == 8
