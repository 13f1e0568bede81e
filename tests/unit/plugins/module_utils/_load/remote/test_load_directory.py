# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of a run and of a point lead to no other folder, which would be deleted with the load."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import detached_load


@pytest.mark.parametrize(
    ("run", "point"),
    [("..", "mine"), (".", "mine"), ("a/../..", "mine"), ("t1", "../../mine"), ("t1", ".."), ("", "mine")],
)
def test_a_load_is_not_deleted_in_another_folder(tmp_path: Path, run: str, point: str) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "loads").mkdir()
    params = {"elsewhere_dir": str(tmp_path / "loads"), "run_id": run, "point": point, "state": "absent"}
    with pytest.raises(InputError, match="is no name of a run or of a point"):
        detached_load.run_remote_load_step(params, StepDirectory(None))
    assert mine.is_dir()


def test_a_load_is_deleted_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "t1" / "001"
    folder.mkdir(parents=True)
    params = {"elsewhere_dir": str(tmp_path), "run_id": "t1", "point": "001", "state": "absent"}
    assert detached_load.run_remote_load_step(params, StepDirectory(None))["changed"] and not folder.parent.exists()
