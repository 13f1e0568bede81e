# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on their way out of a pod: compressed, cut, in ConfigMaps, with a checksum.

An API server takes objects of at most 1 MiB. A file is one zlib stream (RFC 1950) over as many ConfigMaps as it needs,
in the order of their numbers.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import ApiError, DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import Kind

CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps", True)

#: Bytes of one piece. An API server allows 1,048,576 in all values of a ConfigMap.
PIECE = 700_000
_KEY = "piece"


def pieces(path: Path, size: int = PIECE) -> Iterator[bytes]:
    """Yield the compressed content of a file in pieces of ``size`` bytes; the last may be shorter."""
    packer = zlib.compressobj()
    held = b""
    with open(path, "rb") as stream:
        while data := stream.read(1 << 20):
            held += packer.compress(data)
            while len(held) >= size:
                yield held[:size]
                held = held[size:]
    held += packer.flush()
    for begin in range(0, len(held), size):
        yield held[begin : begin + size]


def send(
    client: Client, namespace: str, base: str, files: Sequence[tuple[str, Path]], metadata: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Put files into ConfigMaps ``<base>-<number>``; return what fetch() needs to know of each.

    files: (kind, path), the kind of the caller's choice. metadata: labels and owner of the ConfigMaps. Sent again it
    finds what it sent before.
    """
    sent: list[dict[str, Any]] = []
    number = 0
    for kind, path in files:
        parts: list[str] = []
        for piece in pieces(path):
            number += 1
            name = f"{base}-{number:04d}"
            _put(client, namespace, name, piece, metadata)
            parts.append(name)
        found = {"size": path.stat().st_size, "sha256": _files.sha256_of(path)}
        sent.append({"kind": kind, "name": path.name, **found, "parts": parts})
    return sent


def _put(client: Client, namespace: str, name: str, piece: bytes, metadata: Mapping[str, Any]) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "name": name},
        "immutable": True,
        "binaryData": {_KEY: base64.b64encode(piece).decode()},
    }
    try:
        client.request("POST", CONFIG_MAP.path(namespace), manifest)
    except ApiError as error:
        if error.reason != "AlreadyExists":  # sent before, the answer was lost; its checksum is looked at when fetched
            raise


def fetch(client: Client, namespace: str, parcel: Mapping[str, Any], target: Path) -> None:
    """Write one file of send() to ``target``. Raises DataError when a part is missing or something else came out."""
    unpacker = zlib.decompressobj()
    digest = hashlib.sha256()
    with open(target, "wb") as stream:
        try:
            for name in parcel["parts"]:
                data = unpacker.decompress(_piece(client, namespace, name))
                digest.update(data)
                stream.write(data)
        except zlib.error as error:
            raise DataError(f"{parcel['name']}: ConfigMap {namespace}/{name} holds no part of it: {error}") from error
    if digest.hexdigest() != parcel["sha256"]:
        raise DataError(f"{parcel['name']}: what came out of {namespace} is not what was put in")


def _piece(client: Client, namespace: str, name: str) -> bytes:
    found = client.get(CONFIG_MAP, name, namespace)
    if found is None:
        raise DataError(f"ConfigMap {namespace}/{name} is gone, a part of the load's files was in it")
    return base64.b64decode((found.get("binaryData") or {}).get(_KEY, ""))
