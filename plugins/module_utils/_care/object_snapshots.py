# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a cluster before and after a run, by a hash of the content of every object: the work of module run_diff."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind, format_unknown_kinds
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import get_label

#: What comes and goes by itself on every cluster, and says nothing of what a run left.
EXCLUDED = {
    "Event": "they expire by themselves",
    "Lease": "heartbeats",
    "ComponentStatus": "no objects",
    "IPAddress": "one for each Service, made and removed by the API server",
    "PackageManifest": "what catalogs offer, not what is installed",
    "PriorityLevelConfiguration": "the API server's own",
    "FlowSchema": "the API server's own",
    "PodMetrics": "measurements",
    "NodeMetrics": "measurements",
}
_PARALLEL = 8


class ComparedObject(NamedTuple):
    """One object, reduced to the compared parts."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: str
    spec: str

    @property
    def place(self) -> tuple[str, str, str, str]:
        """What identifies it apart from its uid."""
        return self[:4]


class ObjectsSnapshot(NamedTuple):
    """entries: object -> whether it is the run's. unlisted: kinds that may not be listed."""

    entries: dict[ComparedObject, bool]
    unlisted: list[str]


def snapshot_all_objects(client: Client, run: str = "") -> ObjectsSnapshot:
    """Return every object of every kind that can be listed, except those of EXCLUDED kinds. Raises AccessError.

    run: whose objects are marked: with its label, and those in its namespaces.
    """
    kinds = [kind for kind in client.kinds() if "list" in kind.verbs and kind.kind not in EXCLUDED]
    entries: dict[ComparedObject, bool] = {}
    unlisted = [format_unknown_kinds(entry) for entry in client.unknown_groups]
    with ThreadPool(_PARALLEL) as pool:
        for kind, listed in zip(
            kinds, pool.map(lambda kind: _list_kind_entries(client, kind, run), kinds), strict=True
        ):
            if listed is None:
                unlisted.append(kind.kind)
            entries.update(listed or {})
    spaces = {entry.name for entry, ours in entries.items() if ours and (entry.group, entry.kind) == ("", "Namespace")}
    return ObjectsSnapshot(
        {entry: ours or entry.namespace in spaces for entry, ours in entries.items()}, sorted(unlisted)
    )


def _list_kind_entries(client: Client, kind: ServedKind, run: str) -> dict[ComparedObject, bool] | None:
    try:
        return {reduce_to_compared_parts(kind, item): _is_ours(item, run) for item in client.list(kind)[0]}
    except ApiError as error:
        # A definition that was removed between discovery and now.
        if error.status == 404:
            return {}
        if error.status in (403, 405):
            return None
        raise


def _is_ours(item: Mapping[str, Any], run: str) -> bool:
    return bool(run) and get_label(item, run_labels.RUN) == run


def reduce_to_compared_parts(kind: ServedKind, item: Mapping[str, Any]) -> ComparedObject:
    """Return an object as an entry."""
    meta = item["metadata"]
    # Where a role gathers the rules of others, what it gathers is theirs.
    rules = "aggregationRule" if item.get("aggregationRule") else "rules"
    parts = ("spec", "data", "binaryData", rules, "roleRef", "subjects")
    # OLM adds kinds to its roles of an OperatorGroup, and does not take them off when their operator goes.
    olms = kind.kind == "ClusterRole" and meta["name"].startswith("olm.og.")
    content = {name: item[name] for name in parts if name in item and not olms}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    group = kind.api_version.rpartition("/")[0]
    length = 4 if kind.kind == "Secret" else 12  # of a Secret too few digits to confirm a guess of its content
    return ComparedObject(
        group, kind.kind, meta.get("namespace") or "", meta["name"], str(meta.get("uid", "")), digest[:length]
    )


def compare_snapshots(before: ObjectsSnapshot, after: ObjectsSnapshot) -> dict[str, list[dict[str, Any]]]:
    """Return the objects that are left (new), gone, and changed (another content, or created again).

    Each with kind, namespace, name and whether it is the run's.
    """
    old = {entry.place: entry for entry in before.entries}
    new = {entry.place: entry for entry in after.entries}
    both = old.keys() & new.keys()
    return {
        "left": [_difference_row(new[place], after.entries[new[place]]) for place in sorted(new.keys() - old.keys())],
        "gone": [_difference_row(old[place], before.entries[old[place]]) for place in sorted(old.keys() - new.keys())],
        "changed": [
            {
                **_difference_row(new[place], _was_ever_of_run(place, before, after, old, new)),
                "again": old[place].uid != new[place].uid,
            }
            for place in sorted(both)
            if old[place] != new[place]
        ],
    }


Places = Mapping[tuple[str, str, str, str], ComparedObject]


def _was_ever_of_run(
    place: tuple[str, str, str, str], before: ObjectsSnapshot, after: ObjectsSnapshot, old: Places, new: Places
) -> bool:
    return before.entries[old[place]] or after.entries[new[place]]


def _difference_row(entry: ComparedObject, ours: bool) -> dict[str, Any]:
    kind = f"{entry.kind}.{entry.group}" if entry.group else entry.kind
    return {"kind": kind, "namespace": entry.namespace, "name": entry.name, "ours": ours}


def snapshot_lines(snapshot: ObjectsSnapshot) -> Iterable[dict[str, Any]]:
    """Yield a snapshot as records of schema objects/1."""
    yield {"type": "unlisted", "kinds": snapshot.unlisted}
    for entry, ours in sorted(snapshot.entries.items()):
        yield {"type": "object", **entry._asdict(), "ours": ours}


def read_snapshot(records: Iterable[Mapping[str, Any]]) -> ObjectsSnapshot:
    """Return the snapshot that snapshot_lines() wrote."""
    snapshot = ObjectsSnapshot({}, [])
    for record in records:
        if record["type"] == "unlisted":
            snapshot.unlisted.extend(record["kinds"])
        else:
            snapshot.entries[ComparedObject(*(record[name] for name in ComparedObject._fields))] = record["ours"]
    return snapshot


BEFORE, AFTER, DIFF = "objects-before.jsonl", "objects-after.jsonl", "run_diff.json"
PARTS = ("left", "gone", "changed")
#: Seconds between two looks.
_PAUSE = 2.0


def write_snapshot_before_run(client: Client, run_dir: str, run: str) -> dict[str, Any]:
    """Write the snapshot before the run; that of an earlier session stays. Return the module's result."""
    path = Path(run_dir) / BEFORE
    if path.exists():
        return {"changed": False, "summary": "there is a snapshot of an earlier session"}
    snapshot = snapshot_all_objects(client, run)
    files.write_json_lines(path, snapshot_lines(snapshot), "objects/1")
    return {"changed": True, "summary": f"{formats.format_count(len(snapshot.entries), 'object')} before the run"}


def compare_with_snapshot_before(
    client: Client, run_dir: str, run: str, timeout: float, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Write the snapshot after the run and run_diff.json, and return the module's result.

    Waits up to ``timeout`` seconds for controllers to take back what they made for the run. Differences are a result,
    not an error. Raises DataError without a snapshot before the run, AccessError.
    """
    top = Path(run_dir)
    if not (top / BEFORE).exists():
        raise DataError(f"{top / BEFORE} does not exist: the run began without run_diff")
    before = read_snapshot(files.read_json_lines(top / BEFORE))
    deadline = time.monotonic() + timeout
    while True:
        after = snapshot_all_objects(client, run)
        differences = compare_snapshots(before, after)
        count = sum(map(len, differences.values()))
        if not count or time.monotonic() + _PAUSE > deadline:
            break
        say(f"{formats.format_count(count, 'difference')} from before the run")
        time.sleep(_PAUSE)
    files.write_json_lines(top / AFTER, snapshot_lines(after), "objects/1")
    unlisted = sorted({*before.unlisted, *after.unlisted})
    document = {
        "schema": "run_diff/1",
        "run": run,
        "at": format_utc_timestamp(),
        "objects": len(after.entries),
        "unlisted": unlisted,
        **differences,
    }
    files.write_json(top / DIFF, document, "run_diff/1")
    return {"changed": True, **differences, "summary": format_difference(document)}


def format_difference(document: dict[str, Any]) -> str:
    """Return the differences as one sentence."""
    parts = []
    for name in PARTS:
        ours = sum(entry["ours"] for entry in document[name])
        if document[name]:
            parts.append(f"{len(document[name])} {name} ({ours} of the run)")
    compared = formats.format_count(document["objects"], "object")
    return f"{compared} after the run: {', '.join(parts) if parts else 'as before it'}"
