# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A clean-up that could not look at what the run has made does not say that it is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.run_labels import RUN
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import run_cleanup
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.delete_by_label import (
    RunCleanup,
    verify_nothing_left,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind

VERBS = frozenset({"list", "delete"})
KINDS = [ServedKind("v1", name, f"{name.lower()}s", True, VERBS) for name in ("ConfigMap", "Secret")]


class Server:
    """An API server that refuses some lists. refused: (kind, namespace) -> status; objects: the same -> names."""

    def __init__(self, refused: dict[tuple[str, str], int], objects: dict[tuple[str, str], list[str]]) -> None:
        self.refused, self.objects = refused, objects
        self.unknown_groups: list[str] = []

    def kinds(self) -> list[ServedKind]:
        return KINDS

    def list(
        self, kind: ServedKind, namespace: str = "", selector: str = "", *_more: Any, **_options: Any
    ) -> tuple[list[dict[str, Any]], str]:
        if (kind.kind, namespace) in self.refused:
            raise ApiError(f"{kind.kind} can't be listed", self.refused[kind.kind, namespace])
        names = self.objects.get((kind.kind, namespace), [])
        labels = {RUN: "t1121-abcdef"} if selector else {}  # a server lists what the selector chooses
        return [{"metadata": {"name": one, "namespace": namespace, "uid": one, "labels": labels}} for one in names], ""


def look(refused: dict, objects: dict, known: dict[tuple[str | None, str], set[str]]) -> Any:
    return verify_nothing_left(RunCleanup(Server(refused, objects), "t1121-abcdef", created=known))  # type: ignore[arg-type]


def test_a_kind_that_can_not_be_listed_is_noted_when_the_run_made_none_of_it() -> None:
    assert look({("Secret", ""): 403}, {}, {("", "ConfigMap"): {"here"}}).unlisted == ["Secret (403)"]


@pytest.mark.parametrize("status", [403, 500, 503])
def test_a_kind_that_the_run_made_objects_of_must_be_seen(status: int) -> None:
    with pytest.raises(ApiError, match="Secret can't be listed"):
        look({("Secret", ""): status}, {}, {("", "Secret"): {""}})


def test_who_may_not_list_everywhere_looks_where_the_run_has_made_something() -> None:
    refused = {("Secret", ""): 403}
    assert look(refused, {}, {("", "Secret"): {"", "here"}}).unlisted == []
    with pytest.raises(SeatrialError, match="Secret here/mine"):
        look(refused, {("Secret", "here"): ["mine"]}, {("", "Secret"): {"here", "there"}})
    with pytest.raises(ApiError):
        look({**refused, ("Secret", "here"): 403}, {}, {("", "Secret"): {"here"}})


KNATIVE = ServedKind("serving.knative.dev/v1", "Service", "services", True, VERBS)


@pytest.mark.parametrize("status", [403, 503])
def test_a_kind_of_the_same_name_in_another_group_does_not_end_the_cleanup(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ServedKind("v1", "Service", "services", True, VERBS)
    monkeypatch.setattr(Server, "kinds", lambda _self: [own, KNATIVE])
    server_list = Server.list

    def answer(self: Server, kind: ServedKind, *more: Any, **options: Any) -> Any:
        if kind == KNATIVE:
            raise ApiError("Service of Knative can't be listed", status)
        return server_list(self, kind, *more, **options)

    monkeypatch.setattr(Server, "list", answer)
    assert look({}, {}, {("", "Service"): {"here"}}).unlisted == [f"Service ({status})"]
    for group in ("serving.knative.dev", None):
        with pytest.raises(ApiError, match="of Knative"):
            look({}, {}, {(group, "Service"): {"here"}})


SPACE = ServedKind("v1", "Namespace", "namespaces", False, VERBS)
DEFINITION = ServedKind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "crds", False, VERBS)
THING = ServedKind("my.example.com/v1", "Thing", "things", True, VERBS)


class OwnObjects(Server):
    """A server on which the run has a namespace and a definition; what is deleted is gone."""

    def __init__(self, refused: dict[tuple[str, str], int], patch: int = 200) -> None:
        super().__init__(
            refused, {("Namespace", ""): ["mine"], ("CustomResourceDefinition", ""): ["things.my.example.com"]}
        )
        self.patch, self.deleted = patch, list[str]()

    def kinds(self) -> list[ServedKind]:
        return [*KINDS, SPACE, DEFINITION, THING]

    def list(self, kind: ServedKind, namespace: str = "", *more: Any, **options: Any) -> Any:
        items, version = super().list(kind, namespace, *more, **options)
        return [{"metadata": {**item["metadata"], "labels": {RUN: "t1121-abcdef"}}} for item in items], version

    def delete_seen(self, _kind: ServedKind, metadata: dict[str, str]) -> None:
        name = metadata["name"]
        self.deleted.append(name)
        self.objects = {at: [one for one in names if one != name] for at, names in self.objects.items()}

    def request(self, _method: str, path: str, *_more: Any, **_options: Any) -> None:
        if self.patch != 200:
            raise ApiError("no", self.patch)
        self.objects = {at: [one for one in names if one not in path] for at, names in self.objects.items()}


@pytest.mark.parametrize("patch", [200, 403])
@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_namespace_and_a_definition_that_can_not_be_looked_into_are_kept(status: int, patch: int) -> None:
    server, said = OwnObjects({("Secret", "mine"): status, ("Thing", ""): status}, patch), list[str]()
    outcome = RunCleanup(server, "t1121-abcdef", say=said.append).clean(10)  # type: ignore[arg-type]
    assert server.deleted == [] and outcome.deleted == {}
    assert sorted(outcome.handed_over) == ["CustomResourceDefinition things.my.example.com", "Namespace mine"]
    assert any(f"it may have objects of others: these can't be listed: Secret ({status})" in line for line in said)
    assert any(f"its objects can't be listed: Thing ({status})" in line for line in said)


def test_a_namespace_is_kept_while_an_aggregated_server_does_not_tell_its_kinds() -> None:
    server, said = OwnObjects({}), list[str]()
    server.unknown_groups = ["route.example.com/v1", "metrics.k8s.io/v1beta1"]
    outcome = RunCleanup(server, "t1121-abcdef", say=said.append).clean(10)  # type: ignore[arg-type]
    assert outcome.handed_over == ["Namespace mine"] and "mine" not in server.deleted
    assert outcome.unlisted == ["all kinds of route.example.com/v1"]
    assert any("objects of others: these can't be listed: all kinds of route.example.com/v1" in line for line in said)


def test_an_empty_namespace_and_an_unused_definition_are_deleted() -> None:
    server = OwnObjects({})
    assert RunCleanup(server, "t1121-abcdef").clean(10).handed_over == []  # type: ignore[arg-type]
    assert sorted(server.deleted) == ["mine", "things.my.example.com"]


def test_a_kind_that_the_run_had_objects_of_must_be_seen_to_be_gone() -> None:
    server = OwnObjects({})
    sweep = RunCleanup(server, "t1121-abcdef")  # type: ignore[arg-type]
    assert sweep.find()
    server.refused = {("Namespace", ""): 503}
    with pytest.raises(ApiError):
        sweep.find()


def test_what_a_run_has_made_is_read_from_its_manifests_and_plans(tmp_path: Path) -> None:
    source = tmp_path / "004__fine_tuning__prepare" / "src"
    source.mkdir(parents=True)
    (source / "a.yml").write_text(
        "---\nkind: Namespace\nmetadata: {name: x}\n---\nkind: Secret\nmetadata: {namespace: x}\n", encoding="utf-8"
    )
    point = tmp_path / "points" / "001"
    point.mkdir(parents=True)
    header = {"type": "header", "templates": [{"kind": "PyTorchJob", "namespace": "x"}]}
    (point / "plan.jsonl").write_text(f"{json.dumps(header)}\n", encoding="utf-8")
    assert run_cleanup.read_created_kinds(tmp_path) == {
        (None, "Namespace"): {""},
        (None, "Secret"): {"x"},
        (None, "PyTorchJob"): {"x"},
    }
    assert run_cleanup.read_created_kinds(tmp_path / "none") == {}


def test_a_namespace_of_each_workload_is_where_its_objects_are(tmp_path: Path) -> None:
    point = tmp_path / "points" / "001"
    point.mkdir(parents=True)
    templates = [
        {"name": "each", "kind": "Job", "namespace": "u-{index}"},
        {"name": "all", "kind": "Job", "namespace": "x"},
    ]
    rows = [{"type": "header", "templates": templates}]
    rows += [{"index": index, "template": name} for index, name in enumerate(["each", "all", "each"])]
    (point / "plan.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert run_cleanup.read_created_kinds(tmp_path) == {(None, "Job"): {"u-0", "u-2", "x"}}


def test_the_group_of_what_workloads_share_is_that_of_its_manifest(tmp_path: Path) -> None:
    source = tmp_path / "004__users__test" / "src"
    source.mkdir(parents=True)
    (source / "a.yml").write_text("---\nkind: Service\napiVersion: v1\nmetadata: {namespace: x}\n", encoding="utf-8")
    point = tmp_path / "points" / "001"
    point.mkdir(parents=True)
    template = {"kind": "Job", "api_version": "batch/v1", "namespace": "x", "shared": [["Service", "y"], ["Role", "x"]]}
    header = {"type": "header", "templates": [template]}
    (point / "plan.jsonl").write_text(f"{json.dumps(header)}\n", encoding="utf-8")
    assert run_cleanup.read_created_kinds(tmp_path) == {
        ("", "Service"): {"x", "y"},
        ("batch", "Job"): {"x"},
        (None, "Role"): {"x"},
    }
