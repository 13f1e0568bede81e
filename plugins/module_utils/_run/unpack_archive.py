# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpack the archive of a run. Any damage is an error, and so is anything that is neither a file nor a folder.

The modules of Python read a damaged archive as far as they can: tarfile ends its list at the first bad header and never
reaches the checksum of the compressed data. An archive is therefore decompressed to its end before its list is read.
"""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import posixpath
import stat
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import disk_reserve, formats, tar_headers
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError

_Member = TypeVar("_Member", tarfile.TarInfo, zipfile.ZipInfo)

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
#: Limit of the unpacked size of an archive, against archive bombs.
MOST_BYTES = 64 * 2**30
#: Limit of the number of members of an archive: each takes memory and an inode, also if it is empty.
MOST_MEMBERS = 200_000
#: First bytes of compressed data -> what opens it.
_COMPRESSED: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
#: What damaged data raises in these modules. A method or an encryption that zipfile does not know: RuntimeError.
_DAMAGE = (OSError, EOFError, ValueError, RuntimeError, OverflowError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
_PIECE = 2**20


def unpack_archive(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a new folder and return it.

    Raises DataError for a damaged archive, for members outside of ``folder``, and for links and devices.
    """
    folder.mkdir()
    try:
        with open(archive, "rb") as stream:
            first = stream.read(8)
        if first.startswith(_ZIP_MAGIC):
            _unpack_zip(archive, folder)
        else:
            opener = next((opener for magic, opener in _COMPRESSED.items() if first.startswith(magic)), None)
            plain = archive if opener is None else _decompress(archive, folder.with_name(f"{folder.name}.tar"), opener)
            _unpack_tar(archive.name, plain, folder)
            if plain != archive:
                plain.unlink()
    except (*_DAMAGE, lzma.LZMAError) as error:
        raise DataError(f"{archive.name}: cannot be unpacked as {' '.join(ARCHIVES)}: {error}") from error
    return folder


def _decompress(archive: Path, target: Path, opener: Callable[..., Any]) -> Path:
    """Write the plain data to a file: reading to the end is what checks it."""
    size = 0
    with opener(archive, "rb") as packed, open(target, "wb") as plain:
        while piece := packed.read(_PIECE):
            size += len(piece)
            _check_size(archive.name, [size], target.parent, written=size)
            plain.write(piece)
    return target


def _unpack_tar(name: str, plain: Path, folder: Path) -> None:
    with open(plain, "rb") as stream, (reader := tar_headers.TarHeaderReader(stream, name)).opened() as tar:
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
        _refuse_special(
            archive.name,
            (
                member.filename
                for member, kind in zip(members, kinds, strict=True)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR)
            ),
        )
        _refuse_doubled(archive.name, (member.filename for member in members if not member.is_dir()))
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
    at = tail.rfind(_ZIP_MAGIC[1]) + 10
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


def _check_size(name: str, sizes: Iterable[int], folder: Path, written: int = 0) -> None:
    """Raise DataError for an archive that is too large, or would fill the disk of ``folder``. written: of its bytes."""
    total = sum(sizes)
    if total > MOST_BYTES:
        raise DataError(f"{name}: it would unpack to {total / 2**30:.0f} GiB, more than a run can have")
    disk_reserve.refuse_filling_disk(name, total, written, folder)
