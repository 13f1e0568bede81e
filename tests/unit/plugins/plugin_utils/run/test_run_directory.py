# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run directories and their numbered steps."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas import schema_field_types
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_directory


def test_a_run_id_fits_its_schema_and_begins_with_a_letter() -> None:
    pattern = re.compile(schema_field_types.RUN_ID["pattern"])
    ids = {run_directory.new_id() for dummy in range(200)}
    assert len(ids) == 200
    assert all(pattern.match(one) and one[0].isalpha() for one in ids)


def test_a_directory_that_could_not_be_filled_is_not_there(tmp_path: Path) -> None:
    def fill(directory: Path) -> None:
        (directory / "half").touch()
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        run_directory.create_run_directory(tmp_path, "run", fill)
    assert list(tmp_path.iterdir()) == []


def test_steps_are_numbered_and_two_callers_never_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: run_directory.create_next_step_directory(tmp_path, "role", "entry"), range(40)))
    names = [f"{number:03d}__role__entry" for number in range(1, 41)]
    assert sorted(path.name for path in paths) == names
    assert sorted(path.name for path in tmp_path.iterdir()) == names, "nothing else stays"


def test_a_number_that_another_caller_claims_or_has_used_is_left_out(tmp_path: Path) -> None:
    (tmp_path / ".step-001").touch()
    assert run_directory.create_next_step_directory(tmp_path, "role", "entry").name == "002__role__entry"


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run directory: it holds no request.yml"):
        run_directory.check_existing_directory(str(tmp_path))
    with pytest.raises(InputError, match="does not exist"):
        run_directory.check_existing_directory(str(tmp_path / "none"))


def test_a_parent_that_can_not_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="can't create a run directory in"):
        run_directory.create_run_directory(tmp_path / "file" / "below", "run", lambda path: None)


def test_timings_are_summed_by_category(tmp_path: Path) -> None:
    for seconds in (1.5, 2.0):
        step = StepDirectory(str(run_directory.create_next_step_directory(tmp_path, "role", "entry")))
        step.timing("load", seconds)
        step.timing("wait", 1.0, "workloads")
    assert run_directory.sum_seconds_by_category(tmp_path, 0.0) == {"load": 3.5, "wait": 2.0}
    assert run_directory.sum_seconds_by_category(tmp_path, 2e10) == {}
