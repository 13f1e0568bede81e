# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of the clients of a load in pods, as their ConfigMaps and the status of their Job have it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import conditions, holds, label
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.pod_state import waits

from .detached_load import ENDED

#: Label of a pod with the number of its client.
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class ClientState:
    """What a client has reported. count: number of its lines so far; result: its outcome, and the records of files.

    holds: why files that are too large for the API server are still in its pod.
    """

    state: str = ""
    lines: tuple[str, ...] = ()
    count: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    beat: str = ""
    result: Mapping[str, Any] | None = None
    holds: str = ""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> ClientState:
        """Read the ConfigMap of a client."""
        data = stored.get("data") or {}
        return cls(
            state=data.get("state", ""),
            lines=tuple(json.loads(data.get("lines", "[]"))),
            count=int(data.get("count", 0)),
            counts=json.loads(data.get("counts", "{}")),
            beat=data.get("beat", ""),
            result=json.loads(data["result"]) if "result" in data else None,
            holds=json.loads(data.get("holds", '""')),
        )

    @property
    def ended(self) -> bool:
        """Whether the client has reported its result."""
        return self.state == ENDED and self.result is not None

    @property
    def failed(self) -> bool:
        """Whether the client has ended with an error."""
        return self.ended and not (self.result or {})["outcome"]["ok"]


@dataclass(frozen=True)
class PodsState:
    """The state of a load. pods: client -> why its pod waits, or how it ended. lost: clients, and why.

    there: whether the Job exists and was started. unstarted: clients without which the load did not begin, and why.
    """

    there: bool
    clients: tuple[ClientState, ...] = ()
    pods: Mapping[int, str] = field(default_factory=dict)
    lost: Mapping[int, str] = field(default_factory=dict)
    unstarted: Mapping[int, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether each client has ended or is lost."""
        return all(one.ended or number in self.lost for number, one in enumerate(self.clients))

    def words(self, number: int) -> str:
        """Return why the pod of a client waits, or how it ended."""
        return self.pods.get(number) or "its pod does not exist yet"


def words_of(pods: list[dict[str, Any]]) -> dict[int, str]:
    """Return client -> why the last pod of each waits, or how it ended."""
    ordered = sorted(pods, key=lambda one: str(one["metadata"].get("creationTimestamp")))
    return {int(label(one, INDEX) or 0): waits(one) for one in ordered}


def lost(job: Mapping[str, Any], clients: tuple[ClientState, ...], pods: Mapping[int, str]) -> dict[int, str]:
    """Return the clients whose pods are not made again, and why."""
    over = [one for kind, one in conditions(job).items() if kind in ("Failed", "Complete") and holds(job, kind)]
    failed = indexes(str((job.get("status") or {}).get("failedIndexes") or ""))
    why = "; ".join(str(one.get("message") or one["type"]) for one in over)
    return {
        number: pods.get(number) or why or "the reason is unknown"
        for number, one in enumerate(clients)
        if not one.ended and (over or number in failed)
    }


def indexes(text: str) -> set[int]:
    """Return the numbers of a list of intervals, such as 1,3-5."""
    found: set[int] = set()
    for one in filter(None, text.split(",")):
        first, _dash, last = one.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
