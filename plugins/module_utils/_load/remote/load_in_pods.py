# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a load in pods of the driver cluster, from the parameters of module workload_remote.

It is followed, and its progress shown, until each of its clients has ended or is lost.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.cluster_properties import (
    api_host_without_usual_port,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import (
    load_context_access,
    render_standalone_kubeconfig,
)

from ..plan import workload_plan
from ..send import common_client_start, load_spec, prepare_load
from ..send.load_spec import LoadSpec
from . import client_results, host_or_pod_load, pod_main, pod_manifests, result_bucket
from .detached_load import PLAN
from .load_pods_lifecycle import FOLDER, POLL_INTERVAL, DriverPod, PodsState
from .pod_main import FAST_POLLING_CLIENTS
from .pod_manifests import DriverPodSpec
from .result_bucket import ResultStore

#: Minimum interval between two renewals of URLs, seconds.
URL_RENEWAL_INTERVAL = 20.0
#: Reasons of a container that waits for something that nobody will change, and how long it may give them, seconds: a
#: registry may be unavailable for a moment.
TERMINAL_REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
)
TERMINAL_TOLERANCE = 60.0


#: Returns the progress of all clients as one line, from the counts of each and the seconds since the begin.
ProgressLine = Callable[[list[Mapping[str, int]], float], str]


class PodsFollower:
    """Follows the load of ``pod``. start_timeout: for its pods to start, seconds.

    has_started: asks whether the common start was released. check: called again and again, may raise.
    """

    def __init__(
        self,
        pod: DriverPod,
        progress_line: ProgressLine,
        start_timeout: float,
        has_started: Callable[[], bool],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._pod = pod
        self._check = check
        self._has_started = has_started
        self._started = False  # as last asked; asked only if a client is missing
        self._hopeless: dict[int, float] = {}  # client -> since when its pod waits in vain
        self._progress_line = progress_line
        self._start_timeout = start_timeout
        self._began = time.monotonic()
        self._heard = [self._began] * pod.spec.clients
        self._beats = [""] * pod.spec.clients
        self._shown = 0  # lines of the only client
        self._line = ""
        self._waiting = ""
        self._holding = ""
        self._renewed = float("-inf")

    def run(self) -> PodsState:
        """Return the state of the load at its end.

        After the error of a client, or the loss of one before the common start, the others are ended.

        Raises ProcessError if the load was deleted, WaitTimeout if a pod does not start or shows no sign of life.
        """
        spec, retry = self._pod.spec, self._pod.retry
        while True:
            self._check()
            pods = retry.call("following it", self._pod.status)
            if not pods.there:
                raise ProcessError(f"the load of run {spec.run} was deleted")
            self._show(pods)
            if pods.over:
                return pods
            if any(client.failed for client in pods.clients):
                # The others would wait for it, or measure another load.
                retry.call("ending the other clients", self._pod.stop)
                return retry.call("following it", self._pod.status)
            unstarted = self._unstarted(pods)
            if unstarted:
                retry.call("ending the other clients", self._pod.stop)
                return replace(pods, unstarted=unstarted)
            self._collect(pods)
            self._check_signs(pods)
            time.sleep(POLL_INTERVAL * max(1.0, spec.clients / FAST_POLLING_CLIENTS))

    def _unstarted(self, pods: PodsState) -> dict[int, str]:
        """Return the clients that are lost, if the others wait for them, and why they are."""
        now = time.monotonic()
        vain = {
            number: pods.words(number)
            for number, client in enumerate(pods.clients)
            if not client.beat and pods.words(number).partition(":")[0] in TERMINAL_REASONS
        }
        self._hopeless = {number: self._hopeless.get(number, now) for number in vain}
        given_up = {number: why for number, why in vain.items() if now - self._hopeless[number] >= TERMINAL_TOLERANCE}
        gone = {**given_up, **pods.lost}
        if gone and not self._started:
            self._started = self._pod.retry.call("looking for the common start", self._has_started)
        return {} if self._started else gone

    def _show(self, pods: PodsState) -> None:
        if len(pods.clients) == 1:
            (state,) = pods.clients
            new = state.count - self._shown
            for line in state.lines[-new:] if new > 0 else ():
                self._pod.say(line)
            self._shown = max(self._shown, state.count)
        elif any(client.beat for client in pods.clients):
            line = self._progress_line([client.counts for client in pods.clients], time.monotonic() - self._began)
            if line.rpartition(",")[0] != self._line:
                self._line = line.rpartition(",")[0]
                self._pod.say(line)
        waiting = "; ".join(
            f"client {number}: {pods.words(number)}"
            for number, state in enumerate(pods.clients)
            if not state.ended and pods.words(number) != "Running"
        )
        if waiting != self._waiting:
            self._waiting = waiting
            self._pod.say(f"waits for its pods: {waiting}" if waiting else "all pods run")

    def _collect(self, pods: PodsState) -> None:
        """Replace the URLs of clients that hold their files. Raises ProcessError if no S3 server is set."""
        holding = {
            number: client.holds for number, client in enumerate(pods.clients) if client.holds and not client.ended
        }
        if not holding:
            return
        number, why = min(holding.items())
        words = f"{formats.format_count(len(holding), 'client')} cannot send all files, client {number}: {why}"
        if self._pod.store is None:
            raise ProcessError(
                f"{words}. The pods keep the files; set workload_collect_s3 and call the same task again, which finds "
                f"the load by its run id ({self._pod.spec.run})"
            )
        if words != self._holding:
            self._holding = words
            self._pod.say(words)
        if time.monotonic() - self._renewed > URL_RENEWAL_INTERVAL:
            self._renewed = time.monotonic()
            self._pod.retry.call("renewing the URLs of the uploads", self._pod.renew)

    def _check_signs(self, pods: PodsState) -> None:
        now, spec = time.monotonic(), self._pod.spec
        for number, client in enumerate(pods.clients):
            if client.beat != self._beats[number]:
                self._beats[number], self._heard[number] = client.beat, now
            if client.ended or number in pods.lost:
                continue
            words = pods.words(number)
            if not client.beat and now - self._began > self._start_timeout:
                raise WaitTimeout(
                    f"the pod of client {number} of {spec.name} did not start within {self._start_timeout:g} s: {words}"
                )
            if client.beat and now - self._heard[number] > self._pod.retry.patience:
                silent = now - self._heard[number]
                raise WaitTimeout(f"no sign of life of client {number} of {spec.name} for {silent:.0f} s: {words}")


class LoadInPod:
    """The load of one point in pods of the driver cluster."""

    where = "the load in the driver cluster"
    host = host_or_pod_load.DRIVER_POD

    def __init__(self, params: Mapping[str, Any], client: Client, step: StepDirectory) -> None:
        """``params``: the module's parameters. ``client``: of the driver cluster."""
        spec = DriverPodSpec.from_params(params)
        say = step.reporter(params["progress_file"], "driver pod")
        recorded = (host_or_pod_load.read_load_record(Path(params["point_dir"])) or {}).get("collect") or {}
        clients = len(recorded.get("keys", ())) or spec.clients  # to delete a load, its request is not given
        self.store = ResultStore.from_params(params, spec.run, spec.point, clients)
        self.collect: Mapping[str, Any] | None = self.store.record() if self.store is not None else None
        self.pod = DriverPod(client, spec, say, params["elsewhere_reconnect"], self.store)
        self.root = spec.namespace
        self.retry = self.pod.retry
        self._given = params
        self._step = step
        self._began = time.monotonic()

    @cached_property
    def _asked(self) -> dict[str, Any]:
        """Parameters of workload_submit. Raises InputError."""
        return load_spec.parameters_of_remote_load(self._given["request"], self._given["run_id"], self._given["point"])

    @cached_property
    def _request(self) -> LoadSpec:
        params = self._given
        target = {"kubeconfig": params["kubeconfig"], "context": params["context"]}
        return LoadSpec.from_params({**self._asked, **target, "point_dir": params["point_dir"]})

    @cached_property
    def _planned(self) -> int:
        """Number of workloads of the plan."""
        return int(workload_plan.read_plan_header(self._request.point_dir / PLAN)["count"])

    def begin(self, recorded: bool) -> bool:
        """See RemoteLoad."""
        params, pod, request = self._given, self.pod, self._request
        if self.retry.call("looking for it", pod.was_started):
            pod.say("found the load again by its run id")
            self.retry.call("renewing the URLs of the uploads", pod.renew)
            return True
        if self.store is not None:
            self.store.check()
        plan = prepare_load.write_plan_shared_by_clients(request, request.clients)
        self._remove_leases()  # of a load that was deleted before
        # The plan has the seed.
        asked = {**self._asked, "seed": plan.header["seed"]}
        lock = host_or_pod_load.renewal_parameters_of_held_lock(
            params["lock_dir"], api_host_without_usual_port(load_context_access(request.kubeconfig, request.context))
        )
        driver, grants, config = pod.client.access, [], None
        with Client.from_kubeconfig(request.kubeconfig, request.context) as target:
            if (target.access.server, target.access.prefix) == (driver.server, driver.prefix):
                rights = pod_manifests.rights_needed_on_target(target, request, lock)
                grants = pod_manifests.roles_and_bindings(pod.spec, rights)
            else:
                config = render_standalone_kubeconfig(request.kubeconfig, request.context)
            asked |= {"context": "", "namespace": request.namespace or target.access.namespace}
        plan_sum = files.sha256_of(request.point_dir / PLAN)
        pod.start({"request": asked, "lock": lock, "plan": plan_sum}, grants, {pod_main.KUBECONFIG: config})
        return False

    def follow(self) -> Mapping[str, Any]:
        """See RemoteLoad."""
        start_timeout = self._given["driver_start_timeout"]
        follower = PodsFollower(self.pod, self._progress_line, start_timeout, self._has_started, self._check)
        return {"state": follower.run()}

    def _check(self) -> None:
        """Raise if the controller must not go on."""

    def _progress_line(self, counts: list[Mapping[str, int]], seconds: float) -> str:
        return client_results.clients_progress_line(self.pod.spec.point, self._planned, counts, len(counts), seconds)

    def _has_started(self) -> bool:
        """Return whether the common start was released; one client has none, and what it has sent is known."""
        request = self._request
        if request.clients == 1:
            return False
        with Client.from_kubeconfig(request.kubeconfig, request.context) as client:
            namespace = request.namespace or client.access.namespace
            return common_client_start.are_clients_released(client, request.run, request.point, namespace)

    def fetch(self, ended: Mapping[str, Any], point_dir: Path, step_dir: Path | None) -> Mapping[str, Any]:
        """See RemoteLoad."""
        pods: PodsState = ended["state"]
        folders = self.pod.fetch(pods, point_dir, step_dir)
        self._join(folders, pods)
        outcome = self._outcome(pods)
        for folder in folders.values():
            shutil.rmtree(folder)
        for leftover in (point_dir / FOLDER / self.pod.spec.run, point_dir / FOLDER):
            with contextlib.suppress(OSError):
                leftover.rmdir()
        return outcome

    def _join(self, folders: Mapping[int, Path], pods: PodsState) -> None:
        """Join the files of the clients to those of the point."""
        client_results.join_files_of_clients(self._request.point_dir, folders, self.pod.spec.clients, pods.lost)

    def _outcome(self, pods: PodsState) -> Mapping[str, Any]:
        """Return the outcome of all clients. Their files were joined."""
        if pods.unstarted:
            return {
                "ok": False,
                "error": "ProcessError",
                "msg": f"nothing was sent: {_unready_clients_text(pods.unstarted)}",
            }
        outcomes = {number: client.result["outcome"] for number, client in enumerate(pods.clients) if client.result}
        several = len(pods.clients) > 1
        failed = {number: client for number, client in outcomes.items() if not client["ok"]}
        if failed:
            number, outcome = min(failed.items())
            return (
                {**outcome, "msg": f"client {number} of {len(pods.clients)}: {outcome['msg']}"} if several else outcome
            )
        if not outcomes:
            why = "; ".join(sorted(set(pods.lost.values())))
            return {"ok": False, "error": "ProcessError", "msg": f"the load died without a result: {why}"}
        results = {number: client["result"] for number, client in outcomes.items()}
        return {"ok": True, "result": self._joined_result(results, pods, time.monotonic() - self._began)}

    def _joined_result(
        self, results: Mapping[int, Mapping[str, Any]], pods: PodsState, seconds: float
    ) -> Mapping[str, Any]:
        """Return the results of the clients as one: of a single client its own."""
        if len(pods.clients) == 1:
            return results[0]
        result = client_results.join_client_results(self._request, self._planned, results, pods.lost, seconds)
        self._step.timing("load", result["load_seconds"], f"point {self._request.point}")
        self.pod.say(result["msg"])
        return result

    def remove(self) -> bool:
        """See RemoteLoad."""
        there = self.pod.remove()
        if self.store is not None:
            there = self.store.delete() or there
        if self._given.get("kubeconfig") and self._given.get("state") != "absent":
            self._remove_leases()
        return there

    def _remove_leases(self) -> None:
        """Delete the Leases of the common start. Without the target, cleanup_run deletes them."""
        request = self._request
        if request.clients > 1:
            with Client.from_kubeconfig(request.kubeconfig, request.context) as client:
                common_client_start.remove_common_start_leases(
                    client, request.run, request.point, request.namespace or client.access.namespace
                )


def _unready_clients_text(why: Mapping[int, str]) -> str:
    """Return which clients were never ready, by reason: often it is the same for all."""
    alike: dict[str, list[str]] = {}
    for number, reason in sorted(why.items()):
        alike.setdefault(reason, []).append(str(number))
    return "; ".join(
        f"client {formats.format_list(numbers)} was not ready: {reason}" for reason, numbers in alike.items()
    )


def apply_requested_state(params: Mapping[str, Any], step: StepDirectory) -> dict[str, Any]:
    """Do what ``state`` of module workload_remote asks for."""
    return remove_load_from_pods(params, step) if params["state"] == "absent" else run_load_in_pods(params, step)


def run_load_in_pods(params: Mapping[str, Any], step: StepDirectory) -> dict[str, Any]:
    """Run the load or continue it; return what workload_submit would have returned. Raises ProcessError."""
    with Client.from_kubeconfig(params["driver_kubeconfig"], params["driver_context"]) as client:
        step_dir = Path(params["step_dir"]) if params["step_dir"] else None
        return host_or_pod_load.run_remote_load(LoadInPod(params, client, step), Path(params["point_dir"]), step_dir)


def remove_load_from_pods(params: Mapping[str, Any], step: StepDirectory) -> dict[str, Any]:
    """End the load, fetch what its clients have uploaded, and delete what is left of it."""
    point_dir = Path(params["point_dir"])
    record = host_or_pod_load.read_load_record(point_dir) or {}
    with Client.from_kubeconfig(params["driver_kubeconfig"], params["driver_context"]) as client:
        pod_load = LoadInPod(params, client, step)
        if pod_load.store is not None and record.get("state") == host_or_pod_load.STARTED:
            pod_load.pod.remove()  # even if the S3 server cannot be reached
            _fetch_uncollected_files(pod_load.store, point_dir, pod_load.pod.say)
        elif record.get("collect") and pod_load.store is None:
            where = f"bucket {record['collect']['bucket']}, {', '.join(record['collect']['keys'][:3])}"
            pod_load.pod.say(f"workload_collect_s3 is not set: files that the load has uploaded stay there ({where})")
        return host_or_pod_load.end_and_delete_load(pod_load, point_dir)


def _fetch_uncollected_files(store: ResultStore, point_dir: Path, say: Callable[[str], None]) -> None:
    """Fetch the files that clients have uploaded and no controller has collected, and join them."""
    folders = {}
    for number in store.uploaded_clients():
        folders[number] = folder = point_dir / FOLDER / f"{number:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        result_bucket.unpack_result_archive(store.fetch({"key": str(number)}, folder), folder, None)
    if not folders:
        return
    lost = {number: "its files were not collected" for number in range(store.clients) if number not in folders}
    client_results.join_files_of_clients(point_dir, folders, store.clients, lost)
    shutil.rmtree(point_dir / FOLDER)  # an interrupted call may have left some
    say(f"fetched what {formats.format_count(len(folders), 'client')} had uploaded")
