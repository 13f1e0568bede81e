"""How long and how much memory it takes from the files of a point to its report; and what ten times the rows cost.

    python tests/bench/results.py 10000 100000

Each size runs in a process of its own. No canary and no training, so that rows are what counts.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests" / "support")]


def one(count: int, top: Path) -> dict[str, float]:
    """Time each step of role results for a run of ``count`` workloads; return seconds by step, and peak MiB."""
    from ansible_collections.perfscale.seatrial.plugins.module_utils._results import work

    role = ROOT / "roles" / "results"
    steps = {
        "timeline": lambda: work.timeline(str(top)),
        "kpis": lambda: work.kpis(str(top), [str(role / "files/kpis/workload.yml")]),
        "verdict": lambda: work.verdict(str(top), 0.5),
        "report": lambda: work.report(str(top), str(role / "templates/report.html.j2")),
    }
    taken = {}
    for name, step in steps.items():
        began = time.process_time()
        step()
        taken[name] = round(time.process_time() - began, 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**taken, "total": round(sum(taken.values()), 2), "peak_mib": round(peak)}


def make(count: int, top: Path) -> None:
    """Write a run of ``count`` workloads of three pods each."""
    from run_directory import World, write_run

    write_run(top, [(World(count=count, rate=60, workers=2, canary=2.0, training=False), {})])


def main() -> None:
    """Print a table, one row a size."""
    if sys.argv[1] in ("--make", "--one"):
        found = {"--make": make, "--one": one}[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
        print(json.dumps(found))
        return
    os.environ.pop("SEATRIAL_VALIDATE", None)
    print("| workloads | timeline | kpis | verdict | report | CPU seconds | peak MiB |\n|---|---|---|---|---|---|---|")
    for text in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="seatrial-bench-") as folder:
            top = Path(folder) / "run"
            told = ""
            for step in ("--make", "--one"):
                command = [sys.executable, __file__, step, text, str(top)]
                told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found = json.loads(told)
            print(f"| {int(text):,} | " + " | ".join(f"{value:,}" for value in found.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
