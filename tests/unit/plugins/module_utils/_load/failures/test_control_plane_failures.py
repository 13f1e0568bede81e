# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row of failures that a stranger wrote starts nothing, and no server stays stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import instance_dir
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures import (
    control_plane_failures,
    failure_guard_processes,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures.failure_schedule import (
    API_AWAY,
    CONTROLLER_RESTARTED,
    OPTIONS,
    WORKER_AWAY,
    schedule_failures,
)


@pytest.mark.parametrize("kind", [CONTROLLER_RESTARTED, API_AWAY, WORKER_AWAY])
def test_nothing_is_started_from_a_folder_that_is_not_of_the_running_cluster(kind: str, tmp_path: Path) -> None:
    proof, records = tmp_path / "proof", tmp_path / "mine" / "pids"
    records.mkdir(parents=True)
    kept = {"command": ["touch", str(proof)], "environment": {}, "recipe": ""}
    (records / "kueue.restart").write_text(json.dumps(kept), encoding="utf-8")
    row = {"kind": kind, "target": "kueue", "before": {"instance": str(tmp_path / "mine"), "pid": 1, "ticks": 1}}
    assert control_plane_failures.undo_process_failure("https://127.0.0.1:1", row) is False
    assert not proof.exists() and (records / "kueue.restart").exists()


@pytest.mark.parametrize("target", ["/tmp/evil", "../../evil", "x/../evil", ""])
def test_a_target_that_is_a_path_is_no_process(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = instance_dir.InstancePaths(tmp_path, "mine")
    monkeypatch.setattr(control_plane_failures, "find_rehearsal_cluster", lambda _server: instance)
    monkeypatch.setattr(control_plane_failures, "_start", lambda *_: pytest.fail("it was started"))
    row = {"kind": CONTROLLER_RESTARTED, "target": target, "before": {"instance": str(instance.path)}}
    assert control_plane_failures.undo_process_failure("https://127.0.0.1:1", row) is False


def test_a_worker_that_the_cluster_of_the_load_does_not_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = instance_dir.InstancePaths(tmp_path, "mine")
    monkeypatch.setattr(control_plane_failures, "find_rehearsal_cluster", lambda _server: instance)
    entry = {name: option.get("default") for name, option in OPTIONS.items()}
    planned = schedule_failures([{**entry, "kind": WORKER_AWAY, "at": [1.0], "worker": "worker-7"}], 1)
    with pytest.raises(InputError, match=r"worker of a worker_away is 'worker-7', and .* has no such worker"):
        control_plane_failures.check_processes_exist("https://127.0.0.1:1", planned)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_server_goes_on_when_its_guard_is_asked_to_end(number: signal.Signals, tmp_path: Path) -> None:
    server = subprocess.Popen(["sleep", "60"])
    flag = tmp_path / "flag"
    flag.write_text("")
    command = failure_guard_processes.command_line_of_guard(
        control_plane_failures._GUARD, flag, 60, [server.pid, 0.05, 0]
    )
    guard = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 20
        while not processes.is_stopped(server.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert processes.is_stopped(server.pid)
        guard.send_signal(number)
        assert guard.wait(20) == 0
        assert not processes.is_stopped(server.pid) and not flag.exists()
    finally:
        guard.kill()
        server.kill()
        server.wait(10)
        guard.wait(10)
