"""Which objects of others are workloads, and their index through all sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds.stage_definitions import (
    compile_stages_of_kind,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.observation_writer import (
    LIST,
    ObservationWriter,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.workload_by_owner import (
    AdoptedWorkloads,
    OwnerIndex,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.workload_progress_and_waits import (
    WorkloadTally,
)

CREATED = {"name": "created", "field": "metadata.creationTimestamp", "writer": "api-server"}
DONE = {"name": "succeeded", "condition": "Complete", "writer": "controller", "ends": "succeeded"}
RUNS = {"name": "running", "field": "status.phase", "equals": "Running", "writer": "node", "running": True}
JOB = compile_stages_of_kind({"api_version": "batch/v1", "kind": "Job", "stages": [CREATED, DONE]})
POD = compile_stages_of_kind({"api_version": "v1", "kind": "Pod", "stages": [CREATED, RUNS]})


def thing(name: str, owner: str = "", version: int = 1, status: Any = None, owner_kind: str = "Job") -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "n",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-11-22T20:00:00Z",
        # Labels of another run of ours say nothing about this one.
        "labels": {"perfscale.seatrial/index": "77"},
    }
    if owner:
        metadata["ownerReferences"] = [{"kind": owner_kind, "uid": f"uid-{owner}"}]
    return {"metadata": metadata, "status": status or {}}


class Session:
    """A sampler's writers of one session, after those whose rows are given."""

    def __init__(self, existing: bool = False, before: list[dict[str, Any]] | None = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.tally = WorkloadTally()
        owners = OwnerIndex()
        self.adopted = AdoptedWorkloads("Job", ["Job", "Pod"], existing, self.write)
        self.jobs = ObservationWriter(JOB, True, self.tally, self.write, owners, self.adopted)
        self.pods = ObservationWriter(POD, False, self.tally, self.write, owners, self.adopted)
        for row in before or []:
            if row["type"] == "event":
                {"Job": self.jobs, "Pod": self.pods}[row["kind"]].recall(row)
            else:
                self.adopted.recall(row)

    def write(self, text: str) -> None:
        self.rows.append(json.loads(text))
        files.validate_schema_if_enabled("observations/1", self.rows[-1])

    def events(self, kind: str = "") -> list[tuple[str, str, int]]:
        rows = [row for row in self.rows if row["type"] == "event" and kind in ("", row["kind"])]
        return [(row["name"], row["how"], row["index"]) for row in rows]


def test_what_was_there_before_is_no_workload_and_neither_are_its_pods() -> None:
    session = Session()
    session.jobs.take(1.0, LIST, "ADDED", thing("old"))
    session.jobs.take(2.0, "watch", "ADDED", thing("new"))
    session.jobs.take(3.0, "watch", "MODIFIED", thing("old", version=2))
    session.pods.take(3.0, "watch", "ADDED", thing("old-pod", "old"))
    session.pods.take(3.0, "watch", "ADDED", thing("new-pod", "new"))
    assert session.events() == [("new", "watch", 0), ("new-pod", "watch", 0)]
    assert [row["type"] for row in session.rows] == ["earlier", "workload", "event", "event"]
    assert session.tally.seen == {0}


def test_what_is_there_is_a_workload_if_that_was_asked_for() -> None:
    session = Session(existing=True)
    session.jobs.take(1.0, LIST, "ADDED", thing("old"))
    assert session.events() == [("old", "list", 0)]


def test_a_later_session_continues_the_numbers_and_adopts_what_came_in_between() -> None:
    first = Session()
    first.jobs.take(1.0, LIST, "ADDED", thing("old"))
    first.jobs.take(2.0, "watch", "ADDED", thing("one"))
    watching = {"type": "watching", "at": 1.0, "kind": "Job", "resource_version": "1"}
    second = Session(before=[watching, *first.rows])
    for name in ("old", "one", "between"):
        second.jobs.take(5.0, LIST, "ADDED", thing(name))
    assert second.events() == [("between", "list", 1)]
    assert second.tally.seen == {0, 1}


def test_without_a_complete_list_a_later_session_begins_afresh() -> None:
    first = Session()
    first.jobs.take(1.0, LIST, "ADDED", thing("old"))
    second = Session(before=first.rows)
    second.jobs.take(5.0, LIST, "ADDED", thing("old"))
    second.jobs.take(5.0, LIST, "ADDED", thing("other"))
    assert not second.events()


def test_a_job_of_a_cron_job_is_a_workload_and_a_part_of_another_workload_is_none() -> None:
    session = Session()
    session.jobs.take(1.0, "watch", "ADDED", thing("tick", "cron", owner_kind="CronJob"))
    session.jobs.take(1.0, "watch", "ADDED", thing("part", "tick"))
    assert session.events() == [("tick", "watch", 0)]


@pytest.mark.parametrize("event", ["ADDED", "MODIFIED"])
def test_an_object_that_came_to_match_the_selector_shows_no_more_than_a_list(event: str) -> None:
    session = Session()
    done = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-11-22T20:00:05Z"}]}
    session.jobs.take(9.0, "watch", event, thing("late", status=done))
    assert session.events() == [("late", "list", 0)]


def test_pods_that_are_seen_before_their_job_wait_for_it() -> None:
    session = Session()
    session.pods.take(1.0, "watch", "ADDED", thing("pod", "job"))
    session.pods.take(1.1, "watch", "MODIFIED", thing("pod", "job", 2, {"phase": "Running"}))
    session.jobs.take(1.2, "watch", "ADDED", thing("job"))
    assert session.events("Pod") == [("pod", "watch", 0), ("pod", "watch", 0)]
    assert session.tally.counts()["running"] == 1
