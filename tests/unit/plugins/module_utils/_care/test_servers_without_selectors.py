"""Clean-up on a server that takes no notice of selectors, or shows an object only now and then."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import delete_by_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.delete_by_label import CleanupTimeout, RunCleanup
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from scripted_server import Asked, ScriptedServer

RUN = "t1128-abcdef"
VERBS = ["delete", "get", "list"]
RESOURCE = {"resource": "widgets", "responseKind": {"kind": "Widget"}, "scope": "Namespaced", "verbs": VERBS}
KINDS = {
    "kind": "APIGroupDiscoveryList",
    "items": [{"metadata": {"name": "example.com"}, "versions": [{"version": "v1", "resources": [RESOURCE]}]}],
}


def widget(name: str, labels: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n", "uid": name, "labels": labels}}


class Server:
    """Has widgets, and lists them all whatever the selector is; ``shown`` says whether it shows them in a list."""

    def __init__(self, *widgets: dict[str, Any], shown: Any = lambda _number: True) -> None:
        self.widgets = {item["metadata"]["name"]: item for item in widgets}
        self.shown, self.lists = shown, 0
        self.deleted: list[str] = []
        self.scripted = ScriptedServer(self.answer)

    def answer(self, asked: Asked) -> Any:
        path = urlsplit(asked.path).path
        if path in ("/api", "/apis"):
            return 200, KINDS if path == "/apis" else {"kind": "APIVersions", "versions": []}
        if asked.method == "DELETE":
            self.deleted.append(path.rpartition("/")[2])
            if self.shown(0):
                self.widgets.pop(self.deleted[-1])
            return 200, {}
        self.lists += 1
        assert parse_qs(urlsplit(asked.path).query).get("limit") == ["500"]
        return 200, {"metadata": {}, "items": [*self.widgets.values()] if self.shown(self.lists) else []}

    def cleanup(self, folder: Path, timeout: float = 60) -> dict[str, int]:
        with (
            self.scripted as scripted,
            Client.from_kubeconfig(scripted.kubeconfig(folder / "kubeconfig"), timeout=5) as client,
        ):
            return RunCleanup(client, RUN).clean(timeout).deleted


@pytest.mark.parametrize("labels", [None, {}, {run_labels.RUN: "t1128-others"}, [run_labels.RUN], "text"])
def test_only_what_has_the_label_is_deleted_even_if_the_server_lists_everything(tmp_path: Path, labels: Any) -> None:
    server = Server(widget("mine", {run_labels.RUN: RUN}), widget("theirs", labels))
    assert server.cleanup(tmp_path) == {"Widget": 1}
    assert server.deleted == ["mine"] and list(server.widgets) == ["theirs"]


def test_a_server_that_shows_an_object_now_and_then_does_not_hold_the_cleanup_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Lists with an odd number show it: the search, and not the wait for its end.
    server = Server(widget("mine", {run_labels.RUN: RUN}), shown=lambda number: number % 2 == 1)
    monkeypatch.setattr(delete_by_label.RunCleanup, "_wait_dependents", lambda *_arguments: None)
    with pytest.raises(CleanupTimeout, match=f"cleanup of run {RUN}: after 0.3 s there are still 1 Widget"):
        server.cleanup(tmp_path, timeout=0.3)
