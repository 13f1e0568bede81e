# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that keeps a kubelet away is there only as long as its guard is to act."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures import (
    failure_guard_processes,
    kubelet_and_network_failures,
)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda flag, _guard: flag.unlink(), id="undone"),
        pytest.param(lambda _flag, guard: guard.terminate(), id="ended"),
    ],
)
def test_a_kubelet_may_start_again_when_its_guard_ends(
    end: Callable[[Path, subprocess.Popen[bytes]], None], tmp_path: Path
) -> None:
    flag, away = tmp_path / "flag", tmp_path / "away"
    flag.write_text("")
    guard = subprocess.Popen(
        failure_guard_processes.command_line_of_guard(kubelet_and_network_failures._KUBELET_GUARD, flag, 60, [away])
    )
    try:
        deadline = time.monotonic() + 20
        while not away.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert away.exists()
        end(flag, guard)
        assert guard.wait(20) == 0
        assert not away.exists() and not flag.exists()
    finally:
        guard.kill()
        guard.wait(10)


def test_nothing_is_undone_in_a_folder_that_is_not_of_the_running_cluster(tmp_path: Path) -> None:
    away = tmp_path / "node" / "state" / "kubelet-away"
    away.parent.mkdir(parents=True)
    away.write_text("")
    row = {"kind": "kubelet_restarted", "target": "real-0", "before": {"instance": str(tmp_path)}}
    assert kubelet_and_network_failures.undo_kubelet_outage("https://127.0.0.1:1", row) is False and away.exists()
