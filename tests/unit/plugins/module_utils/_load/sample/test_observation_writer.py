"""From events to rows: nothing said twice, nothing lost, what ended stays ended."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import needed_json_fields
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample import observation_writer
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.observation_writer import (
    ObservationWriter,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.workload_by_owner import OwnerIndex
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.workload_progress_counts import (
    WorkloadTally,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds
from hypothesis import given, settings
from hypothesis import strategies as st

KIND = stage_definitions.compile_stages_of_kind(
    {
        "api_version": "v1",
        "kind": "Pod",
        "stages": [
            {"name": "created", "field": "metadata.creationTimestamp", "writer": "controller"},
            {"name": "running", "field": "status.phase", "equals": "Running", "writer": "node", "running": True},
            {
                "name": "succeeded",
                "field": "status.phase",
                "equals": "Succeeded",
                "writer": "node",
                "ends": "succeeded",
            },
            {"name": "failed", "field": "status.phase", "equals": "Failed", "writer": "node", "ends": "failed"},
        ],
    }
)


class World:
    def __init__(self, own: bool = True) -> None:
        self.rows: list[dict[str, Any]] = []
        self.tally = WorkloadTally()
        self.observer = ObservationWriter(KIND, own, self.tally, self.write)
        self.version = 0

    def write(self, text: str) -> None:
        row = json.loads(text)
        files.validate_against_schema("observations/1", row)
        self.rows.append(row)

    def pod(self, index: int, phase: str | None, uid: str = "", **status: str) -> dict[str, Any]:
        self.version += 1
        metadata = {
            "name": f"p-{index}",
            "namespace": "n",
            "uid": uid or f"u-{index}",
            "resourceVersion": str(self.version),
            "creationTimestamp": "2026-11-21T05:00:00Z",
            "labels": {run_labels.INDEX: str(index), run_labels.SIMULATED: "true"},
            "ownerReferences": [{"uid": f"o-{index}"}],
        }
        limits = {"resources": {"limits": {"nvidia.com/gpu": "4"}}}
        bound = {"serviceAccountName": "default", "nodeName": f"node-{index}"} if phase not in (None, "Pending") else {}
        return {"metadata": metadata, "spec": {"containers": [limits], **bound}, "status": {"phase": phase, **status}}

    def read(self, line: bytes) -> None:
        self.observer.watched(5.0, self.observer.decode(line), line)

    def see(self, index: int, phase: str | None, event: str = "MODIFIED", how: str = "watch", **more: Any) -> None:
        self.observer.take(10.0 + self.version, how, event, self.pod(index, phase, **more))

    def values(self) -> list[dict[str, Any]]:
        return [row["values"] for row in self.rows]


def test_who_reaches_the_stage_of_a_release_is_reported_once_and_who_ends_as_well() -> None:
    for own, wanted in ((True, [(1, "running"), (2, "failed"), (1, "succeeded"), (3, "deleted")]), (False, [])):
        world = World(own)
        world.tally.reports = "running"
        world.observer = ObservationWriter(KIND, own, world.tally, world.write)
        for index, phase in ((1, "Pending"), (1, "Running"), (2, "Failed"), (1, "Succeeded"), (3, "Pending")):
            world.see(index, phase)
        world.see(3, "Pending", "DELETED")
        assert world.tally.reached == wanted


def test_a_life_is_told_in_its_changes() -> None:
    world = World()
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
    world = World()
    world.see(1, "Failed", "ADDED", message="the node was shut down")
    assert world.rows[0]["reason"] == "the node was shut down"


def test_the_tally_follows_and_an_end_is_final() -> None:
    world = World()
    for index in range(4):
        world.see(index, "Running", "ADDED")
    world.see(0, "Succeeded")
    world.see(1, "Failed")
    world.see(2, None, "DELETED")
    assert world.tally.counts() == {"seen": 4, "running": 1, "succeeded": 1, "failed": 1, "deleted": 1}
    world.see(0, None, "DELETED")
    assert world.tally.counts()["succeeded"] == 1 and world.tally.waiting(5) == [3]


def test_pods_of_a_workload_show_that_it_runs_and_end_nothing() -> None:
    world = World(own=False)
    world.see(1, "Running", "ADDED")
    world.see(1, "Succeeded")
    world.see(1, None, "DELETED")
    assert world.tally.counts() == {"seen": 0, "running": 1, "succeeded": 0, "failed": 0, "deleted": 0}


def test_a_pod_made_again_under_its_name_is_another_life() -> None:
    world = World(own=False)
    world.see(1, "Failed", "ADDED", uid="first")
    world.see(1, "Running", "ADDED", uid="second")
    assert [(row["uid"], sorted(row["values"])) for row in world.rows] == [
        ("first", ["created", "failed"]),
        ("second", ["created", "running"]),
    ]


@pytest.mark.parametrize("relisted", [False, True])
def test_a_stage_at_deletion_is_reached_by_whatever_shows_that_an_object_is_gone(relisted: bool) -> None:
    released = {"name": "released", "deleted": True, "writer": "controller"}
    world = World(own=False)
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
    world, owners = World(own=False), OwnerIndex()
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
    world = World()
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


PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])
EVENTS = st.lists(
    st.tuples(st.integers(0, 4), PHASES, st.sampled_from(["MODIFIED", "MODIFIED", "DELETED"])), max_size=40
)


@settings(deadline=None)
@given(EVENTS, st.integers(0, 40))
def test_a_session_that_takes_over_says_what_one_that_never_ended_would(
    events: list[tuple[int, str, str]], cut: int
) -> None:
    whole, first = World(), World()
    for index, phase, event in events:
        whole.see(index, phase, event)
    for index, phase, event in events[:cut]:
        first.see(index, phase, event)
    second = World()
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
    world = World()
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
    world = World()
    world.see(1, "Pending", "ADDED")
    world.see(1, "Running")
    world.see(1, "Succeeded")
    world.see(2, "Running", "ADDED")
    assert [row.get("node") for row in world.rows] == [None, "node-1", None, "node-2"]


def as_served(event: str, thing: dict[str, Any], spec: bool) -> bytes:
    """An event as an API server writes it of a built-in kind."""
    held = thing["metadata"]
    first = ("name", "namespace", "uid", "resourceVersion")
    metadata = {**{key: held[key] for key in first}, **held, "managedFields": [{"manager": "m"}]}
    whole = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": thing["spec"], "status": thing["status"]}
    if not spec:
        del whole["spec"]
    return json.dumps({"type": event, "object": whole}, separators=(",", ":")).encode()


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), PHASES, st.sampled_from(["ADDED", "MODIFIED", "MODIFIED", "DELETED"]), st.booleans()
        ),
        max_size=40,
    )
)
def test_rows_of_lines_are_those_of_the_whole_objects(events: list[tuple[int, str, str, bool]]) -> None:
    lines, objects = World(), World()
    for index, phase, event, owned in events:
        thing = objects.pod(index, phase, message=f"it {phase}")
        thing["status"] |= {"hostIP": f"10.0.0.{index}", "podIP": f"10.1.0.{index}", "qosClass": "Guaranteed"}
        thing["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"][: len(phase) % 2]
        if not owned:
            del thing["metadata"]["ownerReferences"]
        objects.observer.take(5.0, "watch", event, thing)
        lines.read(as_served(event, thing, True))
    assert lines.rows == objects.rows
    assert lines.tally == objects.tally and lines.observer.events == objects.observer.events


def test_what_a_stage_looks_at_is_never_left_out() -> None:
    one = {"name": "addressed", "writer": "node"}
    for field in ("status.podIP", "metadata.finalizers", "spec.nodeName"):
        kind = stage_definitions.compile_stages_of_kind(
            {"api_version": "v1", "kind": "Pod", "stages": [{**one, "field": field}]}
        )
        rows: list[str] = []
        observer = ObservationWriter(kind, False, WorkloadTally(), rows.append)
        world = World()
        for number in range(3):
            thing = world.pod(1, "Running", hostIP="h", podIP=f"10.0.0.{number}")
            thing["spec"]["nodeName"] = f"n-{number}"
            thing["metadata"]["finalizers"] = [f"f-{number}"][:number]
            line = as_served("ADDED" if number == 0 else "MODIFIED", thing, True)
            observer.watched(5.0, observer.decode(line), line)
        told = [json.loads(row)["values"].get("addressed") for row in rows]
        assert (
            told
            == {
                "status.podIP": ["10.0.0.0", "10.0.0.1", "10.0.0.2"],
                "metadata.finalizers": [None, True],
                "spec.nodeName": ["n-0", "n-1", "n-2"],
            }[field]
        )


REASONS = st.sampled_from(["", "0/2 nodes are available", "no nodes available to schedule pods"])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), REASONS, st.sampled_from(["MODIFIED", "MODIFIED", "DELETED"]))))
def test_what_hinders_a_pod_is_what_it_said_last(events: list[tuple[int, str, str]]) -> None:
    scheduled = {"name": "scheduled", "condition": "PodScheduled", "writer": "scheduler"}
    kind = stage_definitions.compile_stages_of_kind({"api_version": "v1", "kind": "Pod", "stages": [scheduled]})
    world = World(own=False)
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


EXPRESSION = {
    "api_version": "x/v1",
    "kind": "Expression",
    "stages": [
        {"name": "done", "jmespath": "spec.parts[?ok].at | [0]", "writer": "controller"},
        {"name": "named", "field": "spec.owner.name", "equals": ["a", 2], "writer": "controller"},
    ],
}
KINDS = [
    stage_definitions.compile_stages_of_kind(one)
    for one in (
        *(workload_kinds.load_kind_by_name_or_path(name).definition for name in workload_kinds.all_kind_names()),
        EXPRESSION,
    )
]
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(['},"status":{', '\\"', "ü☃", "\u2028"]))
ODD = st.one_of(st.none(), TEXTS, st.integers(-(2**70), 2**70), st.just([]), st.just({}), st.just([{"type": None}]))
CHANGED = st.sampled_from(["MODIFIED", "MODIFIED", "ADDED", "DELETED"])


def objects_of(kind: stage_definitions.KindStages) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with the fields that the stages of a kind read, some of them missing or of another type than usual."""
    names = [one["condition"] for one in kind.definition["stages"] if "condition" in one]
    condition = st.fixed_dictionaries(
        {"type": st.sampled_from([*names, "Other"]), "status": st.sampled_from(["True", "False"])},
        optional={"lastTransitionTime": st.sampled_from(["t-1", "t-2"]), "message": TEXTS, "probe": ODD},
    )
    optional: dict[str, Any] = {"conditions": st.one_of(st.lists(condition, max_size=4), ODD), "message": TEXTS}
    for one in kind.definition["stages"]:
        path = str(one.get("field", "")).split(".")
        if path[0] == "status":
            wanted = one.get("equals") or "t-1"
            right = st.sampled_from(wanted if isinstance(wanted, list) else [wanted])
            for key in reversed(path[2:]):
                right = st.fixed_dictionaries({}, optional={key: right})
            optional[path[1]] = st.one_of(right, right, ODD.filter(lambda one: not isinstance(one, list | dict)))
    metadata = st.fixed_dictionaries(
        {"name": st.just("x"), "managedFields": st.just([{"manager": "m", "fieldsV1": {"f:status": {}}}])},
        optional={
            "namespace": st.just("n"),
            "creationTimestamp": st.just("t-0"),
            "labels": st.fixed_dictionaries({}, optional={run_labels.INDEX: st.just("3"), run_labels.SIMULATED: TEXTS}),
            "ownerReferences": st.lists(st.fixed_dictionaries({"uid": TEXTS, "kind": TEXTS}), max_size=2),
            "annotations": st.dictionaries(TEXTS, TEXTS, max_size=2),
        },
    )
    limits = st.fixed_dictionaries({}, optional={"nvidia.com/gpu": st.sampled_from(["1", 2]), "cpu": st.just("1")})
    containers = st.lists(st.fixed_dictionaries({"resources": st.fixed_dictionaries({"limits": limits})}), max_size=2)
    parts = st.lists(st.fixed_dictionaries({"ok": st.booleans(), "at": TEXTS}), max_size=2)
    spec = {"nodeName": TEXTS, "containers": containers, "parts": parts, "owner": st.one_of(ODD, st.just({"name": 2}))}
    return st.fixed_dictionaries(
        {"metadata": metadata, "spec": st.fixed_dictionaries({}, optional=spec)},
        optional={"status": st.one_of(st.fixed_dictionaries({}, optional=optional), st.none())},
    )


def reordered(document: Any, how: int) -> Any:
    """The same document with the fields of every object in another order."""
    if isinstance(document, dict):
        keys = sorted(document, reverse=how % 2 == 0) if how else list(document)
        return {key: reordered(document[key], how) for key in keys}
    return [reordered(one, how) for one in document] if isinstance(document, list) else document


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(KINDS))
def test_rows_of_any_kind_depend_neither_on_the_decoder_nor_on_the_order_of_fields(
    data: st.DataObject, kind: stage_definitions.KindStages
) -> None:
    changes = st.tuples(st.integers(0, 1), CHANGED, objects_of(kind), st.integers(0, 2), st.booleans())
    events = data.draw(st.lists(changes, max_size=6))
    found: list[tuple[list[str], WorkloadTally, int]] = []
    for typed in (True, False):
        rows: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            if not typed:
                patch.setattr(observation_writer, "create_document_decoder", lambda _shape: json.loads)
            writer = ObservationWriter(kind, True, WorkloadTally(), rows.append)
        for version, (number, what, thing, order, ascii_only) in enumerate(events):
            known = {**thing["metadata"], "uid": f"u-{number}", "resourceVersion": str(version)}
            event = {"type": what, "object": {"kind": kind.kind, **thing, "metadata": known}}
            text = json.dumps(
                reordered(event, order if typed else 0),
                ensure_ascii=ascii_only,
                separators=(",", ":") if ascii_only else None,
            )
            line = text.encode()
            writer.watched(5.0, writer.decode(line), line)
        found.append((rows, writer.tally, writer.events))
    assert found[0] == found[1]


def test_the_event_of_a_new_object_is_decoded_once_if_its_type_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def counting(shape: Any) -> Any:
        decode = needed_json_fields.create_document_decoder(shape)
        return lambda line: decoded.append(line) or decode(line)

    monkeypatch.setattr(observation_writer, "create_document_decoder", counting)
    rows: list[str] = []
    event = {"type": "ADDED", "object": World().pod(1, "Pending")}
    for line, calls in ((compact(event), 1), (compact(dict(reversed(event.items()))), 2)):
        observer = ObservationWriter(KIND, False, WorkloadTally(), rows.append)
        decoded.clear()
        observer.watched(5.0, observer.decode(line), line)
        assert len(decoded) == calls
    assert rows[0] == rows[1] and '"index":1' in rows[0]


def compact(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


OWN_EXPRESSIONS = ("length(status.phases) > `0`", "contains(status.phases, 'Done')", "max(status.*)", "status.at")
ODD_KIND = stage_definitions.compile_stages_of_kind(
    {
        "api_version": "example.com/v1",
        "kind": "Simulation",
        "stages": [
            {"name": "deep", "field": "status.a.b", "equals": ["x", 1, True], "writer": "controller"},
            {"name": "phase", "field": "status.phase", "equals": "Done", "writer": "controller", "ends": "succeeded"},
            {"name": "failed", "condition": "Failed", "writer": "controller", "ends": "failed"},
            *({"name": f"e{n}", "jmespath": text, "writer": "node"} for n, text in enumerate(OWN_EXPRESSIONS)),
        ],
    }
)
SHIPPED = [
    stage_definitions.compile_stages_of_kind(workload_kinds.load_kind_by_name_or_path(name).definition)
    for name in workload_kinds.all_kind_names()
]
FIELDS = (
    *(
        "phase",
        "phases",
        "conditions",
        "state",
        "jobStatus",
        "jobDeploymentStatus",
        "startTime",
        "ready",
        "readyReplicas",
    ),
    *("availableReplicas", "a", "b", "at", "message", "reason", "observedGeneration", "replicatedJobsStatus"),
    *("containerState", "type", "status", "lastTransitionTime"),
)
WORDS = ["", "True", "Failed", "Complete", "Succeeded", "Running", "Ready", "Done", "3", "2026-11-21T05:00:00Z"]
SCALARS = (
    st.none() | st.booleans() | st.integers(-1, 3) | st.floats(allow_nan=False) | st.sampled_from(WORDS) | st.text()
)
ODD_STATUS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.none() | ODD_STATUS, min_size=1, max_size=3), st.sampled_from([ODD_KIND, *SHIPPED]))
def test_no_status_of_whatever_shape_ends_the_sampling(statuses: list[Any], kind: stage_definitions.KindStages) -> None:
    rows: list[dict[str, Any]] = []

    def write(text: str) -> None:
        rows.append(json.loads(text))
        files.validate_against_schema("observations/1", rows[-1])

    metadata = {"name": "o", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {run_labels.INDEX: "4"}}
    tally = WorkloadTally()
    observer = ObservationWriter(kind, True, tally, write)
    for number, status in enumerate(statuses):
        thing = {"metadata": metadata, **({} if status is None else {"status": status})}
        line = json.dumps({"type": "MODIFIED" if number else "ADDED", "object": thing}).encode()
        observer.watched(1.0 + number, observer.decode(line), line)
    again = ObservationWriter(kind, True, WorkloadTally(), write)
    for row in list(rows):
        again.recall(row)
    assert again.tally.ended == tally.ended and rows[0]["event"] == "ADDED"
