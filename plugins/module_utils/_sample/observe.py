# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a watch shows to the rows of observations.jsonl, and to what is running and what has ended."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.family import Family
from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.stages import Kind, Value, gpus, why


@dataclass
class Tally:
    """Where the workloads stand, by index."""

    seen: set[int] = field(default_factory=set)
    running: set[int] = field(default_factory=set)
    ended: dict[int, str] = field(default_factory=dict)  # succeeded, failed or deleted

    _outcomes: Counter[str] = field(default_factory=Counter)
    _over: int = 0  # of those that have run, how many have ended

    def run(self, index: int) -> None:
        """Take note that something of a workload runs."""
        if index not in self.running:
            self.running.add(index)
            self._over += index in self.ended

    def end(self, index: int, outcome: str) -> None:
        """Take note that a workload has ended; the first end counts."""
        if index not in self.ended:
            self.ended[index] = outcome
            self._outcomes[outcome] += 1
            self._over += index in self.running

    def counts(self) -> dict[str, int]:
        """Return seen, running (and not ended), succeeded, failed, deleted; at the same price for any number."""
        found = {name: self._outcomes[name] for name in ("succeeded", "failed", "deleted")}
        return {"seen": len(self.seen), "running": len(self.running) - self._over, **found}

    def waiting(self, most: int) -> list[int]:
        """Return the first ``most`` of those that were seen and have not ended."""
        return sorted(self.seen - self.ended.keys())[:most]


class Observer:
    """Turns events of one kind into rows; a row is written only when it says something new.

    ``own``: objects of this kind are the workloads. ``family``: tells whose an object without our labels is; None
    where nothing is found by its owners. Moments are seconds on the point's clock.
    """

    def __init__(
        self,
        kind: Kind,
        own: bool,
        tally: Tally,
        write: Callable[[dict[str, Any]], None],
        family: Family | None = None,
    ) -> None:
        self.kind = kind
        self.own = own
        self.family = family
        self.tally = tally
        self.events = 0
        self._write = write
        # uid -> values as last seen, namespace, name, index
        self._held: dict[str, tuple[tuple[Value, ...], str, str, int | None]] = {}
        self._nothing: tuple[Value, ...] = (None,) * len(kind.names)
        self._pods = kind.kind == "Pod"

    def needs_spec(self, thing: dict[str, Any]) -> bool:
        """Tell whether more of an object must be read than its metadata and status: once, of a pod, its GPUs."""
        return self._pods and thing["metadata"]["uid"] not in self._held

    def recall(self, record: dict[str, Any]) -> None:
        """Take over an event row that an earlier session wrote, so that it is not written again."""
        uid, index = record["uid"], record["index"]
        known = self._held.get(uid)
        before = known[0] if known else self._nothing
        values = tuple(record["values"].get(name, held) for name, held in zip(self.kind.names, before, strict=True))
        self._count(index, values)
        if self.family is not None and index is not None:
            self.family.add(uid, index)
        if record["event"] == "DELETED":
            self._forget(uid, index)
            return
        self._held[uid] = (values, sys.intern(record["namespace"]), record["name"], index)

    def take(self, received: float, how: str, event: str, thing: dict[str, Any]) -> None:
        """Take one event. ``how``: watch, list or relist."""
        self.events += 1
        metadata = thing["metadata"]
        uid = metadata["uid"]
        known = self._held.get(uid)
        values = tuple(self.kind.values(thing))
        if known is not None and values == known[0] and event != "DELETED":
            return
        owners = [one["uid"] for one in metadata.get("ownerReferences") or ()]
        index = known[3] if known is not None else _index(metadata)
        if self.family is not None and index is None:
            index = self.family.index_of(owners)
            if index is None:
                # Its owner may be on its way through another watch; without one it is nobody's we know.
                self.events -= 1
                if owners:
                    self.family.wait(received, owners, lambda: self.take(received, how, event, thing))
                return
        before = known[0] if known is not None else self._nothing
        changed = {
            name: value for name, value, old in zip(self.kind.names, values, before, strict=True) if value != old
        }
        record: dict[str, Any] = {
            "type": "event",
            "received": round(received, 6),
            "how": how,
            "event": event,
            "kind": self.kind.kind,
            "namespace": metadata.get("namespace") or "",
            "name": metadata["name"],
            "uid": uid,
            "owners": owners,
            "index": index,
            "resource_version": metadata["resourceVersion"],
            "values": changed,
        }
        if known is None:
            self._introduce(record, thing)
        reason = self._reason(thing, changed)
        if reason:
            record["reason"] = reason
        self._write(record)
        self._count(index, values)
        if event == "DELETED":
            self._forget(uid, index)
        else:
            values = tuple(
                sys.intern(one) if isinstance(one, str) else one for one in values
            )  # whole seconds: few differ
            self._held[uid] = (values, sys.intern(record["namespace"]), record["name"], index)
        if known is None and self.family is not None and index is not None:
            self.family.add(uid, index)

    def relisted(self, received: float, version: str, present: Iterable[str], how: str) -> None:
        """After a list: what we knew and the list does not hold is gone."""
        for uid in self._held.keys() - set(present):
            _values, namespace, name, index = self._held[uid]
            self._write(
                {
                    "type": "event",
                    "received": round(received, 6),
                    "how": how,
                    "event": "DELETED",
                    "kind": self.kind.kind,
                    "namespace": namespace,
                    "name": name,
                    "uid": uid,
                    "owners": [],
                    "index": index,
                    "resource_version": version,
                    "values": {},
                }
            )
            self._forget(uid, index)

    def _introduce(self, record: dict[str, Any], thing: dict[str, Any]) -> None:
        """Add what is told once an object."""
        if self._pods:
            asked = gpus(thing)
            if asked:
                record["gpus"] = asked
        if (thing["metadata"].get("labels") or {}).get(_labels.SIMULATED) == "true":
            record["simulated"] = True

    def _reason(self, thing: dict[str, Any], changed: dict[str, Value]) -> str | None:
        for number, outcome in self.kind.ends.items():
            if outcome == "failed" and changed.get(self.kind.names[number]):
                source = self.kind.definition["stages"][number].get("condition") or ""
                return (why(thing, source) or "")[:1000] or None
        return None

    def _count(self, index: int | None, values: tuple[Value, ...]) -> None:
        if index is None:
            return
        if self.own:
            self.tally.seen.add(index)
            for number, outcome in self.kind.ends.items():
                if values[number]:
                    self.tally.end(index, outcome)
        for number in self.kind.running:
            if values[number]:
                self.tally.run(index)

    def _forget(self, uid: str, index: int | None) -> None:
        self._held.pop(uid, None)
        if self.own and index is not None:
            self.tally.end(index, "deleted")


def _index(metadata: dict[str, Any]) -> int | None:
    text = (metadata.get("labels") or {}).get(_labels.INDEX)
    return int(text) if text is not None and text.isdigit() else None
