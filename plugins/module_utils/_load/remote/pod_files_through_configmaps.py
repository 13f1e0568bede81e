# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that leave a pod in ConfigMaps: of a load while they grow, of a role call or a user when they are complete.

An API server accepts objects of at most 1 MiB. A complete file is one zlib stream (RFC 1950) over as many ConfigMaps as
it needs, in the order of their numbers.

A pod of a load that is made again resumes from the growing files. ConfigMap ``<name>-files`` has the index and the
compressed end of each, and is replaced each time. All but this small end is in immutable ConfigMaps, the parts, which
are written once: what is written grows linearly with the files. Each part consists of whole lines. Every fetch checks
the checksums. When the parts of a client have reached a size, its observations are no longer synchronized: all files go
through an S3 server at the end (result_upload). The ledger, a tenth of them, still is, so that a new pod resumes from
it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import disk_reserve, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    parse_json,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind

from . import result_upload

CONFIG_MAP = ServedKind("v1", "ConfigMap", "configmaps", True)

#: Size of a chunk, bytes. An API server allows 1,048,576 in all values of a ConfigMap.
CHUNK = 700_000
_KEY = "piece"


def compressed_file_chunks(path: Path, size: int = CHUNK) -> Iterator[bytes]:
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


def send_files_as_configmaps(
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
        for data in compressed_file_chunks(path):
            number += 1
            name = f"{base}-{number:04d}"
            create_immutable_configmap(client, namespace, name, data, metadata)
            parts.append(name)
        facts = {"size": path.stat().st_size, "sha256": _files.sha256_of(path)}
        sent.append({"kind": kind, "name": path.name, **facts, "parts": parts})
    return sent


def create_immutable_configmap(
    client: Client, namespace: str, name: str, data: bytes, metadata: Mapping[str, Any]
) -> None:
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


def fetch_file_from_configmaps(client: Client, namespace: str, file: Mapping[str, Any], target: Path) -> None:
    """Write one file of send() to ``target``. Raises DataError for a missing chunk or a wrong checksum."""
    unpacker = zlib.decompressobj()
    digest, size = hashlib.sha256(), 0
    with open(target, "wb") as stream:
        try:
            for name in file["parts"]:
                packed = read_configmap_content(client, namespace, name)
                while data := unpacker.decompress(packed, MAX_PART_RAW_BYTES):
                    packed = unpacker.unconsumed_tail
                    size += len(data)
                    disk_reserve.refuse_filling_disk(str(file["name"]), size, size - len(data), target.parent)
                    digest.update(data)
                    stream.write(data)
        except zlib.error as error:
            raise DataError(
                f"{file['name']}: ConfigMap {namespace}/{name} has no valid chunk of it: {error}"
            ) from error
    if digest.hexdigest() != file["sha256"]:
        raise DataError(f"{file['name']}: its checksum differs after the transfer through namespace {namespace}")


def read_configmap_content(client: Client, namespace: str, name: str) -> bytes:
    """Return the content of a ConfigMap of put(). Raises DataError if it was deleted."""
    config_map = client.get(CONFIG_MAP, name, namespace)
    if config_map is None:
        raise DataError(f"ConfigMap {namespace}/{name} with a chunk of the load's files was deleted")
    with expect_documented_form(f"ConfigMap {namespace}/{name}", config_map.get("binaryData"), DataError):
        return base64.b64decode((config_map.get("binaryData") or {}).get(_KEY, ""))


#: Files of a client that creates objects, and of one that sends requests to inference servers.
LEDGER, OBSERVATIONS = "ledger.jsonl", "observations.jsonl"
FILES = (LEDGER, OBSERVATIONS)
REQUEST_FILES = ("requests.jsonl", "clocks.jsonl")
#: Maximum size of a part, bytes before compression, and of it and of an incomplete last line, bytes compressed. An API
#: server allows 1 MiB in all values of a ConfigMap, which has the ends of both files.
MAX_PART_RAW_BYTES, MAX_PART_BYTES = 2 << 20, 450_000
#: Size above which the end of a file becomes a part, bytes compressed: half of it is written again each time, in the
#: mean, and a lower bound would make more objects.
MAX_END_BYTES = 16 << 10
_INDEX = "index"


@dataclass
class _SyncedFile:
    """What was sent of a file. at: bytes in its parts. digest: of these. size: bytes of the file, with its end.

    parts: (prefix, first number, last number) of their names.
    """

    parts: list[tuple[str, int, int]] = field(default_factory=list)
    at: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    size: int = -1
    held: bool = False  # it has become too large


class ResultSync:
    """The files of a client in ``folder``. name: of the client's objects; metadata: labels and owner of the parts.

    most: bytes of the parts, compressed, above which the observations are held back. names: of the files.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        folder: Path,
        metadata: Mapping[str, Any],
        most: int = result_upload.DEFAULT_COLLECT_BYTES,
        names: Sequence[str] = FILES,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._folder = folder
        self._metadata = metadata
        self._most = most
        self._used = 0
        # A pod that is made again may not find a part that the one before has created.
        self._prefix = f"{name}-{secrets.token_hex(4)}"
        self._names = names
        self._numbers = dict.fromkeys(names, 0)
        self._sent = {name: _SyncedFile() for name in names}

    def restore(self) -> bool:
        """Write what an earlier pod has handed over to the folder; return whether there was something.

        Raises DataError for damaged files.
        """
        index = fetch_handed_over_files(self._client, self._namespace, self._name, self._folder)
        for name, entry in index.items():
            sent = self._sent[name]
            sent.parts = [(prefix, int(first), int(last)) for prefix, first, last in entry["parts"]]
            sent.at, sent.held = entry["at"], entry.get("held", False)
            self._used = max(self._used, entry.get("used", 0))
            with open(self._folder / name, "rb") as stream:
                while sent.at > stream.tell() and (block := stream.read(min(1 << 20, sent.at - stream.tell()))):
                    sent.digest.update(block)
        return bool(index)

    @property
    def held(self) -> bool:
        """Whether not all of the files were handed over, because they are too large."""
        return any(synced.held for synced in self._sent.values())

    def send(self) -> bool:
        """Hand over what was added; return whether anything was. Raises AccessError, ApiError: send again later."""
        paths = {name: self._folder / name for name in self._names if (self._folder / name).exists()}
        sizes = {name: path.stat().st_size for name, path in paths.items()}
        if all(sizes[name] == self._sent[name].size or self._sent[name].held for name in paths):
            return False
        index, ends, sent = {}, {}, {}
        for name, path in paths.items():
            end, packed = self._advance(self._sent[name], path)
            synced = self._sent[name]
            whole = synced.digest.copy()
            whole.update(end)
            sent[name] = synced.at + len(end)
            index[name] = {"parts": synced.parts, "at": synced.at, "size": sent[name], "sha256": whole.hexdigest()}
            index[name] |= {"held": synced.held, "used": self._used}
            ends[name] = base64.b64encode(packed).decode()
        changes = {"data": {_INDEX: json.dumps(index)}, "binaryData": ends}
        head = CONFIG_MAP.path(self._namespace, f"{self._name}-files")
        self._client.request("PATCH", head, changes, content_type=MERGE_PATCH)
        for name, size in sent.items():
            self._sent[name].size = size
        return True

    def _advance(self, sent: _SyncedFile, path: Path) -> tuple[bytes, bytes]:
        """Put all but the end of a file into parts; return the end, and the end compressed."""
        if sent.held:
            return b"", zlib.compress(b"")
        with open(path, "rb") as stream:
            stream.seek(sent.at)
            data = stream.read(MAX_PART_RAW_BYTES)
            while len(data) == MAX_PART_RAW_BYTES or len(packed := zlib.compress(data)) > MAX_END_BYTES:
                if len(data) < MAX_PART_RAW_BYTES and b"\n" not in data and len(packed) <= MAX_PART_BYTES:
                    break  # one line that is being written
                self._put(sent, path, data)
                if self._hold(sent, path, 0):
                    return b"", zlib.compress(b"")
                stream.seek(sent.at)
                data = stream.read(MAX_PART_RAW_BYTES)
        return (b"", zlib.compress(b"")) if self._hold(sent, path, len(packed)) else (data, packed)

    def _put(self, sent: _SyncedFile, path: Path, data: bytes) -> None:
        """Put whole lines of ``data`` into a part."""
        part, packed = _compress_whole_lines(data, path)
        # A number is used once: whether an attempt without a reply has created its part is unknown.
        self._numbers[path.name] += 1
        number, prefix = self._numbers[path.name], f"{self._prefix}-{path.name[0]}"
        create_immutable_configmap(self._client, self._namespace, _part_name(prefix, number), packed, self._metadata)
        before, first, last = sent.parts[-1] if sent.parts else ("", 0, 0)
        if (before, last) == (prefix, number - 1):
            sent.parts[-1] = (prefix, first, number)
        else:
            sent.parts.append((prefix, number, number))
        sent.at += len(part)
        sent.digest.update(part)
        self._used += len(packed)

    def _hold(self, sent: _SyncedFile, path: Path, more: int) -> bool:
        """Hold the file back if the parts and ``more`` bytes are too large."""
        sent.held = path.name == OBSERVATIONS and self._used + more > self._most
        return sent.held


def _part_name(prefix: str, number: int) -> str:
    return f"{prefix}-{number:04d}"


def _compress_whole_lines(data: bytes, path: Path) -> tuple[bytes, bytes]:
    """Return whole lines from the beginning of ``data`` that fit into a ConfigMap, and these compressed."""
    while True:
        data = data[: data.rfind(b"\n") + 1]
        if not data:
            raise DataError(f"{path} has a line that does not fit into a ConfigMap")
        packed = zlib.compress(data)
        if len(packed) <= MAX_PART_BYTES:
            return data, packed
        data = data[: len(data) // 2]


def fetch_handed_over_files(client: Client, namespace: str, name: str, folder: Path) -> dict[str, Any]:
    """Write the files that a client has handed over to ``folder``; return their index, empty if there are none.

    Raises DataError if an object is missing or a file is damaged.
    """
    head = client.get(CONFIG_MAP, f"{name}-files", namespace)
    if head is None:
        raise DataError(f"ConfigMap {namespace}/{name}-files with the files of the load was deleted")
    what = f"ConfigMap {namespace}/{name}-files"
    with expect_documented_form(what, head.get("data"), DataError):
        index: dict[str, Any] = dict(parse_json((head.get("data") or {}).get(_INDEX, "{}")))
        ends = {file: base64.b64decode(head["binaryData"][file]) for file in index}
        for entry in index.values():
            entry["parts"] = [(str(of), int(low), int(up)) for of, low, up in entry["parts"]]
            entry["sha256"] = str(entry["sha256"])
    folder.mkdir(parents=True, exist_ok=True)
    for file, entry in index.items():
        if file not in (*FILES, *REQUEST_FILES):
            raise DataError(f"{what} has an unknown file '{file}'")
        aside = folder / f".{file}.fetched"
        with open(aside, "wb") as stream:
            for part in (_part_name(of, number) for of, low, up in entry["parts"] for number in range(low, up + 1)):
                data = _decompress_file_part(read_configmap_content(client, namespace, part), part)
                # A pod may name the same part as often as it likes.
                disk_reserve.refuse_filling_disk(file, stream.tell() + len(data), stream.tell(), folder)
                stream.write(data)
            stream.write(_decompress_file_part(ends[file], f"{name}-files"))
        if files.sha256_of(aside) != entry["sha256"]:
            raise DataError(f"{file}: its checksum differs after the transfer through namespace {namespace}")
        aside.replace(folder / file)
    return index


def _decompress_file_part(packed: bytes, name: str) -> bytes:
    """Return a part, of which _put() and _advance() write at most MAX_PART_RAW_BYTES: a pod may be somebody else's."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed, MAX_PART_RAW_BYTES + 1)
    except zlib.error as error:
        raise DataError(f"ConfigMap {name} has no valid part of a file: {error}") from error
    if len(data) > MAX_PART_RAW_BYTES or not unpacker.eof:
        why = "it is larger than a part" if len(data) > MAX_PART_RAW_BYTES else "it is truncated"
        raise DataError(f"ConfigMap {name} has no valid part of a file: {why}")
    return data
