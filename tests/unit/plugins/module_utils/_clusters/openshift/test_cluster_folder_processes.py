# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that go on without us are found, waited for and ended by whoever comes later."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import cluster_folder_processes


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_program_that_was_begun_is_waited_for_and_its_end_is_known(tmp_path: Path) -> None:
    seen: list[int] = []
    cluster_folder_processes.start_detached_program(
        python("import time; print('hello'); time.sleep(0.5); raise SystemExit(3)"), tmp_path, {}
    )
    assert cluster_folder_processes.await_program_end(tmp_path, 60, "it", lambda: seen.append(1)) == 3
    assert seen and "hello" in (tmp_path / "output.log").read_text()
    assert cluster_folder_processes.await_program_end(tmp_path, 60, "it", lambda: None) == 3, (
        "a later process learns it too"
    )


def test_a_program_that_was_begun_can_be_ended_with_its_children(tmp_path: Path) -> None:
    cluster_folder_processes.start_detached_program(
        python("import subprocess, sys; subprocess.call([sys.executable, '-c', 'import time; time.sleep(99)'])"),
        tmp_path,
        {},
    )
    end = time.monotonic() + 120
    while len(cluster_folder_processes.find_processes_of_folder(tmp_path)) < 3 and time.monotonic() < end:
        time.sleep(0.05)
    assert (
        len(cluster_folder_processes.stop_processes_of_folder(tmp_path, 2.0)) == 3
        and cluster_folder_processes.find_processes_of_folder(tmp_path) == []
    )
    assert cluster_folder_processes.stop_processes_of_folder(tmp_path) == []


def test_one_that_was_killed_is_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="it is not running any more and left no exit code"):
        cluster_folder_processes.await_program_end(tmp_path, 60, "it", lambda: None)


def test_time_that_is_over_ends_what_is_waited_for(tmp_path: Path) -> None:
    with pytest.raises(WaitTimeout, match="has not ended after 0.3 s"):
        cluster_folder_processes.run_program_to_end(python("import time; time.sleep(99)"), tmp_path, {}, 0.3)
    assert cluster_folder_processes.find_processes_of_folder(tmp_path) == []
    with pytest.raises(ProcessError, match="can't be started"):
        cluster_folder_processes.run_program_to_end(["/no/such"], tmp_path, {}, 1)


def test_an_image_is_served_without_a_listing_until_it_is_stopped(tmp_path: Path) -> None:
    from ansible.module_utils.urls import open_url

    (tmp_path / "www" / "token").mkdir(parents=True)
    (tmp_path / "www" / "token" / "agent.iso").write_bytes(b"image")
    port, begun = cluster_folder_processes.start_image_server(tmp_path, "127.0.0.1", 0, 60)
    try:
        assert begun and cluster_folder_processes.start_image_server(tmp_path, "127.0.0.1", 0, 60) == (port, False)
        with open_url(f"http://127.0.0.1:{port}/token/agent.iso", timeout=10) as answer:
            assert answer.read() == b"image"
        with pytest.raises(OSError, match="404"):
            open_url(f"http://127.0.0.1:{port}/token/", timeout=10)
    finally:
        cluster_folder_processes.stop_processes_of_folder(tmp_path, 1.0)
    with pytest.raises(OSError, match="refused"):
        open_url(f"http://127.0.0.1:{port}/token/agent.iso", timeout=10)
    assert cluster_folder_processes.local_address_towards("127.0.0.1:443") == "127.0.0.1"
