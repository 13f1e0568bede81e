# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of the folders of attempts, and their order."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import choose_next_point
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import run_with_counted_attempts
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(0, 2000), st.integers(1, 600))
def test_a_folder_name_has_its_point_and_attempt(number, attempt):
    of = f"{number:03d}"
    name = run_reader.attempt_folder(of, attempt)
    assert run_reader.split_attempt_name(name) == (of, attempt)
    assert run_reader.point_of_attempt_folder(name) == of


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 600))))
def test_attempts_are_sorted_by_the_numbers_of_point_and_attempt(pairs):
    named = [(f"{number:03d}", attempt) for number, attempt in pairs]
    found = sorted(named, key=lambda one: run_reader.attempt_order(*one))
    assert [(int(of), attempt) for of, attempt in found] == sorted(pairs)


def test_point_999_is_read_before_point_1000(tmp_path):
    for name in ("1000", "999-10", "999-9", "999", "999-old"):
        folder = tmp_path / "points" / name
        folder.mkdir(parents=True)
        (folder / "point.yml").write_text("status: failed\n")
    assert [point.number for point in run_reader.read_run_directory(tmp_path).points][-3:] == [
        "999-9",
        "999-10",
        "1000",
    ]
    assert [point.number for point in run_with_counted_attempts(run_reader.read_run_directory(tmp_path)).points] == [
        "999-10",
        "1000",
    ]
    assert [one.name for one in choose_next_point.read_attempts(tmp_path)] == ["999", "999-9", "999-10", "1000"]
