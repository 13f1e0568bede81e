# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Uploads the files of a client of a load from its pod to an S3 server, if they are too large for the API server.

They are one archive, all that is needed to collect a load, also when its pod and its controller are gone: a gzip stream
of the manifest (one line of JSON, with checksums and the outcome of the load) and of the files one after another.

The pod has no credentials of the S3 server. The Secret ``<name>-upload`` has a presigned URL for each client, with
which one object can be written until the URL expires. If the upload is refused, the pod keeps the files, reports why,
and waits for another URL. Standard library only.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import json
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import disk_reserve
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    DataError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind

from . import presigned_upload

_BLOCK = MOST_MANIFEST = 1 << 20
#: The lowest one: the lines of a load shrink to a tenth with it, and higher levels take several times as long.
_LEVEL = 1


def pack_result_files(files: Sequence[tuple[str, Path]], outcome: Mapping[str, Any], target: Path) -> None:
    """Write files and outcome to ``target``. files: (kind, path); the kind is any word of the caller."""
    listed = [
        {"kind": kind, "name": path.name, "size": path.stat().st_size, "sha256": _files.sha256_of(path)}
        for kind, path in files
    ]
    with gzip.GzipFile(target, "wb", compresslevel=_LEVEL, mtime=0) as stream:
        stream.write(f"{json.dumps({'outcome': dict(outcome), 'files': listed})}\n".encode())
        for _kind, path in files:
            with open(path, "rb") as source:
                while block := source.read(_BLOCK):
                    stream.write(block)


def unpack_result_files(archive: Path, target: Callable[[str, str], Path | None]) -> dict[str, Any]:
    """Write the files of an archive; return the outcome.

    target: returns the path of a file from its kind and name, None if it is not needed. No file is replaced before all
    are verified. Raises DataError if the archive is damaged.
    """
    done: list[tuple[Path, Path]] = []
    try:
        with gzip.open(archive, "rb") as stream:
            if len(line := stream.readline(MOST_MANIFEST + 1)) > MOST_MANIFEST:
                raise DataError(f"its manifest has more than {MOST_MANIFEST} bytes")
            manifest = parse_json(line)
            outcome = dict(manifest["outcome"])
            for file in manifest["files"]:
                path = target(file["kind"], Path(file["name"]).name)
                aside = path.with_name(f".{path.name}.unpacked") if path is not None else None
                if path is not None and aside is not None:
                    done.append((aside, path))
                _copy_archive_entry(stream, file, aside)
            if stream.read(1):
                raise DataError("it is longer than its manifest says")
    except (OSError, EOFError, zlib.error, ValueError, KeyError, DataError) as error:
        for aside, _path in done:
            aside.unlink(missing_ok=True)
        if isinstance(error, FileNotFoundError):
            raise
        raise DataError(f"the archive of the load's files, {archive.name}, is damaged: {error}") from error
    for aside, path in done:
        aside.replace(path)
    return outcome


def _copy_archive_entry(stream: gzip.GzipFile, entry: Mapping[str, Any], aside: Path | None) -> None:
    """Copy one file out of the stream. Raises DataError if its size or its checksum is another one."""
    digest, left = hashlib.sha256(), int(entry["size"])
    if left < 0:
        raise DataError(f"{entry['name']} has {left} bytes")
    if aside is not None:
        disk_reserve.refuse_filling_disk(str(entry["name"]), left, 0, aside.parent)
    sink: BinaryIO | None = open(aside, "wb") if aside is not None else None  # noqa: SIM115
    try:
        while left:
            block = stream.read(min(_BLOCK, left))
            if not block:
                raise DataError(f"{entry['name']} ends {left} bytes early")
            digest.update(block)
            left -= len(block)
            if sink is not None:
                sink.write(block)
    finally:
        if sink is not None:
            sink.close()
    if digest.hexdigest() != entry["sha256"]:
        raise DataError(f"the checksum of {entry['name']} differs")


SECRET = ServedKind("v1", "Secret", "secrets", True)
#: Key of the certificate authority in the Secret of the URLs; those of the URLs are the numbers of the clients.
AUTHORITY = "ca.crt"
#: Kind of the record of an uploaded archive.
ARCHIVE = "archive"
#: How the report starts if no URL was given.
NO_SERVER = "they are too large for the API server, and no S3 server is set"
#: Bytes, compressed, that a load sends through the API server: an eighth of the default quota of etcd, 2 GiB.
DEFAULT_COLLECT_BYTES = 256 << 20
#: Maximum of S3 for an object that is written by one request.
_MOST_OBJECT = 5 << 30
#: Pause before the next attempt, seconds.
_PAUSE = 5.0


def url_secret_name(name: str) -> str:
    """Return the name of the Secret with the URLs of a load."""
    return f"{name}-upload"


@dataclass(frozen=True)
class ResultUpload:
    """The upload of one client.

    name: of the load. key: number of the client in the Secret. patience: how long to keep the files and wait for a URL,
    seconds. report: shows why the files are still here. ended: returns whether the load is being deleted.
    """

    client: Client
    namespace: str
    name: str
    key: str
    patience: float
    report: Callable[[str], None]
    ended: Callable[[], bool]

    def send(
        self, files: Sequence[tuple[str, Path]], outcome: Mapping[str, Any], folder: Path, pause: float = _PAUSE
    ) -> dict[str, Any]:
        """Upload the files with the outcome; return the record of the archive. folder: for the archive.

        Raises ProcessError if they were not collected in time, or are too large.
        """
        archive = folder / "results.gz"
        pack_result_files(files, outcome, archive)
        size = archive.stat().st_size
        if size > _MOST_OBJECT:
            raise ProcessError(f"the files have {size / 1e9:.1f} GB, the maximum of one upload is 5.4 GB")
        began, refused, reason = time.monotonic(), "", ""
        while True:
            now = self._try(archive, size, refused)
            if now is None:
                return {"kind": ARCHIVE, "key": self.key, "size": size, "sha256": _files.sha256_of(archive)}
            refused, text = now
            if text != reason:
                reason = text
                self.report(reason)
            if self.ended() or time.monotonic() - began > self.patience:
                raise ProcessError(f"its files were not collected: {reason}")
            time.sleep(pause)

    def _try(self, archive: Path, size: int, refused: str) -> tuple[str, str] | None:
        """Upload once; return None, or the URL that the server no longer accepts, and why the files are still here."""
        held = f"{size / 1e6:.1f} MB compressed"
        try:
            secret = self.client.get(SECRET, url_secret_name(self.name), self.namespace)
        except (AccessError, ApiError) as error:
            return refused, f"the URL for {held} cannot be read: {error}"
        data = {key: base64.b64decode(value).decode() for key, value in ((secret or {}).get("data") or {}).items()}
        url = data.get(self.key, "")
        if not url:
            return "", f"{NO_SERVER}: {held}"
        if url == refused:
            return refused, f"the S3 server has refused {held}, and there is no new URL"
        try:
            presigned_upload.put_file(url, archive, data.get(AUTHORITY, ""))
        except presigned_upload.Refused as error:
            return url, f"the S3 server refuses {held}: {error}"
        except (OSError, http.client.HTTPException) as error:
            return "", f"the S3 server takes no {held}: {type(error).__name__}: {error}"
        return None
