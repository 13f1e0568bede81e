"""What a real node takes of the machine."""

from __future__ import annotations

import os

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import component_selection


@pytest.mark.parametrize(
    ("user", "components", "words"),
    [
        (0, ["node"], ""),
        (1000, ["training-operator"], ""),
        (1000, ["node"], "not root: the pods of node real-0 run in a user namespace, without limits"),
    ],
)
def test_a_user_who_is_not_root_learns_what_a_real_node_lacks(
    monkeypatch: pytest.MonkeyPatch, user: int, components: list[str], words: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    found = component_selection.describe_limits_without_root(components)
    assert found.startswith(words) and bool(found) == bool(words)
