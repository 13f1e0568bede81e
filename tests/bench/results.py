"""Measure time and memory from the files of a point to its report, by number of workloads.

    python tests/bench/results.py 10000 100000

Each size runs in a separate process. Times are wall-clock seconds. "timeline to page" is the limited figure: CSV, PNG
and HTML files from timeline.jsonl, without resampling (KPIs and confidence bands).
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
    from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.write_kpis import write_kpis
    from ansible_collections.perfscale.seatrial.plugins.module_utils._report import write_report
    from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir import timeline_table
    from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.write_timeline import write_timeline
    from ansible_collections.perfscale.seatrial.plugins.module_utils._verdict.write_verdict import write_verdict

    role = ROOT / "roles" / "results"
    template = str(role / "templates/report.html.j2")
    steps = {
        "timeline": lambda: write_timeline(str(top)),
        "kpis": lambda: write_kpis(str(top), [str(role / "files/kpis/workload.yml")]),
        "verdict": lambda: write_verdict(str(top), 0.5),
        "report": lambda: write_report.write_report(str(top), template),
    }
    taken = {}
    for name, step in steps.items():
        began = time.monotonic()
        step()
        taken[name] = round(time.monotonic() - began, 1)
    point = top / "points" / "000"
    loaded = timeline_table.read(point / "timeline.jsonl")  # the writer of the CSV file has it in memory
    began = time.monotonic()
    timeline_table.write_csv(loaded, point / "timeline.csv")
    write_report.BANDS = False
    write_report.write_report(str(top), template)
    taken["timeline to page"] = round(time.monotonic() - began, 1)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {**taken, "peak_mib": round(max(own, child) / 1024), "load": round(os.getloadavg()[0], 1)}


def make(count: int, top: Path) -> None:
    """Write a run of ``count`` workloads."""
    import large_run

    large_run.write(count, top)


def main() -> None:
    """Print a table, one row per size."""
    if sys.argv[1] in ("--make", "--one"):
        found = {"--make": make, "--one": one}[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
        print(json.dumps(found))
        return
    os.environ.pop("SEATRIAL_VALIDATE", None)
    names = ["workloads", "timeline", "kpis", "verdict", "report", "timeline to page", "peak MiB", "load"]
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for text in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="seatrial-bench-") as folder:
            top = Path(folder) / "run"
            output = ""
            for step in ("--make", "--one"):
                command = [sys.executable, __file__, step, text, str(top)]
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found = json.loads(output)
            print(f"| {int(text):,} | " + " | ".join(f"{value:,}" for value in found.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
