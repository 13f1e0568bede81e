"""The client against answers that a real server gives rarely."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import client as client_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Broken
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import (
    ServedKind,
    kinds_in_preferred_versions,
)
from scripted_server import RESET, Asked, ScriptedServer, reply, status_object

CONFIG_MAP = ServedKind("v1", "ConfigMap", "configmaps", True)


def client_of(server: ScriptedServer, folder: Path, user: dict[str, Any] | None = None) -> Client:
    return Client.from_kubeconfig(server.kubeconfig(folder / "kubeconfig", user), timeout=5)


def test_paths_are_quoted_and_leave_out_what_is_not_given() -> None:
    assert CONFIG_MAP.path() == "/api/v1/configmaps"
    assert CONFIG_MAP.path("a b", "x/y", "status") == "/api/v1/namespaces/a%20b/configmaps/x%2Fy/status"
    assert ServedKind("batch/v1", "Job", "jobs", True).path("n") == "/apis/batch/v1/namespaces/n/jobs"
    assert ServedKind("v1", "Node", "nodes", False).path("ignored", "n1") == "/api/v1/nodes/n1"


def test_too_many_requests_is_repeated_after_the_time_that_the_server_names(tmp_path: Path) -> None:
    refused = (429, status_object(429, "TooManyRequests", "x"))
    with (
        ScriptedServer(lambda asked: refused) as server,
        client_of(server, tmp_path) as client,
        pytest.raises(ApiError) as caught,
    ):
        client.request("GET", "/x")
    assert (caught.value.status, caught.value.reason) == (429, "TooManyRequests")
    assert len(server.asked) == 1, "it was repeated without a Retry-After"


@pytest.mark.parametrize("named", [b"0", b"\xb2", b"9" * 5000])
def test_a_time_that_is_no_number_is_a_short_pause(
    tmp_path: Path, named: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)

    def later(asked: Asked) -> Any:
        if len(server.asked) > 1:
            return 200, {"ok": 1}
        return reply(429, b"{}", Retry_After="@").replace(b"@", named)

    with ScriptedServer(later) as server, client_of(server, tmp_path) as client:
        assert client.request("GET", "/x") == {"ok": 1}
    assert (len(server.asked), pauses) == (2, [0 if named == b"0" else 1.0])


def test_refused_credentials_are_read_anew_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    def answer(asked: Asked) -> Any:
        token.write_text("new")
        return (200, {"ok": 1}) if asked.headers["authorization"] == "Bearer new" else (401, b"")

    with ScriptedServer(answer) as server, client_of(server, tmp_path, {"tokenFile": "token"}) as client:
        assert client.request("GET", "/x") == {"ok": 1}
    assert [one.headers["authorization"] for one in server.asked] == ["Bearer old", "Bearer new"]
    with (
        ScriptedServer(lambda asked: (401, b"")) as server,
        client_of(server, tmp_path, {"token": "secret-canary"}) as client,
        pytest.raises(AccessError, match=r"refuses our credentials \(401\) from kubeconfig") as caught,
    ):
        client.request("GET", "/x")
    assert "secret-canary" not in str(caught.value) and len(server.asked) == 1


def test_only_reading_is_repeated_when_the_connection_breaks(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: RESET if len(server.asked) == 1 else (200, {"ok": 1})) as server:
        assert client_of(server, tmp_path).request("GET", "/x") == {"ok": 1}
    with ScriptedServer(lambda asked: RESET) as server, pytest.raises(Broken):
        client_of(server, tmp_path).request("POST", "/x", {})
    assert len(server.asked) == 1


def test_a_list_is_read_page_by_page_and_begun_again_when_it_grew_too_old(tmp_path: Path) -> None:
    labels = {"labels": {"a": "b"}}

    def answer(asked: Asked) -> Any:
        if len(server.asked) == 2:
            return 410, status_object(410, "Expired", "too old")
        if "continue=" in asked.path:
            return 200, {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "b", **labels}}]}
        items = [{"metadata": {"name": "a", **labels}}]
        return 200, {"metadata": {"resourceVersion": "9", "continue": "c/1"}, "items": items}

    with ScriptedServer(answer) as server, client_of(server, tmp_path) as client:
        items, version = client.list(CONFIG_MAP, "ns", "a=b", limit=1)
    assert ([one["metadata"]["name"] for one in items], version) == (["a", "b"], "9")
    assert items[0]["kind"] == "ConfigMap"
    assert [("continue=c%2F1" in one.path, "labelSelector=a%3Db" in one.path) for one in server.asked] == [
        (False, True),
        (True, True),
    ] * 2


def test_a_kind_is_looked_up_once_and_an_unknown_one_each_time(tmp_path: Path) -> None:
    resources = [
        {"name": "jobs", "kind": "Job", "namespaced": True, "verbs": ["get"]},
        {"name": "jobs/status", "kind": "Job", "namespaced": True, "verbs": ["get"]},
    ]
    with ScriptedServer(lambda asked: (200, {"resources": resources})) as server, client_of(server, tmp_path) as client:
        assert [client.kind("batch/v1", "Job").resource for _ in range(2)] == ["jobs"] * 2
        assert len(server.asked) == 1
        with pytest.raises(InputError, match=r"has no kind Jib in batch/v1 \(did you mean 'Job'\?\)"):
            client.kind("batch/v1", "Jib")
        assert len(server.asked) == 2
    with (
        ScriptedServer(lambda asked: (200, {"groups": []}) if asked.path == "/apis" else (404, b"not found")) as server,
        client_of(server, tmp_path) as client,
        pytest.raises(InputError, match="no API version 'x.example.com/v1'; is its operator installed?"),
    ):
        client.kind("x.example.com/v1", "X")


def test_aggregated_discovery_takes_each_kind_in_its_preferred_version() -> None:
    def version(name: str, *kinds: str) -> dict[str, Any]:
        resources = [
            {"resource": f"{kind.lower()}s", "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["list"]}
            for kind in kinds
        ]
        return {"version": name, "resources": resources}

    found = kinds_in_preferred_versions(
        {"items": [{"metadata": {"name": "g"}, "versions": [version("v2", "A"), version("v1", "A", "B")]}]}
    )
    assert [(one.api_version, one.kind) for one in found] == [("g/v2", "A"), ("g/v1", "B")]


def test_an_error_says_what_it_is_about_and_whether_waiting_can_help(tmp_path: Path) -> None:
    details = {"kind": "namespaces", "name": "absent"}
    bodies = [
        (404, {**status_object(404, "NotFound", "x"), "details": details}),
        (500, b"not JSON"),
        (401, b""),
    ]
    errors = []
    for body in bodies:
        with ScriptedServer(lambda asked, body=body: body) as server, client_of(server, tmp_path) as client:
            with pytest.raises((ApiError, AccessError)) as caught:
                client.request("GET", "/x")
            errors.append(caught.value)
    assert [error.permanent for error in errors] == [True, False, True]
    assert (errors[0].resource, errors[0].name) == ("namespaces", "absent")
    assert (errors[1].resource, errors[1].name) == ("", "")


@pytest.mark.parametrize("body", [b"", b"<html>Log in</html>"])
def test_a_redirect_is_an_error_and_never_an_answer(tmp_path: Path, body: bytes) -> None:
    redirect = reply(302, body, Location="http://127.0.0.1:1/login")
    with ScriptedServer(lambda asked: redirect) as server, client_of(server, tmp_path) as client:
        for send in (
            lambda: client.request("GET", "/version"),
            lambda: client.text("/readyz"),
            lambda: client.list(CONFIG_MAP),
            lambda: client.delete(CONFIG_MAP, "a", "default"),
        ):
            with pytest.raises(ApiError, match="302.*leads elsewhere") as error:
                send()
            assert error.value.status == 302
    assert all(asked.path != "/login" for asked in server.asked)


@pytest.mark.parametrize("content", ["", "null", "[]", '{"items": []}'])
def test_a_list_of_another_shape_is_an_error_and_never_an_empty_one(tmp_path: Path, content: str) -> None:
    with (
        ScriptedServer(lambda asked: reply(200, content.encode())) as server,
        client_of(server, tmp_path) as client,
        pytest.raises(ApiError, match="is no list"),
    ):
        client.list(CONFIG_MAP)


def test_a_list_whose_pages_do_not_end_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MOST_PAGES", 7)
    numbers = itertools.count()
    page = {"metadata": {"continue": "more"}, "items": [{"metadata": {"name": "a"}}]}
    with (
        ScriptedServer(lambda asked: (200, page) if next(numbers) < 20 else RESET) as server,
        client_of(server, tmp_path) as client,
        pytest.raises(ApiError, match="the list has more than 7 pages"),
    ):
        client.list(CONFIG_MAP)
    assert len(server.asked) == 7


@pytest.mark.parametrize("path", ["/api/v1/pods", "/readyz"])
def test_an_error_that_repeats_the_token_is_told_without_it(tmp_path: Path, path: str) -> None:
    def answer(asked: Asked) -> Any:
        return 403, status_object(403, "Forbidden", f"you sent {asked.headers['authorization']}")

    with ScriptedServer(answer) as server, client_of(server, tmp_path, {"token": "canary/0123"}) as client:
        with pytest.raises(ApiError, match="you sent Bearer <secret>"):
            client.request("GET", path)
        with pytest.raises(ApiError, match="you sent Bearer <secret>"):
            client.text(path)
