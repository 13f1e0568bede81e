# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client discovers all kinds of a server, and notes those that it could not see."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import discovery, missing_resources
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from api_server_of_kinds import CONFIG_MAP, DEFINITION, METRICS, NAMESPACE, NOT_FOUND, TRAIN_JOB, VERBS, KindsServer
from scripted_server import status_object

BROKEN = (503, status_object(503, "ServiceUnavailable", "the server is currently unable to handle the request"))


@pytest.mark.parametrize("legacy", [True, False])
def test_all_kinds_are_found_each_in_the_first_version_of_its_group_that_has_it(tmp_path: Path, legacy: bool) -> None:
    old = ServedKind("trainer.example.com/v0", "TrainJob", "trainjobs", True, VERBS)
    only_old = ServedKind("trainer.example.com/v0", "Runtime", "runtimes", True, VERBS)
    server = KindsServer(TRAIN_JOB, old, only_old, legacy=legacy)
    with server.client(tmp_path) as client:
        assert client.kinds() == [NAMESPACE, CONFIG_MAP, DEFINITION, TRAIN_JOB, only_old]
        assert client.unknown_groups == []


@pytest.mark.parametrize("answer", [BROKEN, NOT_FOUND, (404, status_object(404, "NotFound", "no"))])
def test_an_aggregated_server_that_does_not_answer_is_noted_without_aggregated_discovery(
    tmp_path: Path, answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_resources, "_LAG", 0.1)
    server = KindsServer(METRICS, TRAIN_JOB, legacy=True)
    server.reply_to = lambda _method, path: answer if path.startswith("/apis/metrics.k8s.io/") else None
    with server.client(tmp_path) as client:
        assert TRAIN_JOB in client.kinds()
        assert client.unknown_groups == ["metrics.k8s.io/v1beta1"]
        server.reply_to = lambda _method, _path: None
        assert METRICS in client.kinds() and client.unknown_groups == []


def test_the_kinds_of_the_core_group_must_be_seen(tmp_path: Path) -> None:
    server = KindsServer(legacy=True)
    server.reply_to = lambda _method, path: BROKEN if path == "/api/v1" else None
    with server.client(tmp_path) as client, pytest.raises(ApiError, match="503"):
        client.kinds()


def test_established_definitions_that_the_discovery_lacks_are_noted(tmp_path: Path) -> None:
    server = KindsServer(TRAIN_JOB)
    server.lost = {TRAIN_JOB.api_version}
    server.add(DEFINITION, "trainjobs.trainer.example.com")
    server.add(DEFINITION, "names.conflict.example.com")
    server.objects[DEFINITION.path(name="names.conflict.example.com")]["status"] = {}
    with server.client(tmp_path) as client:
        assert TRAIN_JOB not in client.kinds()
        assert client.unknown_groups == ["trainjobs.trainer.example.com"] and not client.definitions_hidden
        server.lost = set()
        assert TRAIN_JOB in client.kinds() and client.unknown_groups == []


def test_definitions_that_can_not_be_listed_are_no_error_and_noted(tmp_path: Path) -> None:
    server = KindsServer(TRAIN_JOB)
    refused = (403, status_object(403, "Forbidden", "no"))
    server.reply_to = lambda _method, path: refused if path.endswith("/customresourcedefinitions") else None
    with server.client(tmp_path) as client:
        assert TRAIN_JOB in client.kinds() and client.definitions_hidden


def test_what_is_unknown_is_named_with_its_group() -> None:
    entries = ["route.example.com/v1", "trainjobs.trainer.example.com"]
    assert [discovery.group_of_unknown_kinds(entry) for entry in entries] == [
        "route.example.com",
        "trainer.example.com",
    ]
    assert [discovery.format_unknown_kinds(entry) for entry in entries] == [
        "all kinds of route.example.com/v1",
        "trainjobs.trainer.example.com",
    ]
