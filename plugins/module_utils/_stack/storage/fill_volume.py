# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let a volume hold models and datasets. Module storage_volume calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels, waiting
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import label

from . import claim, download_job
from .claim import VolumeClaim
from .download_job import DownloadSpec
from .sources import Source

Say = Callable[[str], None]
#: Fields of a record in the annotation of a claim, and in a result.
RECORDED = ("name", "key", "source", "revision", "sha256", "files", "bytes")
SHOWN = ("name", "source", "revision", "sha256", "files", "bytes", "downloaded", "seconds")

SIMULATED = "simulated cluster: nothing was downloaded"


def present(
    client: Client,
    volume: VolumeClaim,
    spec: DownloadSpec,
    sources: list[Source],
    say: Say,
    verify: bool = False,
    check: bool = False,
) -> dict[str, Any]:
    """Create the claim if there is none, and download what it lacks. verify: also check what it holds.

    Raises InputError for a claim that does not suit, the errors of download_job.run() otherwise.
    """
    namespace = client.get(client.kind("v1", "Namespace"), volume.namespace)
    if namespace is None:
        raise InputError(f"storage_namespace: {client.access.server} has no namespace '{volume.namespace}'")
    if volume.keep and label(namespace, run_labels.RUN):
        run = label(namespace, run_labels.RUN)
        raise InputError(
            f"storage_keep: namespace {volume.namespace} is removed with run {run}, and the claim with it: "
            "create a namespace and set storage_namespace"
        )
    there = claim.find(client, volume.namespace, volume.name)
    if there is not None:
        claim.check(there, volume)
    lacking = claim.lacking(there, sources)
    wanted = sources if verify else lacking
    result: dict[str, Any] = {"changed": bool(there is None or lacking), "claim": volume.name}
    if volume.simulated and (check or there is not None):
        return {**result, "changed": there is None, "downloads": [], "summary": SIMULATED}
    if check or (there is not None and not wanted):
        return {**result, "downloads": _known(there, sources), "summary": _there(volume, len(sources))}
    if there is None:
        for one in volume.manifests():
            client.create(one)
        say(f"claim {volume.namespace}/{volume.name}: {volume.size}, {volume.access_mode}")
    if volume.simulated:
        return {**result, "downloads": [], "summary": SIMULATED}
    if not wanted:
        return {**result, "downloads": [], "summary": f"claim {volume.namespace}/{volume.name} was created"}
    if not spec.image:
        raise InputError("storage_image is empty: set an image with Python 3.9 or later, such as that of the training")
    names = ", ".join(one.name for one in wanted)
    say(f"{'verifying' if verify else 'downloading'} {names}")
    found = download_job.run(client, spec, wanted, say)
    records = [{key: one[key] for key in RECORDED} for one in found]
    claim.record(client, volume.namespace, volume.name, records)
    downloads = [{key: one[key] for key in SHOWN} for one in found]
    result["changed"] = result["changed"] or any(one["downloaded"] for one in downloads)
    others = [one for one in _known(there, sources) if one["name"] not in {each["name"] for each in downloads}]
    return {**result, "downloads": [*downloads, *others], "summary": text(downloads)}


def _known(there: Mapping[str, Any] | None, sources: list[Source]) -> list[dict[str, Any]]:
    known = claim.content(there)
    return [
        {**{key: known[one.name].get(key) for key in SHOWN}, "downloaded": 0, "seconds": 0.0}
        for one in sources
        if known.get(one.name, {}).get("key") == one.key
    ]


def _there(volume: VolumeClaim, number: int) -> str:
    return f"claim {volume.namespace}/{volume.name} holds {formats.count(number, 'source')} already"


def text(downloads: list[dict[str, Any]]) -> str:
    """Return what was downloaded in one sentence."""
    parts = []
    for one in downloads:
        size = f"{one['bytes'] / 2**20:,.1f} MiB"
        if one["downloaded"]:
            rate = f", {one['downloaded'] / 2**20 / one['seconds']:,.1f} MiB/s" if one["seconds"] else ""
            parts.append(f"{one['name']} {size} in {one['seconds']:.1f} s{rate}")
        else:
            parts.append(f"{one['name']} {size} verified")
    return "; ".join(parts)


def absent(client: Client, namespace: str, name: str, timeout: float, say: Say, check: bool = False) -> bool:
    """Delete the claim; return whether there was one. Raises OwnershipError for a claim without our label."""
    kind = client.kind("v1", "PersistentVolumeClaim")
    there = claim.find(client, namespace, name)
    if there is None or check:
        return there is not None
    if not label(there, claim.KEPT):
        raise OwnershipError(f"claim {namespace}/{name} was not created by role storage: it is not deleted")
    client.delete_seen(kind, name, namespace, there["metadata"]["uid"])

    def look() -> tuple[bool | None, str]:
        gone = client.get(kind, name, namespace, metadata_only=True) is None
        return (True if gone else None), f"claim {namespace}/{name} is still there; a pod may use it"

    return waiting.wait_until(look, timeout, say, lambda message: f"after {timeout:g} s {message}")
