# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch events become rows of observations.jsonl and update the progress of the workloads."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    conditions_by_type,
    get_label,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.partial_json_decoder import (
    ANY,
    Shape,
    create_document_decoder,
    merge_field_shapes,
)

from ..kinds.stage_definitions import KindStages, Value, pod_gpu_count, why_object_ended, why_object_waits
from .workload_by_owner import AdoptedWorkloads, OwnerIndex
from .workload_progress_and_waits import WorkloadTally

#: Source of an event: a watch.
WATCH = "watch"
#: Source of an event: a list of what is there, or a watch event that shows no more than a list.
LIST = "list"
#: How API servers begin the event of a new object. Another order of fields costs a second decoding, no more.
_ADDED = b'{"type":"ADDED",'
#: Maximum number of encoded values that are cached.
_REMEMBERED = 1000
#: Fields of an object of which every event makes use, and those that only its first row needs.
_EVERY: Shape = {
    "metadata": {
        **dict.fromkeys(("name", "namespace", "uid", "resourceVersion"), ANY),
        "ownerReferences": [{"uid": ANY}],
    }
}
_FIRST: Shape = {
    "metadata": {
        **dict.fromkeys(("creationTimestamp", "labels", "annotations"), ANY),
        "ownerReferences": [dict.fromkeys(("apiVersion", "kind", "name", "uid"), ANY)],
    }
}
#: The same for pods.
_EVERY_POD: Shape = {"spec": {"nodeName": ANY}}
_FIRST_POD: Shape = {"spec": {"containers": [{"resources": {"limits": ANY}}]}}


def _needed_event_fields(kind: KindStages, first: bool) -> Shape | None:
    """Return the fields of an event that are needed, None for all; first: of an object that was not known."""
    if kind.fields is None:
        return None
    pod = kind.kind == "Pod"
    parts = [
        _EVERY,
        *([_EVERY_POD] if pod else []),
        *([_FIRST] if first else []),
        *([_FIRST_POD] if first and pod else []),
    ]
    return {"type": ANY, "object": functools.reduce(merge_field_shapes, parts, kind.fields)}


@functools.lru_cache(_REMEMBERED)
def _row_values_json(values: tuple[tuple[str, Value], ...]) -> str:
    """Return the values of a row as JSON. Many rows have the same ones, because times are in whole seconds."""
    return files.encode(dict(values))


class _KnownObject:
    """A known object: its last values, its workload, and the part that all of its rows share."""

    __slots__ = ("values", "index", "said", "owners", "node")

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
        self.said = files.encode(same)[1:-1].encode()  # without its braces; as bytes, which take less memory
        self.owners = hash(tuple(owners))  # to detect that they have changed
        self.node = ""  # to which a pod is bound, once a row says so

    def row(
        self, received: float, how: str, event: str, version: str, values: dict[str, Value], more: dict[str, Any]
    ) -> str:
        """Return a row of observations.jsonl, without the end of line."""
        tail = f",{files.encode(more)[1:-1]}" if more else ""
        return (
            f'{{"type":"event","received":{received:.6f},"how":"{how}","event":"{event}",{self.said.decode()},'
            f'"resource_version":{files.encode(version)},"values":{_row_values_json(tuple(values.items()))}{tail}}}'
        )


class ObservationWriter:
    """Writes rows for the events of one kind, only for events with changed values.

    ``own``: objects of this kind are the workloads. ``owner_index``: finds the workload of objects without our labels,
    or None. ``adopted``: the workloads of a load that others submit, None for ours. ``labels``: those of the point,
    without which the index of an object is that of another point. ``write`` gets rows as JSON. Times are seconds on the
    point's clock.
    """

    def __init__(
        self,
        kind: KindStages,
        own: bool,
        tally: WorkloadTally,
        write: Callable[[str], None],
        owner_index: OwnerIndex | None = None,
        adopted: AdoptedWorkloads | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.own = own
        self.owner_index = owner_index
        self.adopted = adopted
        self._labels = dict(labels or {})
        self.tally = tally
        self.events = 0
        self._write = write
        self._known: dict[str, _KnownObject] = {}  # by uid
        self._nothing: tuple[Value, ...] = (None,) * len(kind.names)
        self._pods = kind.kind == "Pod"
        self._reported = kind.names.index(tally.reports) if own and tally.reports in kind.names else None
        self._decode_known = create_document_decoder(_needed_event_fields(kind, first=False))
        self._decode_first = create_document_decoder(_needed_event_fields(kind, first=True))

    def recall(self, record: dict[str, Any]) -> None:
        """Read an event row of an earlier session, so that it is not written again."""
        uid, index = record["uid"], record["index"]
        known = self._known.get(uid)
        before = known.values if known else self._nothing
        values = tuple(record["values"].get(name, held) for name, held in zip(self.kind.names, before, strict=True))
        self._count(index, values, record["received"])
        if self.owner_index is not None and index is not None:
            self.owner_index.add(uid, index)
        if record["event"] == "DELETED":
            self._forget(uid, index, record["received"])
            return
        held = self._known[uid] = self._describe(uid, values, record, index, record["owners"])
        held.node = record.get("node") or (known.node if known else "")

    def decode(self, line: bytes) -> dict[str, Any]:
        """Decode an event of a watch. Where its type comes first, that of a new object need not be decoded twice."""
        return self._decode_first(line) if line.startswith(_ADDED) else self._decode_known(line)

    def watched(self, received: float, event: dict[str, Any], line: bytes) -> None:
        """Process one event of a watch: as decode() returns it, and as JSON."""
        if event["object"]["metadata"]["uid"] not in self._known and not line.startswith(_ADDED):
            event = self._decode_first(line)
        self.take(received, WATCH, event["type"], event["object"])

    def take(self, received: float, how: str, event: str, resource: dict[str, Any]) -> None:
        """Process one event. ``how``: watch, list or relist."""
        self.events += 1
        metadata = resource["metadata"]
        uid = metadata["uid"]
        held = self._known.get(uid)
        resource_conditions = conditions_by_type(resource)
        values = self.kind.values(resource, resource_conditions)
        reason = why_object_waits(resource_conditions, self.kind.awaited)
        if held is not None and values == held.values and event != "DELETED":
            self.tally.pending.note(uid, held.index, reason, self._pods)
            return
        owners = [owner_reference["uid"] for owner_reference in metadata.get("ownerReferences") or ()]
        index = held.index if held is not None else self._index_of(how, metadata)
        if index is None and self.own and self.adopted is not None:
            self.events -= 1
            return
        if self.owner_index is not None and index is None:
            index = self.owner_index.index_of(owners)
            if index is None:
                # Its owner may still arrive through another watch. Without owners it is not part of the load.
                self.events -= 1
                if owners:
                    self.owner_index.wait(received, owners, lambda: self.take(received, how, event, resource))
                return
        new, known = held is None, held
        if new and self.adopted is not None and how == WATCH and (event != "ADDED" or self._came_to_match(values)):
            how = LIST
        if held is None or held.owners != hash(tuple(owners)):
            held = self._describe(uid, known.values if known is not None else self._nothing, metadata, index, owners)
            held.node = known.node if known is not None else ""
        node = str((resource.get("spec") or {}).get("nodeName") or "") if self._pods else ""
        self._change(received, how, event, uid, metadata["resourceVersion"], held, values, resource, new, node)
        if event != "DELETED":
            self._known[uid] = held
            self.tally.pending.note(uid, index, reason, self._pods)
        if new and self.owner_index is not None and index is not None:
            self.owner_index.add(uid, index)

    def _index_of(self, how: str, metadata: dict[str, Any]) -> int | None:
        """Return the index of the workload of a new object, None if only its owners can show it."""
        if self.adopted is None:
            # A watch by owners has no selector, and shows objects of other points, too.
            of_point = self._labels.items() <= (metadata.get("labels") or {}).items()
            return _workload_index_label(metadata) if of_point else None
        return self.adopted.index_of(how == LIST, metadata) if self.own else None

    def _came_to_match(self, values: tuple[Value, ...]) -> bool:
        """Return whether a new object existed before it matched the selector: created objects have no status yet."""
        return self.own and any(value for number, value in enumerate(values) if number not in self.kind.of_metadata)

    def _change(
        self,
        received: float,
        how: str,
        event: str,
        uid: str,
        version: str,
        held: _KnownObject,
        values: tuple[Value, ...],
        resource: dict[str, Any],
        new: bool,
        node: str,
    ) -> None:
        """Write and record the changes of an object. ``node``: to which a pod is bound."""
        changed = {}
        kept = []
        for name, value, old in zip(self.kind.names, values, held.values, strict=True):
            if value == old:
                kept.append(old)
            else:
                changed[name] = value
                # Times are in whole seconds, so there are few different ones.
                kept.append(sys.intern(value) if isinstance(value, str) else value)
        if event == "DELETED":
            changed.update(dict.fromkeys(self.kind.at_deletion, True))
        more = self._introduction(resource) if new else {}
        if node and not held.node:
            more["node"] = held.node = sys.intern(node)
        reason = self._reason(resource, changed)
        if reason:
            more["reason"] = reason
        self._write(held.row(received, how, event, version, changed, more))
        self._count(held.index, values, received)
        if event == "DELETED":
            self._forget(uid, held.index, received)
        else:
            held.values = tuple(kept)

    def relisted(self, received: float, version: str, present: Iterable[str], how: str) -> None:
        """After a list: record known objects that the list does not contain as deleted."""
        for uid in self._known.keys() - set(present):
            held = self._known[uid]
            self._write(held.row(received, how, "DELETED", version, dict.fromkeys(self.kind.at_deletion, True), {}))
            self._forget(uid, held.index, received)

    def _describe(
        self, uid: str, values: tuple[Value, ...], named: dict[str, Any], index: int | None, owners: list[str]
    ) -> _KnownObject:
        """``named``: a mapping with namespace and name."""
        return _KnownObject(self.kind.kind, uid, values, named.get("namespace") or "", named["name"], index, owners)

    def _introduction(self, resource: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that only the first row of an object has."""
        details: dict[str, Any] = {}
        if self._pods:
            asked = pod_gpu_count(resource)
            if asked:
                details["gpus"] = asked
        if get_label(resource, run_labels.SIMULATED) == "true":
            details["simulated"] = True
        return details

    def _reason(self, resource: dict[str, Any], changed: dict[str, Value]) -> str | None:
        for number, outcome in self.kind.ends.items():
            if outcome == "failed" and changed.get(self.kind.names[number]):
                source = self.kind.definition["stages"][number].get("condition") or ""
                return why_object_ended(resource, conditions_by_type(resource).get(source))[:1000] or None
        return None

    def _count(self, index: int | None, values: tuple[Value, ...], at: float) -> None:
        if index is None:
            return
        if self.own:
            self.tally.seen.add(index)
            if self._reported is not None and values[self._reported]:
                self.tally.reach(index)
            for number, outcome in self.kind.ends.items():
                if values[number]:
                    self.tally.end(index, outcome, at)
        for number in self.kind.running:
            if values[number]:
                self.tally.run(index)

    def _forget(self, uid: str, index: int | None, at: float) -> None:
        self._known.pop(uid, None)
        self.tally.pending.note(uid, None, "", self._pods)
        if self.own and index is not None:
            self.tally.end(index, "deleted", at)


def _workload_index_label(metadata: dict[str, Any]) -> int | None:
    return formats.parse_whole_number((metadata.get("labels") or {}).get(run_labels.INDEX))
