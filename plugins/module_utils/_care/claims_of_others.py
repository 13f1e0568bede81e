# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of a run to which a claim of somebody else is bound: their deletion would wait for it, and take its data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from .deletion_order import LabelledObject, belongs_to_others

#: What is listed, since a run may list, but not get, what it creates.
_VOLUME, _CLAIM = "PersistentVolume", "PersistentVolumeClaim"


def volumes_with_claims_of_others(
    client: Client, objects: Sequence[LabelledObject], run_id: str
) -> Iterator[tuple[LabelledObject, str]]:
    """Yield the volumes among objects of a run to which others have bound a claim, with namespace and name of that.

    Claims in a namespace that may not be listed count as those of others. Raises ApiError.
    """
    volumes = {labelled.uid: labelled for labelled in objects if labelled.kind.kind == _VOLUME}
    if not volumes:
        return
    claims: dict[str, dict[str, dict[str, Any]] | None] = {}
    kind = next(iter(volumes.values())).kind
    for volume in client.list(kind, label_selector=f"{run_labels.RUN}={run_id}")[0]:
        claim = (volume.get("spec") or {}).get("claimRef")
        labelled = volumes.get(str(volume["metadata"].get("uid")))
        if labelled is None or not isinstance(claim, Mapping):
            continue
        namespace, name = str(claim.get("namespace") or ""), str(claim.get("name") or "")
        if namespace not in claims:
            claims[namespace] = _claims_by_uid(client, namespace)
        known = claims[namespace]
        bound = None if known is None else known.get(str(claim.get("uid")))
        if known is None or (bound is not None and belongs_to_others(_CLAIM, bound, run_id)):
            yield labelled, f"{namespace}/{name}"


def _claims_by_uid(client: Client, namespace: str) -> dict[str, dict[str, Any]] | None:
    """Return the claims of a namespace by uid, None if they may not be listed."""
    try:
        claims = client.list(client.kind("v1", _CLAIM), namespace)[0]
    except ApiError as error:
        if error.status != 403:
            raise
        return None
    return {str(claim["metadata"].get("uid")): claim for claim in claims}
