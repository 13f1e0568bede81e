# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When which failure is injected, and into what: a function of the options and the seed alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, log1p
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from ..plan.random_draws import uniform_number_by_index
from . import node_health_marks

#: A simulated node stops renewing its lease, as one that lost power or network; pods on it are no longer run.
NODE_LOST = "node_lost"
#: A node is cordoned, and the pods of the load on it are evicted, as by kubectl drain.
NODE_DRAINED = "node_drained"
#: A pod is deleted without grace, as by kubectl delete --force.
POD_KILLED = "pod_killed"
#: The containers of a pod on a simulated node end with exit code 137, reason OOMKilled.
CONTAINER_OOM = "container_oom"
#: A simulated node offers one GPU less; with pod_fails, the containers of a pod on it end, too.
GPU_LOST = "gpu_lost"
#: A process of a rehearsal cluster is killed, and started again.
CONTROLLER_RESTARTED = "controller_restarted"
#: The API server of a rehearsal cluster answers nothing: it is stopped, and goes on later.
API_AWAY = "api_away"
#: The etcd of a rehearsal cluster is stopped for most of the time.
ETCD_SLOW = "etcd_slow"
#: Two pods of one workload on a real node of a rehearsal cluster don't reach each other.
NETWORK_CUT = "network_cut"
#: The API server of a worker cluster, to which the cluster of the load dispatches workloads, answers nothing.
WORKER_AWAY = "worker_away"
#: The kubelet of a real node of a rehearsal cluster is killed, and starts again later; containers run on.
KUBELET_RESTARTED = "kubelet_restarted"
OF_NODES = (NODE_LOST, NODE_DRAINED, GPU_LOST, KUBELET_RESTARTED)
OF_PODS = (POD_KILLED, CONTAINER_OOM, NETWORK_CUT)
STOPPED_SERVERS = (API_AWAY, ETCD_SLOW, WORKER_AWAY)
OF_CONTROL_PLANE = (CONTROLLER_RESTARTED, *STOPPED_SERVERS)
KINDS = (*OF_NODES, *OF_PODS, *OF_CONTROL_PLANE)
#: Kinds that have to be undone. What ends a pod is left to its controller.
UNDONE_LATER = (*OF_NODES, *OF_CONTROL_PLANE, NETWORK_CUT)
#: Kinds that end by themselves, even if nobody undoes them.
GUARDED = (*STOPPED_SERVERS, NETWORK_CUT, KUBELET_RESTARTED)
#: Kinds that only a simulated node can have, because KWOK lets anybody write what a kubelet would.
SIMULATED_ONLY = (NODE_LOST, CONTAINER_OOM, GPU_LOST)
#: Kinds that only a real node of a rehearsal cluster can have.
REAL_ONLY = (NETWORK_CUT, KUBELET_RESTARTED)
#: What a process of these kinds is called, if option ``process`` does not say it; of a worker cluster, which one it is.
PROCESSES = {
    API_AWAY: "kube-apiserver",
    ETCD_SLOW: "etcd",
    CONTROLLER_RESTARTED: "kube-controller-manager",
    WORKER_AWAY: "worker-1",
}
#: Most failures of one load, and longest time in seconds; longest time of one that is guarded.
MOST, LONGEST, LONGEST_AWAY = 10_000, 86_400.0, 600.0

#: Options of one entry of the setting, as in a module's argument_spec.
OPTIONS: dict[str, Any] = {
    "kind": {"type": "str", "required": True, "choices": list(KINDS)},
    "at": {"type": "list", "elements": "float", "default": []},
    "rate": {"type": "float", "default": 0},
    "since": {"type": "float", "default": 0},
    "until": {"type": "float", "default": 0},
    "duration": {"type": "float", "default": 60},
    "selector": {"type": "str", "default": ""},
    "count": {"type": "int", "default": 1},
    "share": {"type": "float", "default": 0},
    "by": {"type": "str", "default": ""},
    "pod_fails": {"type": "bool", "default": False},
    "condition": {"type": "str", "default": ""},
    "taint": {"type": "str", "default": ""},
    "process": {"type": "str", "default": ""},
    "worker": {"type": "str", "default": ""},
}
#: Names of worker clusters. The cluster that only the load is sent from has a similar one, and is none.
_WORKER_NAME = re.compile(r"worker-[1-9][0-9]*")
#: Options that only some kinds have.
_ONLY_OF = {
    "selector": (*OF_NODES, *OF_PODS),
    "share": (*OF_NODES, *OF_PODS),
    "by": OF_NODES,
    "pod_fails": (GPU_LOST,),
    "condition": (GPU_LOST,),
    "taint": (GPU_LOST,),
    "process": (CONTROLLER_RESTARTED,),
    "worker": (WORKER_AWAY,),
}


@dataclass(frozen=True)
class PlannedFailure:
    """One failure. Times in seconds: ``at`` after the start of the load, ``duration`` until it is undone.

    count, share: of nodes or pods; with ``by`` of the values that nodes have of this label. process: of the control
    plane, or the worker cluster. condition, taint: what shows that a GPU is lost, instead of the number of GPUs.
    """

    number: int
    kind: str
    at: float
    duration: float
    selector: str
    count: int
    share: float
    by: str = ""
    pod_fails: bool = False
    process: str = ""
    condition: str = ""
    taint: str = ""

    def row(self) -> dict[str, Any]:
        """Return the failure as in the file of failures."""
        return asdict(self)


def schedule_failures(
    entries: Sequence[Mapping[str, Any]], seed: int, setting: str = "failures"
) -> list[PlannedFailure]:
    """Return all failures in order of time. Raises InputError naming setting, entry, option and value."""
    times: list[tuple[float, int, Mapping[str, Any]]] = []
    for place, entry in enumerate(entries):
        _check_entry(entry, f"{setting}[{place}] ({entry['kind']})")
        times += [(at, place, entry) for at in (entry["at"] or _random_times(entry, seed, place))]
    if len(times) > MOST:
        raise InputError(f"{setting}: {len(times):,} failures are planned, at most {MOST:,} are permitted")
    times.sort(key=lambda planned: planned[:2])
    return [
        PlannedFailure(
            number,
            entry["kind"],
            round(float(at), 3),
            float(entry["duration"]),
            entry["selector"],
            entry["count"],
            entry["share"],
            entry["by"],
            entry["pod_fails"],
            entry["worker"] or entry["process"] or PROCESSES.get(entry["kind"], ""),
            entry["condition"],
            entry["taint"],
        )
        for number, (at, _place, entry) in enumerate(times)
    ]


def _check_entry(entry: Mapping[str, Any], where: str) -> None:
    if bool(entry["at"]) == bool(entry["rate"]):
        why = "both are given" if entry["at"] else "at is empty and rate is 0"
        raise InputError(
            f"{where}: exactly one of at (seconds after the start) and rate (failures per hour) is required; {why}"
        )
    if entry["rate"] and entry["until"] <= entry["since"]:
        raise InputError(f"{where}: until is {entry['until']:g} s, with a rate it must be greater than since")
    bounds = {"rate": 100_000.0, "since": LONGEST, "until": LONGEST, "duration": LONGEST, "share": 1.0}
    for name, most in bounds.items():
        if not 0 <= entry[name] <= most:
            raise InputError(f"{where}: {name} is {entry[name]:g}, it must be 0 to {most:,.0f}")
    for at in entry["at"]:
        if not 0 <= at <= LONGEST:
            raise InputError(f"{where}: at has {at:g}, it must be 0 to {LONGEST:,.0f} s")
    if not 1 <= entry["count"] <= MOST:
        raise InputError(f"{where}: count is {entry['count']}, it must be 1 to {MOST:,}")
    for name, kinds in _ONLY_OF.items():
        if entry[name] and entry["kind"] not in kinds:
            raise InputError(f"{where}: only {', '.join(kinds)} {'have' if len(kinds) > 1 else 'has'} option {name}")
    node_health_marks.check_condition_and_taint(entry["condition"], entry["taint"], where)
    if entry["pod_fails"] and node_health_marks.does_taint_evict_pods(entry["taint"]):
        raise InputError(f"{where}: taint {entry['taint']} ends the pods, so pod_fails can't do so; leave one out")
    if entry["worker"] and not _WORKER_NAME.fullmatch(entry["worker"]):
        raise InputError(f"{where}: worker is '{entry['worker']}', it must be worker- and a number, such as worker-1")
    if entry["count"] != 1 and entry["kind"] in OF_CONTROL_PLANE:
        raise InputError(f"{where}: {entry['kind']} hits one process, so count must be 1, not {entry['count']}")
    if entry["kind"] in GUARDED and not 0 < entry["duration"] <= LONGEST_AWAY:
        raise InputError(
            f"{where}: duration is {entry['duration']:g}, it must be more than 0 and at most {LONGEST_AWAY:g} s"
        )


def _random_times(entry: Mapping[str, Any], seed: int, place: int) -> list[float]:
    """Return times with independent, exponentially distributed gaps."""
    times: list[float] = []
    at = float(entry["since"])
    while len(times) <= MOST:
        u = uniform_number_by_index(len(times), seed, f"failure times {place}")
        at += -log1p(-u) * 3600 / entry["rate"]
        if at >= entry["until"]:
            break
        times.append(at)
    return times


def choose_targets(failure: PlannedFailure, candidates: Iterable[str] | Mapping[str, str], seed: int) -> list[str]:
    """Return the names of the targets among the candidates.

    Each candidate has a random rank that depends on seed, failure and its name, or its role if the candidates are a
    mapping of names to roles. The lowest are taken. So the choice is the same for the same candidates in any order, and
    hardly changes if a few candidates differ.
    """
    roles = candidates if isinstance(candidates, Mapping) else {name: name for name in candidates}
    rank = {
        name: uniform_number_by_index(failure.number, seed, f"failure target {role}") for name, role in roles.items()
    }
    wanted = ceil(failure.share * len(rank) - 1e-9) if failure.share else failure.count
    return sorted(rank, key=lambda name: (rank[name], name))[:wanted]
