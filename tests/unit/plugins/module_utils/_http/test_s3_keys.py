# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of objects become files below one folder, or the download is refused before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3


class Connection:
    """The listing of a bucket."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def download_file(self, _bucket: str, key: str, path: str) -> None:
        Path(path).write_text(key, encoding="utf-8")


def download(monkeypatch: pytest.MonkeyPatch, folder: Path, *keys: str) -> int:
    listing: list[dict[str, Any]] = [{"Contents": [{"Key": key, "Size": 1} for key in keys]}]
    monkeypatch.setattr(s3, "create_s3_client", lambda _location: Connection(*keys))
    monkeypatch.setattr(s3, "list_pages", lambda *_more: iter(listing))
    return s3.download_objects_to_folder(s3.S3Location("bucket", "p"), folder)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("p/ok", "p/ok/sub"), "ok and ok/sub can't both be files here"),
        (("p/a/b/c", "p/x", "p/a"), "a and a/b/c can't both be files here"),
        (("p/../x",), "leads outside of the target directory"),
        (("p//etc/x",), "leads outside of the target directory"),
        (("p/a/./b",), "this key can't be the name of a file"),
        (("p/a/../b",), "this key can't be the name of a file"),
        (("p/a//b",), "this key can't be the name of a file"),
        (("p/" + "x" * 300,), "can't be written here"),
    ],
)
def test_keys_that_can_not_be_files_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keys: tuple[str, ...], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        download(monkeypatch, tmp_path / "into", *keys)
    assert not list(tmp_path.rglob("*x"))


def test_keys_become_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert download(monkeypatch, tmp_path, "p/run.yml", "p/points/001/plan.jsonl", "p/points/") == 2
    assert (tmp_path / "points" / "001" / "plan.jsonl").read_text() == "p/points/001/plan.jsonl"
