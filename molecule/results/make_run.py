"""Write the run directory that this scenario works on: three workloads of which one failed, two test points."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests" / "support")]

from run_directory import World, write_run  # found by the line above

if __name__ == "__main__":
    worlds = [
        (World(count=3, canary=5.0, run_for=3.0), {"fine_tuning_pod_count": 2}),
        (World(count=3, canary=5.0, run_for=3.0, outcomes={1: "failed"}, seed=2), {"fine_tuning_pod_count": 4}),
    ]
    write_run(Path(sys.argv[1]), worlds)
