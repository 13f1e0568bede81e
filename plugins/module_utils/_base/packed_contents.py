# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contents of packed files, also of those in packed files, for the secret gate.

What is packed shows its first bytes, whatever the name of the file is.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from .errors import DataError
from .tar_headers import TarHeaderReader

#: Files are read in parts of PART bytes.
PART = 64 * 2**20
#: Limit of the unpacked size of a file, in bytes, and of the levels of packed files in packed files.
MOST_UNPACKED, MOST_LEVELS = 8 * 2**30, 6

_COMPRESSED: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b\x08": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
_SUFFIXES = (".gz", ".tgz", ".bz2", ".xz")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
#: What Python can't unpack.
_UNKNOWN = {
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!\x1a\x07": "RAR",
    b"\x04\x22\x4d\x18": "LZ4",
    b"]\x00\x00": "LZMA",
    b"LZIP": "lzip",
    b"\x89LZO": "lzop",
    b"\x1f\x9d": "compress",
    b"\xff\x06\x00\x00sNaPpY": "Snappy",
    b"MSCF\x00": "a cabinet",
}
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    zlib.error,
)
#: Where a tar file says that it is one.
_TAR_AT, _TAR = 257, b"ustar"

Content = tuple[str, Iterable[bytes]]


def read_unpacked_contents(path: Path) -> Iterator[Content]:
    """Yield the content of a file, with an empty name, and of what is packed in it, with the names there.

    Raises DataError if it can't be unpacked.
    """
    yield "", _parts(path.open("rb"))
    try:
        with path.open("rb") as stream:
            _check_name(path, stream.read(_TAR_AT))
            stream.seek(0)
            yield from _PackedFile(path).members(stream, "", zipfile.is_zipfile(path))
    except _DAMAGE as error:
        raise DataError(
            f"{path}: it is packed and cannot be searched for secrets, so it is not exported: {error}"
        ) from error


class _PackedFile:
    """A file with the size of what it has been unpacked to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = 0

    def members(self, stream: IO[bytes], name: str, is_zip: bool, levels: int = MOST_LEVELS) -> Iterator[Content]:
        """Yield what is packed in a file. name: of the file in the packed one, empty for that one itself."""
        first = stream.read(_TAR_AT + len(_TAR))
        stream.seek(0)
        opener = next((opener for magic, opener in _COMPRESSED.items() if first.startswith(magic)), None)
        if unknown := next((word for magic, word in _UNKNOWN.items() if first.startswith(magic)), ""):
            raise ValueError(f"{name or 'it'} is of {unknown}, which can't be unpacked here")
        is_tar = first[_TAR_AT:] == _TAR
        if levels == 0 and (opener or is_tar or is_zip):
            raise ValueError(f"it has packed files in packed files, more than {MOST_LEVELS} levels")
        if opener:
            with opener(stream, "rb") as unpacked:
                yield from self._inner(unpacked, name, levels, "unpacked")
        elif is_tar:
            reader = TarHeaderReader(stream, str(self.path))
            with reader.opened() as tar:
                names = []
                for member in reader.members(tar):
                    names.append(member.name)
                    self._count(member.size)
                    if content := tar.extractfile(member) if member.isfile() else None:
                        yield from self._inner(content, _joined(name, member.name), levels)
            yield _joined(name, "names"), ["\n".join(names).encode("utf-8", "replace")]
        elif is_zip:
            with zipfile.ZipFile(stream) as packed:
                for info in packed.infolist():
                    self._count(info.file_size)
                    if not info.is_dir():
                        yield from self._inner(packed.open(info), _joined(name, info.filename), levels)

    def _inner(self, stream: IO[bytes], name: str, levels: int, alone: str = "") -> Iterator[Content]:
        """Yield the content of a file in a packed one, or what is packed in it. alone: name of one without a name."""
        with stream:
            first = stream.read(_TAR_AT + len(_TAR))
            stream.seek(0)
            is_zip = first.startswith(_ZIP)
            if not (is_zip or first.startswith((*_COMPRESSED, *_UNKNOWN)) or first[_TAR_AT:] == _TAR):
                yield name or alone, self._counted(_parts(stream)) if alone else _parts(stream)
            else:
                yield from self.members(stream, name, is_zip, levels - 1)

    def _counted(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            self._count(len(part))
            yield part

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MOST_UNPACKED:
            raise DataError(f"{self.path}: it unpacks to more than {MOST_UNPACKED / 2**30:.0f} GiB, too much to search")


def _check_name(path: Path, first: bytes) -> None:
    """Raise ValueError for a file that has the name of a packed one only: it may be a damaged one."""
    if first and path.suffix in _SUFFIXES and not first.startswith(tuple(_COMPRESSED)):
        raise ValueError(f"it is no {path.suffix} file")


def _joined(name: str, inner: str) -> str:
    return f"{name}/{inner}" if name else inner


def _parts(stream: IO[bytes]) -> Iterator[bytes]:
    with stream:
        while part := stream.read(PART):
            yield part
