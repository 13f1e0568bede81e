# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch events become rows of observations.jsonl and update the progress of the workloads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import label
from ansible_collections.perfscale.seatrial.plugins.module_utils._sample import partial_event_parser
from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.owner_index import OwnerIndex
from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.workload_tally import WorkloadTally
from ansible_collections.perfscale.seatrial.plugins.module_utils._stages.stage_definitions import (
    KindStages,
    Value,
    gpus,
    hindrance,
    why,
)

#: Source of an event: a watch.
WATCH = "watch"
#: Maximum number of statuses whose values are cached.
_REMEMBERED = 1000


class _KnownObject:
    """A known object: its last values, its workload, and the part that all of its rows share."""

    __slots__ = ("values", "index", "said", "rest", "node")

    def __init__(
        self,
        kind: str,
        uid: str,
        values: tuple[Value, ...],
        namespace: str,
        name: str,
        index: int | None,
        owners: list[str],
    ) -> None:
        self.values = values
        self.index = index
        same = {"kind": kind, "namespace": namespace, "name": name, "uid": uid, "owners": owners, "index": index}
        self.said = _files.encode(same)[1:-1].encode()  # without its braces; as bytes, which take less memory
        self.node = ""  # to which a pod is bound, once a row says so
        self.rest: int | None = None  # hash of its metadata, from partial_event_parser.parts()

    def row(
        self, received: float, how: str, event: str, version: str, values: dict[str, Value], more: dict[str, Any]
    ) -> str:
        """Return a row of observations.jsonl, without the end of line."""
        tail = f",{_files.encode(more)[1:-1]}" if more else ""
        return (
            f'{{"type":"event","received":{received:.6f},"how":"{how}","event":"{event}",{self.said.decode()},'
            f'"resource_version":"{version}","values":{_files.encode(values)}{tail}}}'
        )


class ObservationWriter:
    """Writes rows for the events of one kind, only for events with changed values.

    ``own``: objects of this kind are the workloads. ``owner_index``: finds the workload of objects without our labels,
    or None. ``write`` gets rows as JSON. Times are seconds on the point's clock.
    """

    def __init__(
        self,
        kind: KindStages,
        own: bool,
        tally: WorkloadTally,
        write: Callable[[str], None],
        owner_index: OwnerIndex | None = None,
    ) -> None:
        self.kind = kind
        self.own = own
        self.owner_index = owner_index
        self.tally = tally
        self.events = 0
        self._write = write
        self._known: dict[str, _KnownObject] = {}  # by uid
        self._nothing: tuple[Value, ...] = (None,) * len(kind.names)
        self._pods = kind.kind == "Pod"
        self._slim = partial_event_parser.slimmer(kind.of_status)
        #: Values and hindrance by reduced status as JSON: many objects share one, because times are in whole seconds.
        self._read: dict[bytes, tuple[list[Value], str]] = {}

    def recall(self, record: dict[str, Any]) -> None:
        """Read an event row of an earlier session, so that it is not written again."""
        uid, index = record["uid"], record["index"]
        known = self._known.get(uid)
        before = known.values if known else self._nothing
        values = tuple(record["values"].get(name, held) for name, held in zip(self.kind.names, before, strict=True))
        self._count(index, values)
        if self.owner_index is not None and index is not None:
            self.owner_index.add(uid, index)
        if record["event"] == "DELETED":
            self._forget(uid, index)
            return
        held = self._known[uid] = self._describe(uid, values, record, index, record["owners"])
        held.node = record.get("node") or (known.node if known else "")

    def watched(self, received: float, line: bytes) -> None:
        """Process one event of a watch, as JSON."""
        whole = self.kind.reads_whole
        parts = None if whole else partial_event_parser.parts(line)
        known = None
        if parts is not None:
            uid, version, rest, status = parts
            known = self._known.get(uid)
            if known is not None and known.rest == rest and line.startswith(b'{"type":"MODIFIED"'):
                self.events += 1
                values, reason = self._values(status, known)
                self.tally.pending.note(uid, known.index, reason, self._pods)
                if values != known.values:
                    node = partial_event_parser.node_of(line) if self._pods and not known.node else ""
                    self._change(received, WATCH, "MODIFIED", uid, version, known, values, status, node=node)
                return
        # The spec of an unknown pod has its GPUs.
        event = partial_event_parser.event(line, whole or (self._pods and known is None and b'/gpu"' in line))
        if self._pods and (known is None or not known.node):
            event["object"].setdefault("spec", {})["nodeName"] = partial_event_parser.node_of(line)
        self.take(received, WATCH, event["type"], event["object"])
        if parts is not None:
            held = self._known.get(uid)
            if held is not None and held is not known:
                held.rest = rest  # the known object was created from this metadata

    def take(self, received: float, how: str, event: str, thing: dict[str, Any]) -> None:
        """Process one event. ``how``: watch, list or relist."""
        self.events += 1
        metadata = thing["metadata"]
        uid = metadata["uid"]
        held = self._known.get(uid)
        values = tuple(self.kind.values(thing))
        reason = hindrance(thing.get("status") or {}, self.kind.awaited) if self.kind.awaited else ""
        if held is not None and values == held.values and event != "DELETED":
            self.tally.pending.note(uid, held.index, reason, self._pods)
            return
        owners = [one["uid"] for one in metadata.get("ownerReferences") or ()]
        index = held.index if held is not None else _index(metadata)
        if self.owner_index is not None and index is None:
            index = self.owner_index.index_of(owners)
            if index is None:
                # Its owner may still arrive through another watch. Without owners it is not part of the load.
                self.events -= 1
                if owners:
                    self.owner_index.wait(received, owners, lambda: self.take(received, how, event, thing))
                return
        new, known = held is None, held
        held = self._describe(uid, known.values if known is not None else self._nothing, metadata, index, owners)
        held.node = known.node if known is not None else ""
        node = str((thing.get("spec") or {}).get("nodeName") or "") if self._pods else ""
        self._change(received, how, event, uid, metadata["resourceVersion"], held, values, thing, new, node)
        if event != "DELETED":
            self._known[uid] = held
            self.tally.pending.note(uid, index, reason, self._pods)
        if new and self.owner_index is not None and index is not None:
            self.owner_index.add(uid, index)

    def _values(self, status: bytes, known: _KnownObject) -> tuple[tuple[Value, ...], str]:
        """Return the values of a known object with unchanged metadata, and what keeps it waiting."""
        status = self._slim(status)
        read = self._read.get(status)
        if read is None:
            if len(self._read) >= _REMEMBERED:
                self._read.clear()
            parsed = partial_event_parser.status(status)
            read = self._read[status] = self.kind.values({"status": parsed}), hindrance(parsed, self.kind.awaited)
        values = read[0].copy()
        for number in self.kind.of_metadata:
            values[number] = known.values[number]
        return tuple(values), read[1]

    def _change(
        self,
        received: float,
        how: str,
        event: str,
        uid: str,
        version: str,
        held: _KnownObject,
        values: tuple[Value, ...],
        thing: dict[str, Any] | bytes,
        new: bool = False,
        node: str = "",
    ) -> None:
        """Write and record the changes of an object.

        ``thing``: the object, or its status as JSON. ``node``: to which a pod is bound.
        """
        changed = {}
        kept = []
        for name, value, old in zip(self.kind.names, values, held.values, strict=True):
            if value == old:
                kept.append(old)
            else:
                changed[name] = value
                # Times are in whole seconds, so there are few different ones.
                kept.append(sys.intern(value) if isinstance(value, str) else value)
        more = self._introduction(thing) if new and isinstance(thing, dict) else {}
        if node and not held.node:
            more["node"] = held.node = sys.intern(node)
        reason = self._reason(thing, changed)
        if reason:
            more["reason"] = reason
        self._write(held.row(received, how, event, version, changed, more))
        self._count(held.index, values)
        if event == "DELETED":
            self._forget(uid, held.index)
        else:
            held.values = tuple(kept)

    def relisted(self, received: float, version: str, present: Iterable[str], how: str) -> None:
        """After a list: record known objects that the list does not contain as deleted."""
        for uid in self._known.keys() - set(present):
            held = self._known[uid]
            self._write(held.row(received, how, "DELETED", version, {}, {}))
            self._forget(uid, held.index)

    def _describe(
        self, uid: str, values: tuple[Value, ...], named: dict[str, Any], index: int | None, owners: list[str]
    ) -> _KnownObject:
        """``named``: a mapping with namespace and name."""
        return _KnownObject(self.kind.kind, uid, values, named.get("namespace") or "", named["name"], index, owners)

    def _introduction(self, thing: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that only the first row of an object has."""
        found: dict[str, Any] = {}
        if self._pods:
            asked = gpus(thing)
            if asked:
                found["gpus"] = asked
        if label(thing, _labels.SIMULATED) == "true":
            found["simulated"] = True
        return found

    def _reason(self, thing: dict[str, Any] | bytes, changed: dict[str, Value]) -> str | None:
        for number, outcome in self.kind.ends.items():
            if outcome == "failed" and changed.get(self.kind.names[number]):
                if isinstance(thing, bytes):
                    thing = {"status": partial_event_parser.status(thing)}
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
        self._known.pop(uid, None)
        self.tally.pending.note(uid, None, "", self._pods)
        if self.own and index is not None:
            self.tally.end(index, "deleted")


def _index(metadata: dict[str, Any]) -> int | None:
    text = (metadata.get("labels") or {}).get(_labels.INDEX)
    return int(text) if text is not None and text.isdigit() else None
