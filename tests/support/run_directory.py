"""A synthetic run directory: a small world with a known truth, written as the files of a run.

Commits of a made-up API server get growing resourceVersions; our own writes know when they were sent and answered; a
watch shows each commit a little later. ``World.truth`` keeps when each stage was really committed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds

RUN = "t1121-abcdef"
#: The real node of a cluster with real and simulated ones.
REAL = "real-0"
EPOCH = 1_795_000_000.0
#: The shipped definitions, as the sampler writes them into observations.jsonl.
STAGES = {name: workload_kinds.load_kind_by_name_or_path(name).definition for name in ("PyTorchJob", "Pod")}


def stamp(moment: float) -> str:
    """Return a time in the format of the files."""
    from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import (
        format_utc_timestamp as written,
    )

    return written(moment)


@dataclass
class World:
    """The properties of one point. Times in seconds."""

    count: int = 12
    rate: float = 2.0
    workers: int = 1
    run_for: float = 8.0
    canary: float = 20.0  # a second; 0: none
    late: float = 0.002
    seed: int = 1
    outcomes: dict[int, str] = field(
        default_factory=dict
    )  # index -> failed, unfinished, deleted, refused, lost, unsent
    gap: tuple[float, float] | None = None  # seconds after the start in which the watch was blind, then a relist
    closed_loop: bool = False
    training: bool = True
    simulated_writers: tuple[str, ...] = ("node",)
    nodes: dict[int, str] = field(default_factory=dict)  # index -> node of all pods; without one the rows name none
    gpus: int = 1
    start: float = EPOCH
    controller_delay: float = 0.0  # from the end of the last pod until the workload has succeeded, about 0.1 s more
    truth: dict[tuple[int, str], float] = field(default_factory=dict)


@dataclass
class _Commit:
    at: float
    kind: str
    name: str
    index: int
    values: dict[str, Any]
    event: str = "MODIFIED"
    node: str = ""
    version: int = 0


def write_point(folder: Path, world: World, point: str = "000", settings: dict[str, Any] | None = None) -> Path:
    """Write plan, ledger, observations and training of one point; return its directory."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(world.seed)
    names = [f"{RUN}-{index:05d}" for index in range(world.count)]
    _plan(folder, world, point, names)
    commits: list[_Commit] = []
    attempts: list[dict[str, Any]] = []
    for index, name in enumerate(names):
        _live(world, rng, index, name, commits, attempts)
    stop = max([one.at for one in commits] + [world.start + 1]) + 1.0
    canaries = _canaries(world, rng, stop)
    _number(commits, attempts, canaries)
    _ledger(folder, world, point, attempts, stop)
    _observations(folder, world, point, rng, commits, canaries, stop)
    if world.training:
        _training(folder, world, rng, names)
    files.write_yaml(
        folder / "point.yml",
        {
            "schema": "point/2",
            "point": point,
            "attempt": 1,
            "uuid": f"00000000-0000-4000-8000-{int(point):012d}",
            "settings": settings or {},
            "status": "passed",
            "started": stamp(world.start - 3),
            "ended": stamp(stop + 2),
            "exit_code": 0,
            "error": None,
        },
        "point/2",
    )
    return folder


def _plan(folder: Path, world: World, point: str, names: list[str]) -> None:
    header = {
        "type": "header",
        "schema": "plan/1",
        "run": RUN,
        "point": point,
        "count": world.count,
        "seed": world.seed,
        "arrival": {"type": "closed"} if world.closed_loop else {"type": "constant", "rate": world.rate},
        "in_flight": 32,
        "templates": [{"name": "pytorchjob", "kind": "PyTorchJob", "related": ["ConfigMap"], "weight": 1}],
    }
    rows = [
        {
            "type": "workload",
            "index": index,
            "name": name,
            "offset": None if world.closed_loop else index / world.rate,
            "template": "pytorchjob",
            "parameters": {},
        }
        for index, name in enumerate(names)
    ]
    files.write_json_lines(folder / "plan.jsonl", [header, *rows], "plan/1")


def _live(
    world: World, rng: random.Random, index: int, name: str, commits: list[_Commit], attempts: list[dict[str, Any]]
) -> None:
    """Simulate the life cycle of one workload."""
    fate = world.outcomes.get(index, "succeeded")
    if fate == "unsent":
        return
    intended = world.start + index / world.rate
    sent = intended + abs(rng.gauss(0, world.late))
    at = sent + rng.uniform(0.002, 0.008)
    answered = at + rng.uniform(0.001, 0.006)
    attempt = {
        "type": "attempt",
        "index": index,
        "name": name,
        "kind": "PyTorchJob",
        "attempt": 1,
        "intended": intended,
        "sent": sent,
        "answered": answered,
        "status": {"refused": 403, "lost": 0}.get(fate, 201),
        "outcome": {"refused": "refused", "lost": "ambiguous"}.get(fate, "created"),
        "namespace": "seatrial",
    }
    attempts.append(attempt)
    if fate in ("refused", "lost"):
        attempt["reason"] = "Forbidden" if fate == "refused" else "Timeout"
        return
    attempt["uid"] = f"job-{index}"
    created = _Commit(at, "PyTorchJob", name, index, {"created": stamp(int(at))}, "ADDED")
    attempt["_commit"] = created
    commits.append(created)
    truth = world.truth
    truth[(index, "created")] = at
    gang = world.workers + 1
    ran: list[float] = []
    done: list[float] = []
    for member in range(gang):
        pod = f"{name}-{'master-0' if member == 0 else f'worker-{member - 1}'}"
        t = at + rng.uniform(0.02, 0.2)
        commits.append(_Commit(t, "Pod", pod, index, {"created": stamp(int(t))}, "ADDED"))
        truth[(index, f"pod{member}_created")] = t
        t += rng.expovariate(20)
        commits.append(_Commit(t, "Pod", pod, index, {"scheduled": stamp(int(t))}, node=world.nodes.get(index, "")))
        truth[(index, f"pod{member}_scheduled")] = t
        t += rng.uniform(0.5, 1.5)
        commits.append(_Commit(t, "Pod", pod, index, {"running": True}))
        truth[(index, f"pod{member}_running")] = t
        ran.append(t)
        if fate in ("succeeded",):
            t += world.run_for * rng.uniform(0.8, 1.3)
            commits.append(_Commit(t, "Pod", pod, index, {"running": None, "succeeded": True}))
            truth[(index, f"pod{member}_succeeded")] = t
            done.append(t)
    t = at + rng.uniform(0.25, 0.3)
    commits.append(_Commit(t, "PyTorchJob", name, index, {"accepted": stamp(int(t))}))
    truth[(index, "accepted")] = t
    t = max(ran) + rng.uniform(0.01, 0.1)
    commits.append(_Commit(t, "PyTorchJob", name, index, {"running": stamp(int(t))}))
    truth[(index, "running")] = t
    if fate == "succeeded":
        t = max(done) + rng.uniform(0.01, 0.1) + world.controller_delay
        commits.append(_Commit(t, "PyTorchJob", name, index, {"running": None, "succeeded": stamp(int(t))}))
        truth[(index, "succeeded")] = t
    elif fate == "failed":
        t += 1.0
        commits.append(_Commit(t, "PyTorchJob", name, index, {"running": None, "failed": stamp(int(t))}))
        truth[(index, "failed")] = t
    elif fate == "deleted":
        commits.append(_Commit(t + 1.0, "PyTorchJob", name, index, {}, "DELETED"))


def _canaries(world: World, rng: random.Random, stop: float) -> list[dict[str, Any]]:
    if not world.canary:
        return []
    rows = []
    count = int((stop - world.start + 1) * world.canary)
    for number in range(count):
        sent = world.start - 0.5 + number / world.canary
        at = sent + rng.uniform(0.001, 0.004)
        rows.append({"type": "canary", "sent": sent, "answered": at + rng.uniform(0.001, 0.003), "_at": at})
    return rows


def _number(commits: list[_Commit], attempts: list[dict[str, Any]], canaries: list[dict[str, Any]]) -> None:
    """Give resourceVersions in the order of commits."""
    order: list[tuple[float, Any]] = [(one.at, one) for one in commits] + [(one["_at"], one) for one in canaries]
    version = 1000
    for _at, one in sorted(order, key=lambda pair: pair[0]):
        version += 1
        if isinstance(one, _Commit):
            one.version = version
        else:
            one["resource_version"] = str(version)
            del one["_at"]
    for attempt in attempts:
        commit = attempt.pop("_commit", None)
        if commit is not None:
            attempt["resource_version"] = str(commit.version)


def _session(schema: str, world: World, point: str) -> dict[str, Any]:
    anchor = {"wall": world.start - 1, "monotonic": 1000.0, "boot": "b"}
    return {"type": "session", "schema": schema, "run": RUN, "point": point, "anchor": anchor, "pid": 4711}


def _ledger(folder: Path, world: World, point: str, attempts: list[dict[str, Any]], stop: float) -> None:
    rows = [_session("ledger/1", world, point), {"type": "start", "at": world.start}, *attempts]
    rows.append({"type": "end", "at": stop, "reason": "everything was sent"})
    files.write_json_lines(folder / "ledger.jsonl", rows, "ledger/1")


def _observations(
    folder: Path,
    world: World,
    point: str,
    rng: random.Random,
    commits: list[_Commit],
    canaries: list[dict[str, Any]],
    stop: float,
) -> None:
    rows: list[tuple[float, dict[str, Any]]] = []
    blind = (world.start + world.gap[0], world.start + world.gap[1]) if world.gap else None
    missed: dict[tuple[str, str], _Commit] = {}
    for one in sorted(commits, key=lambda commit: commit.version):
        received = one.at + rng.uniform(0.001, 0.02)
        if blind and blind[0] <= received < blind[1]:
            missed[(one.kind, one.name)] = one
            continue
        rows.append((received, _event(one, one.values, received, "watch", world)))
    if blind:
        rows += [
            (blind[1], {"type": "gap", "from": blind[0], "to": blind[1], "kind": kind, "reason": "410 Gone"})
            for kind in STAGES
        ]
        for key, one in missed.items():
            state = {}
            for other in sorted(commits, key=lambda commit: commit.version):
                if (other.kind, other.name) == key and other.version <= one.version:
                    state.update(other.values)
            rows.append((blind[1], _event(one, state, blind[1] + 0.01, "relist", world)))
    rows += [(one["answered"], one) for one in canaries]
    rows.sort(key=lambda pair: pair[0])
    head = [
        _session("observations/1", world, point),
        {"type": "stages", "kinds": STAGES, "simulated_writers": list(world.simulated_writers)},
        *[{"type": "watching", "at": world.start - 0.6, "kind": kind, "resource_version": "1000"} for kind in STAGES],
    ]
    tail = [{"type": "end", "at": stop, "reason": "every workload ended", "events": len(rows)}]
    files.write_json_lines(folder / "observations.jsonl", [*head, *(row for _at, row in rows), *tail], "observations/1")


def _event(one: _Commit, values: dict[str, Any], received: float, how: str, world: World) -> dict[str, Any]:
    own = one.kind == "PyTorchJob"
    return {
        "type": "event",
        "received": received,
        "how": how,
        "event": one.event if how == "watch" else "MODIFIED",
        "kind": one.kind,
        "namespace": "seatrial",
        "name": one.name,
        "uid": f"job-{one.index}" if own else f"pod-{one.name}",
        "owners": [] if own else [f"job-{one.index}"],
        "index": one.index,
        "resource_version": str(one.version),
        "values": values,
        **({} if own else {"simulated": True}),
        **({} if own else {"gpus": float(world.gpus)}),
        **({"node": one.node} if one.node else {}),
    }


def _training(folder: Path, world: World, rng: random.Random, names: list[str]) -> None:
    rows = []
    for index, name in enumerate(names):
        if world.outcomes.get(index, "succeeded") != "succeeded":
            continue
        rate = rng.uniform(3.5, 4.5)
        figures = {
            "train_runtime": round(world.run_for * rng.uniform(0.8, 1.2), 2),
            "train_samples_per_second": round(rate, 3),
            "train_steps_per_second": round(rate / 8, 3),
            "train_tokens_per_second": round(rate * 512, 1),
            "train_loss": round(rng.uniform(0.8, 1.4), 4),
        }
        rows.append({"index": index, "pod": f"{name}-master-0", "figures": figures, "simulated": True, "error": None})
    files.write_json_lines(folder / "training.jsonl", rows, "training/1")


def write_run(top: Path, worlds: list[tuple[World, dict[str, Any]]], **changes: Any) -> Path:
    """Write a run directory with one point for each (world, matrix values); ``changes`` replace parts of run.yml."""
    top.mkdir(parents=True, exist_ok=True)
    start = worlds[0][0].start if worlds else EPOCH
    numbers = [f"{number:03d}" for number in range(len(worlds))]
    for number, (world, settings) in zip(numbers, worlds, strict=True):
        write_point(top / "points" / number, world, number, settings)
    cluster = {
        "provider": "rehearsal",
        "state": "acquired",
        "owned": True,
        "simulated": True,
        "simulated_writers": list(worlds[0][0].simulated_writers) if worlds else ["node"],
        "name": "seatrial",
        "api_host": "127.0.0.1:34567",
        "version": "v1.36.3",
        "openshift": None,
        "nodes": 20,
        "gpus": 160,
        "gpu_products": {"NVIDIA-A100-SXM4-80GB": 160},
        "owner": RUN,
        **({"real_nodes": [REAL]} if any(world.nodes for world, _settings in worlds) else {}),
    }
    phase = {"status": "passed", "started": stamp(start - 60), "ended": stamp(start - 57), "seconds": 3.0}
    run = {
        "schema": "run/1",
        "id": RUN,
        "project": "fine_tuning",
        "presets": ["light"],
        "status": "running",
        "started": stamp(start - 65),
        "command": "ansible-playbook playbooks/fine_tuning.yml -e preset=light",
        "give_back": "ansible-playbook playbooks/fine_tuning.yml -e run_dir=artifacts/x --tags cleanup,release",
        "git": {"revision": "3f1c2d4e5a6b7c8d9e0f", "dirty": False},
        "versions": {
            "ansible-core": "2.19.14",
            "python": "3.11.7",
            "perfscale.seatrial": "0.1.0",
            "kube-apiserver": "v1.36.3",
        },
        "environment": {"cpus": 2, "memory_gib": 15.6, "system": "Debian GNU/Linux 12"},
        "phases": {
            "settings": {**phase, "seconds": 0.4},
            "cluster": {**phase, "seconds": 12.3},
            "prepare": phase,
            "test": {**phase, "seconds": 40.2},
            "report": {"status": "running", "started": stamp(start + 40)},
        },
        "clusters": {"sutest": cluster},
        "points": numbers,
        "held": [],
        "split": {"cluster": 12.3, "load": 36.0, "ansible": 9.4},
    }
    run.update(changes)
    files.write_yaml(top / "run.yml", run, "run/1")
    files.write_yaml(top / "cluster.yml", {"schema": "cluster/2", "clusters": {"sutest": cluster}}, "cluster/2")
    files.write_yaml(
        top / "provenance.yml",
        {
            "schema": "provenance/1",
            "settings": {
                "workload_count": [
                    {"source": "default", "value": 1, "where": None},
                    {"source": "preset light", "value": 12, "where": "group_vars/all/fine_tuning_presets.yml:12:5"},
                ],
                "fine_tuning_hyper_parameters.r": [
                    {"source": "default", "value": 4},
                    {"source": "preset light", "value": 8},
                    {"source": "overrides", "value": 16, "where": "-e"},
                ],
            },
        },
        "provenance/1",
    )
    files.write_yaml(
        top / "settings.yml", {"workload_count": 12, "fine_tuning_hyper_parameters": {"r": 16}}, "settings/1"
    )
    return top
