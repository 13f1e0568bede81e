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
    """Write a run of ``count`` workloads of one pod each: 100 a second, eight events a workload, ten canaries a second.

    Lines are put together as text: a hundred thousand workloads through the world of the tests take minutes.
    """
    from run_directory import EPOCH, RUN, STAGES, World, write_run

    write_run(top, [(World(count=1, canary=0.0, training=False), {})])
    folder = top / "points" / "000"
    plan = json.loads((folder / "plan.jsonl").read_text().splitlines()[0])
    plan["count"] = count
    stages = {"type": "stages", "kinds": STAGES, "simulated_writers": ["node"]}
    life = [
        (0.005, "PyTorchJob", "created"),
        (0.1, "Pod", "created"),
        (0.15, "Pod", "scheduled"),
        (0.3, "PyTorchJob", "accepted"),
    ]
    life += [
        (1.2, "Pod", "running"),
        (1.3, "PyTorchJob", "running"),
        (9.0, "Pod", "succeeded"),
        (9.1, "PyTorchJob", "succeeded"),
    ]
    rows: list[tuple[float, str]] = []
    with open(folder / "plan.jsonl", "w") as planned, open(folder / "ledger.jsonl", "w") as ledger:
        planned.write(json.dumps(plan) + "\n")
        ledger.write(f'{{"type":"start","at":{EPOCH}}}\n')
        for index in range(count):
            name, due = f"{RUN}-000-{index}", EPOCH + index / 100
            planned.write(
                f'{{"type":"workload","index":{index},"name":"{name}","offset":{index / 100},"template":"pytorchjob",'
                '"parameters":{}}\n'
            )
            ledger.write(
                f'{{"type":"attempt","index":{index},"name":"{name}","kind":"PyTorchJob","attempt":1,"intended":{due},'
                f'"sent":{due + 0.001},"answered":{due + 0.009},"status":201,"outcome":"created","uid":"job-{index}",'
                f'"resource_version":"{version(due + 0.005)}"}}\n'
            )
            for place, (after, kind, stage) in enumerate(life):
                at = due + after + (index * 7919 + place) % 1000 / 4000
                at = due + 0.005 if place == 0 else at
                own = kind == "PyTorchJob"
                rows.append(
                    (
                        at,
                        f'{{"type":"event","received":{at + 0.004:.6f},"how":"watch","event":"MODIFIED",'
                        f'"kind":"{kind}","namespace":"n","name":"{name}{"" if own else "-0"}",'
                        f'"uid":"{"job" if own else "pod"}-{index}",'
                        f'"owners":[{"" if own else f"{chr(34)}job-{index}{chr(34)}"}],"index":{index},'
                        f'"resource_version":"{version(at)}","values":{{"{stage}":"2026-11-21T00:00:00Z"}}}}\n',
                    )
                )
    for number in range(int(count / 10) + 200):
        at = EPOCH + number / 10
        line = f'{{"type":"canary","sent":{at - 0.002},"answered":{at + 0.002},"resource_version":"{version(at)}"}}\n'
        rows.append((at, line))
    rows.sort()
    with open(folder / "observations.jsonl", "w") as seen:
        seen.write(json.dumps(stages) + "\n")
        seen.writelines(line for _at, line in rows)
        seen.write(f'{{"type":"end","at":{EPOCH + count / 100 + 15},"reason":"done"}}\n')


def version(at: float) -> int:
    """A resourceVersion that grows with the moment of the commit."""
    return int((at % 1_000_000) * 1e5)


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
