# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several clients of a load as processes of this machine, from their parts of the plan to the files of the point.

Each client has a directory ``clients/<run id>/<number>`` in that of the point, until its files are part of the point's.
A call that was interrupted is continued by the next one: the clients resume from their ledgers.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import kubeconfig
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from ..plan import workload_plan
from ..plan.workload_plan import ClientPart, WorkloadPlan
from ..send import common_client_start, load_spec, prepare_load
from ..send.load_spec import LoadSpec
from . import client_results, detached_load
from .detached_load import LoadDirectory

#: Folder of the clients in the directory of the point, and in it, at last, the result of all.
FOLDER, RESULT = "clients", "result.json"
#: Polling interval, seconds, and the number of deaths of one client that ends the load.
_LOOK, _DEATHS = 0.5, 3


def client_directories(request: LoadSpec) -> list[LoadDirectory]:
    """Return the directory of each client."""
    root = request.point_dir / FOLDER
    return [LoadDirectory(root, request.run, f"{number:03d}") for number in range(request.clients)]


def start_client(params: Mapping[str, Any], request: LoadSpec, plan: WorkloadPlan, number: int) -> bool:
    """Start a client, or start it again after it has died; return whether it was started.

    params: parameters of workload_submit. plan: of all clients.
    """
    directory = client_directories(request)[number]
    aside = request.point_dir / FOLDER / f".plan-{number:03d}.jsonl"
    aside.parent.mkdir(parents=True, exist_ok=True)
    workload_plan.write_whole_plan(aside, workload_plan.plan_for_client(plan, ClientPart(number, request.clients)))
    asked = {name: params[name] for name in load_spec.SUBMIT}
    # The options of the module are checked again there; the plan has the seed.
    asked |= {"client": number, "context": "", "seed": plan.header["seed"]}
    config = kubeconfig.render_standalone_kubeconfig(request.kubeconfig, request.context)
    new = detached_load.start_load_unless_exists(directory, asked, config, None, plan=aside, again=True, tied=True)
    aside.unlink()
    return new


def run_local_clients(
    params: Mapping[str, Any], request: LoadSpec, step: StepDirectory, progress: ProgressLog
) -> dict[str, Any]:
    """Run all clients, wait for them, join their files; return the result of workload_submit and ``clients``.

    Raises InputError before anything is created; ProcessError with the error of a client; Interrupted.
    """
    began = time.monotonic()
    done = request.point_dir / FOLDER / RESULT
    if done.exists():
        return {**files.read_json(done), "changed": False}
    plan = prepare_load.write_plan_shared_by_clients(request, request.clients)
    clients = client_directories(request)
    for client in clients:
        if client.state() == detached_load.ENDED and not files.read_json(client.result)["ok"]:
            client.result.unlink()  # interrupted: it goes on
    try:
        with signals.record_termination_signals(request.lock_lost) as stop:
            outcomes = _supervise_clients(params, request, plan, stop, progress, began)
    finally:
        for client in clients:
            detached_load.terminate_load_process(client)
        _join_recorded_files(request)
    failed = {number: client for number, client in outcomes.items() if not client["ok"]}
    if failed:
        number, outcome = min(failed.items())
        raise ProcessError(f"client {number} of {request.clients}: {outcome['msg']}")
    results = {number: client["result"] for number, client in outcomes.items()}
    result = client_results.join_client_results(request, len(plan.workloads), results, {}, time.monotonic() - began)
    step.timing("load", result["load_seconds"], f"point {request.point}")
    files.write_json(done, result)
    shutil.rmtree(request.point_dir / FOLDER / request.run)
    _remove_leases(request)
    progress.say(result["msg"])
    return result


def _supervise_clients(
    params: Mapping[str, Any],
    request: LoadSpec,
    plan: WorkloadPlan,
    stop: signals.Interrupt,
    progress: ProgressLog,
    began: float,
) -> dict[int, dict[str, Any]]:
    """Start the clients, and again those that die; return the outcome of each."""
    clients = client_directories(request)
    starts = [0] * request.clients
    outcomes: dict[int, dict[str, Any]] = {}
    while len(outcomes) < len(clients):
        counts = []
        for number, directory in enumerate(clients):
            state = detached_load.read_load_status(directory, 0)
            counts.append(state.get("counts", {}))
            if number in outcomes:
                continue
            if state["state"] == detached_load.ENDED:
                outcomes[number] = state["outcome"]
                if not state["outcome"]["ok"]:  # the others would wait for it, or measure another load
                    return outcomes
            elif state["state"] != detached_load.RUNNING:
                starts[number] += 1
                if starts[number] > _DEATHS:
                    raise ProcessError(f"client {number} died {_DEATHS} times: {state.get('log', '')}")
                start_client(params, request, plan, number)
        line = client_results.clients_progress_line(
            request.point, len(plan.workloads), counts, request.clients, time.monotonic() - began
        )
        progress.update(str(counts), line)
        stop.check()
        time.sleep(_LOOK)
    return outcomes


def _join_recorded_files(request: LoadSpec) -> None:
    """Join what the clients have recorded so far."""
    folders = {number: directory.point for number, directory in enumerate(client_directories(request))}
    client_results.join_files_of_clients(request.point_dir, folders, request.clients, {})


def _remove_leases(request: LoadSpec) -> None:
    with Client.from_kubeconfig(request.kubeconfig, request.context) as client:
        common_client_start.remove_common_start_leases(
            client, request.run, request.point, request.namespace or client.access.namespace
        )
