# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file of somebody else's run directory can't fill the memory."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError


@pytest.mark.parametrize("read", [files.read_yaml, files.read_json])
def test_a_document_of_a_terabyte_is_refused_unread(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    path = tmp_path / "settings.yml"
    with open(path, "wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(DataError, match="it has 1,099,511,627,776 bytes, and 536,870,912 are the most of a document"):
        read(path)


@pytest.mark.parametrize("read", [files.read_yaml, files.read_json, lambda path: list(files.read_json_lines(path))])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_refused_and_not_waited_for(
    tmp_path: Path, read: Callable[[Path], Any], kind: str
) -> None:
    path = tmp_path / "findings.json"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(DataError, match=r"findings\.json: it is no regular file"):
        read(path)


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_LINE", 20)
    path = tmp_path / "ledger.jsonl"
    path.write_text(f"{{}}\n{json.dumps({'a': 'x' * 10})}\n")  # a line of 20 bytes with its end
    assert [record.get("a") for record in files.read_json_lines(path)] == [None, "x" * 10]
    path.write_text(f"{{}}\n{json.dumps({'a': 'x' * 11})}\n")
    with pytest.raises(DataError, match="a line has more than 20 bytes"):
        list(files.read_json_lines(path))


def test_the_lock_of_a_folder_that_is_gone_is_an_error_that_names_it(tmp_path: Path) -> None:
    message = f"^{tmp_path}/gone can't be opened: No such file or directory$"
    with pytest.raises(DataError, match=message), files.hold_folder_lock(tmp_path / "gone"):
        pass


def test_a_second_holder_of_a_lock_of_a_folder_waits_for_the_first(tmp_path: Path) -> None:
    steps = []

    def hold(name: str) -> None:
        with files.hold_folder_lock(tmp_path):
            steps.append(f"{name} begins")
            time.sleep(0.05)
            steps.append(f"{name} ends")

    holders = [threading.Thread(target=hold, args=(name,)) for name in "ab"]
    for holder in holders:
        holder.start()
    for holder in holders:
        holder.join()
    first, second = steps[0][0], steps[2][0]
    assert steps == [f"{first} begins", f"{first} ends", f"{second} begins", f"{second} ends"]
