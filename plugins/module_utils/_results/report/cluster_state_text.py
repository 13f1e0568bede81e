# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cluster was: its captured states, and the differences from the first to the last one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError

#: Key of a node in a state -> what is said of nodes that differ in it.
_CHANGES = {
    "schedulable": "cordoned or uncordoned",
    "conditions": "with other conditions",
    "kubelet": "with another kubelet",
    "system": "with another operating system",
    "runtime": "with another container runtime",
    "gpus": "with another number of GPUs",
    "allocatable": "with other allocatable resources",
}
#: Rows of the table of what a run left.
_MOST = 100
#: Names listed in one sentence.
_SOME = 5


def cluster_state_section(top: Path, notes: list[str]) -> dict[str, Any] | None:
    """Return the variables of the section; None for a run without captures. Unreadable files are added to ``notes``."""
    index = top / "capture" / "index.json"
    if not index.exists():
        return None
    try:
        captures = files.read_json(index)["captures"]
    except (DataError, KeyError, TypeError) as error:
        notes.append(f"capture/index.json: {error}")
        return None
    states = []
    for one in captures:
        path = top / "capture" / one["folder"] / "state.json"
        if path.exists() and "cluster" not in one:
            try:
                states.append(files.read_json(path))
            except DataError as error:
                notes.append(f"capture/{one['folder']}/state.json: {error}")
    return {
        "captures": [_row(one) for one in captures],
        "facts": facts(states[-1]) if states else [],
        "differences": differences(states[0], states[-1]) if len(states) > 1 else [],
        "compared": len(states) > 1,
    }


def run_diff_section(top: Path, notes: list[str]) -> dict[str, Any] | None:
    """Return the variables of the section on what the run left; None for a run without run_diff."""
    path = top / "run_diff.json"
    if not path.exists():
        return None
    try:
        found = files.read_json(path)
        rows = [
            {**one, "how": "created again" if one.get("again") else name}
            for name in ("left", "gone", "changed")
            for one in found[name]
        ]
    except (DataError, KeyError, TypeError) as error:
        notes.append(f"run_diff.json: {error}")
        return None
    rows.sort(key=lambda one: not one["ours"])  # what is the run's first
    return {
        "objects": found["objects"],
        "unlisted": formats.listed(found["unlisted"], 2 * _SOME),
        "count": len(rows),
        "ours": sum(one["ours"] for one in rows),
        "rows": rows[:_MOST],
    }


def _row(one: Mapping[str, Any]) -> dict[str, Any]:
    files = [entry["file"] for entry in one["files"]]
    why = f"{one['why']}, {one['cluster']}" if "cluster" in one else one["why"]
    return {**one, "why": why, "size": f"{one['bytes'] / 1000:.0f} kB", "files": files, "notes": list(one["notes"])}


def facts(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the cluster was: its versions, nodes, operators and the software under test."""
    nodes = state["nodes"]
    kinds = Counter((one["kubelet"], one["system"], one["gpus"]) for one in nodes.values())
    found = [(formats.capitalized(name), version) for name, version in state["versions"].items()]
    for (kubelet, system, gpus), count in kinds.most_common(_SOME):
        parts = [part for part in (system, f"kubelet {kubelet}" if kubelet else "") if part]
        found.append((formats.count(count, "node"), ", ".join([*parts, formats.count(gpus, "GPU")])))
    found += list(state["operators"].items())
    for name, one in state["stack"].items():
        if not name.startswith(("ClusterServiceVersion ", "ClusterOperator ")) or not one["ready"]:
            found.append((name, " ".join(part for part in (one["state"], one["version"]) if part) or "exists"))
    return found


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each kind of difference between two states; empty if they are equal."""
    found = []
    for name in ("versions", "operators"):
        found += _changed(name.removesuffix("s"), before[name], after[name])
    old, new = before["nodes"], after["nodes"]
    found += _named("lost", "node", old.keys() - new.keys())
    found += _named("new", "node", new.keys() - old.keys())
    both = old.keys() & new.keys()
    found += _named("not ready any more", "node", (one for one in both if old[one]["ready"] and not new[one]["ready"]))
    found += _named("ready again", "node", (one for one in both if new[one]["ready"] and not old[one]["ready"]))
    for what, how in _CHANGES.items():
        found += _named(how, "node", (one for one in both if old[one][what] != new[one][what]))
    restarts = {
        name: count - before["restarts"].get(name, 0)
        for name, count in after["restarts"].items()
        if count > before["restarts"].get(name, 0)
    }
    if restarts:
        most = sorted(restarts.items(), key=lambda pair: (-pair[1], pair[0]))
        names = formats.listed((f"{name} ({count})" for name, count in most), _SOME)
        found.append(f"{formats.count(sum(restarts.values()), 'restart')} of containers: {names}")
    images = sorted(name for name, digest in after["images"].items() if before["images"].get(name, digest) != digest)
    found += _named("with another digest", "image", images)
    stack, later = before["stack"], after["stack"]
    found += _named("gone", "stack object", stack.keys() - later.keys())
    found += _named("new", "stack object", later.keys() - stack.keys())
    for name in sorted(stack.keys() & later.keys()):
        if stack[name] != later[name]:
            found.append(f"{name}: {_said(stack[name])} → {_said(later[name])}")
    return found


def _said(one: Mapping[str, Any]) -> str:
    ready = "" if one["ready"] else "not ready"
    return ", ".join(part for part in (one["state"], one["version"], ready) if part) or "ready"


def _changed(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [
        f"{what} of {name}: {before.get(name, 'none')} → {after.get(name, 'none')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _named(how: str, what: str, names: Iterable[str]) -> list[str]:
    found = sorted(names)
    return [f"{formats.count(len(found), what)} {how}: {formats.listed(found, _SOME)}"] if found else []
