# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What users upload is recorded before, and refused if its URLs have no room. The server: test_users_s3.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import disk_reserve, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.users import fetch_large_user_files
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.users.fetch_large_user_files import UserUploads
from scripted_server import Asked, ScriptedServer, reply

S3 = {"url": "s3://results/x", "endpoint": "http://127.0.0.1:9", "access_key": "key", "secret_key": "5ec2e7"}


class NoCluster:
    """Fails the test if anything is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def uploads(folder: Path, count: int, point: str = "001") -> UserUploads:
    found = UserUploads.from_params({"collect_s3": S3}, "n", "run-aa", point, folder / "users", count)
    assert found is not None
    return found


def test_without_a_server_there_are_no_uploads(tmp_path: Path) -> None:
    assert UserUploads.from_params({"collect_s3": {}}, "n", "run-aa", "001", tmp_path, 2) is None
    assert fetch_large_user_files.number_of_expected_uploads(tmp_path) is None


def test_objects_and_secret_belong_to_one_point_and_no_client_of_a_load_has_the_same(tmp_path: Path) -> None:
    found = uploads(tmp_path, 2, "003-2")
    assert found.secret == "run-aa-003r2-upload"
    assert found.store.record()["keys"] == ["x/run-aa/003-2/users/0.gz", "x/run-aa/003-2/users/1.gz"]
    assert S3["secret_key"] not in repr(found)


def test_more_users_than_a_secret_has_room_for_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    with pytest.raises(InputError, match=r"the URLs for 4,?000 users do not fit .*room for about [23],?\d{3}: "):
        uploads(tmp_path, 4_000).prepare(NoCluster())  # type: ignore[arg-type]
    assert not (tmp_path / "users").exists()


def test_the_record_tells_how_many_users_there_were(tmp_path: Path) -> None:
    files.write_json(tmp_path / fetch_large_user_files.FILE, uploads(tmp_path, 3).store.record())
    assert fetch_large_user_files.number_of_expected_uploads(tmp_path) == 3


def test_an_upload_that_would_fill_the_disk_is_not_fetched_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boto3 = pytest.importorskip("boto3")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of its first client
    content = bytes(1 << 20)

    def answer(asked: Asked) -> Any:
        whole = reply(200, content, ETag='"e"')
        return whole[: -len(content)] if asked.method == "HEAD" else whole

    with ScriptedServer(answer) as server:
        s3 = {**S3, "endpoint": f"http://127.0.0.1:{server.port}"}
        store = UserUploads.from_params({"collect_s3": s3}, "n", "run-aa", "001", tmp_path, 1)
        assert store is not None and store.store.fetch({"key": "0"}, tmp_path).read_bytes() == content
        (tmp_path / ".results-0.gz").unlink()
        monkeypatch.setattr(disk_reserve.shutil, "disk_usage", lambda _folder: SimpleNamespace(free=1000))
        with pytest.raises(DataError, match="users/0.gz: it unpacks to .* MiB or more, and .* MiB are free"):
            store.store.fetch({"key": "0"}, tmp_path)
    assert list(tmp_path.iterdir()) == []
