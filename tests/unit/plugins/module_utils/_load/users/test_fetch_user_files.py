"""Reports and files of users are read from their pods; what lacks is named."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.users import fetch_user_files

MOMENTS = {"received": 1.0, "begun": 1.02, "begun_answered": 1.05, "ended": 3.02}


class Cluster:
    """Stands for a client: pods and ConfigMaps."""

    def __init__(self) -> None:
        self.pods: list[dict[str, Any]] = []
        self.maps: dict[str, dict[str, Any]] = {}

    def list(self, _kind: Any, _namespace: str, _selector: str) -> tuple[list[dict[str, Any]], str]:
        return self.pods, "1"

    def get(self, _kind: Any, name: str, _namespace: str, metadata_only: bool = False) -> dict[str, Any] | None:
        return self.maps.get(name)

    def delete_seen(self, _kind: Any, metadata: dict[str, Any]) -> None:
        self.maps.pop(metadata["name"], None)

    def add(self, index: int, phase: str, report: Any = None, code: int = 0, init: bool = False) -> str:
        name = f"run-aa-001-{index}"
        message = report if isinstance(report, str) else json.dumps(report)
        ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "message": message}
        own = {"name": "user", "state": {"terminated": {**ended, **({"message": ""} if init else {})}}}
        status: dict[str, Any] = {"phase": phase, "containerStatuses": [own]}
        if init:
            status["initContainerStatuses"] = [{"name": "helper", "state": {"terminated": ended}}]
        self.pods.append({"metadata": {"name": name}, "spec": {"nodeName": "n1"}, "status": status})
        return name

    def put(self, pod: str, files: dict[str, bytes], size: int = 100) -> dict[str, Any]:
        """Store files as the helper does; return what it reports."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        data = zlib.compress(packed.getvalue())
        parts = [data[begin : begin + size] for begin in range(0, len(data), size)]
        for number, part in enumerate(parts, 1):
            name = f"{pod}-files-{number:04d}"
            metadata = {"name": name, "labels": {"perfscale.seatrial/run": "run-aa"}}
            content = {"piece": base64.b64encode(part).decode()}
            self.maps[name] = {"metadata": metadata, "binaryData": content}
        told = {"parts": len(parts), "sha256": hashlib.sha256(packed.getvalue()).hexdigest(), "bytes": 9}
        return {**told, "left_out": 1, "first_left_out": [{"name": "big", "bytes": 99}]}


def spec(folder: Path, count: int, required: str = "all") -> fetch_user_files.UsersSpec:
    return fetch_user_files.UsersSpec("n", "run-aa", "001", count, required, folder / "users")


@pytest.fixture
def cluster() -> Any:
    return Cluster()


def test_reports_and_files_are_written_and_their_config_maps_deleted(cluster: Any, tmp_path: Path) -> None:
    told = cluster.put("run-aa-001-0", {"a.txt": b"hello", "deep/b.bin": bytes(range(256)) * 9})
    cluster.add(0, "Succeeded", {"moments": MOMENTS, "files": told})
    cluster.add(1, "Failed", {"moments": {}}, code=3)
    found = fetch_user_files.fetch_reports_and_files_of_users(cluster, spec(tmp_path, 3, "1"))
    assert (found["changed"], found["succeeded"], found["required"]) == (True, 1, 1)
    assert found["failed_users"] == ["run-aa-001-1", "run-aa-001-2"]
    assert "run-aa-001-1 (exit code 3, Error), run-aa-001-2 (its pod was deleted, or never created)" in found["summary"]
    assert "fetched 2 files; left out 1 beyond the limit" in found["summary"]
    files = tmp_path / "users" / "0" / "files"
    assert (files / "a.txt").read_bytes() == b"hello"
    assert (files / "deep" / "b.bin").read_bytes() == bytes(range(256)) * 9
    assert cluster.maps == {}
    user = _files.read_json(tmp_path / "users" / "1" / "user.json")
    assert (user["exit_code"], user["phase"], user["node"]) == (3, "Failed", "n1")
    document = _files.read_json(tmp_path / "users" / "users.json")
    assert document["success_percent"] == pytest.approx(33.333)
    assert document["files"] == {
        "count": 2, "left_out": 1, "left_out_users": 1, "limit": "users_files_limit_bytes", "failed_users": 0,
        "first_error": "",
    }  # fmt: skip
    assert document["reaction"]["max"] == pytest.approx(0.02) and document["command"]["p50"] == pytest.approx(2.0)


def test_a_user_that_could_not_send_its_files_is_named_with_the_reason(cluster: Any, tmp_path: Path) -> None:
    cluster.add(0, "Succeeded", {"moments": MOMENTS, "files_error": "Refused: HTTP 403"})
    found = fetch_user_files.fetch_reports_and_files_of_users(cluster, spec(tmp_path, 1))
    assert found["summary"].endswith("could not send its files: run-aa-001-0 (Refused: HTTP 403)")
    files = _files.read_json(tmp_path / "users" / "users.json")["files"]
    assert (files["failed_users"], files["first_error"]) == (1, "run-aa-001-0: Refused: HTTP 403")


def test_uploaded_files_without_a_server_are_an_error(cluster: Any, tmp_path: Path) -> None:
    cluster.add(0, "Succeeded", {"moments": MOMENTS, "files": {"archive": "0" * 64, "bytes": 9, "left_out": 0}})
    with pytest.raises(InputError, match="run-aa-001-0 has uploaded its files.*set workload_collect_s3"):
        fetch_user_files.fetch_reports_and_files_of_users(cluster, spec(tmp_path, 1))


def test_files_that_were_cut_have_limit_and_reason(cluster: Any, tmp_path: Path) -> None:
    told = {**cluster.put("run-aa-001-0", {"a.txt": b"hello"}), "limit": "users_files_x", "error": "HTTP 403"}
    cluster.add(0, "Succeeded", {"moments": MOMENTS, "files": told})
    fetch_user_files.fetch_reports_and_files_of_users(cluster, spec(tmp_path, 1))
    user = _files.read_json(tmp_path / "users" / "0" / "user.json")["files"]
    assert (user["count"], user["limit"], user["error"]) == (1, "users_files_x", "HTTP 403")
    files = _files.read_json(tmp_path / "users" / "users.json")["files"]
    assert (files["limit"], files["first_error"]) == ("users_files_x", "run-aa-001-0: HTTP 403")


def test_a_second_call_finds_the_files_of_the_first(cluster: Any, tmp_path: Path) -> None:
    told = cluster.put("run-aa-001-0", {"a.txt": b"hello"})
    cluster.add(0, "Succeeded", {"moments": MOMENTS, "files": told})
    fetch_user_files.fetch_reports_and_files_of_users(cluster, spec(tmp_path, 1))
    again = fetch_user_files.fetch_reports_and_files_of_users(cluster, spec(tmp_path, 1))
    assert not again["changed"] and "fetched 1 file" in again["summary"]


@pytest.mark.parametrize("harm", ["missing", "changed", "leads out"])
def test_damaged_files_are_an_error(cluster: Any, tmp_path: Path, harm: str) -> None:
    told = cluster.put("run-aa-001-0", {"../../out.txt" if harm == "leads out" else "a.txt": b"hello"}, 10_000)
    if harm == "missing":
        cluster.maps.clear()
    if harm == "changed":
        told["sha256"] = "0" * 64
    cluster.add(0, "Succeeded", {"moments": MOMENTS, "files": told})
    with pytest.raises(DataError):
        fetch_user_files.fetch_reports_and_files_of_users(cluster, spec(tmp_path, 1))
    assert not list(tmp_path.rglob("out.txt")) and not list(tmp_path.rglob("a.txt"))


def test_a_user_that_waited_in_an_init_container_reports_from_there(cluster: Any, tmp_path: Path) -> None:
    cluster.add(0, "Succeeded", {"moments": {"received": 2.0}}, init=True)
    fetch_user_files.fetch_reports_and_files_of_users(cluster, spec(tmp_path, 1))
    user = _files.read_json(tmp_path / "users" / "0" / "user.json")
    assert user["moments"] == {"received": 2.0} and user["exit_code"] == 0


#: A command can write whatever it wants where the helper reports.
FORGED = [
    "[" * 100_000,
    '{"moments": [1]}',
    '{"moments": {"received": "x"}}',
    '{"moments": {"received": 1e999}}',
    '{"moments": {}, "files": [1]}',
    '{"moments": {}, "files": {"parts": 1000000000, "sha256": "x"}}',
    '{"moments": {}, "files": {"parts": "2", "sha256": "x"}}',
    '{"moments": {}, "files": {"parts": 2}}',
    '{"moments": {}, "files": {"left_out": {}}}',
    '{"moments": {}, "files": {"left_out": -1}}',
]


@pytest.mark.parametrize("message", ["", "no json", "[1]", "{}", *FORGED])
def test_whatever_the_container_left_is_no_error(cluster: Any, tmp_path: Path, message: str) -> None:
    cluster.add(0, "Succeeded", message)
    found = fetch_user_files.fetch_reports_and_files_of_users(cluster, spec(tmp_path, 1))
    assert found["succeeded"] == 1
    assert _files.read_json(tmp_path / "users" / "users.json")["reaction"] is None


def test_what_simulated_users_have_done_is_summed_up(cluster: Any, tmp_path: Path) -> None:
    rows = [
        {"outcome": "succeeded", "times": {"created": 0.1, "usable": 1.0, "delete": 2.0, "gone": 2.5}},
        {"outcome": "timed out", "times": {"created": 0.3, "delete": 9.0, "gone": 9.1}},
    ]
    text = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    told = cluster.put("run-aa-001-0", {fetch_user_files.OPERATIONS: text})
    cluster.add(0, "Failed", {"moments": MOMENTS, "files": told}, code=1)
    fetch_user_files.fetch_reports_and_files_of_users(cluster, spec(tmp_path, 1))
    found = _files.read_json(tmp_path / "users" / "users.json")["operations"]
    assert (found["count"], found["succeeded"], found["success_percent"]) == (2, 1, 50.0)
    assert found["usable"]["max"] == 1.0 and found["delete"]["max"] == 0.5 and found["create"]["max"] == 0.3


def test_more_operations_than_the_memory_holds_are_an_error(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_user_files, "MOST_OPERATIONS", 100)
    for index in range(2):
        told = cluster.put(f"run-aa-001-{index}", {fetch_user_files.OPERATIONS: b"{}\n" * 20})
        cluster.add(index, "Succeeded", {"moments": MOMENTS, "files": told})
    with pytest.raises(DataError, match="the users' operations.jsonl have 120 bytes together, and 100 are the most"):
        fetch_user_files.fetch_reports_and_files_of_users(cluster, spec(tmp_path, 2))


@pytest.mark.parametrize(
    "row", ["{}", '{"outcome": "succeeded", "times": [1]}', '{"outcome": 1, "times": {"gone": "x"}}']
)
def test_operations_that_no_simulated_user_writes_are_one_error(cluster: Any, tmp_path: Path, row: str) -> None:
    told = cluster.put("run-aa-001-0", {fetch_user_files.OPERATIONS: f"{row}\n".encode()})
    cluster.add(0, "Succeeded", {"moments": MOMENTS, "files": told})
    with pytest.raises(DataError, match="the users' operations.jsonl: the answer has an unexpected form"):
        fetch_user_files.fetch_reports_and_files_of_users(cluster, spec(tmp_path, 1))
