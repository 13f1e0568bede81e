# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scaling on a cluster: a MachineSet changed or made, its nodes waited for, everything put back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, ProcessError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import holds
from ansible_collections.perfscale.seatrial.plugins.module_utils._scaling import machine_sets, scaling_snapshot
from ansible_collections.perfscale.seatrial.plugins.module_utils._scaling.machine_sets import (
    NAMESPACE,
    RUN,
    SET,
    VERSION,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._wait_until import Say, wait_until


class NodeScaler:
    """One cluster's machines. ``path``: the memo of what was before."""

    def __init__(self, client: Client, path: Path, run: str, say: Say) -> None:
        self.client, self.path, self.run, self.say = client, path, run, say

    def scale(self, wish: machine_sets.MachineSetSpec, timeout: float, check: bool = False) -> dict[str, Any]:
        """Bring about what is wished for and wait for its nodes; return what changed.

        Raises InputError before anything is touched, ProcessError for a machine that failed, WaitTimeout.
        """
        try:
            kind = self.client.kind(VERSION, "MachineSet")
        except InputError as error:
            raise InputError(f"nodes can't be scaled here, {error}") from error
        sets = self.client.list(kind, NAMESPACE)[0]
        there, wanted = machine_sets.chosen(sets, wish)
        name = wanted["metadata"]["name"]
        before = there["spec"].get("replicas", 1) if there is not None else None
        changed = before != wish.replicas
        if check or not changed:
            found = {} if check else self._wait(wanted, timeout)
            return {"changed": changed, "name": name, "before": before, "nodes": found.get("nodes", [])}
        entry = {"name": name, "created": there is None, "before": before or 0, "wanted": wish.replicas}
        scaling_snapshot.note(self.path, "sets", entry)
        if there is None:
            wanted["metadata"]["annotations"] = {RUN: self.run}
            self.client.create(wanted)
            self.say(f"made MachineSet {name} with {wish.replicas} machines")
        else:
            self._set_replicas(name, wish.replicas)
            self.say(f"scaled MachineSet {name} from {before} to {wish.replicas}")
        return {"changed": True, "name": name, "before": before, **self._wait(wanted, timeout)}

    def _set_replicas(self, name: str, replicas: int) -> None:
        path = self.client.kind(VERSION, "MachineSet").path(NAMESPACE, name)
        self.client.request("PATCH", path, {"spec": {"replicas": replicas}}, content_type=MERGE_PATCH)

    def _wait(self, wanted: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Wait until each machine of the set has a node that is Ready."""
        name, replicas = wanted["metadata"]["name"], wanted["spec"]["replicas"]

        def look() -> tuple[dict[str, Any] | None, str]:
            ready, words = self._look(name, replicas)
            done = len(ready) == replicas and not words
            return ({"nodes": sorted(ready)} if done else None), words

        def say(words: str) -> None:
            self.say(f"MachineSet {name}: {words}")

        return wait_until(look, timeout, say, lambda words: f"MachineSet {name}: after {timeout:g} s {words}")

    def _look(self, name: str, replicas: int) -> tuple[list[str], str]:
        """Return the Ready nodes of a set, and what is still missing in words. Raises ProcessError."""
        found = self._machines(name)
        failed = [one for one in found if (one.get("status") or {}).get("phase") == "Failed"]
        if failed:
            status = failed[0]["status"]
            why = status.get("errorMessage") or status.get("errorReason") or "it does not say why"
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
        told = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items())) or "none yet"
        return ready, f"{len(ready)} of {replicas} nodes are Ready (machines: {told})"

    def _machines(self, name: str) -> list[dict[str, Any]]:
        return self.client.list(self.client.kind(VERSION, "Machine"), NAMESPACE, f"{SET}={name}")[0]

    def _is_ready(self, name: str) -> bool:
        return holds(self.client.get(self.client.kind("v1", "Node"), name), "Ready")

    def put_back(self, timeout: float, check: bool = False) -> dict[str, Any]:
        """Bring back what the memo says; what somebody else has changed since is left as it is, and said. Safe twice.

        Raises WaitTimeout while machines of a set that we made are still there.
        """
        entries = scaling_snapshot.read(self.path)["sets"]
        if check or not entries:
            return {"changed": bool(entries), "names": [one["name"] for one in entries], "left": []}
        kind = self.client.kind(VERSION, "MachineSet")
        left: list[str] = []
        for one in entries:
            name = one["name"]
            there = self.client.get(kind, name, NAMESPACE)
            if there is not None and one["created"]:
                if (there["metadata"].get("annotations") or {}).get(RUN) == self.run:
                    self.client.delete(kind, name, NAMESPACE)
                    self.say(f"deleting MachineSet {name}")
                    self._gone(name, timeout)
                else:
                    left.append(f"MachineSet {name} is not the one that this run made")
            elif there is not None and there["spec"].get("replicas") == one["wanted"]:
                self._set_replicas(name, one["before"])
                self.say(f"scaled MachineSet {name} back to {one['before']}")
            elif there is not None and there["spec"].get("replicas") != one["before"]:
                left.append(f"somebody scaled MachineSet {name} to {there['spec'].get('replicas')}")
            scaling_snapshot.forget(self.path, "sets", name)
        return {"changed": True, "names": [one["name"] for one in entries], "left": left}

    def _gone(self, name: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            there = self.client.get(self.client.kind(VERSION, "MachineSet"), name, NAMESPACE) is not None
            number = len(self._machines(name))
            if not there and not number:
                return
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"MachineSet {name}: {number} machines are still there after {timeout:g} s")
            time.sleep(0.5)
