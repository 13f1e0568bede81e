# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A damaged archive is refused with a sentence, or gives what it was made of; nothing in it is left out silently."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import disk_reserve, untrusted_archives
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import untrusted_archives as unpacking
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_archives import unpack_archive
from hypothesis import given, settings
from hypothesis import strategies as some
from tar_files import giant_header

KINDS = [".tar.gz", ".tar.bz2", ".tar.xz", ".zip"]
CONTENT = {"run.yml": b"id: t1121-abcdef\n" * 9, "points/001/plan.jsonl": b'{"index": 1}\n' * 30, "empty": b""}


def pack(folder: Path, kind: str) -> bytes:
    source, archive = folder / "source", folder / f"run{kind}"
    for name, content in CONTENT.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    if kind == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted(source.rglob("*")):
                packed.write(path, path.relative_to(source))
    else:
        with tarfile.open(archive, f"w:{kind.removeprefix('.tar.')}") as tar:  # type: ignore[call-overload]
            tar.add(source, arcname=".")
    return archive.read_bytes()


@pytest.fixture(scope="module")
def archives() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return {kind: pack(Path(folder) / kind, kind) for kind in KINDS if (Path(folder) / kind).mkdir() is None}


def unpacked(content: bytes, name: str = "run.bin") -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as top:
        archive = Path(top) / name
        archive.write_bytes(content)
        folder = unpack_archive(archive, Path(top) / "out")
        assert sorted(path.name for path in Path(top).iterdir()) == ["out", name]
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=250, deadline=None)
@given(place=some.floats(0, 1, exclude_max=True))
def test_any_flipped_bit_is_noticed_or_changes_nothing(archives: dict[str, bytes], kind: str, place: float) -> None:
    damaged = bytearray(archives[kind])
    bit = int(place * len(damaged) * 8)
    damaged[bit // 8] ^= 1 << bit % 8
    try:
        assert unpacked(bytes(damaged)) == CONTENT
    except DataError as error:
        assert str(error).startswith("run.bin: ") and "\n" not in str(error)


@pytest.mark.parametrize("kind", [*KINDS, ".tar"])
@settings(max_examples=40, deadline=None)
@given(share=some.floats(0, 1, exclude_max=True))
def test_a_truncated_archive_is_refused(archives: dict[str, bytes], kind: str, share: float) -> None:
    if kind == ".tar":
        with tempfile.TemporaryDirectory() as top:
            pack(Path(top), ".tar.gz")
            with tarfile.open(Path(top) / "x.tar", "w") as tar:
                tar.add(Path(top) / "source", arcname=".")
            whole = (Path(top) / "x.tar").read_bytes().rstrip(b"\0")
    else:
        whole = archives[kind]
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpacked(whole[: int(share * len(whole))])


def test_an_archive_that_zipfile_can_not_read_is_refused_in_one_sentence(archives: dict[str, bytes]) -> None:
    whole = archives[".zip"]
    at = whole.index(b"PK\x01\x02")
    for offset, value in ((8, 0x01), (10, 0x63), (6, 0xFF)):  # encrypted, an unknown method, an unknown version
        broken = bytearray(whole)
        place = whole.index(b"PK\x01\x02", at + 1) + offset  # of a file: the first member may be a folder
        broken[place] |= value
        with pytest.raises(DataError, match="cannot be unpacked"):
            unpacked(bytes(broken))


def test_links_in_an_archive_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "request.yml").symlink_to("/etc/passwd")
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.add(tmp_path / "request.yml", arcname="request.yml")
    with pytest.raises(DataError, match="links and devices are not unpacked, and it has request.yml"):
        unpacked((tmp_path / "x.tar").read_bytes())
    entry = zipfile.ZipInfo("points/001/ledger.jsonl")
    entry.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr(entry, "/etc/passwd")
    with pytest.raises(DataError, match="it has points/001/ledger.jsonl"):
        unpacked((tmp_path / "x.zip").read_bytes())


def leave_free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage._replace(free=size))


@pytest.mark.parametrize("kind", [".tar.gz", ".zip"])
def test_an_archive_that_would_fill_the_disk_is_refused(
    archives: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    leave_free(monkeypatch, 1000)  # its files have 543 bytes, and as many stay free
    with pytest.raises(DataError, match=r"it unpacks to 0\.0\d+ MiB or more, and 0\.00095 MiB are free in /"):
        unpacked(archives[kind])


def test_a_large_archive_leaves_a_part_of_the_disk_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = tarfile.TarInfo("points/001/ledger.jsonl")
    entry.size = 2**31
    archive = tmp_path / "run.tar"
    archive.write_bytes(entry.tobuf())
    with archive.open("r+b") as stream:  # a file with a hole, which takes no room
        stream.truncate(2**31 + 2 * tarfile.RECORDSIZE)
    leave_free(monkeypatch, 2**31 + 2**30 - 1)
    words = f"it unpacks to 2,048 MiB or more, and 3,072 MiB are free in {tmp_path / 'out'}"
    with pytest.raises(DataError, match=words):
        unpack_archive(archive, tmp_path / "out")


@pytest.mark.parametrize("kind", [*KINDS, ".tar"])
def test_a_small_archive_is_unpacked_on_a_small_disk(
    archives: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    leave_free(monkeypatch, 2**20)
    whole = gzip.decompress(archives[".tar.gz"]) if kind == ".tar" else archives[kind]
    assert unpacked(whole) == CONTENT


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_with_more_members_than_a_run_can_have_is_refused_before_they_are_unpacked(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(tmp_path, kind)
    archive = tmp_path / f"run{kind}"
    monkeypatch.setattr(unpacking, "MOST_MEMBERS", 2)
    with pytest.raises(DataError, match="it has more than 2 members"):
        unpack_archive(archive, tmp_path / "unpacked")
    assert not list((tmp_path / "unpacked").iterdir())


@pytest.mark.parametrize("kind", [".tar.gz", ".zip"])
@pytest.mark.parametrize("name", ["run.yml", "./run.yml", "points/../run.yml"])
def test_a_file_that_is_there_twice_is_refused(tmp_path: Path, kind: str, name: str) -> None:
    archive = tmp_path / f"run{kind}"
    (tmp_path / "run.yml").write_text("id: a")
    if kind == ".zip":
        with zipfile.ZipFile(archive, "w") as packed, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of zipfile, about the name
            for member in ("run.yml", name):
                packed.writestr(zipfile.ZipInfo(member), "id: a")
    else:
        with tarfile.open(archive, "w:gz") as tar:
            for member in ("run.yml", name):
                tar.add(tmp_path / "run.yml", member)
    with pytest.raises(DataError, match="it has files of the same name: run.yml"):
        unpack_archive(archive, tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_an_archive_with_a_giant_header_is_refused_before_it_is_read(kind: bytes) -> None:
    with pytest.raises(DataError, match="headers of more than 1 MiB"):
        unpacked(gzip.compress(giant_header(kind)))


def test_many_large_headers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted_archives, "MOST_OF_ALL", 2**21)
    one = giant_header(tarfile.GNUTYPE_LONGNAME, 2**19)[:-1024]
    with pytest.raises(DataError, match="headers of more than 2 MiB"):
        unpacked(one * 9 + bytes(1024))


def packed_program(folder: Path, name: str, kind: str = "gz") -> Path:
    (folder / "content").write_bytes(b"x" * 5000)
    with tarfile.open(folder / "tools.tar", f"w:{kind}") as tar:  # type: ignore[call-overload]
        tar.add(folder / "content", f"bin/{name}")
    return folder / "tools.tar"


@pytest.mark.parametrize("kind", ["", "gz", "bz2", "xz"])
def test_a_program_is_taken_out_of_an_archive(tmp_path: Path, kind: str) -> None:
    archive = packed_program(tmp_path, "oc", kind)
    unpacking.extract_program_from_archive(archive, "oc", tmp_path / "oc", "https://m/oc.tar")
    assert (tmp_path / "oc").read_bytes() == b"x" * 5000
    with pytest.raises(ProcessError, match="https://m/oc.tar does not contain kubectl"):
        unpacking.extract_program_from_archive(archive, "kubectl", tmp_path / "kubectl", "https://m/oc.tar")


def test_a_program_that_fills_the_disk_or_hides_behind_gibibytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = packed_program(tmp_path, "oc")
    monkeypatch.setattr(disk_reserve.shutil, "disk_usage", lambda _folder: SimpleNamespace(free=4000))
    with pytest.raises(ProcessError, match="https://m cannot be unpacked: oc: it unpacks to"):
        unpacking.extract_program_from_archive(archive, "oc", tmp_path / "oc", "https://m")
    monkeypatch.undo()
    monkeypatch.setattr(unpacking, "MOST_UNPACKED", 4000)
    with pytest.raises(ProcessError, match="https://m cannot be unpacked: it has more than 0 GiB before the end of"):
        unpacking.extract_program_from_archive(archive, "kubectl", tmp_path / "oc", "https://m")
    assert not (tmp_path / "oc").exists()


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08damaged", giant_header(tarfile.GNUTYPE_LONGNAME)])
def test_an_archive_of_programs_that_is_damaged_is_one_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(ProcessError, match="^https://m "):
        unpacking.extract_program_from_archive(tmp_path / "a.tar.gz", "oc", tmp_path / "oc", "https://m")
