# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scale MachineSets, dedicate their nodes to namespaces, and put everything back.

The state before scaling is in ``scaling.json`` of the run directory, written before any change. Namespaces are
dedicated by annotations with a node selector and tolerations, which OpenShift adds to their pods.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    OwnershipError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say, wait_until, wait_until_gone
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    field_at_path,
    is_condition_true,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.server_side_apply import ObjectDiff

from . import find_or_derive_machine_set
from .find_or_derive_machine_set import NAMESPACE, RUN, SET, VERSION

FILE = "scaling.json"
SCHEMA = "scaling/1"

#: What shows that somebody else has changed a MachineSet.
_OF_OTHERS = ("metadata.uid", "spec.replicas")
#: How often a change is sent to a MachineSet that its controller changes at the same moment.
_ATTEMPTS = 5


def read_change_records(path: str | Path) -> dict[str, Any]:
    """Return the snapshot; an empty one without a file. Raises DataError if it can't be read."""
    if not Path(path).exists():
        return {"schema": SCHEMA, "sets": [], "namespaces": []}
    return dict(files.read_json(path))


def record_change(path: str | Path, where: str, entry: dict[str, Any]) -> None:
    """Add or replace an entry of ``sets`` or ``namespaces``; the state before the first change is kept."""
    snapshot = read_change_records(path)
    others = [change for change in snapshot[where] if change["name"] != entry["name"]]
    earlier = next((change for change in snapshot[where] if change["name"] == entry["name"]), None)
    if earlier is not None:
        entry = {**entry, **{key: earlier[key] for key in ("created", "before") if key in earlier}}
    files.write_json(path, {**snapshot, where: [*others, entry]}, SCHEMA)


def remove_change_record(path: str | Path, where: str, name: str) -> None:
    """Remove an entry that was restored."""
    snapshot = read_change_records(path)
    files.write_json(
        path, {**snapshot, where: [change for change in snapshot[where] if change["name"] != name]}, SCHEMA
    )


#: Annotations of a namespace that select the nodes of its pods.
SELECTOR_ANNOTATION = "openshift.io/node-selector"
TOLERATIONS_ANNOTATION = "scheduler.alpha.kubernetes.io/defaultTolerations"


def dedicate_namespaces(
    client: Client,
    path: Path,
    namespaces: list[str],
    selector: str,
    taint: str,
    diff: ObjectDiff,
    check: bool = False,
) -> bool:
    """Annotate the namespaces so that their pods run on the nodes of ``selector`` and tolerate ``taint``.

    Returns whether an annotation changes. Raises InputError for a missing namespace, before any is changed.
    """
    namespace_by_name = {name: _get_namespace(client, name) for name in namespaces}
    missing = [name for name, namespace in namespace_by_name.items() if namespace is None]
    if missing:
        raise InputError(f"node_scaling_dedicated: missing namespace {', '.join(missing)}")
    wanted: dict[str, str] = {SELECTOR_ANNOTATION: selector}
    tolerated = find_or_derive_machine_set.parse_taint(taint)
    if tolerated is not None:
        toleration = {**tolerated, "operator": "Equal" if "value" in tolerated else "Exists"}
        wanted[TOLERATIONS_ANNOTATION] = json.dumps([toleration], sort_keys=True)
    changed = False
    for name, namespace in namespace_by_name.items():
        annotations = (namespace or {})["metadata"].get("annotations") or {}
        if all(annotations.get(key) == value for key, value in wanted.items()):
            continue
        changed = True
        diff.patched(namespace or {}, _annotations_patch(wanted))
        if not check:
            before = {key: annotations.get(key) for key in wanted}
            record_change(path, "namespaces", {"name": name, "before": before, "wanted": wanted})
            _annotate_namespace(client, name, dict(wanted))
    return changed


def restore_namespaces(client: Client, path: Path, diff: ObjectDiff, check: bool = False) -> bool:
    """Restore the annotations that dedicate() changed and that still have its values. Safe to repeat."""
    entries = read_change_records(path)["namespaces"]
    for entry in entries:
        namespace = _get_namespace(client, entry["name"])
        annotations = ((namespace or {}).get("metadata") or {}).get("annotations") or {}
        ours = {key: entry["before"][key] for key, value in entry["wanted"].items() if annotations.get(key) == value}
        if ours:
            diff.patched(namespace or {}, _annotations_patch(ours))
        if check:
            continue
        if ours:
            _annotate_namespace(client, entry["name"], ours)
        remove_change_record(path, "namespaces", entry["name"])
    return bool(entries)


def _get_namespace(client: Client, name: str) -> dict[str, Any] | None:
    namespace = client.get(client.kind("v1", "Namespace"), name, metadata_only=True)
    # Metadata alone has the kind PartialObjectMetadata.
    return None if namespace is None else {**namespace, "kind": "Namespace"}


def _annotations_patch(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that sets annotations, and removes those that are None."""
    return {"metadata": {"annotations": dict(values)}}


def _annotate_namespace(client: Client, name: str, annotations: dict[str, Any]) -> None:
    try:
        path = f"/api/v1/namespaces/{name}"
        client.request("PATCH", path, _annotations_patch(annotations), content_type=MERGE_PATCH)
    except ApiError as error:
        if error.status != 404:
            raise


class NodeScaler:
    """The machines of one cluster. ``path``: the file with the state before scaling; ``diff``: what was changed."""

    def __init__(self, client: Client, path: Path, run: str, say: Say) -> None:
        self.client, self.path, self.run, self.say = client, path, run, say
        self.diff = ObjectDiff()

    def scale(
        self, spec: find_or_derive_machine_set.MachineSetSpec, timeout: float, check: bool = False
    ) -> dict[str, Any]:
        """Scale one set as scale_all() does; return name, nodes and the number of machines before."""
        return dict(self.scale_all([spec], timeout, check)["sets"][0])

    def scale_all(
        self,
        specs: Sequence[find_or_derive_machine_set.MachineSetSpec],
        timeout: float,
        check: bool = False,
        types: Sequence[Mapping[str, Any]] = (),
    ) -> dict[str, Any]:
        """Scale the sets of ``specs`` together and wait for the nodes of all.

        timeout: in seconds. types: further machine types. Raises InputError before any change, ProcessError for a
        failed machine, WaitTimeout.
        """
        try:
            kind = self.client.kind(VERSION, "MachineSet")
        except InputError as error:
            raise InputError(f"nodes can't be scaled on this cluster: {error}") from error
        sets = self.client.list(kind, NAMESPACE)[0]
        sizes = [find_or_derive_machine_set.size_machine_set_for_users(sets, spec, types) for spec in specs]
        planned = [
            (*find_or_derive_machine_set.choose_or_derive_machine_set(sets, spec), sizing) for spec, sizing in sizes
        ]
        names = [wanted["metadata"]["name"] for _existing, wanted, _sizing in planned]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"node_scaling_sets: two of them are MachineSet {twice}; give each another name")
        results = [self._change(existing, wanted, sizing, check) for existing, wanted, sizing in planned]
        deadline = time.monotonic() + timeout
        for (_existing, wanted, _sizing), result in zip(planned, results, strict=True):
            if not check:
                result.update(self._wait(wanted, timeout, max(deadline - time.monotonic(), 0.0)))
        return {
            "changed": any(result["changed"] for result in results),
            "sets": results,
            "nodes": [node for result in results for node in result["nodes"]],
        }

    def _change(
        self, existing: dict[str, Any] | None, wanted: dict[str, Any], sizing: dict[str, Any], check: bool
    ) -> dict[str, Any]:
        """Create a set, or change its number of machines."""
        name, replicas = wanted["metadata"]["name"], wanted["spec"]["replicas"]
        before = existing["spec"].get("replicas", 1) if existing is not None else None
        changed = before != replicas
        if sizing:
            self.say(
                f"MachineSet {name}: {replicas} machines for {sizing['users']} users, limited by {sizing['decides']}"
            )
        if existing is None:
            wanted["metadata"]["annotations"] = {RUN: self.run}
            self.diff.created(wanted)
        elif changed:
            self.diff.patched(existing, _replicas_patch(replicas))
        if changed and not check:
            entry = {"name": name, "created": existing is None, "before": before or 0, "wanted": replicas}
            record_change(self.path, "sets", entry)
            if existing is None:
                self.client.create(wanted)
                self.say(f"created MachineSet {name} with {replicas} machines")
            else:
                self._scale(existing, replicas)
        return {"changed": changed, "name": name, "before": before, "nodes": [], "sizing": sizing}

    def _scale(self, existing: dict[str, Any], replicas: int) -> None:
        name = existing["metadata"]["name"]
        if not self._set_replicas(existing, replicas):
            remove_change_record(self.path, "sets", name)
            raise OwnershipError(f"somebody else changed MachineSet {name} at the same moment: it was not scaled")
        self.say(f"scaled MachineSet {name} from {existing['spec'].get('replicas', 1)} to {replicas}")

    def _set_replicas(self, seen: dict[str, Any], replicas: int) -> bool:
        """Set the number of machines of a set; return False if somebody else has changed it since it was read."""
        kind, name = self.client.kind(VERSION, "MachineSet"), seen["metadata"]["name"]
        current: dict[str, Any] | None = seen
        for _attempt in range(_ATTEMPTS):
            if current is None or any(field_at_path(current, at) != field_at_path(seen, at) for at in _OF_OTHERS):
                return False
            patch = {"metadata": {at: current["metadata"][at] for at in ("uid", "resourceVersion")}}
            try:
                patch |= _replicas_patch(replicas)
                self.client.request("PATCH", kind.path(NAMESPACE, name), patch, content_type=MERGE_PATCH)
                return True
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
            current = self.client.get(kind, name, NAMESPACE)  # its controller may have written the status
        return False

    def _wait(self, wanted: dict[str, Any], timeout: float, left: float) -> dict[str, Any]:
        """Wait for ``left`` seconds of ``timeout`` until each machine of the set has a node that is Ready."""
        name, replicas = wanted["metadata"]["name"], wanted["spec"]["replicas"]

        def poll() -> tuple[dict[str, Any] | None, str]:
            ready, missing = self._ready_nodes(name, replicas)
            done = len(ready) == replicas and not missing
            return ({"nodes": sorted(ready)} if done else None), missing

        def say(text: str) -> None:
            self.say(f"MachineSet {name}: {text}")

        return wait_until(poll, left, say, lambda missing: f"MachineSet {name}: after {timeout:g} s {missing}")

    def _ready_nodes(self, name: str, replicas: int) -> tuple[list[str], str]:
        """Return the Ready nodes of a set, and what is missing as text. Raises ProcessError."""
        machines = self._machines(name)
        phases = Counter(str(field_at_path(machine, "status.phase", "new")) for machine in machines)
        failed = [machine for machine in machines if field_at_path(machine, "status.phase") == "Failed"]
        if failed:
            status = failed[0]["status"]
            why = status.get("errorMessage") or status.get("errorReason") or "no reason given"
            raise ProcessError(
                f"MachineSet {name}: machine {failed[0]['metadata']['name']} failed: {why}"
                + (f" ({len(failed)} failed)" if len(failed) > 1 else "")
            )
        nodes = {
            str(field_at_path(machine, "status.nodeRef.name", ""))
            for machine in machines
            if not machine["metadata"].get("deletionTimestamp")
        }
        ready = [node for node in sorted(nodes - {""}) if self._is_ready(node)]
        if len(ready) == replicas and len(machines) == replicas:
            return ready, ""
        states = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items())) or "none yet"
        return ready, f"{len(ready)} of {replicas} nodes are Ready (machines: {states})"

    def _machines(self, name: str) -> list[dict[str, Any]]:
        return self.client.list(self.client.kind(VERSION, "Machine"), NAMESPACE, f"{SET}={name}")[0]

    def _is_ready(self, name: str) -> bool:
        return is_condition_true(self.client.get(self.client.kind("v1", "Node"), name), "Ready")

    def restore(self, timeout: float, check: bool = False) -> dict[str, Any]:
        """Restore the state before scaling. A set that somebody else has changed since is left unchanged and reported.

        Safe to repeat. timeout: in seconds. Raises WaitTimeout if machines of a set that we created still exist.
        """
        entries = read_change_records(self.path)["sets"]
        left: list[str] = []
        for entry in entries:
            name = entry["name"]
            existing = self.client.get(self.client.kind(VERSION, "MachineSet"), name, NAMESPACE)
            if existing is not None and entry["created"]:
                if (existing["metadata"].get("annotations") or {}).get(RUN) == self.run:
                    self._delete(existing, timeout, check)
                else:
                    left.append(f"MachineSet {name} is not the one that this run created")
            elif existing is not None and existing["spec"].get("replicas") == entry["wanted"]:
                if not self._scale_back(existing, entry["before"], check):
                    left.append(f"somebody changed MachineSet {name} at the same moment")
            elif existing is not None and existing["spec"].get("replicas") != entry["before"]:
                left.append(f"somebody scaled MachineSet {name} to {existing['spec'].get('replicas')}")
            if not check:
                remove_change_record(self.path, "sets", name)
        return {"changed": bool(entries), "names": [entry["name"] for entry in entries], "left": left}

    def _delete(self, existing: dict[str, Any], timeout: float, check: bool) -> None:
        self.diff.deleted(existing)
        if not check:
            self.client.delete_seen(self.client.kind(VERSION, "MachineSet"), existing["metadata"])
            self.say(f"deleting MachineSet {existing['metadata']['name']}")
            self._wait_deleted(existing["metadata"], timeout)

    def _scale_back(self, existing: dict[str, Any], replicas: int, check: bool) -> bool:
        """Scale a set back; return False if somebody else has changed it since it was read."""
        if not check and not self._set_replicas(existing, replicas):
            return False
        self.diff.patched(existing, _replicas_patch(replicas))
        if not check:
            self.say(f"scaled MachineSet {existing['metadata']['name']} back to {replicas}")
        return True

    def _wait_deleted(self, deleted: Mapping[str, Any], timeout: float) -> None:
        """Wait until a MachineSet and its machines are gone. deleted: its metadata; others may use its name again."""
        name, uid = deleted["name"], deleted["uid"]

        def left() -> list[str]:
            there = self.client.get(self.client.kind(VERSION, "MachineSet"), name, NAMESPACE)
            if there is not None and there["metadata"]["uid"] != uid:
                return []
            machines = [f"Machine {machine['metadata']['name']}" for machine in self._machines(name)]
            return machines + ([f"MachineSet {name}"] if there else [])

        wait_until_gone(left, timeout, 0.5)


def _replicas_patch(number: int) -> dict[str, Any]:
    """Return the patch that sets the number of machines."""
    return {"spec": {"replicas": number}}
