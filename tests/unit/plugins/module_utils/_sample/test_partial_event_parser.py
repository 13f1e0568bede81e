"""What is cut off an event before it is parsed is never something that is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._sample import partial_event_parser
from hypothesis import given, settings
from hypothesis import strategies as st

MANAGED = [
    {
        "manager": "kwok",
        "fieldsV1": {"f:spec": {'k:{"name":"c"}': {".": {}}, 'v:"]},"': {}}, "f:status": {}},
        "subresource": "status",
    }
]


def built_in(**more: Any) -> dict[str, Any]:
    """In the order in which the API server writes built-in kinds."""
    metadata = {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "b"}, "managedFields": MANAGED}
    thing = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"x": [{"name": "c"}]}}
    return {"type": "MODIFIED", "object": {**thing, "status": {"phase": "Running", "conditions": []}, **more}}


def custom(**more: Any) -> dict[str, Any]:
    """In the order in which the API server writes custom resources: sorted."""
    metadata = {
        "labels": {},
        "managedFields": MANAGED,
        "name": "p",
        "namespace": "n",
        "resourceVersion": "5",
        "uid": "u",
    }
    thing = {"apiVersion": "v1", "kind": "X", "metadata": metadata, "spec": {"a": {"metadata": {"name": "y"}}}}
    return {"type": "ADDED", "object": {**thing, "status": {"phase": "Running"}, **more}}


def line(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def expected(event: dict[str, Any], spec: bool) -> dict[str, Any]:
    thing = dict(event["object"])
    thing["metadata"] = {key: value for key, value in thing["metadata"].items() if key != "managedFields"}
    if not spec:
        thing.pop("spec", None)
    return {"type": event["type"], "object": thing}


ACCOUNT = {"serviceAccountName": "default", "serviceAccount": "default"}


@pytest.mark.parametrize(
    ("spec", "node"),
    [
        ({"containers": []}, ""),
        ({**ACCOUNT, "hostNetwork": True}, ""),
        ({**ACCOUNT, "nodeName": "n-1", "hostNetwork": True}, "n-1"),
        ({**ACCOUNT, "automountServiceAccountToken": False, "nodeName": "n-1"}, "n-1"),
        ({"nodeName": "n-1"}, "n-1"),
        ({"nodeSelector": {"nodeName": "other"}}, ""),
        ({"nodeSelector": {"nodeName": "other"}, **ACCOUNT, "nodeName": "n-1"}, "n-1"),
        ({"containers": [{"args": ['"serviceAccount":"a","nodeName":"other"']}], **ACCOUNT}, ""),
    ],
)
def test_the_node_of_a_pod_is_that_of_its_spec(spec: dict[str, Any], node: str) -> None:
    assert partial_event_parser.node_of(line(built_in(spec=spec))) == node


@pytest.mark.parametrize("made", [built_in, custom])
@pytest.mark.parametrize("spec", [True, False])
def test_managed_fields_and_the_spec_are_left_out(made: Any, spec: bool) -> None:
    assert partial_event_parser.event(line(made()), spec) == expected(made(), spec)
    assert len(partial_event_parser.cut(line(made()), spec)) < len(line(made())) - 100


@pytest.mark.parametrize(
    "event",
    [
        {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "9"}}},
        {"type": "ADDED", "object": {"metadata": {"uid": "u", "managedFields": []}, "data": {"a": "b"}}},
        # A status within the spec: nobody can tell where the object's own begins.
        built_in(spec={"template": {"spec": {"a": 1}, "status": {"b": 2}}}),
        {"type": "ADDED", "object": {"metadata": {"uid": "u"}, "spec": {"a": 1}}},
    ],
)
def test_what_stands_otherwise_is_still_read_whole(event: dict[str, Any]) -> None:
    found = partial_event_parser.event(line(event), False)["object"]
    assert found["metadata"]["uid" if "uid" in found["metadata"] else "resourceVersion"]
    for key in event["object"].keys() - {"metadata"}:
        assert found[key] == event["object"][key]


TEXT = st.sampled_from(
    ['},"status":{', ',"managedFields":[', ']},"spec":', '],"name":"', '},"spec":{', "plain", '"', "\\"]
)
VALUE = st.recursive(
    st.one_of(TEXT, st.integers(), st.none(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=12,
)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([built_in, custom]), VALUE, VALUE, TEXT, st.booleans())
def test_no_text_in_an_object_is_taken_for_its_structure(
    made: Any, in_spec: Any, in_status: Any, in_label: str, spec: bool
) -> None:
    event = made(spec={"x": in_spec}, status={"phase": "Running", "y": in_status})
    event["object"]["metadata"]["labels"] = {"a": in_label}
    found = partial_event_parser.event(line(event), spec)
    assert found["object"]["metadata"] in (event["object"]["metadata"], expected(event, spec)["object"]["metadata"])
    assert found["object"]["status"] == event["object"]["status"]
    assert not spec or found["object"]["spec"] == event["object"]["spec"]


def served(in_status: Any, in_label: str, finalizers: bool = True) -> dict[str, Any]:
    """As an API server writes a pod: its identity first."""
    metadata = {"name": "p", "generateName": "p-", "namespace": "n", "uid": "u-1", "resourceVersion": "17"}
    more = {"labels": {"a": in_label}, **({"finalizers": ["f"]} if finalizers else {}), "managedFields": MANAGED}
    thing = {"kind": "Pod", "apiVersion": "v1", "metadata": {**metadata, **more}, "spec": {"x": in_status}}
    return {"type": "MODIFIED", "object": {**thing, "status": {"phase": "Running", "y": in_status}}}


@settings(deadline=None, max_examples=300)
@given(VALUE, TEXT)
def test_parts_of_an_event_are_those_of_the_object(in_status: Any, in_label: str) -> None:
    event = served(in_status, in_label)
    found = partial_event_parser.parts(line(event))
    if found is None:
        assert '"status":{' in json.dumps(in_status, separators=(",", ":")), "an ordinary event has no parts"
        return
    assert found[:2] == ("u-1", "17")
    assert partial_event_parser.status(found[3]) == event["object"]["status"]
    assert found[2] != partial_event_parser.parts(line(served("", f"{in_label}.")))[2]  # type: ignore[index]


def test_an_event_that_is_not_written_as_for_built_in_kinds_has_no_parts() -> None:
    assert partial_event_parser.parts(line(served({}, ""))) is not None
    deleted = {**served({}, ""), "type": "DELETED"}
    for event in (custom(), built_in(), deleted, {"type": "BOOKMARK", "object": {"metadata": {}}}):
        assert partial_event_parser.parts(line(event)) is None


def test_that_finalizers_go_changes_nothing_else_of_an_object() -> None:
    with_them, without = (partial_event_parser.parts(line(served({}, "a", finalizers=one))) for one in (True, False))
    assert with_them is not None and without is not None
    assert with_them[2] == without[2]


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(TEXT, st.sampled_from([',"hostIP":"', '],"qosClass":"', ',"uncountedTerminatedPods":{'])),
    st.sets(st.sampled_from(["conditions", "phase", "podIP", "containerStatuses", "uncountedTerminatedPods"])),
    st.booleans(),
)
def test_a_slim_status_says_the_same_of_what_is_looked_at(text: str, keys: set[str], several: bool) -> None:
    whole = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "message": text}],
        "message": text,
        "hostIP": "10.0.0.1",
        "hostIPs": [{"ip": "10.0.0.1"}] * (1 + several),
        "podIP": "10.0.0.2",
        "podIPs": [{"ip": "10.0.0.2"}] * (1 + several),
        "startTime": "2026-11-21T05:00:00Z",
        "containerStatuses": [{"name": text, "volumeMounts": [{"name": text}], "state": {}}] * (1 + several),
        "qosClass": "Burstable",
        "uncountedTerminatedPods": {"succeeded": ["u-1", "u-2"]},
        "ready": 0,
    }
    found = partial_event_parser.status(
        partial_event_parser.slimmer(keys)(json.dumps(whole, separators=(",", ":")).encode())
    )
    assert found.items() <= whole.items()
    assert keys <= found.keys()
    gone = whole.keys() - found.keys()
    assert gone <= {"hostIP", "hostIPs", "podIP", "podIPs", "containerStatuses", "uncountedTerminatedPods"}
    assert ("containerStatuses" in gone) == ("containerStatuses" not in keys)
