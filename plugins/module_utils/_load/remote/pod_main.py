# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entry point of a client of a load in a pod: starts it, reports its state, hands its files over.

It communicates only with the API server of the driver cluster. One ConfigMap has the state of the client, others have
its files (hand_over). A pod that is made again for the same client resumes from the files that were handed over. The
client that ends last deletes the Secret with the request.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    DataError,
    ProcessError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalEvent
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Broken
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import kubeconfig_of_pod

from ..plan import workload_plan
from ..plan.workload_plan import ClientPart
from ..send import prepare_load
from ..send.load_spec import LoadSpec
from . import detached_load, etcd_clock_probes, inference_client_in_pod, pod_files_through_configmaps
from .pod_files_through_configmaps import FILES, REQUEST_FILES, ResultSync
from .result_upload import ResultUpload

SECRET = ServedKind("v1", "Secret", "secrets", True)

#: Keys of the Secret.
REQUEST, KUBECONFIG = "request.json.gz", "kubeconfig"
#: Key of what is asked for: whether the load sends requests to inference servers.
SENDS = "sends"

#: Number of the client; Kubernetes sets it in the pods of an Indexed Job.
INDEX = "JOB_COMPLETION_INDEX"

#: Polling interval for the load, and maximum interval between two heartbeats and of handing files over, seconds.
POLL_INTERVAL, HEARTBEAT, SYNC_INTERVAL = 1.0, 20.0, 5.0

#: Number of clients whose state changes once per LOOK. More of them report less frequently, or the writes would add up.
FAST_POLLING_CLIENTS = 10

#: Maximum number of lines in the ConfigMap.
MAX_LINES = 200

#: How long to retry without a response from the API server, and after a refusal, seconds.
RETRY_TIME, REFUSAL_RETRY_TIME = 900.0, 20.0


class StateConfigMap:
    """The ConfigMap ``<name>-state``: state, last lines and their total number, heartbeat, result."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.client = client
        self.path = pod_files_through_configmaps.CONFIG_MAP.path(namespace, f"{name}-state")
        self.lines: list[str] = []
        self.count = 0
        self.written = float("-inf")

    def add(self, lines: Sequence[str]) -> None:
        """Add lines of the load."""
        self.lines = [*self.lines, *lines][-MAX_LINES:]
        self.count += len(lines)

    def write(self, state: str, **more: Any) -> None:
        """Write the state. Raises AccessError, ApiError."""
        data = {"state": state, "lines": json.dumps(self.lines), "count": str(self.count), "beat": f"{time.time():.0f}"}
        data |= {name: json.dumps(value) for name, value in more.items()}
        self.client.request("PATCH", self.path, {"data": data}, content_type=MERGE_PATCH)
        self.written = time.monotonic()


def retry_api_call(do: Callable[[], Any], over: SignalEvent) -> Any:
    """Call ``do``, and repeat it while the API server cannot be reached or is overloaded.

    A refusal is retried for REFUSED seconds, because an API server that has just started refuses until it has read the
    RBAC objects. After ``over`` it is not retried: deleting the Job deletes our rights.
    """
    began = time.monotonic()
    while True:
        try:
            return do()
        except (AccessError, ApiError) as error:
            passing = error.busy if isinstance(error, ApiError) else isinstance(error, Broken)
            patience = RETRY_TIME if passing else 0.0 if over.is_set() else REFUSAL_RETRY_TIME
            if time.monotonic() - began >= patience:
                raise
            time.sleep(1.0)


def main(arguments: Sequence[str]) -> int:
    """Run the part of one client of the load whose Secret is mounted in ``config_dir``; return the pod's exit code.

    After another code than 0, Kubernetes makes the pod again.
    """
    name, namespace, config_dir, access, work = arguments
    over = SignalEvent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: over.set())
    ours = json.dumps(kubeconfig_of_pod(Path(access), "driver", namespace))
    kubeconfig = Path(work) / "driver-kubeconfig"
    files.replace_text(kubeconfig, ours, mode=0o600)
    with Client.from_kubeconfig(kubeconfig) as client:
        pod = ClientInPod(client, namespace, name, int(os.environ[INDEX]), over)
        if pod.has_ended(pod.number):
            return 0  # the pod before was killed after its last report
        return pod.run(Path(config_dir), Path(work), ours)


class ClientInPod:
    """Client ``number`` of the load ``name``. client: of the driver cluster. over: set when the pod is to end."""

    def __init__(self, client: Client, namespace: str, name: str, number: int, over: SignalEvent) -> None:
        self.number = number
        self._client = client
        self._namespace = namespace
        self._name = name
        self._over = over
        self._own = f"{name}-{number}"
        self._status = StateConfigMap(client, namespace, self._own)

    def has_ended(self, number: int) -> bool:
        """Return whether a client has reported its end."""
        get = partial(
            self._client.get, pod_files_through_configmaps.CONFIG_MAP, f"{self._name}-{number}-state", self._namespace
        )
        config_map = retry_api_call(get, self._over) or {}
        return bool((config_map.get("data") or {}).get("state") == detached_load.ENDED)

    def run(self, config_dir: Path, work: Path, ours: str) -> int:
        """Run the load, and report its end unless it has to be continued; return the exit code. ours: a kubeconfig."""
        asked = parse_json(gzip.decompress((config_dir / REQUEST).read_bytes()))
        request, target = asked["request"], config_dir / KUBECONFIG
        config = target.read_text(encoding="utf-8") if target.exists() else ours
        directory = detached_load.LoadDirectory(work / "loads", request["run_id"], request["point"])
        directory.point.mkdir(parents=True)
        inference = asked.get(SENDS) == detached_load.REQUESTS
        if inference:
            request["secret_dir"] = str(config_dir)
        names = REQUEST_FILES if inference else FILES
        most = asked["collect"]["most"]
        files = ResultSync(self._client, self._namespace, self._own, directory.point, asked["metadata"], most, names)
        retry_api_call(files.restore, self._over)
        parcels: list[dict[str, Any]] = []
        try:
            start = _start_inference_client if inference else _start_client_load
            retry_api_call(partial(start, asked, self.number, directory, work, config), self._over)
        except SeatrialError as error:
            outcome: Mapping[str, Any] = {"ok": False, "error": error.error_kind, "msg": str(error)}
        else:
            with self._compare_clocks(request, directory) if inference else contextlib.nullcontext():
                report = self._follow(directory, files, request["clients"])
            retry_api_call(files.send, self._over)
            outcome = report.get("outcome") or {"ok": False, "msg": report.get("log", "")}
            if report["state"] != detached_load.ENDED or (self._over.is_set() and not outcome["ok"]):
                sys.stderr.write(f"{outcome['msg']}\n")
                return 1
            if self.number == 0:
                parcels = self._send_step_files(report["step_files"], asked["metadata"])
            if files.held:
                try:
                    parcels.append(self._upload(directory, outcome, asked["collect"]["patience"]))
                except ProcessError as error:
                    sys.stderr.write(f"{error}\n")
                    return 1
        result = {"outcome": outcome, "parcels": parcels}
        retry_api_call(partial(self._status.write, detached_load.ENDED, result=result), self._over)
        if all(self.has_ended(number) for number in range(request["clients"])):
            retry_api_call(partial(self._client.delete, SECRET, self._name, self._namespace), self._over)
        return 0

    def _compare_clocks(
        self, request: Mapping[str, Any], directory: detached_load.LoadDirectory
    ) -> contextlib.AbstractContextManager[None]:
        """Write to etcd while the client runs, so that its clock can be compared with those of the others."""
        path = directory.point / etcd_clock_probes.FILE
        load = (request["run_id"], request["point"])
        return etcd_clock_probes.probe_clock(
            self._client, *load, self._namespace, request["canary_rate"], path, _write_error_line, self.number
        )

    def _upload(self, directory: detached_load.LoadDirectory, outcome: Mapping[str, Any], patience: float) -> Any:
        """Upload the files to the S3 server; return the record of the archive. Raises ProcessError."""

        def report(reason: str) -> None:
            _log_api_error(partial(self._status.write, detached_load.RUNNING, holds=reason))

        upload = ResultUpload(
            self._client, self._namespace, self._name, str(self.number), patience, report, self._over.is_set
        )
        files = [("point", directory.point / name) for name in FILES if (directory.point / name).exists()]
        return upload.send(files, outcome, directory.path)

    def _send_step_files(self, paths: Sequence[str], metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
        step = [("step", Path(path)) for path in paths]
        base = f"{self._own}-{secrets.token_hex(4)}"  # a pod that is made again may have other files
        send = partial(
            pod_files_through_configmaps.send_files_as_configmaps, self._client, self._namespace, base, step, metadata
        )
        return list(retry_api_call(send, self._over))

    def _follow(self, directory: detached_load.LoadDirectory, files: ResultSync, clients: int) -> dict[str, Any]:
        """Report the state of the load and hand its files over until it has ended; end it on ``over``."""
        offset, ending, sent = 0, False, 0
        counts: dict[str, int] = {}
        look = POLL_INTERVAL * max(1.0, clients / FAST_POLLING_CLIENTS)
        due = time.monotonic()
        while True:
            if self._over.is_set() and not ending:
                ending = True
                detached_load.terminate_load_process(directory)
            report = detached_load.read_load_status(directory, offset)
            offset = report["offset"]
            self._status.add(report["lines"] if clients == 1 else ())
            if report["state"] != detached_load.RUNNING:
                return report
            now = time.monotonic()
            if report["lines"] or report.get("counts", {}) != counts or now - self._status.written >= HEARTBEAT:
                due = due if counts or not report.get("counts") else now  # it has begun
                counts = report.get("counts", {})
                _log_api_error(partial(self._status.write, detached_load.RUNNING, counts=counts))
            if now >= due:
                # Soon at first: they then have the start of the schedule, on which a pod that is made again continues.
                sent += 1
                due = now + min(SYNC_INTERVAL, sent * look)
                _log_api_error(files.send)
            self._over.wait(look) if not ending else time.sleep(look)


def _start_client_load(
    asked: Mapping[str, Any], number: int, directory: detached_load.LoadDirectory, work: Path, config: str
) -> None:
    """Make the plan, check that it is that of the controller, and start the load with the part of this client.

    Raises DataError for another plan, and whatever the plan or the API server refuses.
    """
    request = dict(asked["request"])
    clients = request["clients"]
    whole, kubeconfig = work / "whole", work / "target-kubeconfig"
    files.replace_text(kubeconfig, config, mode=0o600)
    try:
        made = LoadSpec.from_params(
            {**request, "kubeconfig": str(kubeconfig), "point_dir": str(whole), "lock_dir": None}
        )
        plan = prepare_load.write_plan_shared_by_clients(made, clients)
    finally:
        kubeconfig.unlink()
    _check_plan(whole / detached_load.PLAN, asked, number)
    part = whole / "part.jsonl"
    workload_plan.write_whole_plan(part, workload_plan.plan_for_client(plan, ClientPart(number, clients)))
    request["client"] = number if clients > 1 else None
    detached_load.start_load_unless_exists(directory, request, config, asked["lock"], plan=part, again=True)


def _start_inference_client(
    asked: Mapping[str, Any], number: int, directory: detached_load.LoadDirectory, work: Path, config: str
) -> None:
    """Make the plan, check that it is that of the controller, and start the client. Raises InputError and DataError."""
    request = {**asked["request"], "client": number}
    path = work / "whole" / detached_load.PLAN
    path.parent.mkdir(exist_ok=True)
    workload_plan.write_whole_plan(path, inference_client_in_pod.plan_inference_load(request))
    _check_plan(path, asked, number)
    sends = detached_load.REQUESTS
    detached_load.start_load_unless_exists(
        directory, request, config, asked["lock"], plan=path, again=True, sends=sends
    )


def _check_plan(path: Path, asked: Mapping[str, Any], number: int) -> None:
    """Raise DataError unless the plan is that of the controller."""
    if files.sha256_of(path) != asked["plan"]:
        raise DataError(f"client {number} has made another plan than the controller: their software differs")


def _write_error_line(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _log_api_error(do: Callable[[], Any]) -> None:
    """Call ``do``; after an error, the next call reports the same."""
    try:
        do()
    except (AccessError, ApiError) as error:
        _write_error_line(str(error))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
