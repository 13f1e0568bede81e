"""When a line is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import step_directory
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory


def test_a_line_a_second_when_something_changed_and_one_in_ten_when_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(step_directory.time, "monotonic", lambda: now[0])
    path, folder = tmp_path / "progress", tmp_path / "step"
    folder.mkdir()
    told = step_directory.ProgressLog(str(path), StepDirectory(str(folder)))
    shown = []
    for tenth in range(1000):
        now[0] = 1000.0 + tenth / 10
        # Something happens in the first five seconds only.
        if told.update(str(min(tenth, 50)), f"line {tenth}"):
            shown.append(tenth / 10)
    assert shown[:6] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert [round(later - earlier, 1) for earlier, later in zip(shown[5:], shown[6:], strict=False)] == [10.0] * 9
    assert path.read_text().splitlines() == [f"line {round(at * 10)}" for at in shown]
    assert len((folder / "log").read_text().splitlines()) == 10


def test_without_a_file_nothing_is_shown_and_the_log_is_still_kept(tmp_path: Path) -> None:
    told = step_directory.ProgressLog(None, StepDirectory(str(tmp_path)))
    told.say("done")
    assert (tmp_path / "log").read_text().endswith(" done\n")
