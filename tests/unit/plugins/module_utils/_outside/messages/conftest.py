# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two services, and the directory of a run that has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import recorded_path_and_inode
from message_servers import GitHubStandIn, SlackStandIn, address
from messages_of_a_run import RUN, SUMMARY
from scripted_server import ScriptedServer


@pytest.fixture
def hub() -> Iterator[tuple[GitHubStandIn, str]]:
    stand_in = GitHubStandIn()
    with ScriptedServer(stand_in.answer) as server:
        yield stand_in, address(server)


@pytest.fixture
def chat() -> Iterator[tuple[SlackStandIn, str]]:
    stand_in = SlackStandIn()
    with ScriptedServer(stand_in.answer) as server:
        yield stand_in, address(server)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    record = {"schema": "run/1", "id": RUN, "project": "fine_tuning", "presets": ["light"], "status": "failed"}
    held = [{"what": "existing cluster api.lab", "since": "x", "until": None}]
    opened = recorded_path_and_inode(tmp_path, tmp_path)
    files.write_yaml(tmp_path / "run.yml", {**record, "held": held, **opened})
    files.write_json(tmp_path / "verdict.json", {"schema": "verdict/2", "verdict": "regression", "exit_status": 1})
    (tmp_path / "summary.md").write_text(SUMMARY, encoding="utf-8")
    (tmp_path / "FAILURES").write_text("point 000: 3 <pods> failed @team\nb\nc\nd\ne\nf\n", encoding="utf-8")
    return tmp_path
