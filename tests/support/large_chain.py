"""The chain from the plan of a large run to its report, step by step, with time and memory.

    python tests/support/large_chain.py <workloads> <clients> <run directory>

Prints a line of JSON at the start and at the end of each step. measure() starts this in a process of its own, and
samples the memory of that and of all its children.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests" / "support")]

#: Seconds between two samples of the memory. A sample of 2 GiB takes the kernel a tenth of a second.
PERIOD = 1.0


@dataclass
class StepCost:
    """What a step took: seconds, processor seconds, MiB of all processes together at the worst sample.

    anonymous_mib: memory that needs RAM. file_mib: mapped files, which the kernel can drop. Shared pages count once.
    """

    name: str
    seconds: float = 0.0
    cpu: float = 0.0
    anonymous_mib: float = 0.0
    file_mib: float = 0.0
    processes: int = 1
    found: dict[str, Any] = field(default_factory=dict)  # what the step says about its result


def measure(count: int, clients: int, top: Path) -> list[StepCost]:
    """Evaluate a run of ``count`` workloads as ``clients`` have recorded it; return the cost of each step.

    The run is made unless it exists.
    """
    import large_run

    if not top.exists():
        large_run.write(count, top, clients)
    environment = {name: value for name, value in os.environ.items() if name != "SEATRIAL_VALIDATE"}
    command = [sys.executable, __file__, str(count), str(clients), str(top)]
    steps: list[StepCost] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        over = threading.Event()
        watcher = threading.Thread(target=_watch, args=(process.pid, steps, over))
        watcher.start()
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            if told["event"] == "begin":
                steps.append(StepCost(told["step"]))
            else:
                last = steps[-1]
                last.seconds, last.cpu, last.found = told["seconds"], told["cpu"], told["found"]
        over.set()
        watcher.join()
    if process.returncode:
        raise RuntimeError(f"the chain of {count} workloads ended with {process.returncode}")
    return steps


def _watch(root: int, steps: list[StepCost], over: threading.Event) -> None:
    """Note the largest sample of each step."""
    while not over.wait(PERIOD):
        if not steps:
            continue
        step = steps[-1]
        found = [_proportional(pid) for pid in _tree(root)]
        anonymous, mapped = sum(one[0] for one in found) / 1024, sum(one[1] for one in found) / 1024
        if anonymous > step.anonymous_mib:
            step.anonymous_mib, step.processes = anonymous, len(found)
        step.file_mib = max(step.file_mib, mapped)


def _tree(root: int) -> list[int]:
    """Return a process and its descendants."""
    found, left = [], [root]
    while left:
        pid = left.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                left += [int(one) for one in (task / "children").read_text(encoding="ascii").split()]
    return found


def _proportional(pid: int) -> tuple[int, int]:
    """Return the proportional set size of a process: anonymous, and of files (KiB)."""
    held: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
            name, amount, *_unit = line.split()
            held[name] = int(amount)
    return held.get("Pss_Anon:", 0) + held.get("Pss_Shmem:", 0), held.get("Pss_File:", 0)


Steps = Iterator[tuple[str, Callable[[], Any]]]


def steps_of(count: int, clients: int, top: Path) -> Steps:
    """Yield the steps in their order."""
    import large_run
    from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import workload_plan
    from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import workload_plan as plan_parts
    from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import client_results
    from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
    from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
    from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import draw_run_plots, write_report
    from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import (
        write_timeline,
    )
    from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_table

    role, point = ROOT / "roles" / "results", top / "points" / "000"
    template = str(role / "templates/report.html.j2")
    folders = large_run.client_folders(top, clients)

    def plan() -> dict[str, Any]:
        with open(point / "plan.jsonl", encoding="utf-8") as stream:
            templates = json.loads(stream.readline())["templates"]
        planned = large_run.plan(top, templates)
        workload_plan.write_whole_plan(point / "plan.jsonl", planned)
        for number, folder in enumerate(folders if clients > 1 else ()):
            workload_plan.write_whole_plan(
                folder / "plan.jsonl", plan_parts.plan_for_client(planned, plan_parts.ClientPart(number, clients))
            )
        return {"planned": len(planned.workloads)}

    def join() -> dict[str, Any]:
        client_results.join_files_of_clients(point, dict(enumerate(folders)), clients, {})
        return {name: (point / f"{name}.jsonl").stat().st_size for name in ("ledger", "observations")}

    def timeline() -> dict[str, Any]:
        done = write_timeline(str(top))
        found = {name: done["points"][0][name] for name in ("planned", "outcomes", "contradictions")}
        with open(point / "timeline.jsonl", encoding="utf-8") as stream:
            header = json.loads(stream.readline())
        return {**found, "clocks": len(header.get("clocks", ())), "notes": header["notes"]}

    def page() -> None:
        timeline_table.write_timeline_csv(
            timeline_table.read_timeline_jsonl(point / "timeline.jsonl"), point / "timeline.csv"
        )
        draw_run_plots.BANDS = False
        write_report.write_report(str(top), template)

    yield f"plan, cut into {clients} parts" if clients > 1 else "plan", plan
    if clients > 1:
        yield "join", join
    yield "timeline", timeline
    yield "kpis", lambda: write_kpis(str(top), [str(role / "files/kpis/workload.yml")])["summary"]
    yield "verdict", lambda: write_verdict(str(top), 0.5)["summary"]
    yield "report", lambda: {"plots": len(write_report.write_report(str(top), template)["plots"])}
    yield "timeline to page", page


def main(count: int, clients: int, top: Path) -> None:
    """Run the steps, each in a process of its own as the modules of a playbook are."""
    for name, step in steps_of(count, clients, top):
        _say(event="begin", step=name)
        began, cpu = time.monotonic(), os.times()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.write(writer, json.dumps(step()).encode())
                code = 0
            finally:
                sys.stdout.flush()
                os._exit(code)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            found = stream.read()
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"step {name} failed")
        now = os.times()
        used = now.children_user + now.children_system - cpu.children_user - cpu.children_system
        seconds = time.monotonic() - began
        _say(event="end", seconds=round(seconds, 1), cpu=round(used, 1), found=json.loads(found))


def _say(**told: Any) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
