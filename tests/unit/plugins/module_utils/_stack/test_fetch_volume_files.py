# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a volume, by the program that prints them and the code that reads its log."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import random
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import fetch_volume_files
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.volume_job import Event, volume_job_manifests

SCRIPT = Path(__file__).parents[5] / "roles" / "storage" / "files" / "print_files.py"


def spec(to: Path, *patterns: str, limit: int = 1 << 20) -> fetch_volume_files.FetchSpec:
    return fetch_volume_files.FetchSpec("ns", "output", "t1", "t1-001-", patterns, to, limit, "python:3", "print()")


class Volume:
    """A folder, and the program on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "volume"
        self.calls: list[int] = []

    def write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def printed(self, wanted: fetch_volume_files.FetchSpec, first: int) -> list[Event]:
        self.calls.append(first)
        given = {**wanted.job(first).specification, "folder": str(self.folder)}
        (self.folder.parent / "specification.json").write_text(json.dumps(given), encoding="utf-8")
        command = [sys.executable, "-I", str(SCRIPT), str(self.folder.parent / "specification.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert max(len(line) for line in done.stdout.splitlines()) < 16384
        return [json.loads(line) for line in done.stdout.splitlines()]

    def fetch(self, wanted: fetch_volume_files.FetchSpec) -> dict[str, Any]:
        return fetch_volume_files.receive_files(lambda first: self.printed(wanted, first), wanted.to, wanted.limit)


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    made = Volume(tmp_path)
    made.write("t1-001-0/checkpoint-10/adapter.bin", bytes(range(256)) * 500)
    made.write("t1-001-0/log.jsonl", b"{}\n")
    made.write("t1-001-1/empty.json", b"")
    made.write("t1-002-0/log.jsonl", b"of another point")
    (tmp_path / "secret").write_text("outside", encoding="utf-8")
    (made.folder / "t1-001-0" / "link.jsonl").symlink_to(tmp_path / "secret")
    return made


def test_named_files_and_folders_of_the_point_arrive_with_their_content(volume: Volume, tmp_path: Path) -> None:
    found = volume.fetch(spec(tmp_path / "to", "*.json*", "checkpoint-*", "*.pt"))
    names = ["t1-001-0/checkpoint-10/adapter.bin", "t1-001-0/log.jsonl", "t1-001-1/empty.json"]
    assert [one["name"] for one in found["files"]] == names and found["changed"]
    assert found["unmatched"] == ["*.pt"] and "no file is called *.pt" in fetch_volume_files.format_fetched_files(found)
    for one in found["files"]:
        content = (volume.folder / one["name"]).read_bytes()
        assert (tmp_path / "to" / one["name"]).read_bytes() == content
        assert (one["bytes"], one["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert volume.fetch(spec(tmp_path / "to", "*.json*", "checkpoint-*"))["changed"] is False


def test_files_beyond_the_limit_are_listed_and_smaller_ones_after_them_fetched(volume: Volume, tmp_path: Path) -> None:
    found = volume.fetch(spec(tmp_path / "to", "**/*", limit=100))
    assert found["left_out"] == [{"name": "t1-001-0/checkpoint-10/adapter.bin", "bytes": 128000}]
    assert [one["name"] for one in found["files"]] == ["t1-001-0/log.jsonl", "t1-001-1/empty.json"]
    assert fetch_volume_files.format_fetched_files(found) == (
        "2 files, 0.0 MiB; 1 beyond the limit, first: t1-001-0/checkpoint-10/adapter.bin"
    )


def test_a_file_larger_than_a_log_takes_several_jobs(
    volume: Volume, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_volume_files, "PIECES", 3)
    content = random.Random(1).randbytes(100_000)
    volume.write("t1-001-0/model.bin", content)
    found = volume.fetch(spec(tmp_path / "to", "model.bin", "log.jsonl"))
    assert len(found["files"]) == 2 and volume.calls == [0, 3, 6, 9, 12]
    assert (tmp_path / "to" / "t1-001-0" / "model.bin").read_bytes() == content


@pytest.mark.parametrize(
    ("lost", "message"),
    [("piece", "lacks a part"), ("end", "lacks a part")],
)
def test_a_log_that_a_node_has_cut_is_an_error(volume: Volume, tmp_path: Path, lost: str, message: str) -> None:
    events = volume.printed(spec(tmp_path / "to", "log.jsonl"), 0)
    cut = [one for one in events if one["event"] != lost]
    with pytest.raises(DataError, match=message):
        fetch_volume_files.receive_files(lambda first: cut, tmp_path / "to", 1000)
    assert not (tmp_path / "to").exists()


def test_a_changed_file_and_a_name_outside_of_the_folder_are_errors(volume: Volume, tmp_path: Path) -> None:
    events = volume.printed(spec(tmp_path / "to", "log.jsonl"), 0)
    wrong = [{**one, "sha256": "0"} if one["event"] == "file" else one for one in events]
    with pytest.raises(DataError, match="checksum differs"):
        fetch_volume_files.receive_files(lambda first: wrong, tmp_path / "to", 1000)
    outside = [{**one, "name": "../x"} if one["event"] == "file" else one for one in events]
    with pytest.raises(DataError, match="outside of its volume"):
        fetch_volume_files.receive_files(lambda first: outside, tmp_path / "to", 1000)


def test_a_pod_that_prints_more_than_was_asked_for_fills_no_disk(tmp_path: Path) -> None:
    def printed(name: str, size: int, number: int) -> list[dict[str, Any]]:
        packed = base64.b64encode(zlib.compress(bytes(size))).decode()
        sha256 = hashlib.sha256(bytes(size)).hexdigest()
        file = {"event": "file", "name": name, "bytes": 1, "sha256": sha256, "first": number, "pieces": 1}
        return [{"event": "piece", "number": number, "data": packed}, file]

    events = [*printed("a", 600, 0), *printed("b", 600, 1), {"event": "end", "pieces": 2}]
    with pytest.raises(DataError, match="b: the pod prints files of more bytes than were asked for"):
        fetch_volume_files.receive_files(lambda _first: events, tmp_path / "to", 1000)
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["a"]


@pytest.mark.parametrize("pattern", ["/etc/passwd", "../other", "a/../../b", ""])
def test_a_path_outside_of_the_folder_is_refused(pattern: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no path below the folder"):
        fetch_volume_files.check_fetch_spec(spec(tmp_path, pattern))


def test_an_empty_script_is_refused_before_a_pod_is_created(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the script that prints the files is empty"):
        fetch_volume_files.check_fetch_spec(dataclasses.replace(spec(tmp_path, "*"), script=""))


def test_the_pod_cannot_write_to_the_volume(tmp_path: Path) -> None:
    (job,) = [one for one in volume_job_manifests(spec(tmp_path, "*").job(0)) if one["kind"] == "Job"]
    pod = job["spec"]["template"]["spec"]
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "output", "readOnly": True}
    assert pod["containers"][0]["volumeMounts"][0]["readOnly"] is True


def test_files_are_fetched_from_a_node_on_which_trainings_have_all_processors(tmp_path: Path) -> None:
    (job,) = [one for one in volume_job_manifests(spec(tmp_path, "*").job(0)) if one["kind"] == "Job"]
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "0"


@pytest.mark.parametrize(
    ("pieces", "words"),
    [(10**15, "the pod prints 1,000,000,000,000,000 pieces, more than"), (3, "lacks a part"), (1000, "lacks a part")],
)
def test_a_pod_that_prints_the_same_pieces_again_and_again_is_asked_once(
    tmp_path: Path, pieces: int, words: str
) -> None:
    calls: list[int] = []

    def printed(first: int) -> list[dict[str, Any]]:
        calls.append(first)
        assert len(calls) < 10
        return [{"event": "piece", "number": 0, "data": "AA=="}, {"event": "end", "pieces": pieces}]

    with pytest.raises(DataError, match=words):
        fetch_volume_files.receive_files(printed, tmp_path / "to", 1000)
    assert calls == [0]
