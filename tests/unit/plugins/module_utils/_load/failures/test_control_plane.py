# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row of failures that a stranger wrote starts nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures import control_plane
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures.failure_schedule import (
    API_AWAY,
    CONTROLLER_RESTARTED,
)


@pytest.mark.parametrize("kind", [CONTROLLER_RESTARTED, API_AWAY])
def test_nothing_is_started_from_a_folder_that_is_not_of_the_running_cluster(kind: str, tmp_path: Path) -> None:
    proof, records = tmp_path / "proof", tmp_path / "mine" / "pids"
    records.mkdir(parents=True)
    kept = {"command": ["touch", str(proof)], "environment": {}, "recipe": ""}
    (records / "kueue.restart").write_text(json.dumps(kept), encoding="utf-8")
    row = {"kind": kind, "target": "kueue", "before": {"instance": str(tmp_path / "mine"), "pid": 1, "ticks": 1}}
    assert control_plane.undo("https://127.0.0.1:1", row) is False
    assert not proof.exists() and (records / "kueue.restart").exists()
