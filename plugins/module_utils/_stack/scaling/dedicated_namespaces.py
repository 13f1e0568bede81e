# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dedicate nodes to namespaces: annotations with a node selector and tolerations that OpenShift adds to their pods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.apply import ObjectDiff
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client

from . import machine_sets, scaling_snapshot

#: Annotations of a namespace that select the nodes of its pods.
SELECTOR = "openshift.io/node-selector"
TOLERATIONS = "scheduler.alpha.kubernetes.io/defaultTolerations"


def dedicate(
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
    found = {name: _namespace(client, name) for name in namespaces}
    missing = [name for name, one in found.items() if one is None]
    if missing:
        raise InputError(f"node_scaling_dedicated: missing namespace {', '.join(missing)}")
    wanted: dict[str, str] = {SELECTOR: selector}
    tolerated = machine_sets.taint_of(taint)
    if tolerated is not None:
        toleration = {**tolerated, "operator": "Equal" if "value" in tolerated else "Exists"}
        wanted[TOLERATIONS] = json.dumps([toleration], sort_keys=True)
    changed = False
    for name, one in found.items():
        annotations = (one or {})["metadata"].get("annotations") or {}
        if all(annotations.get(key) == value for key, value in wanted.items()):
            continue
        changed = True
        diff.patched(one or {}, _annotations(wanted))
        if not check:
            before = {key: annotations.get(key) for key in wanted}
            scaling_snapshot.note(path, "namespaces", {"name": name, "before": before, "wanted": wanted})
            _annotate(client, name, dict(wanted))
    return changed


def restore(client: Client, path: Path, diff: ObjectDiff, check: bool = False) -> bool:
    """Restore the annotations that dedicate() changed and that still have its values. Safe to repeat."""
    entries = scaling_snapshot.read(path)["namespaces"]
    for one in entries:
        found = _namespace(client, one["name"])
        annotations = ((found or {}).get("metadata") or {}).get("annotations") or {}
        ours = {key: one["before"][key] for key, value in one["wanted"].items() if annotations.get(key) == value}
        if ours:
            diff.patched(found or {}, _annotations(ours))
        if check:
            continue
        if ours:
            _annotate(client, one["name"], ours)
        scaling_snapshot.forget(path, "namespaces", one["name"])
    return bool(entries)


def _namespace(client: Client, name: str) -> dict[str, Any] | None:
    found = client.get(client.kind("v1", "Namespace"), name, metadata_only=True)
    # Metadata alone has the kind PartialObjectMetadata.
    return None if found is None else {**found, "kind": "Namespace"}


def _annotations(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that sets annotations, and removes those that are None."""
    return {"metadata": {"annotations": dict(values)}}


def _annotate(client: Client, name: str, annotations: dict[str, Any]) -> None:
    try:
        path = f"/api/v1/namespaces/{name}"
        client.request("PATCH", path, _annotations(annotations), content_type=MERGE_PATCH)
    except ApiError as error:
        if error.status != 404:
            raise
