# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ran on a cluster at the end of a test point: nodes, operators, and images by digest. Nothing is changed.

Figures of two runs are comparable only if these are equal, or differ on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster import describe_cluster
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster.operator_versions import operator_versions
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import at

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def gather(client: Client, run: str, namespaces: Iterable[str] = ()) -> dict[str, Any]:
    """Return the parts ``nodes``, ``operators`` and ``images`` of schema ran/1, and ``notes`` on parts that are absent.

    namespaces: whose pods' images are recorded, beside those of the run's pods and of the operators. A part that may
    not be read is absent. Raises AccessError if the server cannot be reached.
    """
    notes: list[str] = []
    found: dict[str, Any] = {}
    nodes = _allowed("nodes", notes, lambda: describe_cluster.nodes_of(client, run))
    if nodes is not None:
        found["nodes"] = describe_cluster.node_totals(nodes)
    operators = _allowed("operators", notes, lambda: operator_versions(client))
    if operators is not None:
        found["operators"] = operators.versions
    elsewhere = {*namespaces, *(operators.namespaces if operators is not None else ())}
    kind = client.kind("v1", "Pod")
    selector = f"{_labels.RUN}={run}"
    labelled = _allowed("pods of the run", notes, partial(client.list, kind, label_selector=selector))
    more = [_allowed(f"pods of namespace {one}", notes, partial(client.list, kind, one)) for one in sorted(elsewhere)]
    known = [one for one in (labelled, *more) if one is not None]
    if known:
        found["images"] = images(pod for pods, _version in known for pod in pods)
    return {**found, **({"notes": notes} if notes else {})}


def _allowed(what: str, notes: list[str], read: Callable[[], Any]) -> Any:
    """Return what ``read`` returns; None, and a note, if the server refuses it."""
    try:
        return read()
    except ApiError as error:
        notes.append(f"{what}: {error}")
        return None


def images(pods: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return repository and tag -> digest of the containers whose digest is known; several digests are joined."""
    found: dict[str, set[str]] = {}
    for pod in pods:
        asked = {one["name"]: one.get("image") for one in at(pod, "spec.containers", [])}
        for status in at(pod, "status.containerStatuses", []):
            digest = _DIGEST.search(str(status.get("imageID") or ""))
            name = asked.get(status.get("name")) or status.get("image")
            if digest and name:
                found.setdefault(image_name(str(name)), set()).add(digest[0])
    return {name: ", ".join(sorted(digests)) for name, digests in sorted(found.items())}


def image_name(reference: str) -> str:
    """Return repository and tag of an image reference, without digest and without credentials of the registry."""
    name = reference.partition("@sha256:")[0]
    host, slash, rest = name.partition("/")
    return f"{host.rpartition('@')[2]}{slash}{rest}"
