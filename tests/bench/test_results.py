"""make bench: reports of 10,000 and 100,000 workloads. Times are printed and not asserted."""

from __future__ import annotations

import os
from pathlib import Path

import large_chain
import pytest

SIZES = (10_000, 100_000)
#: Limits for the larger size: memory of all processes in MiB, and seconds from the timeline to the page.
MOST_MIB, SECONDS = 700, 10
#: A million runs when asked for: BENCH_MILLION=1 make bench. Its limits: MiB and seconds.
MILLION, MILLION_MIB, MILLION_SECONDS = 1_000_000, 4096, 900
CLIENTS = 10


def said(steps: list[large_chain.StepCost]) -> str:
    return "; ".join(f"{one.name} {one.seconds:g} s, {one.anonymous_mib:.0f} MiB" for one in steps)


@pytest.mark.long
def test_reports_of_large_runs(tmp_path: Path) -> None:
    found = {}
    for size in SIZES:
        steps = large_chain.measure(size, 1, tmp_path / str(size))
        print(f"\n{size:,} workloads: {said(steps)}")
        found[size] = {one.name: one for one in steps}
    small, large = (found[size] for size in SIZES)
    times = {
        name: round(large[name].seconds / max(small[name].seconds, 0.1), 1) for name in ("timeline", "timeline to page")
    }
    peak = max(one.anonymous_mib for one in large.values())
    print(f"ten times the rows took {times} times as long (target: 11; memory {peak:.0f} MiB of {MOST_MIB};")
    print(f"timeline to page {large['timeline to page'].seconds} s of {SECONDS} s, load was {os.getloadavg()[0]:.1f})")
    assert peak <= MOST_MIB


@pytest.mark.long
@pytest.mark.skipif(os.environ.get("BENCH_MILLION") != "1", reason="set BENCH_MILLION=1 for a million workloads")
def test_a_million_workloads_of_ten_clients(tmp_path: Path) -> None:
    steps = large_chain.measure(MILLION, CLIENTS, tmp_path / "run")
    chain = [one for one in steps if one.name != "timeline to page"]
    seconds, peak = sum(one.seconds for one in chain), max(one.anonymous_mib for one in chain)
    print(f"\n{MILLION:,} workloads of {CLIENTS} clients: {said(steps)}")
    print(f"{seconds:.0f} s of {MILLION_SECONDS} s, {peak:.0f} MiB of {MILLION_MIB}, load was {os.getloadavg()[0]:.1f}")
    assert peak <= MILLION_MIB
