# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives that somebody else made: their members with bounds, what is packed in files, unpacking into a folder.

A header of a tar file may say that a long name or an extended header of any size follows it, and tarfile reads that at
once: 3 MB of compressed data can take 12 GB of memory. For the secret gate, what is packed shows its first bytes,
whatever the name of the file is.

The archive of a run is unpacked whole: any damage is an error, and so is anything that is neither a file nor a folder.
The modules of Python read a damaged archive as far as they can: tarfile ends its list at the first bad header and never
reaches the checksum of the compressed data. An archive is therefore decompressed to its end before its list is read.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import itertools
import lzma
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

from . import disk_reserve, formats
from .errors import DataError, ProcessError

#: Limits of the headers of one member, with its long name and extended headers, and of those of all members, in bytes.
MOST_OF_MEMBER, MOST_OF_ALL = 2**20, 2**29


class TarHeaderReader:
    """The stream of a tar file, which reads headers up to a limit."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        """Read from ``stream``; name: of the file, for errors."""
        self._stream, self._name = stream, name
        self._all, self._left = 0, MOST_OF_MEMBER
        self._is_content = False

    def opened(self) -> tarfile.TarFile:
        """Return the tar file, whose members are those of ``members``."""
        return tarfile.open(fileobj=self, mode="r:")  # type: ignore[call-overload]  # reads and seeks

    def members(self, tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
        """Yield the members; between two of them, contents can be read. Raises DataError for headers beyond a limit."""
        while (member := tar.next()) is not None:
            self._is_content = True
            yield member
            self._is_content, self._left = False, MOST_OF_MEMBER
        self._is_content = True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes. Raises DataError for a header beyond a limit."""
        if self._is_content:
            return self._stream.read(size)
        if not 0 <= size <= self._left or self._all > MOST_OF_ALL:
            limit = MOST_OF_ALL if self._all > MOST_OF_ALL else MOST_OF_MEMBER
            raise DataError(
                f"{self._name}: it has headers of more than {limit / 2**20:.0f} MiB, more than a run can have"
            )
        self._left -= size
        self._all += size
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a byte."""
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """Return the number of the next byte."""
        return self._stream.tell()

    def seekable(self) -> bool:
        """Return whether ``seek`` works."""
        return self._stream.seekable()


#: Files are read in parts of PART bytes.
PART = 64 * 2**20
#: Limit of the unpacked size of a file, in bytes, and of the levels of packed files in packed files.
MOST_UNPACKED, MOST_LEVELS = 8 * 2**30, 6
#: Size up to which any file may be unpacked, in bytes; beyond it, only up to MOST_RATIO times its size. Texts are
#: packed to a fiftieth or so, and to search a GiB takes minutes.
ANY_UNPACKED, MOST_RATIO = 2**30, 100

#: First bytes of compressed data -> what opens it.
_COMPRESSED: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b\x08": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
#: Data of zlib, such as an object of Git, may begin like this, and so may others.
ZLIB_BEGINNINGS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
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
#: What damaged data raises in these modules. A method or an encryption that zipfile does not know: RuntimeError.
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    zlib.error,
)
#: Where a tar file says that it is one.
_TAR_AT, _TAR = 257, b"ustar"

Content = tuple[str, Iterable[bytes]]


def contents_including_packed_files(path: Path) -> Iterator[Content]:
    """Yield the content of a file, with an empty name, and of what is packed in it, with the names there.

    Raises DataError if it can't be unpacked.
    """
    yield "", _parts(path.open("rb"))
    try:
        with path.open("rb") as stream:
            _check_name(path, stream.read(_TAR_AT))
            stream.seek(0)
            packed = _PackedFile(path)
            if stream.read(2) in ZLIB_BEGINNINGS:
                stream.seek(0)
                yield "unpacked", packed.counted(_inflated(stream))
            stream.seek(0)
            yield from packed.members(stream, "", zipfile.is_zipfile(path))
    except _DAMAGE as error:
        raise DataError(
            f"{path}: it is packed and cannot be searched for secrets, so it is not exported: {error}"
        ) from error


class _PackedFile:
    """A file with the size of what it has been unpacked to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = 0
        self._most = min(MOST_UNPACKED, max(ANY_UNPACKED, MOST_RATIO * path.stat().st_size))

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
                names = [*tar.pax_headers.values()]
                for member in reader.members(tar):
                    names += [member.name, member.linkname, member.uname, member.gname, *member.pax_headers.values()]
                    self._count(member.size)
                    if content := tar.extractfile(member) if member.isfile() else None:
                        yield from self._inner(content, _joined(name, member.name), levels)
                yield _joined(name, "names"), ["\n".join(map(str, names)).encode("utf-8", "replace")]
                stream.seek(tar.offset)
                yield _joined(name, "end"), _parts(stream)
        elif is_zip:
            with zipfile.ZipFile(stream) as packed:
                for info in packed.infolist():
                    self._count(info.file_size)
                    if not info.is_dir():
                        yield from self._inner(packed.open(info), _joined(name, info.filename), levels)
                if name:  # what is around the data of a file that is packed in nothing was searched with it
                    around = [part for info in packed.infolist() for part in (info.filename.encode(), info.comment)]
                    yield _joined(name, "names"), [b"\n".join([packed.comment, *around])]

    def _inner(self, stream: IO[bytes], name: str, levels: int, alone: str = "") -> Iterator[Content]:
        """Yield the content of a file in a packed one, or what is packed in it. alone: name of one without a name."""
        with stream:
            first = stream.read(_TAR_AT + len(_TAR))
            stream.seek(0)
            if first.startswith(ZLIB_BEGINNINGS):
                yield name or alone, self.counted(_inflated(stream))
                stream.seek(0)
            is_zip = first.startswith(_ZIP)
            if not (is_zip or first.startswith((*_COMPRESSED, *_UNKNOWN)) or first[_TAR_AT:] == _TAR):
                yield name or alone, self.counted(_parts(stream)) if alone else _parts(stream)
            else:
                yield from self.members(stream, name, is_zip, levels - 1)

    def counted(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield parts. Raises DataError beyond the limit."""
        for part in parts:
            self._count(len(part))
            yield part

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._most:
            raise DataError(f"{self.path}: it unpacks to more than {self._most / 2**30:.3g} GiB, too much to search")


def _check_name(path: Path, first: bytes) -> None:
    """Raise ValueError for a file that has the name of a packed one only: it may be a damaged one."""
    if first and path.suffix in _SUFFIXES and not first.startswith(tuple(_COMPRESSED)):
        raise ValueError(f"it is no {path.suffix} file")


def _inflated(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield what data of zlib unpack to: nothing more from where they are none, as a text that begins like them."""
    unpacker = zlib.decompressobj()
    with contextlib.suppress(zlib.error):
        while (part := unpacker.unconsumed_tail or stream.read(_PIECE)) and not unpacker.eof:
            yield unpacker.decompress(part, PART)


def _joined(name: str, inner: str) -> str:
    return f"{name}/{inner}" if name else inner


def _parts(stream: IO[bytes]) -> Iterator[bytes]:
    with stream:
        while part := stream.read(PART):
            yield part


_Member = TypeVar("_Member", tarfile.TarInfo, zipfile.ZipInfo)

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
#: Limit of the unpacked size of an archive, against archive bombs.
MOST_BYTES = 64 * 2**30
#: Most times the size of a compressed archive, beyond the bytes that any may have. Files of runs shrink to a 30th.
MOST_EXPANSION, ALWAYS_UNPACKED = 300, 2**30
#: Limit of the number of members of an archive: each takes memory and an inode, also if it is empty.
MOST_MEMBERS = 200_000
_PIECE = 2**20


def unpack_archive(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a new folder and return it.

    Raises DataError for a damaged archive, for members outside of ``folder``, and for links and devices.
    """
    folder.mkdir()
    try:
        with open(archive, "rb") as stream:
            first = stream.read(8)
        if first.startswith(_ZIP):
            _unpack_zip(archive, folder)
        else:
            opener = next((opener for magic, opener in _COMPRESSED.items() if first.startswith(magic)), None)
            plain = archive if opener is None else _decompress(archive, folder.with_name(f"{folder.name}.tar"), opener)
            _unpack_tar(archive.name, plain, folder)
            if plain != archive:
                plain.unlink()
    except _DAMAGE as error:
        raise DataError(f"{archive.name}: cannot be unpacked as {' '.join(ARCHIVES)}: {error}") from error
    return folder


def _decompress(archive: Path, target: Path, opener: Callable[..., Any]) -> Path:
    """Write the plain data to a file: reading to the end is what checks it."""
    size = 0
    with opener(archive, "rb") as packed, open(target, "wb") as plain:
        while piece := packed.read(_PIECE):
            size += len(piece)
            _check_expansion(archive, size)
            _check_size(archive.name, [size], target.parent, written=size)
            plain.write(piece)
    return target


def _unpack_tar(name: str, plain: Path, folder: Path) -> None:
    with open(plain, "rb") as stream, (reader := TarHeaderReader(stream, name)).opened() as tar:
        members = _list_limited_members(name, reader.members(tar))
        _refuse_special(name, (member.name for member in members if not (member.isreg() or member.isdir())))
        _refuse_doubled(name, (member.name for member in members if member.isreg()))
        _check_size(name, (member.size for member in members), folder)
        _refuse_bad_header(name, plain, tar.offset)
        tar.extractall(folder, members, filter="data")


def _list_limited_members(name: str, found: Iterable[_Member]) -> list[_Member]:
    """Return the members of an archive. Raises DataError for more than a run can have."""
    members = list(itertools.islice(found, MOST_MEMBERS + 1))
    if len(members) > MOST_MEMBERS:
        raise DataError(f"{name}: it has more than {MOST_MEMBERS:,} members, more than a run can have")
    return members


def _refuse_bad_header(name: str, plain: Path, offset: int) -> None:
    """Raise DataError unless the list of members ended at a block of zeros, as a whole archive does."""
    with open(plain, "rb") as stream:
        stream.seek(offset)
        block = stream.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE or block.strip(b"\0"):
        why = "it is truncated" if len(block) < tarfile.BLOCKSIZE else "a member has a damaged header"
        raise DataError(f"{name}: cannot be unpacked: {why} (at byte {offset:,} of the tar file)")


def _unpack_zip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        members = _list_limited_members(archive.name, packed.infolist())
        kinds = (stat.S_IFMT(member.external_attr >> 16) for member in members)
        pairs = zip(members, kinds, strict=True)
        special = (member.filename for member, kind in pairs if kind not in (0, stat.S_IFREG, stat.S_IFDIR))
        _refuse_special(archive.name, special)
        _refuse_doubled(archive.name, (member.filename for member in members if not member.is_dir()))
        _check_expansion(archive, sum(member.file_size for member in members))
        _check_size(archive.name, (member.file_size for member in members), folder)
        _refuse_short_list(archive, len(members))
        for member in members:
            packed.open(member).close()  # compares the name with the one beside the data, also of a folder
        packed.extractall(folder)  # drops drives, roots and .. of names; checks the sum of each member


def _refuse_short_list(archive: Path, members: int) -> None:
    """Raise DataError unless a zip file has as many members as its end says: a damaged length hides those after it."""
    with open(archive, "rb") as stream:
        stream.seek(-min(archive.stat().st_size, 2**16 + 22), 2)
        tail = stream.read()
    at = tail.rfind(_ZIP[1]) + 10
    stated = int.from_bytes(tail[at : at + 2], "little")
    if stated not in (members, 0xFFFF):  # which stands for a larger number elsewhere
        raise DataError(f"{archive.name}: cannot be unpacked: {members} members were found, and its end says {stated}")


def _refuse_special(name: str, members: Iterable[str]) -> None:
    """Raise DataError for members that are neither files nor folders: without them the run would not be whole."""
    if special := list(members):
        raise DataError(
            f"{name}: links and devices are not unpacked, and it has {formats.format_list(special)}: pack the files "
            "themselves, such as with tar --dereference"
        )


def _refuse_doubled(name: str, files: Iterable[str]) -> None:
    """Raise DataError for files that are there twice: nobody knows which of them is that of the run."""
    counts = Counter(map(posixpath.normpath, files))
    if doubled := [path for path, count in counts.items() if count > 1]:
        raise DataError(f"{name}: it has files of the same name: {formats.format_list(doubled, 3)}")


def _check_expansion(archive: Path, size: int) -> None:
    if size > max(ALWAYS_UNPACKED, MOST_EXPANSION * archive.stat().st_size):
        raise DataError(f"{archive.name}: it expands to more than {MOST_EXPANSION} times its size")


def _check_size(name: str, sizes: Iterable[int], folder: Path, written: int = 0) -> None:
    """Raise DataError for an archive that is too large, or would fill the disk of ``folder``. written: of its bytes."""
    total = sum(sizes)
    if total > MOST_BYTES:
        raise DataError(f"{name}: it would unpack to {total / 2**30:.0f} GiB, more than a run can have")
    disk_reserve.refuse_filling_disk(name, total, written, folder)


def extract_program_from_archive(archive: Path, program: str, path: Path, url: str) -> None:
    """Write a program of an archive to ``path``. url: where the archive is from. Raises ProcessError."""
    try:
        with open(archive, "rb") as packed:
            first = packed.read(8)
        opener = next((opener for magic, opener in _COMPRESSED.items() if first.startswith(magic)), open)
        with opener(archive, "rb") as stream, (reader := TarHeaderReader(stream, url)).opened() as tar:
            for member in reader.members(tar):
                if tar.offset > MOST_UNPACKED:
                    raise DataError(f"it has more than {MOST_UNPACKED / 2**30:.0f} GiB before the end of {program}")
                if Path(member.name).name == program and (content := tar.extractfile(member)) is not None:
                    disk_reserve.refuse_filling_disk(program, member.size, 0, path.parent)
                    with open(path, "wb") as target:
                        shutil.copyfileobj(content, target)
                    return
    except (*_DAMAGE, DataError) as error:
        raise ProcessError(f"{url} cannot be unpacked: {error}") from error
    raise ProcessError(f"{url} does not contain {program}")
