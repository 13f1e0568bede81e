# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A 404 means that nothing is there only if the API server itself says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import missing_resources
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH
from api_server_of_kinds import CONFIG_MAP, DEFINITION, NAMESPACE, NOT_FOUND, TRAIN_JOB, KindsServer
from scripted_server import reply, status_object

STATUS = (404, status_object(404, "NotFound", "there is none"))
DEFINED = "trainjobs.trainer.example.com"


@pytest.fixture(autouse=True)
def _short_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_resources, "_LAG", 0.2)
    monkeypatch.setattr(missing_resources, "_PAUSE", 0.05)


@pytest.mark.parametrize(
    "answer",
    [NOT_FOUND, reply(404), reply(404, b"<html>Not Found</html>"), (404, {"error": "no route"}), (404, ["Status"])],
)
@pytest.mark.parametrize("kind", [CONFIG_MAP, TRAIN_JOB])
def test_a_404_that_is_no_status_object_is_an_error_while_the_discovery_has_the_kind(
    tmp_path: Path, kind: Any, answer: Any
) -> None:
    server = KindsServer(TRAIN_JOB)
    server.reply_to = lambda _method, path: answer if f"/n/{kind.resource}" in path else None
    with server.client(tmp_path) as client:
        for send in (
            lambda: client.get(kind, "a", "n"),
            lambda: client.delete(kind, "a", "n"),
            lambda: client.list(kind, "n"),
            lambda: client.request("PATCH", kind.path("n", "a"), {}, content_type=MERGE_PATCH),
        ):
            with pytest.raises(
                ApiError, match=f"404, which does not show.*its API discovery has {kind.resource}"
            ) as caught:
                send()
            assert (caught.value.status, caught.value.reason) == (0, missing_resources.UNCONFIRMED)
            assert not caught.value.permanent, "a proxy that starts answers so for a while"


def test_an_object_that_the_server_does_not_find_is_not_there_and_nothing_more_is_asked(tmp_path: Path) -> None:
    server = KindsServer(TRAIN_JOB)
    with server.client(tmp_path) as client:
        assert client.get(TRAIN_JOB, "a", "n") is None and not client.delete(TRAIN_JOB, "a", "n")
    assert len(server.asked) == 2


@pytest.mark.parametrize("answer", [STATUS, NOT_FOUND])
def test_a_list_that_is_not_found_is_an_error_while_the_discovery_has_the_kind(tmp_path: Path, answer: Any) -> None:
    server = KindsServer()
    server.reply_to = lambda _method, path: answer if path.endswith("/configmaps") else None
    with server.client(tmp_path) as client, pytest.raises(ApiError, match="its API discovery has configmaps"):
        client.list(CONFIG_MAP)


def test_a_kind_without_discovery_and_definition_is_gone(tmp_path: Path) -> None:
    server = KindsServer()
    with server.client(tmp_path) as client:
        assert client.get(TRAIN_JOB, "a", "n") is None and not client.delete(TRAIN_JOB, "a", "n")
        with pytest.raises(ApiError) as caught:
            client.list(TRAIN_JOB)
        assert caught.value.status == 404
        with pytest.raises(InputError, match="no API version 'trainer.example.com/v1'; is its operator installed?"):
            client.kind(TRAIN_JOB.api_version, TRAIN_JOB.kind)


def test_a_kind_that_the_discovery_lacks_is_there_while_its_definition_is(tmp_path: Path) -> None:
    server = KindsServer(TRAIN_JOB)
    server.lost = {TRAIN_JOB.api_version}
    server.add(DEFINITION, DEFINED)
    with server.client(tmp_path) as client:
        for send in (
            lambda: client.get(TRAIN_JOB, "a", "n"),
            lambda: client.list(TRAIN_JOB),
            lambda: client.kind(TRAIN_JOB.api_version, TRAIN_JOB.kind),
        ):
            with pytest.raises(ApiError, match=f"there is a CustomResourceDefinition {DEFINED}"):
                send()


def test_a_version_that_its_group_no_longer_has_is_gone_although_the_group_has_definitions(tmp_path: Path) -> None:
    server = KindsServer(TRAIN_JOB)
    server.add(DEFINITION, DEFINED)
    with server.client(tmp_path) as client, pytest.raises(InputError, match="no API version 'trainer.example.com/v0'"):
        client.kind("trainer.example.com/v0", "TrainJob")


def test_a_server_without_any_definition_lists_null(tmp_path: Path) -> None:
    server = KindsServer()
    empty = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": None}
    server.reply_to = lambda _method, path: (200, empty) if path.endswith("/customresourcedefinitions") else None
    with server.client(tmp_path) as client, pytest.raises(InputError, match="no API version 'trainer.example.com/v1'"):
        client.kind(TRAIN_JOB.api_version, TRAIN_JOB.kind)


def test_who_may_not_read_definitions_relies_on_the_discovery(tmp_path: Path) -> None:
    server = KindsServer()
    refused = (403, status_object(403, "Forbidden", "no"))
    server.reply_to = lambda _method, path: refused if "customresourcedefinitions" in path else None
    with server.client(tmp_path) as client:
        assert client.get(TRAIN_JOB, "a", "n") is None
        with pytest.raises(InputError):
            client.kind(TRAIN_JOB.api_version, TRAIN_JOB.kind)


def test_a_proxy_that_answers_404_to_everything_shows_nothing(tmp_path: Path) -> None:
    server = KindsServer(TRAIN_JOB)
    server.reply_to = lambda _method, _path: NOT_FOUND
    with server.client(tmp_path) as client:
        for send in (
            lambda: client.get(CONFIG_MAP, "a", "n"),
            lambda: client.delete(TRAIN_JOB, "a", "n"),
            lambda: client.kind(TRAIN_JOB.api_version, TRAIN_JOB.kind),
            lambda: client.kinds(),
            lambda: client.request("GET", "/version"),
        ):
            with pytest.raises(ApiError, match="every API server has this path") as caught:
                send()
            assert caught.value.status == 0


def test_the_discovery_may_have_a_kind_for_some_time_after_its_definition_was_deleted(tmp_path: Path) -> None:
    server = KindsServer(TRAIN_JOB)
    server.reply_to = lambda _method, path: NOT_FOUND if path.endswith("/trainjobs") else None
    version = f"GET /apis/{TRAIN_JOB.api_version}"

    def reply_to(_method: str, path: str) -> Any:
        if server.asked.count(version) > 1:
            server.lost = {TRAIN_JOB.api_version}
        return NOT_FOUND if path.endswith("/trainjobs") else None

    server.reply_to = reply_to
    with server.client(tmp_path) as client, pytest.raises(ApiError) as caught:
        client.list(TRAIN_JOB)
    assert (caught.value.status, server.asked.count(version)) == (404, 2)


def test_the_discovery_may_name_a_version_for_some_time_after_its_last_definition_was_deleted(tmp_path: Path) -> None:
    server = KindsServer(TRAIN_JOB)

    def reply_to(_method: str, path: str) -> Any:
        if server.asked.count("GET /apis") > 1:
            server.lost = {TRAIN_JOB.api_version}
        return NOT_FOUND if path.startswith(f"/apis/{TRAIN_JOB.api_version}") else None

    server.reply_to = reply_to
    with server.client(tmp_path) as client:
        assert client.get(TRAIN_JOB, "a", "n") is None
    assert server.asked.count("GET /apis") >= 2


@pytest.mark.parametrize("part", ["", "/finalize", "/status"])
def test_a_part_of_a_namespace_is_not_taken_for_a_kind_in_it(tmp_path: Path, part: str) -> None:
    server = KindsServer()
    server.reply_to = lambda method, _path: NOT_FOUND if method == "PUT" else None
    with server.client(tmp_path) as client, pytest.raises(ApiError, match="its API discovery has namespaces"):
        client.request("PUT", f"{NAMESPACE.path(name='a')}{part}", {})


def test_other_paths_need_no_confirmation(tmp_path: Path) -> None:
    server = KindsServer()
    server.reply_to = lambda _method, path: NOT_FOUND if path.startswith("/openapi") else None
    with server.client(tmp_path) as client, pytest.raises(ApiError) as caught:
        client.request("GET", "/openapi/v3/apis/example.com/v1")
    assert caught.value.status == 404 and len(server.asked) == 1
