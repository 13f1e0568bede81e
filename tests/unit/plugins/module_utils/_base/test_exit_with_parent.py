# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module ends with the worker that called it, as Ansible starts them: worker, shell, module."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import signals

MODULE = """
import signal, sys, time
from pathlib import Path
sys.path[:0] = {path!r}
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import signals
folder = Path({folder!r})
def end(number, frame):
    (folder / "ending").write_text(signal.Signals(number).name)
    (folder / "ending").rename(folder / "ended")  # whoever sees it finds it written
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
with signals.exit_with_parent(0.05):
    (folder / "started").touch()
    time.sleep(30)
"""


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert path.exists(), f"{path.name} did not come"


@pytest.fixture
def worker(tmp_path: Path) -> subprocess.Popen[bytes]:
    (tmp_path / "module.py").write_text(MODULE.format(path=[one for one in sys.path if one], folder=str(tmp_path)))
    # `; :` keeps the shell as the module's parent, as the local connection does
    started = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import subprocess; subprocess.run(['sh', '-c', '{sys.executable} {tmp_path}/module.py; :'])",
        ],
        start_new_session=True,
    )
    wait_for(tmp_path / "started")
    return started


def test_a_worker_that_is_killed_takes_the_module_along(worker: subprocess.Popen[bytes], tmp_path: Path) -> None:
    os.kill(worker.pid, signal.SIGKILL)  # only the worker: the shell between them lives on
    worker.wait()
    wait_for(tmp_path / "ended")
    assert (tmp_path / "ended").read_text() == "SIGTERM"


def test_nothing_is_sent_while_the_caller_lives(worker: subprocess.Popen[bytes], tmp_path: Path) -> None:
    time.sleep(0.3)
    assert not (tmp_path / "ended").exists()
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def test_a_process_lives_until_it_was_waited_for() -> None:
    one = subprocess.Popen([sys.executable, "-c", ""])
    assert signals.does_process_exist(one.pid)
    one.wait()
    assert not signals.does_process_exist(one.pid)
