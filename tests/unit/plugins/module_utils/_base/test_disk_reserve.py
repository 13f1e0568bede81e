# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On a full disk, documents and directories of role calls are written in the space that the run has reserved."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import disk_reserve, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_directory


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MiB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(tmp_path)]
    if os.geteuid() or subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no file system can be mounted here: this needs root")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def fill(folder: Path) -> None:
    with contextlib.suppress(OSError), open(folder / "other", "wb", buffering=0) as stream:
        while True:
            stream.write(b"x" * 4096)


def test_a_full_disk_is_written_once_more(small_disk: Path) -> None:
    run_dir = run_directory.create_run_directory(
        small_disk, "run", lambda path: files.replace_text(path / "run.yml", "a: 1\n")
    )
    fill(small_disk)
    with pytest.raises(OSError, match="No space left"):
        (run_dir / "other").write_text("x" * 10_000)
    assert run_directory.create_next_step_directory(run_dir, "cleanup", "main").is_dir()
    files.replace_text(run_dir / "run.yml", "a: 2\n" + "# x\n" * 50_000)
    assert files.read_yaml(run_dir / "run.yml") == {"a": 2} and not (run_dir / disk_reserve.NAME).exists()


def test_a_step_that_can_not_be_recorded_raises_nothing(small_disk: Path) -> None:
    fill(small_disk)
    step = StepDirectory(str(small_disk))
    step.log("x" * 10_000)
    step.timing("cluster", 1.0)
    step.manifest("one", [{"kind": "Namespace"}])
    with pytest.raises(OSError, match="No space left"):
        files.replace_text(small_disk / "run.yml", "x" * 10_000)
    assert not list(small_disk.glob(".run.yml*"))


def test_a_run_whose_reserve_does_not_fit_is_refused_in_one_line(small_disk: Path) -> None:
    fill(small_disk)
    with pytest.raises(run_directory.InputError, match="can't create a run directory in .*No space left"):
        run_directory.create_run_directory(small_disk, "run", lambda _path: None)
    assert [path.name for path in small_disk.iterdir()] == ["other"]
