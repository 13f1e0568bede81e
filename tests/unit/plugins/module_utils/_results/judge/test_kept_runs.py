# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The past runs that a session keeps: read once, the same at each look."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import collect_history
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.collect_history import (
    HistoryRequest,
    RunHistory,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.past_run_data import FILE, KeptRuns
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from past_run_files import run_id, write_past_run

SESSION = "2026-11-20T10:00:00Z"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A run, and a folder with three runs before it and a damaged one."""
    monkeypatch.setenv("SEATRIAL_VALIDATE", "1")
    for number in (1, 2, 3):
        write_past_run(tmp_path / "past", number, float(number), settings={"fine_tuning_count": number})
    (write_past_run(tmp_path / "past", 4) / "run.yml").write_text("{")
    return write_past_run(tmp_path / "now", 9, settings={"fine_tuning_count": 1}), tmp_path / "past"


def look(top: Path, past: Path, session: str = SESSION, **more: int) -> RunHistory:
    run = run_reader.read_run_directory(top)
    run.points[0].labels["settings"]["fine_tuning_count"] = more.pop("count", 1)
    request = HistoryRequest((str(past),), **more)
    return collect_history.collect_past_runs(run, request, store=KeptRuns(top, session))


def test_a_later_look_is_the_first_one_without_the_source(places: tuple[Path, Path]) -> None:
    top, past = places
    first = look(top, past)
    assert first.used == (run_id(1),) and len(first.left_out) == 2 and len(first.notes) == 1
    shutil.rmtree(past)
    assert look(top, past) == first
    assert look(top, past, "2026-11-21T10:00:00Z").unread, "another session reads its history"


def test_a_look_that_needs_further_runs_reads_on(places: tuple[Path, Path]) -> None:
    top, past = places
    assert look(top, past, most=1, count=3).used == (run_id(3),)
    assert look(top, past, most=1, count=1) == look(top, past, "other", most=1, count=1)


def test_a_source_that_could_not_be_read_is_read_again(places: tuple[Path, Path]) -> None:
    top, past = places
    away = past.rename(past.with_name("away"))
    assert look(top, past).unread
    away.rename(past)
    found = look(top, past)
    assert (found.used, found.unread) == ((run_id(1),), ())


@pytest.mark.parametrize("text", ["{", "[]", f'{{"session": "{SESSION}", "sources": {{"a": 1}}}}'])
def test_a_damaged_file_is_read_as_none(places: tuple[Path, Path], text: str) -> None:
    top, past = places
    (top / FILE).write_text(text)
    assert look(top, past).used == (run_id(1),)
