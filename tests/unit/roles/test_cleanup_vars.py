"""When role cleanup leaves objects to the removal of their cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

ROOT = Path(__file__).resolve().parents[3]
LOADER = DataLoader()
VARS = LOADER.load_from_file(str(ROOT / "roles" / "cleanup" / "vars" / "main.yml"), trusted_as_template=True)
PLAY = LOADER.load_from_file(str(ROOT / "playbooks" / "_project.yml"), trusted_as_template=True)[0]["vars"]

OWNED = {"provider": "rehearsal", "owned": True, "state": "acquired"}


def removed_next(record: dict[str, Any] = OWNED, tags: tuple[str, ...] = ("all",), **more: Any) -> Any:
    """The decision in a session with these tags."""
    known = {
        "ansible_run_tags": list(tags),
        "ansible_skip_tags": [],
        "cleanup_kinds": [],
        "cleanup_keep_nodes": False,
        "cluster_keep": False,
        "__cleanup_one": {"record": record},
        "run_release_follows": PLAY["run_release_follows"],
        **more,
    }
    return Templar(loader=LOADER, variables=known).template(VARS["__cleanup_removed_next"])


@pytest.mark.parametrize("tags", [("all",), ("cleanup", "release")])
def test_objects_on_a_rehearsal_cluster_that_this_session_removes_go_with_it(tags: tuple[str, ...]) -> None:
    assert removed_next(tags=tags) is True


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"tags": ("cleanup",)}, id="no release in this session"),
        pytest.param({"ansible_skip_tags": ["release"]}, id="release is skipped"),
        pytest.param({"run_release_follows": False}, id="another playbook calls the role"),
        pytest.param({"record": {**OWNED, "owned": False}}, id="the cluster is of another run"),
        pytest.param({"record": {**OWNED, "provider": "existing"}}, id="a real cluster"),
        pytest.param({"record": {**OWNED, "state": "failed"}}, id="it may be kept for inspection"),
        pytest.param({"cluster_keep": "true"}, id="the cluster is kept"),
        pytest.param({"cleanup_keep_nodes": True}, id="the test comes next"),
        pytest.param({"cleanup_kinds": ["PyTorchJob"]}, id="some kinds only"),
    ],
)
def test_in_all_other_cases_they_are_deleted(change: dict[str, Any]) -> None:
    assert removed_next(**change) is False
