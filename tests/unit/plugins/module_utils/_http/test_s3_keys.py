# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of objects become files below one folder, or the download is refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from scripted_server import Asked, ScriptedServer, reply


class Connection:
    """The listing of a bucket."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def download_file(self, _bucket: str, key: str, path: str, Callback: Callable[[int], None]) -> None:
        Path(path).write_text(key, encoding="utf-8")
        Callback(len(key))


def download(monkeypatch: pytest.MonkeyPatch, folder: Path, *keys: str, most_bytes: int = 1000) -> int:
    listing: list[dict[str, Any]] = [{"Contents": [{"Key": key, "Size": 1} for key in keys]}]
    monkeypatch.setattr(s3, "create_s3_client", lambda _location: Connection(*keys))
    monkeypatch.setattr(s3, "list_pages", lambda *_more: iter(listing))
    return s3.download_objects_to_folder(s3.S3Location("bucket", "p"), folder, most_bytes)


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


@pytest.mark.parametrize(
    ("most", "words"), [(2, "the objects have 3 bytes, 2 are the most"), (10, "the objects have more than 10 bytes")]
)
def test_objects_of_too_many_bytes_are_refused_by_their_listing_and_in_truth(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: int, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        download(monkeypatch, tmp_path, "p/one", "p/two", "p/three", most_bytes=most)
    assert not (tmp_path / "two").exists()


def test_the_size_of_objects_counts_while_boto3_receives_them(tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    listing = b"<ListBucketResult><Contents><Key>p/a</Key><Size>1</Size></Contents></ListBucketResult>"

    def answer(asked: Asked) -> bytes:
        if asked.method == "HEAD":
            return reply(200, b"x" * 100)[:-100]
        return reply(200, listing if "list-type=2" in asked.path else b"x" * 100)

    with ScriptedServer(answer) as server, pytest.raises(DataError, match="the objects have more than 50 bytes"):
        endpoint = f"http://127.0.0.1:{server.port}"
        location = s3.S3Location("bucket", "p", endpoint, access_key="a", secret_key="b")
        s3.download_objects_to_folder(location, tmp_path, 50)
    assert not list(tmp_path.iterdir())


def test_keys_become_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert download(monkeypatch, tmp_path, "p/run.yml", "p/points/001/plan.jsonl", "p/points/") == 2
    assert (tmp_path / "points" / "001" / "plan.jsonl").read_text() == "p/points/001/plan.jsonl"


def test_a_list_of_parts_without_an_end_is_an_error() -> None:
    def answer(asked: Asked) -> Any:
        if "uploadId" in asked.path:
            marker = len(server.asked)
            text = (
                f"<ListPartsResult><IsTruncated>true</IsTruncated><NextPartNumberMarker>{marker}</NextPartNumberMarker>"
            )
            return reply(200, (text + "</ListPartsResult>").encode(), Content_Type="application/xml")
        text = (
            "<ListMultipartUploadsResult><Upload><Key>p/big</Key><UploadId>u</UploadId>"
            "<Initiated>2026-11-01T10:00:00.000Z</Initiated></Upload></ListMultipartUploadsResult>"
        )
        return reply(200, text.encode(), Content_Type="application/xml")

    with ScriptedServer(answer) as server:
        location = s3.S3Location(
            "bucket", "p", f"http://127.0.0.1:{server.port}", access_key="A" * 20, secret_key="b" * 40
        )
        prefix = s3.S3Prefix(location, s3.create_s3_client(location), lambda _line: None)
        with pytest.raises(
            AccessError, match="s3://bucket/p/big: parts of an upload: the list has more than 100 pages"
        ):
            prefix._unfinished("big")


def test_an_error_does_not_show_the_password_of_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://jo:canary42@127.0.0.1:1")
    location = s3.S3Location("bucket", "p", "https://s3.example.com", access_key="A" * 20, secret_key="b" * 40)
    with pytest.raises(Exception) as caught, s3.s3_errors(location):
        s3.create_s3_client(location, timeout=3, attempts=1).head_object(Bucket="bucket", Key="k")
    assert "canary42" not in str(caught.value)
