# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of any kind are read page by page through the dynamic client, that of openshift if it is installed."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import dynamic_client_objects
from scripted_server import ScriptedServer, status_object

VERSION = {"groupVersion": "example.com/v1", "version": "v1"}
THINGS = {"name": "things", "kind": "Thing", "singularName": "", "namespaced": True, "verbs": ["list", "get"]}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [{"name": "example.com", "versions": [VERSION], "preferredVersion": VERSION}],
    },
    "/apis/example.com/v1": {"kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": [THINGS]},
}


def server(refused: bool = False) -> ScriptedServer:
    def answer(asked: Any) -> Any:
        path, _mark, query = asked.path.partition("?")
        if path == "/apis/example.com/v1/things":
            if refused:
                return 403, status_object(403, "Forbidden", "you may not")
            last = "continue=next" in query
            items = [{"metadata": {"name": "b" if last else "a"}}]
            return 200, {"kind": "ThingList", "metadata": {} if last else {"continue": "next"}, "items": items}
        return (200, DOCUMENTS[path]) if path in DOCUMENTS else (404, status_object(404, "NotFound", "not found"))

    return ScriptedServer(answer)


def names(folder: Path, kind: str, refused: bool = False, seconds: float = 60) -> list[list[str]]:
    with server(refused) as one:
        kubeconfig = one.kubeconfig(folder / "kubeconfig")
        with dynamic_client_objects.open_dynamic_client(kubeconfig, "", time.monotonic() + seconds) as dynamic:
            return [[each["metadata"]["name"] for each in page] for page in dynamic.pages("example.com/v1", kind)]


def test_objects_come_page_by_page_and_an_unknown_kind_has_none(tmp_path: Path) -> None:
    assert names(tmp_path, "Thing") == [["a"], ["b"]]
    assert names(tmp_path, "Other") == [[]]


def test_a_refusal_and_the_end_of_the_time_are_our_errors(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="Thing .*403") as caught:
        names(tmp_path, "Thing", refused=True)
    assert caught.value.status == 403
    with pytest.raises(WaitTimeout, match="the time of the capture is over"):
        names(tmp_path, "Thing", seconds=0)


def test_the_client_of_openshift_is_used_and_that_of_kubernetes_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openshift import dynamic

    opened = []

    class Noted(dynamic.DynamicClient):  # type: ignore[misc]  # the package has no types
        def __init__(self, *arguments: Any, **named: Any) -> None:
            opened.append(self)
            super().__init__(*arguments, **named)

    monkeypatch.setattr(dynamic, "DynamicClient", Noted)
    assert names(tmp_path, "Thing") == [["a"], ["b"]] and len(opened) == 1
    monkeypatch.setitem(sys.modules, "openshift.dynamic", None)
    assert names(tmp_path, "Thing") == [["a"], ["b"]] and len(opened) == 1
