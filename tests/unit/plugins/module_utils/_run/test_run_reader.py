# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a run directory that somebody else has made."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import recorded_path_and_inode
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    expect_documented_files,
    read_run_directory,
)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "points" / "001").mkdir(parents=True)
    for name in ("run.yml", "FAILURES", "schedule.jsonl", "points/001/point.yml", "points/001/kpis.json"):
        os.mkfifo(tmp_path / name)
    signal.alarm(30)  # ends the process, since opening a pipe for reading waits for a writer
    try:
        run = read_run_directory(tmp_path)
    finally:
        signal.alarm(0)
    assert (run.failures, len(run.points)) == ("", 1) and "run.yml is missing" in run.missing


def test_of_a_giant_list_of_failures_only_the_begin_is_read(tmp_path: Path) -> None:
    with open(tmp_path / "FAILURES", "w", encoding="utf-8") as stream:
        stream.write("Clean up: 3 pods left\n")
        stream.truncate(20 << 30)
    failures = read_run_directory(tmp_path).failures
    assert failures.startswith("Clean up: 3 pods left\n") and len(failures) <= 1 << 20


def test_sources_of_settings_in_another_form_are_left_out(tmp_path: Path) -> None:
    sources = '{"settings": {"a": [{"value": 1}], "b": "0x10", "c": [[1]], "d": null, "e": {"value": 1}}}'
    (tmp_path / "provenance.yml").write_text(sources, encoding="utf-8")
    assert read_run_directory(tmp_path).provenance == {"a": [{"value": 1}]}
    (tmp_path / "provenance.yml").write_text('{"settings": [1]}', encoding="utf-8")
    assert read_run_directory(tmp_path).provenance == {}


def test_values_of_a_wrong_type_are_left_out_and_said(tmp_path: Path) -> None:
    (tmp_path / "run.yml").write_text("project: serving\npresets: true\nphases: {test: 3}\n", encoding="utf-8")
    (tmp_path / "cluster.yml").write_text("clusters: {sutest: 0}\n", encoding="utf-8")
    run = read_run_directory(tmp_path)
    assert (run.record, run.clusters, run.simulated) == ({"project": "serving", "phases": {}}, {}, False)
    assert run.damaged == [
        "run.yml has values of a wrong type, which are left out: presets, phases/test",
        "cluster.yml has values of a wrong type, which are left out: clusters/sutest",
    ]
    assert set(run.damaged) <= set(run.missing)


def test_files_of_another_form_are_an_error_of_a_received_run_and_one_of_ours_of_an_own(tmp_path: Path) -> None:
    files.write_yaml(tmp_path / "run.yml", {"project": "serving"})
    with (
        pytest.raises(DataError, match=f"{tmp_path}: a file of this run: .* unexpected form"),
        expect_documented_files(tmp_path),
    ):
        raise KeyError("bytes")
    files.write_yaml(tmp_path / "run.yml", recorded_path_and_inode(tmp_path, tmp_path))
    with pytest.raises(KeyError), expect_documented_files(tmp_path):
        raise KeyError("bytes")
