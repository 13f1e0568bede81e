# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the looks at the servers write."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.replica_watch import (
    SCHEMA,
    ReplicaChanges,
)


def pod(name: str, node: str = "", running: bool = False, ready: bool = False, deleted: bool = False) -> dict[str, Any]:
    meta = {"name": name, "uid": f"uid-{name}", **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    state = {"running": {}} if running else {"waiting": {}}
    status = {
        "containerStatuses": [{"name": "server", "state": state}] if node else [],
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": status}


def deployment(replicas: int) -> dict[str, Any]:
    return {"metadata": {"name": "servers"}, "spec": {"replicas": replicas}}


def stages(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(record["pod"], record["stage"]) for record in records if record["type"] == "pod"]


def test_a_change_lies_between_the_begin_of_the_look_before_and_the_end_of_the_one_that_shows_it() -> None:
    changes = ReplicaChanges()
    first = changes.take([pod("a", "n", True, True)], [deployment(1)], 10.0, 10.05)
    assert {record["since"] for record in first} == {None} and len(first) == 5
    second = changes.take([pod("a", "n", True, True), pod("b")], [deployment(2)], 10.2, 10.25)
    assert second == [
        {"type": "desired", "name": "servers", "replicas": 2, "at": 10.25, "since": 10.0},
        {"type": "pod", "pod": "b", "stage": "created", "at": 10.25, "since": 10.0},
    ]
    for record in [*first, *second]:
        files.check_schema(SCHEMA, record)


def test_each_stage_of_a_pod_is_written_once() -> None:
    changes = ReplicaChanges()
    states = [pod("a"), pod("a", "n"), pod("a", "n"), pod("a", "n", True), pod("a", "n", True, True)]
    found = [stages(changes.take([state], [], at, at)) for at, state in enumerate(states)]
    assert found == [[("a", "created")], [("a", "scheduled")], [], [("a", "started")], [("a", "ready")]]
    assert changes.take([states[-1]], [], 9, 9) == []


def test_a_pod_that_is_deleted_is_gone_once_and_one_that_is_not_ready_may_be_again() -> None:
    changes = ReplicaChanges()
    ready, unready = pod("a", "n", True, True), pod("a", "n", True, False)
    looks = [[ready], [unready], [ready], [pod("a", "n", True, True, deleted=True)], [], []]
    found = [stages(changes.take(look, [], at, at)) for at, look in enumerate(looks)]
    assert found[1:] == [[("a", "unready")], [("a", "ready")], [("a", "gone")], [], []]
    assert stages(changes.take([pod("b")], [], 7, 7)) == [("b", "created")]
    assert stages(changes.take([], [], 8, 8)) == [("b", "gone")]
