"""What a process of a load asks the system for, and what is due while it can send nothing more."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import cast

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_server_access import ApiServerAccess
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.workload_plan import PlannedWorkload
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import plan_dispatcher
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.creation_ledger import ResumeState
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.object_creator import (
    ObjectSender,
    SenderSettings,
)

ROOT = Path(__file__).resolve().parents[6]
AUTOGROUP = Path("/proc/self/autogroup")
PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.plan_dispatcher import raise_priority
raise_priority(sys.argv[2] == "timed")
print(os.getpriority(os.PRIO_PROCESS, 0), open("/proc/self/autogroup").read().split()[-1])
"""


@pytest.mark.skipif(os.geteuid() != 0 or not AUTOGROUP.exists(), reason="needs root and sessions that are weighed")
@pytest.mark.parametrize(("kind", "session"), [("timed", "-10"), ("closed", "0")])
def test_a_load_with_times_to_keep_asks_for_priority_for_its_own_session_only(kind: str, session: str) -> None:
    before = AUTOGROUP.read_text(encoding="ascii")
    words = [sys.executable, "-c", PROGRAM, str(ROOT / "collections"), kind]
    done = subprocess.run(words, capture_output=True, text=True, check=True, start_new_session=True)
    assert done.stdout.split() == ["-10", session]
    assert AUTOGROUP.read_text(encoding="ascii") == before


@pytest.mark.parametrize(("in_flight", "held_back"), [(2, 3), (5, 0)])
def test_what_is_due_while_all_connections_are_busy_is_counted(in_flight: int, held_back: int) -> None:
    class Slow(plan_dispatcher.ObjectSendDispatcher):
        gate = threading.Event()

        def _send(self, sender: ObjectSender, planned: PlannedWorkload, due: float | None) -> None:
            assert self.gate.wait(120)

    todo = [PlannedWorkload(index, f"w-{index}", 0.0, "one", {}) for index in range(5)]
    settings = SenderSettings(
        cast(ApiServerAccess, None), MonotonicWallClock.start(), lambda row: None, 1.0, 1.0, "run", "001"
    )
    slow = Slow(settings, {}, todo, ResumeState(), in_flight)
    slow.start()
    deadline = time.monotonic() + 120
    while slow.held_back < held_back and time.monotonic() < deadline:
        time.sleep(0.01)
    slow.gate.set()
    assert slow.done.wait(120)
    assert slow.held_back == held_back
