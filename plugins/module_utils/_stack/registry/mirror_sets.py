# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirrors of images: the objects for them, of the kinds that the cluster has. Pure functions but ``kinds``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

#: Annotation with the id of the run. It is no label: role cleanup would delete the object, also if somebody changed it.
RUN = "perfscale.seatrial/run"
DIGEST, TAG = "digest", "tag"
#: (API version, kind, field of its spec) for images by digest and by tag, and of clusters before OpenShift 4.13.
CURRENT = {
    DIGEST: ("config.openshift.io/v1", "ImageDigestMirrorSet", "imageDigestMirrors"),
    TAG: ("config.openshift.io/v1", "ImageTagMirrorSet", "imageTagMirrors"),
}
OLDER = {DIGEST: ("operator.openshift.io/v1alpha1", "ImageContentSourcePolicy", "repositoryDigestMirrors")}

Kinds = Mapping[str, tuple[str, str, str]]


def kinds(client: Client) -> Kinds:
    """Return the kinds that the cluster uses. Raises InputError if it has none.

    While policies exist, releases of the transition refuse mirror sets: a policy joins the others.
    """
    older = _served(client, OLDER)
    if older and any(client.list(client.kind(*one[:2]))[0] for one in OLDER.values()):
        return OLDER
    if _served(client, CURRENT):
        return CURRENT
    if older:
        return OLDER
    raise InputError("mirrors: the cluster has neither ImageDigestMirrorSets nor ImageContentSourcePolicies")


def _served(client: Client, wanted: Kinds) -> bool:
    try:
        for version, kind, _field in wanted.values():
            client.kind(version, kind)
    except InputError:
        return False
    return True


def manifests(mirrors: Sequence[Mapping[str, Any]], run_id: str, known: Kinds) -> list[dict[str, Any]]:
    """Return the objects for the mirrors. Raises InputError for tags on a cluster that only knows digests."""
    found = []
    for by in (DIGEST, TAG):
        entries = [{"source": one["source"], "mirrors": list(one["mirrors"])} for one in mirrors if one["by"] == by]
        if not entries:
            continue
        if by not in known:
            raise InputError(
                f"mirrors: {entries[0]['source']} by tag: this cluster uses ImageContentSourcePolicies, which "
                "only mirror images by digest"
            )
        version, kind, name = known[by]
        metadata = {"name": f"seatrial-{run_id}", "annotations": {RUN: run_id}}
        found.append({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {name: entries}})
    return found
