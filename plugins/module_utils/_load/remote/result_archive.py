# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a load in one compressed archive, with their checksums and the outcome of the load.

The archive is all that is needed to collect a load, also when its pod and its controller are gone. It is a gzip stream
of the manifest (one line of JSON) and of the files one after another. Packing and unpacking need little memory.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError

_BLOCK = 1 << 20
#: The lowest one: the lines of a load shrink to a tenth with it, and higher levels take several times as long.
_LEVEL = 1


def pack(files: Sequence[tuple[str, Path]], outcome: Mapping[str, Any], target: Path) -> None:
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


def unpack(archive: Path, target: Callable[[str, str], Path | None]) -> dict[str, Any]:
    """Write the files of an archive; return the outcome.

    target: returns the path of a file from its kind and name, None if it is not needed. No file is replaced before all
    are verified. Raises DataError if the archive is damaged.
    """
    done: list[tuple[Path, Path]] = []
    try:
        with gzip.open(archive, "rb") as stream:
            manifest = json.loads(stream.readline())
            outcome = dict(manifest["outcome"])
            for one in manifest["files"]:
                path = target(one["kind"], Path(one["name"]).name)
                aside = path.with_name(f".{path.name}.unpacked") if path is not None else None
                if path is not None and aside is not None:
                    done.append((aside, path))
                _copy(stream, one, aside)
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


def _copy(stream: gzip.GzipFile, one: Mapping[str, Any], aside: Path | None) -> None:
    """Copy one file out of the stream. Raises DataError if its size or its checksum is another one."""
    digest, left = hashlib.sha256(), int(one["size"])
    sink: BinaryIO | None = open(aside, "wb") if aside is not None else None  # noqa: SIM115
    try:
        while left:
            block = stream.read(min(_BLOCK, left))
            if not block:
                raise DataError(f"{one['name']} ends {left} bytes early")
            digest.update(block)
            left -= len(block)
            if sink is not None:
                sink.write(block)
    finally:
        if sink is not None:
            sink.close()
    if digest.hexdigest() != one["sha256"]:
        raise DataError(f"the checksum of {one['name']} differs")
