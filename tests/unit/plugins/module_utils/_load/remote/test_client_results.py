"""The result of several clients; of one that was lost, what it had handed over counts, and the rest is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import client_results
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader

COUNTS = {"planned": 4, "created": 4, "already_mine": 0, "succeeded": 0}
REPORT = {"changed": True, "counts": COUNTS, "timed_out": False, "stopped": "", "waiting_for": [], "refusals": [],
          "held_back": 0, "stolen": 0.0, "rate": 1.0, "load_seconds": 1.0, "repeated": {}, "sessions": 1, "events": 4,
          "gaps": 0, "sampling": {}, "notes": [], "seconds": 2.0}  # fmt: skip
ANCHOR = {"wall": 100.0, "monotonic": 1.0, "boot": "b"}


def session(client: int) -> dict[str, Any]:
    return {"type": "session", "schema": "ledger/1", "run": "run-abc", "point": "001", "anchor": ANCHOR, "pid": 1,
            "client": client}  # fmt: skip


def attempt(index: int, kind: str, outcome: str) -> dict[str, Any]:
    return {"type": "attempt", "index": index, "name": f"run-abc-001-{index}", "kind": kind, "attempt": 1,
            "intended": 100.0 + index, "sent": 100.5 + index, "answered": 101.0 + index, "status": 201,
            "outcome": outcome, "connection": 0}  # fmt: skip


@pytest.fixture
def request_of(tmp_path: Path) -> LoadSpec:
    header = {"type": "header", "schema": "plan/1", "run": "run-abc", "point": "001", "count": 7, "seed": None,
              "arrival": {"type": "closed"}, "in_flight": 1, "templates": [{"name": "t", "kind": "Job"}]}  # fmt: skip
    rows = [{"type": "workload", "index": index, "name": f"run-abc-001-{index}", "offset": None, "template": "t",
             "parameters": {}} for index in range(7)]  # fmt: skip
    files.write_json_lines(tmp_path / "plan.jsonl", [header, *rows])
    parts = ([0, 2, 4, 6], [1])
    for client, part in enumerate(parts):
        (tmp_path / str(client)).mkdir()
        lines = [session(client), *(attempt(index, "Job", "created") for index in part)]
        files.write_json_lines(tmp_path / str(client) / "ledger.jsonl", lines)
    with open(tmp_path / "1" / "ledger.jsonl", "ab") as stream:
        stream.write(f"{files.encode(attempt(3, 'Secret', 'created'))}\n".encode())  # its Job was not created yet
        stream.write(f"{files.encode(attempt(5, 'Job', 'already_mine'))}\n".encode())
        stream.write(b'{"type": "attempt", "ind')
    return LoadSpec(
        kubeconfig="k", context="", run="run-abc", point="001", point_dir=tmp_path, namespace="ns", count=7, arrival={},
        in_flight=1, seed=1, sample=True, stages=(), templates=(), simulated_writers=(), canary_rate=1.0, wait=False,
        timeout=1.0, settle=0.0, request_timeout=1.0, retry_time=1.0, max_lateness=1.0, clients=2,
    )  # fmt: skip


def test_of_a_lost_client_what_is_recorded_counts_and_the_rest_is_named(request_of: LoadSpec) -> None:
    folder, lost = request_of.point_dir, {1: "exit code 137"}
    client_results.join_files_of_clients(folder, {0: folder / "0", 1: folder / "1"}, 2, lost)
    found = client_results.join_client_results(request_of, 7, {0: REPORT}, lost, 3.0)
    assert (found["counts"]["created"], found["counts"]["already_mine"], found["counts"]["unknown"]) == (5, 1, 1)
    wanted = "clients were lost (client 1: exit code 137); the fate of 1 workload is unknown: run-abc-001-3"
    assert found["stopped"] == wanted and wanted in found["msg"]
    assert [one["client"] for one in found["clients"]] == [0]
    inputs = point_reader.read_point_inputs(folder)
    assert [one["client"] for one in inputs.lost] == [1]
    assert {index: one.found for index, one in inputs.sent.items() if index in (1, 5)} == {1: False, 5: True}


def test_whole_lines_are_joined_and_a_line_without_an_end_fills_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for client, content in enumerate([b'{"a": 1}\n{"b', b'{"c": 2}\n']):
        (tmp_path / str(client)).mkdir()
        (tmp_path / str(client) / "ledger.jsonl").write_bytes(content)
    folders = {client: tmp_path / str(client) for client in range(2)}
    client_results.join_files_of_clients(tmp_path, folders, 2, {})
    assert (tmp_path / "ledger.jsonl").read_bytes() == b'{"a": 1}\n{"c": 2}\n'
    monkeypatch.setattr(files, "MOST_LINE", 1000)
    (tmp_path / "1" / "ledger.jsonl").write_bytes(bytes(5000))
    with pytest.raises(DataError, match="a line has more than 1,000 bytes"):
        client_results.join_files_of_clients(tmp_path, folders, 2, {})


@pytest.mark.parametrize(
    "harm", [{"counts": 5}, {"refusals": [5]}, {"rate": "fast"}, {"waiting_for": None}, {"rate": None}]
)
def test_results_that_no_client_writes_are_one_error(request_of: LoadSpec, harm: dict[str, Any]) -> None:
    folder = request_of.point_dir
    client_results.join_files_of_clients(folder, {0: folder / "0", 1: folder / "1"}, 2, {})
    with pytest.raises(DataError, match="what the clients of the load report: the answer has an unexpected form"):
        client_results.join_client_results(request_of, 7, {0: {**REPORT, **harm}, 1: REPORT}, {}, 3.0)
