# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a removal of operators deletes, labels and leaves, on a server that has only what a test puts there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm import (
    delete_and_await,
    operator_objects,
    operator_removal,
)
from scripted_server import Asked, ScriptedServer, status_object

RUN, LABEL = "run-0001", "perfscale.seatrial/run"
OURS = {LABEL: RUN}
V1ALPHA1, CRD, RBAC = "operators.coreos.com/v1alpha1", "apiextensions.k8s.io/v1", "rbac.authorization.k8s.io/v1"
#: API version -> kind -> whether it is namespaced.
KINDS = {
    "v1": {"Namespace": False, "Secret": True},
    V1ALPHA1: dict.fromkeys(("Subscription", "InstallPlan", "CatalogSource", "ClusterServiceVersion"), True),
    "operators.coreos.com/v1": {"OperatorGroup": True},
    CRD: {"CustomResourceDefinition": False},
    RBAC: {"ClusterRole": False, "ClusterRoleBinding": False},
    "x.io/v1": {"Thing": True, "Whole": False},
}
VERBS = ["list", "delete"]


class Store:
    """An API server with objects by their paths.

    refused: parts of the requests that it answers with 403. broken: paths that it answers with 503.
    """

    def __init__(self, *things: dict[str, Any]) -> None:
        self.kinds = {version: dict(kinds) for version, kinds in KINDS.items()}
        self.objects: dict[str, dict[str, Any]] = {}
        self.refused: tuple[str, ...] = ()
        self.broken: tuple[str, ...] = ()
        self.asked: list[str] = []
        for thing in things:
            self.put(thing)

    def path(self, api_version: str, kind: str, namespace: str = "") -> str:
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"/{'apis' if '/' in api_version else 'api'}/{api_version}{place}/{kind.lower()}s"

    def put(self, thing: dict[str, Any]) -> None:
        meta = thing["metadata"]
        path = self.path(thing["apiVersion"], thing["kind"], meta.get("namespace", ""))
        self.objects[f"{path}/{meta['name']}"] = thing

    def labels(self) -> dict[str, Any]:
        """Return the value of the run's label of all objects, by kind and name."""
        return {
            f"{thing['kind']} {thing['metadata']['name']}": (thing["metadata"].get("labels") or {}).get(LABEL)
            for thing in self.objects.values()
        }

    def answer(self, asked: Asked) -> Any:
        path, _mark, query = asked.path.partition("?")
        self.asked.append(f"{asked.method} {path}")
        if any(part in self.asked[-1] for part in self.refused):
            return 403, status_object(403, "Forbidden", "no")
        if path in self.broken:
            return 503, status_object(503, "ServiceUnavailable", "the server is currently unable to handle the request")
        if "watch=1" in query:
            return 500, status_object(500, "InternalError", "no watches here")
        if path == "/api":
            return 200, {"versions": ["v1"]}
        if path == "/apis":
            names = [version for version in self.kinds if "/" in version]
            return 200, {"groups": [{"preferredVersion": {"groupVersion": name}} for name in names]}
        if path.removeprefix("/apis/").removeprefix("/api/") in self.kinds:
            kinds = self.kinds[path.removeprefix("/apis/").removeprefix("/api/")]
            rows = [
                {"kind": kind, "name": f"{kind.lower()}s", "namespaced": namespaced, "verbs": VERBS}
                for kind, namespaced in kinds.items()
            ]
            return 200, {"resources": rows}
        if path in self.objects:
            return self._one(asked, path)
        found = [thing for thing in self.objects.values() if self._is_in(thing, path)]
        if not found and path.rpartition("/")[2] not in [
            f"{kind.lower()}s" for each in KINDS.values() for kind in each
        ]:
            return 404, status_object(404, "NotFound", "no")
        return 200, {"items": found, "metadata": {"resourceVersion": "1"}}

    def _is_in(self, thing: dict[str, Any], path: str) -> bool:
        spaces = ("", thing["metadata"].get("namespace", ""))
        return path in [self.path(thing["apiVersion"], thing["kind"], space) for space in spaces]

    def _one(self, asked: Asked, path: str) -> Any:
        thing = self.objects[path]
        if asked.method == "PATCH":
            given = thing["metadata"].get("labels") or {}
            new = {**given, **json.loads(asked.body)["metadata"]["labels"]}
            labels = {name: value for name, value in new.items() if value is not None}
            thing = self.objects[path] = {**thing, "metadata": {**thing["metadata"], "labels": labels}}
        if asked.method == "DELETE":
            del self.objects[path]
        return 200, thing


def thing(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    """Return an object; labels and owners are in its metadata."""
    meta: dict[str, Any] = {"name": name, "uid": f"{kind}-{name}", "creationTimestamp": "2026-01-02T00:00:00Z"}
    if namespace:
        meta["namespace"] = namespace
    meta["labels"] = fields.pop("labels", {})
    meta["ownerReferences"] = [
        {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
        | {"uid": owner["metadata"]["uid"]}
        for owner in fields.pop("owners", [])
    ]
    meta["annotations"] = fields.pop("annotations", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **fields}


def definition(kind: str, **fields: Any) -> dict[str, Any]:
    """Return the definition of a kind of x.io."""
    spec = {"group": "x.io", "names": {"kind": kind}, "versions": [{"name": "v1", "storage": True}]}
    return thing(CRD, "CustomResourceDefinition", f"{kind.lower()}s.x.io", spec=spec, **fields)


def version(name: str, namespace: str, *kinds: str, **fields: Any) -> dict[str, Any]:
    """Return a ClusterServiceVersion that has these kinds of x.io."""
    owned = [{"name": f"{kind.lower()}s.x.io"} for kind in kinds]
    spec = {"customresourcedefinitions": {"owned": owned}}
    return thing(V1ALPHA1, "ClusterServiceVersion", name, namespace, spec=spec, **fields)


def operator(
    *more: dict[str, Any], creates: dict[str, Any] | None = None, kinds: tuple[str, ...] = ("Thing",)
) -> Store:
    """Return a server with one operator of the run and its catalog, and further objects."""
    made = {operator_objects.CREATES: json.dumps(creates)} if creates else {}
    spec = {"name": "op", "source": "cat", "sourceNamespace": "market"}
    status = {"installedCSV": "op.v1"}
    part = {**OURS, "perfscale.seatrial/part": "operators"}
    return Store(
        thing(V1ALPHA1, "Subscription", "op", "ns", labels=OURS, annotations=made, spec=spec, status=status),
        version("op.v1", "ns", *kinds),
        *(definition(kind) for kind in kinds),
        thing("operators.coreos.com/v1", "OperatorGroup", "group", "ns", labels=OURS),
        thing(V1ALPHA1, "CatalogSource", "cat", "market", labels=OURS, spec={"secrets": ["pull"]}),
        thing("v1", "Secret", "pull", "market", labels=OURS),
        thing("v1", "Namespace", "ns", labels=part),
        thing("v1", "Namespace", "market", labels=part),
        *more,
    )


def remove(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> dict[str, Any]:
    """Remove the operators of the run."""
    monkeypatch.setattr(delete_and_await, "_RECREATION_POLL", 0.01)
    options = {"crds": True, "timeout": 20, **more}
    with (
        ScriptedServer(store.answer) as server,
        Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig")) as client,
    ):
        return operator_removal.remove_operators(
            client, operator_removal.RemovalSpec(RUN, **options), lambda _text: None
        )


THEIRS = thing("x.io/v1", "Thing", "theirs", "elsewhere")
MINE = thing("x.io/v1", "Thing", "mine", "ns", labels=OURS)


def test_an_operator_of_the_run_goes_with_all_that_came_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = operator(MINE)
    result = remove(store, tmp_path, monkeypatch, hand_over=True)
    assert store.labels() == {} and result["changed"] and result["kept"] == []


@pytest.mark.parametrize("hand_over", [False, True])
def test_what_stays_for_others_has_no_label_by_which_a_cleanup_would_delete_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hand_over: bool
) -> None:
    other = thing("v1", "Namespace", "unrelated", labels=OURS)
    store = operator(THEIRS, MINE, other)
    before = store.labels()
    result = remove(store, tmp_path, monkeypatch, hand_over=hand_over)
    assert "would be left without an operator" in result["kept"][0]
    labels = store.labels()
    if hand_over:
        assert labels == {**dict.fromkeys(before), "Namespace unrelated": RUN} and result["changed"]
        assert not remove(store, tmp_path, monkeypatch, hand_over=True)["changed"]
    else:
        assert labels == before and not result["changed"]


def test_a_catalog_that_another_subscription_uses_stays_with_its_namespace_and_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"name": "other", "source": "cat", "sourceNamespace": "market"}
    store = operator(thing(V1ALPHA1, "Subscription", "other", "elsewhere", spec=spec))
    remove(store, tmp_path, monkeypatch, hand_over=True)
    left = ("Secret pull", "CatalogSource cat", "Namespace market", "Subscription other")
    assert store.labels() == dict.fromkeys(left)


ROOT = thing("x.io/v1", "Whole", "root")
GONE = thing("x.io/v1", "Whole", "gone")
UNSERVED = thing("gone.io/v1", "Lost", "lost")
HIDDEN = thing("v1", "Secret", "hidden", "elsewhere")


def is_kept(store: Store, result: dict[str, Any]) -> bool:
    return bool(result["kept"]) and store.labels()["Subscription op"] == RUN


@pytest.mark.parametrize(
    ("kind", "place", "owner", "kept"),
    [
        ("Thing", "elsewhere", ROOT, True),
        ("Thing", "elsewhere", GONE, False),
        ("Thing", "elsewhere", UNSERVED, True),
        ("Thing", "elsewhere", HIDDEN, True),
        ("Whole", "", thing("v1", "Secret", "s", "elsewhere"), True),
    ],
)
def test_an_object_whose_owner_may_be_there_is_not_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, place: str, owner: dict[str, Any], kept: bool
) -> None:
    owned = thing("x.io/v1", kind, "owned", place, owners=[owner])
    store = operator(owned, HIDDEN, kinds=(kind,))
    if owner is ROOT:
        store.put(ROOT)
    store.refused = ("secrets/hidden",)
    assert is_kept(store, remove(store, tmp_path, monkeypatch)) == kept


def test_an_owner_whose_api_server_does_not_answer_is_not_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = thing("metrics.x.io/v1", "Reading", "r", "elsewhere")
    store = operator(thing("x.io/v1", "Thing", "owned", "elsewhere", owners=[owner]))
    store.kinds["metrics.x.io/v1"] = {"Reading": True}
    store.broken = ("/apis/metrics.x.io/v1",)
    assert is_kept(store, remove(store, tmp_path, monkeypatch))


def test_objects_of_a_definition_that_the_server_does_not_serve_now_end_the_removal_before_it_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = operator()
    store.put(definition("Thing", status={"conditions": [{"type": "Established", "status": "True"}]}))
    del store.kinds["x.io/v1"]["Thing"]
    with pytest.raises(ApiError, match="the objects of CustomResourceDefinition things.x.io can't be listed"):
        remove(store, tmp_path, monkeypatch)
    assert not [line for line in store.asked if line.startswith("DELETE")]


ROLE = thing(RBAC, "ClusterRole", "extra")
EXTRA = {"objects": [{"api_version": CRD, "kind": "CustomResourceDefinition", "names": ["wholes.x.io"]}]}


def test_a_role_that_may_not_be_changed_is_deleted_without_a_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = operator(ROLE, creates={"objects": [{"api_version": RBAC, "kind": "ClusterRole", "names": ["extra"]}]})
    store.refused = ("PATCH /apis/rbac",)
    assert "ClusterRole extra" in remove(store, tmp_path, monkeypatch)["removed"]
    assert "PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/extra" in store.asked


def test_another_object_that_may_not_be_labelled_ends_the_removal_before_it_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = operator()
    store.refused = ("PATCH /apis/operators.coreos.com/v1alpha1/namespaces/ns/clusterserviceversions",)
    with pytest.raises(ApiError, match="Forbidden"):
        remove(store, tmp_path, monkeypatch)
    assert not [line for line in store.asked if line.startswith("DELETE")]


def test_a_removal_that_was_killed_leaves_no_definition_without_a_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = operator(definition("Whole"), creates=EXTRA)
    store.refused = ("DELETE",)
    with pytest.raises(ApiError, match="Forbidden"):
        remove(store, tmp_path, monkeypatch)
    assert store.labels()["CustomResourceDefinition wholes.x.io"] == RUN


@pytest.mark.parametrize(
    ("more", "crds", "left"),
    [
        ([], True, False),
        ([], False, True),
        ([version("other.v1", "elsewhere", "Whole")], True, True),
        ([thing("x.io/v1", "Whole", "theirs")], True, True),
    ],
)
def test_a_definition_that_an_operator_left_behind_stays_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[dict[str, Any]], crds: bool, left: bool
) -> None:
    store = operator(definition("Whole"), *more, creates=EXTRA)
    result = remove(store, tmp_path, monkeypatch, crds=crds, hand_over=True)
    labels = store.labels()
    assert ("CustomResourceDefinition wholes.x.io" in labels) == left
    assert bool(result["kept"]) == (left and crds) and "Subscription op" not in labels
    if left and more and more[0]["kind"] == "ClusterServiceVersion":
        assert labels["CustomResourceDefinition wholes.x.io"] is None  # it is that of the other operator


def written_by(manager: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return an object with this field manager."""
    return {**item, "metadata": {**item["metadata"], "managedFields": [{"manager": manager}]}}


@pytest.mark.parametrize(
    ("manager", "stays"), [("op-operator", False), ("kubectl-create", True), ("argocd-controller", True)]
)
def test_what_others_have_written_with_the_label_of_an_operator_or_as_its_namespace_stays(
    manager: str, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = written_by(manager, thing(RBAC, "ClusterRole", "viewer", labels={"app": "op"}))
    space = written_by(manager, thing("v1", "Namespace", "op-space"))
    creates = {
        "objects": [{"api_version": RBAC, "kind": "ClusterRole", "labels": {"app": "op"}}],
        "namespaces": ["op-space"],
    }
    store = operator(role, space, creates=creates)
    kept = remove(store, tmp_path, monkeypatch)["kept"]
    assert store.labels() == ({"ClusterRole viewer": None, "Namespace op-space": None} if stays else {})
    assert kept == [f"{one}: others than components of the cluster have written it" for one in store.labels()]


def test_what_has_not_the_labels_of_what_an_operator_creates_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server here takes no notice of label selectors."""
    created = written_by("op-operator", thing(RBAC, "ClusterRole", "created", labels={"part-of": "op", "app": "x"}))
    others = [thing(RBAC, "ClusterRole", "later"), thing(RBAC, "ClusterRole", "other", labels={"part-of": "else"})]
    wanted = {"api_version": RBAC, "kind": "ClusterRole", "labels": {"part-of": "op", "app": ""}}
    store = operator(created, *others, creates={"objects": [wanted]})
    remove(store, tmp_path, monkeypatch)
    assert store.labels() == {"ClusterRole later": None, "ClusterRole other": None}


DAMAGED = [
    "x",
    "[]",
    "[1]",
    '{"definitions": 1}',
    '{"definitions": [{}]}',
    '{"definitions": [".."]}',
    '{"definitions": "abc"}',
    '{"zzz": 1}',
    '{"objects": [1]}',
    '{"objects": [{"kind": "Secret"}]}',
    '{"objects": [{"api_version": "v1", "kind": "Secret", "names": [1]}]}',
    '{"objects": [{"api_version": "v1", "kind": "Secret", "labels": {"a": {}}}]}',
    '{"operands": [{"kind": [], "name": "x"}]}',
    '{"namespaces": 5}',
    "9" * 5000,
    "[" * 3000 + "]" * 3000,
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_record_of_what_an_operator_of_others_creates_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    annotations = {operator_objects.CREATES: text}
    store = operator(MINE, thing(V1ALPHA1, "Subscription", "other", "elsewhere", annotations=annotations))
    assert remove(store, tmp_path, monkeypatch)["kept"] == []
    assert store.labels() == {"Subscription other": None}


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_record_of_an_operator_of_the_run_is_said_before_anything_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    store = operator(MINE)
    store.objects[f"/apis/{V1ALPHA1}/namespaces/ns/subscriptions/op"]["metadata"]["annotations"] = {
        operator_objects.CREATES: text
    }
    with pytest.raises(DataError, match="operator-creates of Subscription ns/op is damaged"):
        remove(store, tmp_path, monkeypatch)
    assert not [line for line in store.asked if line.startswith(("DELETE", "PATCH"))]


def test_a_version_without_the_names_of_its_definitions_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = operator()
    csv = store.objects[f"/apis/{V1ALPHA1}/namespaces/ns/clusterserviceversions/op.v1"]
    csv["spec"]["customresourcedefinitions"]["owned"] = [{}]
    with pytest.raises(DataError, match=r"ClusterServiceVersion ns/op.v1: .* without 'name'"):
        remove(store, tmp_path, monkeypatch)


def chain(length: int, first: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return objects of which each is owned by the next one; ``first``: owners of the last one."""
    things: list[dict[str, Any]] = []
    for number in range(length):
        owners = things[-1:] or first
        things.append(thing("x.io/v1", "Thing", f"t{length - number:05d}", "elsewhere", owners=owners))
    return things[::-1]


@pytest.mark.parametrize(("length", "first", "kept"), [(600, [MINE], False), (600, [], True), (1500, [MINE], True)])
def test_a_chain_of_owners_of_any_length_ends_no_removal(
    tmp_path: Path, length: int, first: list[dict[str, Any]], kept: bool
) -> None:
    store = operator(MINE, *chain(length, first))
    assert bool(check(store, tmp_path)["kept"]) == kept


def check(store: Store, tmp_path: Path) -> dict[str, Any]:
    """Return what a removal of the operators of the run would do."""
    with (
        ScriptedServer(store.answer) as server,
        Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig")) as client,
    ):
        return operator_removal.remove_operators(
            client, operator_removal.RemovalSpec(RUN, timeout=20), lambda _text: None, check=True
        )


def test_objects_that_own_each_other_are_not_the_runs(tmp_path: Path) -> None:
    first, second = thing("x.io/v1", "Thing", "a", "elsewhere"), thing("x.io/v1", "Thing", "b", "elsewhere")
    beside = thing("x.io/v1", "Thing", "c", "elsewhere", owners=[MINE])
    last = thing("x.io/v1", "Thing", "d", "elsewhere", owners=[beside, MINE])
    for owned, owner in ((first, second), (second, first)):
        owned["metadata"]["ownerReferences"] = thing("v1", "X", "x", owners=[owner, last])["metadata"][
            "ownerReferences"
        ]
    kept = check(operator(MINE, beside, last, first, second), tmp_path)["kept"]
    assert len(kept) == 1 and "Thing elsewhere/a, Thing elsewhere/b would be left" in kept[0]
