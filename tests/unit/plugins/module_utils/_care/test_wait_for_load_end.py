# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A clean-up does not begin while something still creates objects."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import run_cleanup


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "points" / "001" / "ledger.jsonl"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def test_a_ledger_that_nobody_writes_to_keeps_nobody_waiting(ledger: Path, tmp_path: Path) -> None:
    said: list[str] = []
    run_cleanup.wait_for_load_end(tmp_path, 0.0, said.append)
    assert said == []


def test_a_ledger_that_is_written_to_is_named_at_the_deadline(ledger: Path, tmp_path: Path) -> None:
    said: list[str] = []
    with open(ledger, "ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(WaitTimeout, match="it writes to .*001/ledger.jsonl; end that process first"):
            run_cleanup.wait_for_load_end(tmp_path, 0.3, said.append)
    assert len(said) == 1
    run_cleanup.wait_for_load_end(tmp_path, 0.0, said.append)
