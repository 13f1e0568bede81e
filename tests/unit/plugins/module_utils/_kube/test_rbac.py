"""The rights of a run: only those of its phases, each once, and where they must hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.rbac import (
    format_rights,
    rbac_manifests,
    rbac_object_name_for_user,
    rights_needed_in_phases,
    rights_refused_by_server,
)
from scripted_server import ScriptedServer

ENTRIES: list[dict[str, Any]] = [
    {"phases": ["cluster"], "resources": ["nodes"], "verbs": ["list"], "scope": "cluster"},
    {"phases": ["test"], "group": "batch", "resources": ["jobs"], "verbs": ["create", "list"]},
    {"phases": ["cleanup", "test"], "group": "batch", "resources": ["jobs"], "verbs": ["list", "delete"]},
    {"phases": ["export"], "resources": ["secrets"], "verbs": ["get"]},
]


def test_only_chosen_phases_count_and_each_right_stands_once() -> None:
    found = rights_needed_in_phases(ENTRIES, ["cluster", "test"], {"mine": True})
    assert [(one.verb, one.what(), one.phase) for one in found] == [
        ("list", "nodes in the whole cluster", "cluster"),
        ("create", "jobs.batch in namespace mine", "test"),
        ("delete", "jobs.batch in namespace mine", "test"),
        ("list", "jobs.batch in namespace mine", "test"),
    ]
    assert format_rights(found)[1] == "create, delete, list jobs.batch in namespace mine (phase test)"


def test_in_a_namespace_that_is_not_there_yet_they_must_hold_everywhere() -> None:
    found = rights_needed_in_phases(ENTRIES, ["test"], {"mine": True, "made-by-the-run": False})
    assert {one.namespace for one in found} == {""}


def test_a_namespace_that_is_there_is_looked_at_and_neither_made_nor_deleted() -> None:
    entry = {"phases": ["prepare"], "resources": ["namespaces"], "verbs": ["get", "create"], "scope": "cluster"}
    assert format_rights(rights_needed_in_phases([entry], ["prepare"], {"mine": True})) == [
        "get namespaces in namespace mine (phase prepare)"
    ]
    assert format_rights(rights_needed_in_phases([entry], ["prepare"], {"mine": True, "new": False})) == [
        "create, get namespaces in the whole cluster (phase prepare)"
    ]
    assert format_rights(rights_needed_in_phases([{**entry, "own": True}], ["prepare"], {"mine": True})) == [
        "create, get namespaces in the whole cluster (phase prepare)"
    ], "the namespace of a load is another one"


def test_a_right_in_a_namespace_that_is_not_the_runs_is_asked_there() -> None:
    entry = {"phases": ["cluster"], "resources": ["leases"], "verbs": ["list"], "namespace": "locks"}
    assert [one.namespace for one in rights_needed_in_phases([entry], ["cluster"], {"mine": True})] == ["locks"]


def test_the_least_rbac_has_these_rights_and_no_more() -> None:
    found = rbac_manifests(rights_needed_in_phases(ENTRIES, ["cluster", "test"], {"mine": True}), "seatrial-run", "ada")
    assert [(one["kind"], one["metadata"].get("namespace")) for one in found] == [
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "mine"),
        ("RoleBinding", "mine"),
    ]
    assert found[0]["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    assert found[2]["rules"] == [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "delete", "list"]}]
    assert found[3]["subjects"][0]["name"] == "ada"


@pytest.mark.parametrize("entry", [{"phases": ["test"]}, {**ENTRIES[0], "verb": "x"}])
def test_an_entry_that_is_none_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="requires phases, resources and verbs"):
        rights_needed_in_phases([entry], ["test"], {})


def test_what_the_server_refuses_is_named(tmp_path: Path) -> None:
    def answer(asked: Any) -> Any:
        return 201, {"status": {"allowed": b'"delete"' not in asked.body}}

    with ScriptedServer(answer) as server, Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig")) as client:
        found = rights_refused_by_server(client, rights_needed_in_phases(ENTRIES, ["test"], {"mine": True}))
    assert format_rights(found) == ["delete jobs.batch in namespace mine (phase test)"]


def test_two_users_have_roles_of_their_own() -> None:
    names = [
        rbac_object_name_for_user(subject) for subject in ("", "ada", "jo@example.com", "system:serviceaccount:a:b")
    ]
    assert len(set(names)) == len(names) and names[2] == "seatrial-run:jo@example.com"
    alike = [rbac_object_name_for_user(subject) for subject in ("a/b%c", "a%b/c", "a-b-c")]
    assert len(set(alike)) == 3 and not {"/", "%"} & set("".join(alike)), "neither may be in the name of a role"


def test_a_user_who_is_named_as_another_with_its_checksum_has_roles_of_its_own() -> None:
    first = rbac_object_name_for_user("https://idp.example.com/jo")
    alike = first.removeprefix("seatrial-run:")
    second = rbac_object_name_for_user(alike)
    assert second not in (first, rbac_object_name_for_user(second.removeprefix("seatrial-run:")))
    assert rbac_object_name_for_user("jo:cafe") == "seatrial-run:jo:cafe", "it is no checksum"
