# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transfers files out of a pod in ConfigMaps: compressed, in chunks, with a checksum.

An API server accepts objects of at most 1 MiB. A file is one zlib stream (RFC 1950) over as many ConfigMaps as it
needs, in the order of their numbers.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import Kind

CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps", True)

#: Size of a chunk, bytes. An API server allows 1,048,576 in all values of a ConfigMap.
CHUNK = 700_000
_KEY = "piece"


def chunks(path: Path, size: int = CHUNK) -> Iterator[bytes]:
    """Yield the compressed content of a file in chunks of ``size`` bytes; the last one may be shorter."""
    packer = zlib.compressobj()
    packed = b""
    with open(path, "rb") as stream:
        while data := stream.read(1 << 20):
            packed += packer.compress(data)
            while len(packed) >= size:
                yield packed[:size]
                packed = packed[size:]
    packed += packer.flush()
    for begin in range(0, len(packed), size):
        yield packed[begin : begin + size]


def send(
    client: Client, namespace: str, base: str, files: Sequence[tuple[str, Path]], metadata: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Put files into ConfigMaps ``<base>-<number>``; return for each file the record that fetch() takes.

    files: (kind, path); the kind is any word of the caller. metadata: labels and owner of the ConfigMaps. Safe to
    repeat: existing ConfigMaps are kept.
    """
    sent: list[dict[str, Any]] = []
    number = 0
    for kind, path in files:
        parts: list[str] = []
        for data in chunks(path):
            number += 1
            name = f"{base}-{number:04d}"
            put(client, namespace, name, data, metadata)
            parts.append(name)
        found = {"size": path.stat().st_size, "sha256": _files.sha256_of(path)}
        sent.append({"kind": kind, "name": path.name, **found, "parts": parts})
    return sent


def put(client: Client, namespace: str, name: str, data: bytes, metadata: Mapping[str, Any]) -> None:
    """Create an immutable ConfigMap with ``data``.

    An existing one is kept, because the response to its creation was lost; fetch() verifies the checksum.
    """
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "name": name},
        "immutable": True,
        "binaryData": {_KEY: base64.b64encode(data).decode()},
    }
    client.create_once(CONFIG_MAP.path(namespace), manifest)


def fetch(client: Client, namespace: str, file: Mapping[str, Any], target: Path) -> None:
    """Write one file of send() to ``target``. Raises DataError for a missing chunk or a wrong checksum."""
    unpacker = zlib.decompressobj()
    digest = hashlib.sha256()
    with open(target, "wb") as stream:
        try:
            for name in file["parts"]:
                data = unpacker.decompress(chunk(client, namespace, name))
                digest.update(data)
                stream.write(data)
        except zlib.error as error:
            raise DataError(
                f"{file['name']}: ConfigMap {namespace}/{name} has no valid chunk of it: {error}"
            ) from error
    if digest.hexdigest() != file["sha256"]:
        raise DataError(f"{file['name']}: its checksum differs after the transfer through namespace {namespace}")


def chunk(client: Client, namespace: str, name: str) -> bytes:
    """Return the content of a ConfigMap of put(). Raises DataError if it was deleted."""
    found = client.get(CONFIG_MAP, name, namespace)
    if found is None:
        raise DataError(f"ConfigMap {namespace}/{name} with a chunk of the load's files was deleted")
    return base64.b64decode((found.get("binaryData") or {}).get(_KEY, ""))
