"""Clean-up on a server that takes no notice of selectors, or shows an object only now and then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import delete_by_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.delete_by_label import CleanupTimeout, RunCleanup
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures import failure_targets
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import load_pods_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import common_client_start
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.users import fetch_large_user_files
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes
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


#: Labels that every selector of the tests below selects.
OURS = {run_labels.RUN: RUN, run_labels.LOAD: "001", run_labels.POINT: "001", run_labels.INDEX: "0"}
OURS |= {run_labels.ROLE: "canary", run_labels.SIMULATED: "true", run_labels.POOL: "p"}
OTHERS = {**OURS, run_labels.RUN: "t1128-others"}


class ListingClient(Client):
    """A client of a server that lists everything, whatever the selector is."""

    def __init__(self, *labels: dict[str, str]) -> None:
        super().__init__(SimpleNamespace(server="https://cluster.example.com"))  # type: ignore[arg-type]
        self.objects = [{"metadata": {"name": f"o{n}", "labels": each}} for n, each in enumerate(labels)]
        self.deleted: list[str] = []

    def kind(self, api_version: str, kind: str) -> ServedKind:
        return ServedKind(api_version, kind, f"{kind.lower()}s", True)

    def request(self, *_arguments: Any, **_options: Any) -> Any:
        left = [item for item in self.objects if item["metadata"]["name"] not in self.deleted]
        return {"metadata": {"resourceVersion": "1"}, "items": left}

    def get(self, *_arguments: Any, **_options: Any) -> None:
        return None

    def delete_seen(self, _kind: Any, metadata: Any, *_options: Any, **_more: Any) -> bool:
        self.deleted.append(metadata["name"])
        return True


def remove_load(client: Any) -> None:
    spec = SimpleNamespace(run=RUN, point="001", name="load", namespace="ns", effective_namespace="ns")
    load_pods_lifecycle.DriverPod.remove(SimpleNamespace(client=client, spec=spec))


def end_pods_of_users(client: Any) -> None:
    fetch_large_user_files._end_pods(client, SimpleNamespace(run=RUN, point="001", namespace="ns"))


@pytest.mark.parametrize(
    "delete",
    [
        remove_load,
        end_pods_of_users,
        lambda client: common_client_start.remove_common_start_leases(client, RUN, "001", "ns"),
    ],
)
def test_what_a_load_leaves_is_deleted_and_nothing_else_that_is_listed(
    monkeypatch: pytest.MonkeyPatch, delete: Any
) -> None:
    monkeypatch.setattr(fetch_large_user_files.waiting, "wait_until_gone", lambda *_all: None)
    client = ListingClient(OURS, {}, OTHERS)
    delete(client)
    assert set(client.deleted) - {"load"} == {"o0"}


def test_no_nodes_of_others_count_as_simulated_ones() -> None:
    client = ListingClient(OURS, {}, OTHERS)
    assert [node["metadata"]["name"] for node in fake_nodes.list_fake_nodes_of_run(client, RUN)] == ["o0"]
    assert [node["metadata"]["name"] for node in fake_nodes.list_nodes_of_pool(client, "p")] == ["o0", "o2"]


def test_a_failure_hits_no_pod_of_others() -> None:
    client = ListingClient(OURS, OTHERS)
    for item in client.objects:
        item["metadata"] |= {"namespace": "ns", "uid": "u"}
        item["spec"] = {}
    failure = SimpleNamespace(kind="node_drained", selector="", pod_fails=False, taint="")
    rows = failure_targets.list_running_load_pods(client, failure, RUN, "001", {"ns"})
    assert [row["name"] for row in rows] == ["o0"]
