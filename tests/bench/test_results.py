"""make bench: reports of 10,000 and 100,000 workloads. Times are printed and not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parent / "results.py"
SIZES = (10_000, 100_000)
#: Limits for the larger size: memory in MiB, and seconds from the timeline to the page.
MOST_MIB, SECONDS = 700, 10


@pytest.mark.long
def test_reports_of_large_runs(tmp_path: Path) -> None:
    found = {}
    for size in SIZES:
        for step in ("--make", "--one"):
            command = [sys.executable, str(BENCH), step, str(size), str(tmp_path / str(size))]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        found[size] = json.loads(done.stdout)
        print(f"\n{size:,} workloads: {found[size]}")
    small, large = (found[size] for size in SIZES)
    times = {name: round(large[name] / max(small[name], 0.1), 1) for name in ("timeline", "timeline to page")}
    print(f"ten times the rows took {times} times as long (target: 11; memory {large['peak_mib']} MiB of {MOST_MIB};")
    print(f"timeline to page {large['timeline to page']} s of {SECONDS} s on two idle cores, load was {large['load']})")
    assert large["peak_mib"] <= MOST_MIB
