"""Measure time and memory from the plan of a point to its report, by number of workloads.

    python tests/bench/results.py 10000 100000                one client
    python tests/bench/results.py --clients 10 1000000        the files of ten clients are joined, their clocks compared

Each size, and in it each step, runs in a separate process. Times are wall-clock seconds. "timeline to page" is no part
of the chain: CSV, PNG and HTML files from timeline.jsonl, without resampling (KPIs and confidence bands).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import large_chain

#: Not a step of the chain.
BESIDE = "timeline to page"


def table(steps: list[large_chain.StepCost]) -> str:
    """Return the steps as a Markdown table."""
    chain = [one for one in steps if one.name != BESIDE]
    total = large_chain.StepCost(
        "sum, and largest",
        sum(one.seconds for one in chain),
        sum(one.cpu for one in chain),
        max(one.anonymous_mib for one in chain),
        max(one.file_mib for one in chain),
    )
    rows = [
        f"| {one.name} | {one.cpu:,.0f} s | {one.seconds:,.0f} s | {one.anonymous_mib:,.0f} MiB | "
        f"{one.file_mib:,.0f} MiB |"
        for one in (*steps, total)
    ]
    head = "| step | CPU | wall | anonymous memory of all processes | mapped files |\n|---|---|---|---|---|"
    return "\n".join([head, *rows])


def main() -> None:
    """Print a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="run directories are kept in this folder, and used again")
    parser.add_argument("workloads", type=int, nargs="+")
    given = parser.parse_args()
    for count in given.workloads:
        with tempfile.TemporaryDirectory(prefix="seatrial-bench-") as folder:
            kept = given.folder or Path(folder)
            steps = large_chain.measure(count, given.clients, kept / f"run-{count}-{given.clients}")
        print(
            f"{count:,} workloads, {given.clients} clients, load average {os.getloadavg()[0]:.1f}\n\n{table(steps)}\n"
        )
        print("\n".join(f"{one.name}: {one.found}" for one in steps if one.found), flush=True)


if __name__ == "__main__":
    main()
