"""Objects of any form in any order: the same rows from each decoder, and nothing that ends the sampling."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import partial_json_decoder
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample import observation_writer
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.observation_writer import (
    ObservationWriter,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.workload_progress_and_waits import (
    WorkloadTally,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds
from hypothesis import given, settings
from hypothesis import strategies as st
from observed_objects import KIND, PHASES, ObservedWorld, as_served


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
    lines, objects = ObservedWorld(), ObservedWorld()
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
        world = ObservedWorld()
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
        decode = partial_json_decoder.create_document_decoder(shape)
        return lambda line: decoded.append(line) or decode(line)

    monkeypatch.setattr(observation_writer, "create_document_decoder", counting)
    rows: list[str] = []
    event = {"type": "ADDED", "object": ObservedWorld().pod(1, "Pending")}
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
        files.validate_schema_if_enabled("observations/1", rows[-1])

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
