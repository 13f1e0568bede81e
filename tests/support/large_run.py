"""A run of any size that looks like one: waves of arrivals, a queue for GPUs, some bad ends. For benches and pictures.

    python tests/support/large_run.py 100000 artifacts/large

Lines are put together as text: a hundred thousand workloads through the small world of the tests take minutes.
"""

from __future__ import annotations

import heapq
import json
import math
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests" / "support")]

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from run_directory import EPOCH, RUN, STAGES, World, write_run  # found by the line above

#: Arrivals a second in the mean, GPUs that there are, seconds of a training in the mean.
RATE, GPUS, TRAINING = 100.0, 6400, 60.0
CANARIES = 10


def version(at: float) -> int:
    """A resourceVersion that grows with the moment of the commit."""
    return int((at % 1_000_000) * 1e5)


def lives(count: int) -> list[list[tuple[float, str, str]]]:
    """Return for each workload its due time and its stages: (seconds, kind, stage), relative to the start."""
    rng = random.Random(11)
    due, at = [], 0.0
    for _ in range(count):
        wave = 1.0 + 0.6 * math.sin(at / 90.0)  # the load comes in waves, at their height more than the GPUs can do
        at += rng.expovariate(RATE * wave)
        due.append(at)
    free: list[float] = []  # when each GPU in use will be free again
    found = []
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
        if index % 4001 == 1200:
            stages.append((running + lasts / 3, "PyTorchJob", "failed"))
        elif index % 9001 != 4500:  # these never end
            stages += [(done, "Pod", "succeeded"), (done + 0.06, "PyTorchJob", "succeeded")]
        found.append([(begin, "", ""), *stages])
    return found


def write(count: int, top: Path) -> Path:
    """Write a run of ``count`` workloads of one pod and one GPU each."""
    write_run(top, [(World(count=1, canary=0.0, training=False), {})])
    clusters = _files.read_yaml(top / "cluster.yml")
    clusters["clusters"]["sutest"].update(gpus=GPUS, nodes=GPUS // 8, gpu_products={})
    _files.write_yaml(top / "cluster.yml", clusters, "cluster/2")
    folder = top / "points" / "000"
    plan = json.loads((folder / "plan.jsonl").read_text().splitlines()[0])
    plan["count"] = count
    stages = {"type": "stages", "kinds": STAGES, "simulated_writers": ["node"]}
    rows: list[tuple[float, str]] = []
    last = 0.0
    with open(folder / "plan.jsonl", "w") as planned, open(folder / "ledger.jsonl", "w") as ledger:
        planned.write(json.dumps(plan) + "\n")
        ledger.write(f'{{"type":"start","at":{EPOCH}}}\n')
        for index, ((due, _none, _nothing), *life) in enumerate(lives(count)):
            name = f"{RUN}-000-{index}"
            planned.write(
                f'{{"type":"workload","index":{index},"name":"{name}","offset":{due:.6f},"template":"pytorchjob",'
                '"parameters":{}}\n'
            )
            created = EPOCH + life[0][0]
            ledger.write(
                f'{{"type":"attempt","index":{index},"name":"{name}","kind":"PyTorchJob","attempt":1,'
                f'"intended":{EPOCH + due:.6f},"sent":{EPOCH + due + 0.001:.6f},"answered":{created + 0.004:.6f},'
                f'"status":201,"outcome":"created","uid":"job-{index}","resource_version":"{version(created)}"}}\n'
            )
            for after, kind, stage in life:
                at = EPOCH + after
                last = max(last, after)
                own = kind == "PyTorchJob"
                gpus = "" if own else ',"gpus":1.0'
                rows.append(
                    (
                        at,
                        f'{{"type":"event","received":{at + 0.004:.6f},"how":"watch","event":"MODIFIED",'
                        f'"kind":"{kind}","namespace":"n","name":"{name}{"" if own else "-0"}",'
                        f'"uid":"{"job" if own else "pod"}-{index}",'
                        f'"owners":[{"" if own else f"{chr(34)}job-{index}{chr(34)}"}],"index":{index},'
                        f'"resource_version":"{version(at)}","values":{{"{stage}":"2026-11-21T00:00:00Z"}}{gpus}}}\n',
                    )
                )
    for number in range(int((last + 20) * CANARIES)):
        at = EPOCH + number / CANARIES
        line = f'{{"type":"canary","sent":{at - 0.002},"answered":{at + 0.002},"resource_version":"{version(at)}"}}\n'
        rows.append((at, line))
    rows.sort()
    with open(folder / "observations.jsonl", "w") as seen:
        seen.write(json.dumps(stages) + "\n")
        seen.writelines(line for _at, line in rows)
        seen.write(f'{{"type":"end","at":{EPOCH + last + 15},"reason":"done"}}\n')
    return top


if __name__ == "__main__":
    print(write(int(sys.argv[1]), Path(sys.argv[2])))
