# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress that trainings write to files, in the format of a flavour."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures import training_rows
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures.training_log import (
    LogFormat,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import training_flavours

FMS = training_rows.ProgressFormat.of(training_flavours.load_flavour("fms").progress)


def write(folder: Path, *steps: tuple[int, str], tail: str = "") -> None:
    folder.mkdir(parents=True)
    rows = [{"name": "training_loss", "data": {"step": step, "timestamp": at, "value": 7.0}} for step, at in steps]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "training_logs.jsonl").write_text(text + tail, encoding="utf-8")


def test_steps_checkpoints_and_a_line_that_was_cut_off(tmp_path: Path) -> None:
    assert FMS is not None
    folder = tmp_path / "w-0"
    write(
        folder,
        (1, "1970-01-01T00:01:00.500000"),
        (2, "1970-01-01T01:01:01+01:00"),
        tail='[1]\n{"data": {"step": Infinity, "timestamp": "1970-01-01T00:02:00"}}\n{"data": {"step": 3, "ti',
    )
    for step in (10, 5):
        (folder / f"checkpoint-{step}").mkdir()
        (folder / f"checkpoint-{step}" / "trainer_state.json").write_text("{}", encoding="utf-8")
    (folder / "checkpoint-15").mkdir()  # it was not finished
    assert training_rows.read_training_progress(folder, FMS) == {
        "steps": [[1, 60.5], [2, 61.0]],
        "checkpoints": [5, 10],
    }
    assert training_rows.read_training_progress(tmp_path / "w-1", FMS) == {}


def test_rows_have_the_progress_of_their_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_VALIDATE", "1")
    write(tmp_path / "files" / "w-0", (1, "1970-01-01T00:01:00"))
    logs = [
        training_rows.TrainingLog("a", 0, "w-0", error="none"),
        training_rows.TrainingLog("b", 1, "w-1", error="none"),
        training_rows.TrainingLog("c", error="none"),
    ]
    _changed, rows = training_rows.write_training_rows(tmp_path, logs, LogFormat(), False, progress=FMS)
    assert [row.get("progress") for row in rows] == [{"steps": [[1, 60.0]], "checkpoints": []}, None, None]
    assert list(files.read_json_lines(tmp_path / "training.jsonl")) == rows
    assert "progress" not in training_rows.write_training_rows(tmp_path, logs, LogFormat(), False)[1][0]


def test_a_format_with_unknown_or_missing_entries_is_refused() -> None:
    assert training_rows.ProgressFormat.of({}) is None
    for wrong, what in (({"file": "f", "step": "s"}, "file, step and time"), ({"files": "f"}, "unknown files")):
        with pytest.raises(InputError, match=what):
            training_rows.ProgressFormat.of(wrong)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ("file", "progress is a str, and it must be a dictionary"),
        ({"step": 1}, "progress.step is a int, and it must be a text"),
        ({"checkpoint": "checkpoint-([0-9]+"}, "progress.checkpoint: 'checkpoint-.* is not a valid regular expression"),
        ({"checkpoint": "checkpoint-[0-9]+"}, "progress.checkpoint: 'checkpoint-.* has 0 groups"),
        ({"checkpoint": "(checkpoint)-([0-9]+)"}, "progress.checkpoint: .* has 2 groups"),
    ],
)
def test_a_format_that_can_not_be_read_is_refused(wrong: Any, what: str) -> None:
    with pytest.raises(InputError, match=what):
        training_rows.ProgressFormat.of(
            {"file": "f", "step": "s", "time": "t", **wrong} if isinstance(wrong, dict) else wrong
        )


def test_a_folder_whose_name_has_no_step_is_no_checkpoint(tmp_path: Path) -> None:
    form = training_rows.ProgressFormat.of(
        {"file": "training_logs.jsonl", "step": "s", "time": "t", "checkpoint": "^checkpoint-(.+)/"}
    )
    assert form is not None
    write(tmp_path / "w-0")
    for name in ("5", "last"):
        (tmp_path / "w-0" / f"checkpoint-{name}").mkdir()
        (tmp_path / "w-0" / f"checkpoint-{name}" / "model").write_text("x", encoding="utf-8")
    assert training_rows.read_training_progress(tmp_path / "w-0", form) == {"steps": [], "checkpoints": [5]}
