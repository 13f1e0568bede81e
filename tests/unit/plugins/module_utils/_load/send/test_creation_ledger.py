"""The ledger survives being cut anywhere, and takes one writer."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender, session_line
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import creation_ledger
from hypothesis import given, settings
from hypothesis import strategies as st

CLOCK = MonotonicWallClock(1_795_000_000.0, 100.0, "boot")


def attempt(index: int, outcome: str = "created", kind: str = "Job", **more: Any) -> dict[str, Any]:
    return {
        "type": "attempt",
        "index": index,
        "name": f"test-run-001-{index}",
        "kind": kind,
        "attempt": 1,
        "intended": 1.5,
        "sent": 1.5,
        "answered": 2.0,
        "status": 201,
        "outcome": outcome,
        **more,
    }


def written(path: Path, rows: list[dict[str, Any]]) -> bytes:
    book, _past = creation_ledger.open_ledger(path)
    book.write(session_line(creation_ledger.SCHEMA, "test-run", "001", CLOCK))
    for row in rows:
        book.write(row)
    book.close()
    return path.read_bytes()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=6), st.data())
def test_cut_anywhere_the_whole_rows_before_the_cut_are_kept(
    tmp_path_factory: pytest.TempPathFactory, messages: list[str], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "ledger.jsonl"
    rows = [attempt(index, message=text) for index, text in enumerate(messages)]
    content = written(path, rows)
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    whole = content[:cut].count(b"\n")
    book, past = creation_ledger.open_ledger(path)
    assert book.repaired == cut - (content[:cut].rfind(b"\n") + 1)
    assert past.sessions == min(whole, 1)
    assert sorted(past.outcomes) == sorted(("Job", row["name"]) for row in rows[: max(0, whole - 1)])
    book.write(attempt(99))
    book.close()
    found = list(files.read_json_lines(path))
    assert len(found) == whole + 1 and found[-1]["index"] == 99
    assert found[1:whole] == rows[: max(0, whole - 1)]


def test_a_torn_line_longer_than_a_block_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    content = written(path, [attempt(0)])
    path.write_bytes(content + b"x" * 200_000)
    book, past = creation_ledger.open_ledger(path)
    book.close()
    assert (book.repaired, len(past.outcomes), path.read_bytes()) == (200_000, 1, content)


def test_damage_in_the_middle_is_no_torn_end(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    content = written(path, [attempt(0), attempt(1)])
    path.write_bytes(content.replace(b'"index":0', b'"index"'))
    with pytest.raises(DataError, match="ledger.jsonl:2: not a JSON record"):
        creation_ledger.open_ledger(path)
    # It is not held by the one that failed.
    path.write_bytes(content)
    creation_ledger.open_ledger(path)[0].close()


def test_only_final_outcomes_settle_an_object(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    rows = [attempt(0, "retry"), attempt(0, "created"), attempt(1, "ambiguous"), attempt(2, "refused")]
    written(path, [*rows, attempt(3, "already_mine"), attempt(3, "created", "ConfigMap")])
    assert creation_ledger.read_ledger_file(path).outcomes == {
        ("Job", "test-run-001-0"): "created",
        ("Job", "test-run-001-2"): "refused",
        ("Job", "test-run-001-3"): "already_mine",
        ("ConfigMap", "test-run-001-3"): "created",
    }


def test_the_first_session_keeps_the_clock(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    written(path, [])
    book, _past = creation_ledger.open_ledger(path)
    book.write(session_line(creation_ledger.SCHEMA, "test-run", "001", MonotonicWallClock(1.0, 2.0, "other")))
    book.close()
    past = creation_ledger.read_ledger_file(path)
    assert (past.sessions, past.anchor) == (2, CLOCK.anchor())
    assert creation_ledger.read_ledger_file(tmp_path / "none").sessions == 0


def test_a_second_writer_is_refused_until_the_first_has_closed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    first = JsonlAppender(path, creation_ledger.SCHEMA, "submitter")
    with pytest.raises(OwnershipError, match="another submitter is writing to it"):
        JsonlAppender(path, creation_ledger.SCHEMA, "submitter")
    first.close()
    JsonlAppender(path, creation_ledger.SCHEMA, "submitter").close()


def test_a_child_that_closes_its_copy_leaves_the_lock_to_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    book = JsonlAppender(path, creation_ledger.SCHEMA, "submitter")
    child = os.fork()
    if child == 0:
        book.close()
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(OwnershipError):
        JsonlAppender(path, creation_ledger.SCHEMA, "submitter")
    book.close()


def test_rows_of_many_threads_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    book = JsonlAppender(path, creation_ledger.SCHEMA, "submitter")

    def write(part: int) -> None:
        for index in range(50):
            book.write(attempt(part * 50 + index, message="x" * (index * 7)))

    threads = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    book.close()
    assert sorted(row["index"] for row in files.read_json_lines(path)) == list(range(200))


def test_a_record_that_does_not_fit_its_schema_is_not_written(tmp_path: Path) -> None:
    book = JsonlAppender(tmp_path / "ledger.jsonl", creation_ledger.SCHEMA, "submitter")
    with pytest.raises(DataError, match="ledger/1: outcome"):
        book.write(attempt(0, "lost"))
    book.close()
    assert (tmp_path / "ledger.jsonl").read_bytes() == b""
