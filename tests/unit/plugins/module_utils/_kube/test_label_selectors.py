"""Label selectors against the lists of servers that ignore them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.label_selectors import is_selected
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import Asked, ScriptedServer

PODS = {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list", "watch"]}]}
NAMES = st.from_regex(r"[a-z]{1,3}(\.[a-z]{1,2}/[a-z]{1,3})?", fullmatch=True)
VALUES = st.from_regex(r"([a-z0-9]([-_.a-z0-9]{0,3}[a-z0-9])?)?", fullmatch=True)


def labelled(labels: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "resourceVersion": "1", "labels": labels}}


#: Labels of objects, by a name for each.
OBJECTS: dict[str, Any] = {
    "bare": None,
    "empty": {"x/run": ""},
    "first": {"x/run": "1", "kind": "b"},
    "second": {"x/run": "2", "kind": "b"},
    "old": {"x/run": "1", "kind": "b", "old": ""},
    "other": {"run": "1"},
}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", "bare empty first second old other"),
        ("x/run", "empty first second old"),
        ("!x/run", "bare other"),
        ("x/run=1", "first old"),
        ("x/run == 1", "first old"),
        ("x/run=", "empty"),
        ("x/run!=1", "bare empty second other"),
        ("x/run in (1, 2)", "first second old"),
        ("x/run notin (1,2)", "bare empty other"),
        ("x/run=1, kind in (a,b),!old", "first"),
    ],
)
def test_every_form_of_a_requirement_is_applied(selector: str, selected: str) -> None:
    assert [name for name, labels in OBJECTS.items() if is_selected(selector, labelled(labels))] == selected.split()


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), st.data())
def test_an_object_is_selected_by_its_labels_and_not_with_a_label_changed(
    labels: dict[str, str], data: st.DataObject
) -> None:
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    changed = data.draw(st.sampled_from(sorted(labels)))
    assert is_selected(selector, labelled(labels))
    assert not is_selected(selector, labelled({**labels, changed: labels[changed] + "z"}))
    assert not is_selected(selector, labelled({name: value for name, value in labels.items() if name != changed}))


def test_lists_and_caches_hold_only_what_was_asked_for(tmp_path: Path) -> None:
    listed = [
        {"metadata": {"name": name, "namespace": "n", "resourceVersion": "5", "labels": labels}}
        for name, labels in (("ours", {"run": "1"}), ("theirs", {"run": "2"}), ("bare", None))
    ]

    def answer(asked: Asked) -> Any:
        return 200, PODS if asked.path == "/api/v1" else {"metadata": {"resourceVersion": "5"}, "items": listed}

    with (
        ScriptedServer(answer) as server,
        Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"), timeout=5) as client,
        WatchCache(client) as cache,
    ):
        kind = ServedKind("v1", "Pod", "pods", True)
        assert [item["metadata"]["name"] for item in client.list(kind, label_selector="run=1")[0]] == ["ours"]
        assert len(client.list(kind)[0]) == 3
        cache.follow("v1", "Pod", selector="run=1")
        cache.note("Pod", listed[1])
        assert [item["metadata"]["name"] for item in cache.all("Pod")] == ["ours"]
        cache.note("Pod", {"metadata": {**listed[0]["metadata"], "labels": {"run": "2"}}})
        assert cache.all("Pod") == []
