# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load of requests whose clients are pods of the driver cluster, from the plan to the files of the point.

The controller asks the servers, makes the plan, warms them up and reads their metrics. The pods send: request i, or
conversation i, is that of client i modulo their number. They are started, followed and removed as those of a load of
objects (load_in_pods). A controller that is killed finds them again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    ProcessError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.loopback_hosts import is_loopback_host
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.cluster_properties import (
    api_host_without_usual_port,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load_context_access
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.rbac import RbacPermission

from ..inference.inference_load import InferenceLoad, LoadCall
from ..inference.inference_request import FAILED, LOST, REFUSED, SUCCEEDED
from ..inference.inference_spec import DRIVER, SPEC, InferenceSpec
from ..inference.planned_and_past_requests import FILE, SCHEMA, PastRequests
from ..inference.probe_servers import ServerProbe
from ..inference.request_connection import split_url
from ..inference.several_clients import ClientReport, append_client_file, join_reports
from ..plan import workload_plan
from ..send import common_client_start
from . import (
    client_results,
    detached_load,
    etcd_clock_probes,
    host_or_pod_load,
    inference_client_in_pod,
    pod_main,
    pod_manifests,
)
from .load_in_pods import LoadInPod
from .load_pods_lifecycle import PodsState

_LEASES = ("coordination.k8s.io", "leases")
_VERBS = ("create", "get", "list", "watch", "patch", "delete")


def check_pods_can_send(spec: InferenceSpec, urls: Sequence[str]) -> None:
    """Check that clients in pods can send this load to these URLs. Raises InputError."""
    if spec.search is not None:
        text = "each step of a search follows from the answers to all requests before it: one process has to send it"
        raise InputError(f"search is not possible with clients in pods: {text}", setting="search")
    if spec.tokenizer is not None:
        text = "their image has no tokenizer: leave it empty, or send from the controller"
        raise InputError(f"tokenizer is not possible with clients in pods: {text}", setting="tokenizer")
    if spec.arrivals is not None and spec.count < spec.clients:
        raise InputError(f"clients is {spec.clients}, but there are only {spec.count} requests", setting="clients")
    for url in urls:
        host = split_url(url)[1]
        if is_loopback_host(host) or host.endswith(".localhost"):
            raise InputError(
                f"pods can't reach {url}: it is the loopback of the machine that runs Ansible. Name a server by an "
                f"address that pods reach, or send from the controller (workload_run_on=controller)",
                setting="urls",
            )


class InferenceLoadInPods(InferenceLoad):
    """A load of requests that pods send."""

    def __init__(self, spec: InferenceSpec, step: StepDirectory, progress: ProgressLog, params: Mapping[str, Any]):
        """``params``: of module inference_load, with ``driver``. Raises InputError."""
        super().__init__(spec, step, progress)
        self.params = params
        self.driver: Mapping[str, Any] = params["driver"]
        self.urls: list[str] = list(self.driver["urls"] or spec.urls)
        check_pods_can_send(spec, self.urls)
        self._recorded = host_or_pod_load.read_load_record(spec.point_dir) is not None

    def _check_open_requests(self) -> None:
        """The limit of open files is that of the pods."""

    def _prepare(self, log: JsonlAppender, past: PastRequests, stop: signals.Interrupt) -> tuple[LoadCall, ServerProbe]:
        """See InferenceLoad. The load of an earlier call is found again: nothing is asked or warmed up meanwhile."""
        if not self._recorded:
            if past.session:
                text = f"the load of {self.spec.point_dir} has ended, and clients in pods do not continue one"
                raise InputError(f"{text}: begin a new run")
            return super()._prepare(log, past, stop)
        plan = workload_plan.read_complete_plan(self.spec.point_dir / detached_load.PLAN)
        servers = self._resolve_servers(self.spec.urls)
        clock = MonotonicWallClock.resume(past.anchor or {})
        session = {name: past.session.get(name) for name in ("simulated", "first_tokens")}
        probe = ServerProbe(self.bodies, self.spec.limits, stop.check)
        return LoadCall(servers, plan, past, clock, log, stop, session), probe

    def _run(self, call: LoadCall, probe: ServerProbe, began: float) -> dict[str, Any]:
        """See InferenceLoad. Raises Interrupted; the pods have handed over what they have sent then."""
        spec, log, past = self.spec, call.log, call.past
        ended = past.last == "end" and self._recorded
        sources = self._metrics_sources(call.servers, probe)
        warm: dict[str, Any] = {"requests": 0, "seconds": 0.0}
        if self._recorded:
            before = [{"metrics": None, "error": "the call that began the load was killed"} for _source in sources]
        else:
            warm = self._warm_up_from_here(call)
            before = [source.metrics_of(server) for source, server in sources]
        self.total = len(call.plan.workloads)
        with Client.from_kubeconfig(self.driver["kubeconfig"], self.driver["context"]) as client:
            pods = InferenceClientsInPods(self, call, client)
            try:
                joined = host_or_pod_load.run_remote_load(pods, spec.point_dir, self.step.path)
            except signals.Interrupted as error:
                raise signals.Interrupted(f"{error}: {pods.end_early(str(error))}") from error
            except SeatrialError as error:
                if host_or_pod_load.read_load_record(spec.point_dir) is None and not ended:  # it is over
                    log.write({"type": "end", "at": round(call.clock.now(), 6), "reason": f"failed: {error}"})
                raise
        reports = [ClientReport.from_record(client["report"]) for client in joined["clients"]]
        walls = [client["seconds"] for client in joined["clients"]]
        total = join_reports(reports)
        if not ended:
            machine = max((client["machine"] for client in joined["clients"]), key=lambda load: load["load"] or 0.0)
            log.write({**total.end_line(call.clock, "done", max(walls), machine), "cpus": machine["cpus"]})
            log.sync()
            self.step.timing("load", max(walls), f"point {spec.point}")
            self._write_server_metrics(sources, before, total.sent > 0)
        result = self._result(call, reports, max(walls))
        again = [
            f"client {number} was made again {formats.format_count(times, 'time')}"
            for number, times in enumerate(joined["restarts"])
            if times
        ]
        result["msg"] = ". ".join([f"{result['msg']}; {spec.clients} pods sent them", *again])
        simulated, seconds = bool(call.session["simulated"]), round(time.monotonic() - began, 3)
        result |= {"warm_up": warm, "simulated": simulated, "seconds": seconds, "changed": not ended}
        self.progress.say(result["msg"])
        return result

    def _warm_up_from_here(self, call: LoadCall) -> dict[str, Any]:
        """Warm the servers up; the pods open their own connections."""
        engine = self._make_engine(call)
        try:
            return self._warm_up(engine, call.stop)
        finally:
            engine.close()

    def request(self) -> dict[str, Any]:
        """Return the parameters of the load as the pods get them, without secrets and files of this machine."""
        spec, params = self.spec, self.params
        kept = {name: params[name] for name in SPEC if name not in (DRIVER, "api_key", "pods")}
        arrival = {name: value for name, value in params["arrival"].items() if value is not None}
        if source := arrival.pop("src", None):
            arrival["content"] = Path(source).read_text(encoding="utf-8")
        return kept | {
            "api_key": "",  # it is in the Secret
            "point": spec.point,
            "point_dir": "-",
            "urls": self.urls,
            "metrics_urls": [],
            "models": [{"name": name, "weight": weight} for name, weight in self.requests.models],
            "seed": spec.seed,
            "arrival": arrival,
            "prompts": spec.prompts,
            **dict.fromkeys(("prompts_file", "tokenizer", "ca_file")),
            "start_timeout": self.driver["start_timeout"],
            "canary_rate": self.driver["canary_rate"],
        }

    def secrets(self) -> dict[str, str | None]:
        """Return what the pods get in their Secret only."""
        authorities = Path(self.spec.ca_file).read_text(encoding="utf-8") if self.spec.ca_file else None
        return {
            inference_client_in_pod.API_KEY: self.params["api_key"] or None,
            inference_client_in_pod.AUTHORITIES: authorities,
        }


class InferenceClientsInPods(LoadInPod):
    """The pods of a load of requests, from their start to their files."""

    def __init__(self, load: InferenceLoadInPods, call: LoadCall, client: Client) -> None:
        """``client``: of the driver cluster."""
        driver, spec = load.driver, load.spec
        self._load, self._call, self._client = load, call, client
        params = {
            "run_id": spec.run, "point": spec.point, "point_dir": str(spec.point_dir),
            "request": {"clients": spec.clients}, "kubeconfig": driver["kubeconfig"],
            "progress_file": load.params.get("progress_file"),
            "elsewhere_reconnect": driver["reconnect"], "collect_s3": {}, "ca_file": None,
            "collect_bytes": driver["collect_bytes"],
            **{f"driver_{name}": value for name, value in driver.items()},
        }  # fmt: skip
        super().__init__(params, client, load.step)
        self._joined: dict[str, Any] = {}

    @cached_property
    def _planned(self) -> int:
        return len(self._call.plan.workloads)

    def _check(self) -> None:
        self._call.stop.check()

    def begin(self, recorded: bool) -> bool:
        """See RemoteLoad."""
        load, pod, driver = self._load, self.pod, self._load.driver
        if self.retry.call("looking for it", pod.was_started):
            pod.say("found the load again by its run id")
            return True
        self._remove_leases()  # of a load that was deleted before
        place = pod.spec.effective_namespace
        lock = host_or_pod_load.renewal_parameters_of_held_lock(
            driver["lock_dir"],
            api_host_without_usual_port(load_context_access(driver["kubeconfig"], driver["context"])),
        )
        rights = [RbacPermission(*_LEASES, verb, place, "test") for verb in _VERBS]
        if lock:
            rights += [RbacPermission(*_LEASES, verb, lock["namespace"], "test") for verb in (*_VERBS, "update")]
        grants = pod_manifests.roles_and_bindings(pod.spec, sorted(set(rights)))
        asked = {
            pod_main.SENDS: detached_load.REQUESTS,
            "request": {**load.request(), "namespace": place},
            "lock": lock,
            "plan": files.sha256_of(load.spec.point_dir / detached_load.PLAN),
        }
        spec, call = load.spec, self._call
        call.log.write({**files.session_line(SCHEMA, spec.run, spec.point, call.clock), **call.session})
        pod.start(asked, grants, load.secrets())
        return False

    def follow(self) -> Mapping[str, Any]:
        """See RemoteLoad. Meanwhile the controller writes to the same etcd, to which its clock is the reference."""
        spec = self._load.spec
        with etcd_clock_probes.probe_clock(
            self._client, spec.run, spec.point, self.pod.spec.effective_namespace, self._load.driver["canary_rate"],
            spec.point_dir / etcd_clock_probes.FILE, self.pod.say,
        ):  # fmt: skip
            return super().follow()

    def end_early(self, reason: str) -> str:
        """End the pods and keep what they have recorded; return what was done, in words."""
        spec, call = self._load.spec, self._call
        try:
            if self.pod.status().there:
                self.pod.stop()
                self.fetch({"state": self.pod.status()}, spec.point_dir, None)
            self.remove()
        except SeatrialError as error:
            return f"the pods go on ({error}); the same call finds them, and phase cleanup ends them"
        host_or_pod_load.delete_unfetched_load_record(spec.point_dir)
        call.log.write({"type": "end", "at": round(call.clock.now(), 6), "reason": reason})
        call.log.sync()
        return f"the pods have ended after {len(call.past.sent):,} of {self._planned:,} requests"

    def _progress_line(self, counts: list[Mapping[str, int]], seconds: float) -> str:
        total: Counter[str] = Counter()
        for client in counts:
            total.update(client)
        outcomes = Counter({name: total[name] for name in (SUCCEEDED, FAILED, REFUSED, LOST)})
        report = ClientReport(sent=total["sent"], open=total["open"], outcomes=outcomes)
        return report.progress_line(self._load.spec.point, 0, self._load.total, seconds)

    def _has_started(self) -> bool:
        spec = self._load.spec
        return common_client_start.are_clients_released(
            self._client, spec.run, spec.point, self.pod.spec.effective_namespace
        )

    def _join(self, folders: Mapping[int, Path], pods: PodsState) -> None:
        """Append the lines of the clients to requests.jsonl, and those by which clocks are compared to clocks.jsonl."""
        spec, call = self._load.spec, self._call
        restarts = [0] * spec.clients
        with open(spec.point_dir / etcd_clock_probes.FILE, "ab") as clocks:
            for number, folder in sorted(folders.items()):
                types: Counter[str] = Counter()

                def take(record: dict[str, Any], types: Counter[str] = types) -> None:
                    call.past.take(record)
                    types[record["type"]] += 1

                if (folder / FILE).exists():
                    append_client_file(folder / FILE, call.log, take)
                restarts[number] = max(0, types["client"] - 1)
                if (folder / etcd_clock_probes.FILE).exists():
                    client_results.append_complete_lines(folder / etcd_clock_probes.FILE, clocks)
        call.log.sync()
        self._joined["restarts"] = restarts

    def _outcome(self, pods: PodsState) -> Mapping[str, Any]:
        outcome = super()._outcome(pods)
        if not outcome["ok"] or not pods.lost:
            return outcome
        why = "; ".join(f"client {number}: {reason}" for number, reason in sorted(pods.lost.items()))
        return {"ok": False, "error": ProcessError.__name__, "msg": f"clients were lost, and the others went on: {why}"}

    def _joined_result(
        self, results: Mapping[int, Mapping[str, Any]], pods: PodsState, seconds: float
    ) -> dict[str, Any]:
        return {**self._joined, "changed": True, "clients": [results[number] for number in sorted(results)]}

    def _remove_leases(self) -> None:
        """Delete the Leases of the common start, and those by which clocks are compared."""
        spec, place = self._load.spec, self.pod.spec.effective_namespace
        common_client_start.remove_common_start_leases(self._client, spec.run, spec.point, place)


def run_inference_load_in_pods(
    params: Mapping[str, Any], spec: InferenceSpec, step: StepDirectory, progress: ProgressLog
) -> dict[str, Any]:
    """Run a load whose clients are pods. Raises SeatrialError."""
    try:
        return InferenceLoadInPods(spec, step, progress, params).run()
    except OSError as error:
        raise SeatrialError(f"the load cannot go on: {error.strerror or error}") from error
