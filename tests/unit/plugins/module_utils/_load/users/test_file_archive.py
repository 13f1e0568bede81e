# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An archive replaces the files of a user only if it is whole and stays in its folder."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.users import fetch_large_user_files


def packed(folder: Path, names: list[str], mode: Any) -> Path:
    path = folder / "files"
    with tarfile.open(path, mode) as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 50_000
            archive.addfile(entry, io.BytesIO(bytes(range(250)) * 200))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_the_folder_has_the_files_of_the_archive_only(tmp_path: Path, mode: str) -> None:
    to = tmp_path / "0" / "files"
    to.mkdir(parents=True)
    (to / "old").write_text("x")
    assert fetch_large_user_files.extract_archive(packed(tmp_path, ["a", "deep/b"], mode), to, "files") == 2
    assert fetch_large_user_files.count_files(to) == 2 and (to / "deep" / "b").stat().st_size == 50_000
    assert (
        fetch_large_user_files.extract_archive(packed(tmp_path, [], mode), to, "files") == 0
        and list(to.iterdir()) == []
    )


@pytest.mark.parametrize("harm", ["cut", "changed", "elsewhere", "no archive"])
def test_a_damaged_archive_replaces_nothing(tmp_path: Path, harm: str) -> None:
    to = tmp_path / "0" / "files"
    to.mkdir(parents=True)
    (to / "old").write_text("x")
    path = packed(tmp_path, ["../../out" if harm == "elsewhere" else "a"], "w:gz")
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "cut": whole[:middle],
            "changed": whole[:middle] + bytes(20) + whole[middle + 20 :],
            "no archive": b"nothing",
        }.get(harm, whole)
    )
    with pytest.raises(DataError, match="files of p: "):
        fetch_large_user_files.extract_archive(path, to, "files of p")
    assert [one.name for one in to.iterdir()] == ["old"] and not list(tmp_path.rglob("out"))


def test_a_hard_link_comes_as_a_file_and_what_no_pod_of_ours_sends_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    path, to = tmp_path / "archive", tmp_path / "0" / "files"
    to.parent.mkdir()
    with tarfile.open(path, "w") as archive:
        for name in ("a", "b"):
            archive.add(tmp_path / name, name)
    assert fetch_large_user_files.extract_archive(path, to, "files") == 2 and (to / "b").read_text() == "x"
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "a"
    sparse = tarfile.TarInfo("operations.jsonl")
    sparse.size = 4
    sparse.pax_headers = {"GNU.sparse.map": "0,4", "GNU.sparse.size": str(1 << 40), "GNU.sparse.numblocks": "1"}
    for member, kind in ((link, "symbolic link"), (sparse, "sparse file")):
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
            archive.addfile(member, io.BytesIO(b"{}\n{") if member.size else None)
        with pytest.raises(DataError, match=f"files of p: {member.name} is a {kind}"):
            fetch_large_user_files.extract_archive(path, to, "files of p")
    assert sorted(one.name for one in to.iterdir()) == ["a", "b"]
