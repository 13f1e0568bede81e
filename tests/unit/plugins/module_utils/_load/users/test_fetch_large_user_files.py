# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What users upload is recorded before, and refused if its URLs have no room. The server: test_users_s3.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.users import fetch_large_user_files
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.users.fetch_large_user_files import UserUploads

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
