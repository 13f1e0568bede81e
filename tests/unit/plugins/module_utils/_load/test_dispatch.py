"""What a process of a load asks the system for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[5]
AUTOGROUP = Path("/proc/self/autogroup")
PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.dispatch import hurry
hurry(sys.argv[2] == "timed")
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
