# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scale a MachineSet or create one, wait for its nodes, restore the previous state."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say, wait_until, wait_until_gone
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.apply import ObjectDiff
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import is_condition_true

from . import machine_sets, scaling_snapshot
from .machine_sets import NAMESPACE, RUN, SET, VERSION


class NodeScaler:
    """The machines of one cluster. ``path``: the file with the state before scaling; ``diff``: what was changed."""

    def __init__(self, client: Client, path: Path, run: str, say: Say) -> None:
        self.client, self.path, self.run, self.say = client, path, run, say
        self.diff = ObjectDiff()

    def scale(self, spec: machine_sets.MachineSetSpec, timeout: float, check: bool = False) -> dict[str, Any]:
        """Scale one set as scale_all() does; return name, nodes and the number of machines before."""
        return dict(self.scale_all([spec], timeout, check)["sets"][0])

    def scale_all(
        self,
        specs: Sequence[machine_sets.MachineSetSpec],
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
        sizes = [machine_sets.sized(sets, spec, types) for spec in specs]
        planned = [(*machine_sets.chosen(sets, spec), sizing) for spec, sizing in sizes]
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
            "changed": any(one["changed"] for one in results),
            "sets": results,
            "nodes": [node for one in results for node in one["nodes"]],
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
            self.diff.patched(existing, _replicas(replicas))
        if changed and not check:
            entry = {"name": name, "created": existing is None, "before": before or 0, "wanted": replicas}
            scaling_snapshot.note(self.path, "sets", entry)
            if existing is None:
                self.client.create(wanted)
                self.say(f"created MachineSet {name} with {replicas} machines")
            else:
                self._set_replicas(name, replicas)
                self.say(f"scaled MachineSet {name} from {before} to {replicas}")
        return {"changed": changed, "name": name, "before": before, "nodes": [], "sizing": sizing}

    def _set_replicas(self, name: str, replicas: int) -> None:
        path = self.client.kind(VERSION, "MachineSet").path(NAMESPACE, name)
        self.client.request("PATCH", path, _replicas(replicas), content_type=MERGE_PATCH)

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
        found = self._machines(name)
        failed = [one for one in found if (one.get("status") or {}).get("phase") == "Failed"]
        if failed:
            status = failed[0]["status"]
            why = status.get("errorMessage") or status.get("errorReason") or "no reason given"
            raise ProcessError(
                f"MachineSet {name}: machine {failed[0]['metadata']['name']} failed: {why}"
                + (f" ({len(failed)} failed)" if len(failed) > 1 else "")
            )
        of_machine = {
            ((one.get("status") or {}).get("nodeRef") or {}).get("name", ""): one
            for one in found
            if not one["metadata"].get("deletionTimestamp")
        }
        ready = [name for name in of_machine if name and self._is_ready(name)]
        if len(ready) == replicas and len(found) == replicas:
            return ready, ""
        phases: dict[str, int] = {}
        for one in found:
            phase = (one.get("status") or {}).get("phase") or "new"
            phases[phase] = phases.get(phase, 0) + 1
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
        entries = scaling_snapshot.read(self.path)["sets"]
        left: list[str] = []
        for one in entries:
            name = one["name"]
            existing = self.client.get(self.client.kind(VERSION, "MachineSet"), name, NAMESPACE)
            if existing is not None and one["created"]:
                if (existing["metadata"].get("annotations") or {}).get(RUN) == self.run:
                    self._delete(existing, timeout, check)
                else:
                    left.append(f"MachineSet {name} is not the one that this run created")
            elif existing is not None and existing["spec"].get("replicas") == one["wanted"]:
                self._scale_back(existing, one["before"], check)
            elif existing is not None and existing["spec"].get("replicas") != one["before"]:
                left.append(f"somebody scaled MachineSet {name} to {existing['spec'].get('replicas')}")
            if not check:
                scaling_snapshot.forget(self.path, "sets", name)
        return {"changed": bool(entries), "names": [one["name"] for one in entries], "left": left}

    def _delete(self, existing: dict[str, Any], timeout: float, check: bool) -> None:
        self.diff.deleted(existing)
        if not check:
            name = existing["metadata"]["name"]
            self.client.delete(self.client.kind(VERSION, "MachineSet"), name, NAMESPACE)
            self.say(f"deleting MachineSet {name}")
            self._wait_deleted(name, timeout)

    def _scale_back(self, existing: dict[str, Any], replicas: int, check: bool) -> None:
        self.diff.patched(existing, _replicas(replicas))
        if not check:
            name = existing["metadata"]["name"]
            self._set_replicas(name, replicas)
            self.say(f"scaled MachineSet {name} back to {replicas}")

    def _wait_deleted(self, name: str, timeout: float) -> None:
        def left() -> list[str]:
            there = self.client.get(self.client.kind(VERSION, "MachineSet"), name, NAMESPACE)
            machines = [f"Machine {one['metadata']['name']}" for one in self._machines(name)]
            return machines + ([f"MachineSet {name}"] if there else [])

        wait_until_gone(left, timeout, 0.5)


def _replicas(number: int) -> dict[str, Any]:
    """Return the patch that sets the number of machines."""
    return {"spec": {"replicas": number}}
