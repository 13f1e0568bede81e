"""A run of any size that looks like one: waves of arrivals, a queue for GPUs, some bad ends. For benches and pictures.

    python tests/support/large_run.py 100000 artifacts/large

Lines are put together as text: a hundred thousand workloads through the small world of the tests take minutes. With
several clients, each has files of its own, on a clock that is wrong and drifts; they have to be joined.
"""

from __future__ import annotations

import heapq
import json
import math
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests" / "support")]

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import arrival_times, workload_plan
from run_directory import EPOCH, RUN, STAGES, World, write_run  # found by the line above
from split_point import WrongClock

#: Arrivals a second in the mean, GPUs that there are, seconds of a training in the mean.
RATE, GPUS, TRAINING = 100.0, 6400, 60.0
#: Canary writes a second of each client.
CANARIES = 10
#: When the workloads are due, as a trace.
TRACE = "arrivals.csv"

Life = list[tuple[float, str, str]]


def version(at: float) -> int:
    """A resourceVersion that grows with the moment of the commit."""
    return int((at % 1_000_000) * 1e5)


def due_times(count: int) -> list[float]:
    """Return when each workload is due: in waves, at their height more than the GPUs can do."""
    rng = random.Random(11)
    found, at = [], 0.0
    for _ in range(count):
        at += rng.expovariate(RATE * (1.0 + 0.6 * math.sin(at / 90.0)))
        found.append(at)
    return found


def lives(due: list[float]) -> Iterator[Life]:
    """Yield for each workload its due time and its stages: (seconds, kind, stage), relative to the start."""
    rng = random.Random(12)
    free: list[float] = []  # when each GPU in use will be free again
    for index, begin in enumerate(due):
        created = begin + 0.001 + rng.lognormvariate(-5.2, 0.4)
        pod = created + rng.lognormvariate(-1.8, 0.5)
        while free and free[0] <= pod:
            heapq.heappop(free)
        room = pod if len(free) < GPUS else heapq.heappop(free)
        scheduled = max(pod, room) + rng.expovariate(40)
        running = scheduled + 0.8 + rng.expovariate(2)
        lasts = rng.lognormvariate(math.log(TRAINING), 0.25)
        done = running + lasts
        heapq.heappush(free, done)
        stages = [
            (created, "PyTorchJob", "created"),
            (pod, "Pod", "created"),
            (pod + 0.05, "PyTorchJob", "accepted"),
            (scheduled, "Pod", "scheduled"),
            (running, "Pod", "running"),
            (running + 0.05, "PyTorchJob", "running"),
        ]
        if fate(index) == "failed":
            stages.append((running + lasts / 3, "PyTorchJob", "failed"))
        elif fate(index) == "succeeded":
            stages += [(done, "Pod", "succeeded"), (done + 0.06, "PyTorchJob", "succeeded")]
        yield [(begin, "", ""), *stages]


def fate(index: int) -> str:
    """Return how a workload ends."""
    if index % 4001 == 1200:
        return "failed"
    return "unfinished" if index % 9001 == 4500 else "succeeded"


def clock_of(client: int) -> WrongClock:
    """Return the clock of a client: wrong by some seconds, and with another rate than those of the others."""
    return WrongClock(0.9 * client, 2e-5 * client)


class Client:
    """The ledger and the observations of one client. number: None if it is the only one."""

    def __init__(self, folder: Path, number: int | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.clock = clock_of(number or 0)
        self.ledger: TextIO = (folder / "ledger.jsonl").open("w", encoding="utf-8")
        self.observations: TextIO = (folder / "observations.jsonl").open("w", encoding="utf-8")
        self._later: list[tuple[float, str]] = []  # lines of the observations that are not written yet
        self._canaries = 0
        self._phase = (number or 0) * 0.003  # no two of them write at the same moment
        if number is not None:
            self._session(self.ledger, "ledger/1", number)
            self._session(self.observations, "observations/1", number)
        self.ledger.write(f'{{"type":"start","at":{self.shown(0)}}}\n')
        stages = {"type": "stages", "kinds": STAGES, "simulated_writers": ["node"]}
        self.observations.write(json.dumps(stages) + "\n")

    def _session(self, stream: TextIO, schema: str, number: int) -> None:
        anchor = {"wall": self.clock.shows(EPOCH), "monotonic": 1000.0, "boot": f"node-{number}"}
        about = {"schema": schema, "run": RUN, "point": "000", "anchor": anchor, "pid": 4711, "client": number}
        stream.write(json.dumps({"type": "session", **about}, separators=(",", ":")) + "\n")

    def shown(self, after: float) -> str:
        """Return what its clock shows so many seconds after the start."""
        return f"{self.clock.shows(EPOCH + after):.6f}"

    def live(self, index: int, name: str, life: Life) -> None:
        """Send one workload, and see its stages later."""
        (due, _none, _nothing), (created, *_more), *_rest = life
        self.ledger.write(
            f'{{"type":"attempt","index":{index},"name":"{name}","kind":"PyTorchJob","attempt":1,'
            f'"intended":{self.shown(due)},"sent":{self.shown(due + 0.001)},"answered":{self.shown(created + 0.004)},'
            f'"status":201,"outcome":"created","uid":"job-{index}","resource_version":"{version(EPOCH + created)}"}}\n'
        )
        for after, kind, stage in life[1:]:
            own = kind == "PyTorchJob"
            gpus = "" if own else ',"gpus":1.0'
            line = (
                f'{{"type":"event","received":{self.shown(after + 0.004)},"how":"watch","event":"MODIFIED",'
                f'"kind":"{kind}","namespace":"n","name":"{name}{"" if own else "-0"}",'
                f'"uid":"{"job" if own else "pod"}-{index}",'
                f'"owners":[{"" if own else f"{chr(34)}job-{index}{chr(34)}"}],"index":{index},'
                f'"resource_version":"{version(EPOCH + after)}","values":{{"{stage}":"2026-11-21T00:00:00Z"}}{gpus}}}\n'
            )
            heapq.heappush(self._later, (after, line))

    def see(self, until: float) -> None:
        """Write what was seen, and the canaries, up to ``until`` seconds after the start."""
        while True:
            at = self._canaries / CANARIES + self._phase
            first = self._later[0][0] if self._later else math.inf
            if min(first, at) > until:
                return
            if first <= at:
                self.observations.write(heapq.heappop(self._later)[1])
                continue
            self._canaries += 1
            self.observations.write(
                f'{{"type":"canary","sent":{self.shown(at - 0.002)},"answered":{self.shown(at + 0.002)},'
                f'"resource_version":"{version(EPOCH + at)}"}}\n'
            )

    def end(self, last: float) -> None:
        """See the rest, and end."""
        self.see(last + 15)
        self.observations.write(f'{{"type":"end","at":{self.shown(last + 15)},"reason":"done"}}\n')
        self.ledger.close()
        self.observations.close()


def client_folders(top: Path, clients: int) -> list[Path]:
    """Return the folder of each of several clients."""
    return [top / "points" / "000" / "clients" / f"{number:03d}" for number in range(clients)]


def plan(top: Path, templates: list[dict[str, Any]]) -> workload_plan.WorkloadPlan:
    """Return the plan of the trace, as a load makes it."""
    found = arrival_times.arrivals_from_options(
        {"type": "trace", "content": (top / TRACE).read_text(encoding="utf-8")}, 0, None
    )
    chosen = workload_plan.assign_templates(found, [one["name"] for one in templates], [1])
    return workload_plan.plan_workloads(RUN, "000", found, 32, None, templates, chosen)


def write(count: int, top: Path, clients: int = 1) -> Path:
    """Write a run of ``count`` workloads of one pod and one GPU each.

    The files of several clients are in client_folders(), and the point has none of its own but the plan.
    """
    write_run(top, [(World(count=1, canary=0.0, training=False), {})])
    clusters = files.read_yaml(top / "cluster.yml")
    clusters["clusters"]["sutest"].update(gpus=GPUS, nodes=GPUS // 8, gpu_products={})
    files.write_yaml(top / "cluster.yml", clusters, "cluster/2")
    folder = top / "points" / "000"
    due = [round(one, 6) for one in due_times(count)]
    (top / TRACE).write_text("offset\n" + "".join(f"{one:.6f}\n" for one in due), encoding="ascii")
    small = workload_plan.read_complete_plan(folder / "plan.jsonl")
    planned = plan(top, small.header["templates"])
    workload_plan.write_whole_plan(folder / "plan.jsonl", planned)
    if clients > 1:
        for name in ("ledger", "observations"):
            (folder / f"{name}.jsonl").unlink()
        senders = [Client(one, number) for number, one in enumerate(client_folders(top, clients))]
    else:
        senders = [Client(folder, None)]
    last = 0.0
    for workload, life in zip(planned.workloads, lives(due), strict=True):
        sender = senders[workload.index % clients]
        sender.live(workload.index, workload.name, life)
        sender.see(life[0][0])  # what comes is later than the workload is due
        last = max(last, life[-1][0])
    for sender in senders:
        sender.end(last)
    return top


if __name__ == "__main__":
    print(write(int(sys.argv[1]), Path(sys.argv[2])))
