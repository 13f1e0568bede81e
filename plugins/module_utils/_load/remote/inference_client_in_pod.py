# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of a load of requests in a pod: it waits for the common start, and sends its share of the plan.

A pod that is made again has the lines that the one before had handed over. The one before may have sent requests since.
So what was due until now and has no line is recorded as lost, and never sent: nobody knows whether it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.load_generator_health import MachineLoad
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import tls_context
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from ..inference.inference_load import InferenceLoad, LoadCall
from ..inference.inference_request import FAILED, LOST, REFUSED, SECOND, SUCCEEDED
from ..inference.inference_spec import InferenceSpec
from ..inference.planned_and_past_requests import FILE, open_request_log
from ..inference.probe_servers import ServerProbe
from ..inference.request_connection import InferenceServer
from ..inference.several_clients import ClientReport
from ..plan import workload_plan
from ..plan.workload_plan import ClientPart, WorkloadPlan
from ..send.common_client_start import CommonStart

#: Keys of the Secret of a load of requests.
API_KEY, AUTHORITIES = "api-key", "ca.crt"
#: Type of the line with which a client ends by itself: nothing that it has done is unknown then.
END = "client_end"
_PLAN = "plan.jsonl"


def plan_inference_load(request: Mapping[str, Any]) -> WorkloadPlan:
    """Return the whole plan of a load, as the controller makes it. Raises InputError."""
    load = InferenceLoad(InferenceSpec.from_params(dict(request)), StepDirectory(None), ProgressLog(None))
    return load.requests.make_plan()


def _read_spec(request: Mapping[str, Any]) -> InferenceSpec:
    """Return the parameters of a load, with what only the Secret has."""
    key, authorities = (Path(request["secret_dir"]) / name for name in (API_KEY, AUTHORITIES))
    more = {
        "api_key": key.read_text(encoding="utf-8") if key.exists() else "",
        "ca_file": str(authorities) if authorities.exists() else None,
    }
    return InferenceSpec.from_params({**request, **more})


class RemoteInferenceClient(InferenceLoad):
    """One client of a load of requests, in a pod."""

    def __init__(
        self,
        request: Mapping[str, Any],
        step: StepDirectory,
        progress: ProgressLog,
        note: Callable[[dict[str, int]], None],
    ) -> None:
        """Prepare the client.

        Args:
            request: Parameters of inference_load, and of the client: ``client``, ``namespace`` and ``start_timeout`` of
                the common start, ``kubeconfig`` of its cluster, ``secret_dir`` with what the Secret of the load has.
            step: Where timings go.
            progress: Shows the progress.
            note: Called with the counts, several times a second.
        """
        super().__init__(_read_spec(request), step, progress)
        self._request = request
        self._part = ClientPart(request["client"], request["clients"])
        self._note_counts = note

    def run(self) -> dict[str, Any]:
        """Send the share of this client that is missing; return its report.

        Raises:
            AccessError: The servers can't be reached, or are of no use.
            ProcessError: A pod before this one has died, and what it had sent is unknown.
        """
        log, past = open_request_log(self.spec.point_dir / FILE)
        try:
            with signals.record_termination_signals() as stop:
                clock = MonotonicWallClock.resume(past.client.get("anchor") or {})
                servers = self._resolve_servers(self.spec.urls)
                probe = ServerProbe(self.bodies, self.spec.limits, stop.check)
                for server in servers:
                    probe.models_of(server)
                plan = workload_plan.read_complete_plan(self.spec.point_dir / _PLAN)
                call = LoadCall(servers, plan, past, clock, log, stop, {})
                started = self._await_start(call)
                return self._send_share(call, started)
        finally:
            log.close()

    def _resolve_servers(self, urls: Sequence[str]) -> list[InferenceServer]:
        """Return the servers: one for each address of each name, as a Service without a cluster IP has several."""
        context = tls_context(self.spec.ca_file, not self.spec.validate_certs)
        servers: list[InferenceServer] = []
        for url in urls:
            servers += InferenceServer.each_from_url(len(servers), url, context)
        return servers

    def _await_start(self, call: LoadCall) -> float:
        """Wait for the start of all clients; return it on the clock of this one."""
        spec, request = self.spec, self._request
        self.progress.say(f"requests {spec.point}: ready, waits for the start of {self._part.clients} clients")
        with Client.from_kubeconfig(request["kubeconfig"]) as client:
            start = CommonStart(client, spec.run, spec.point, request["namespace"], self._part)
            begin = start.wait(call.stop.check, request["start_timeout"])
        started = self._earlier_start(call) if begin is None else call.clock.from_monotonic(begin)
        begun = {"type": "client", "client": self._part.client, "clients": self._part.clients}
        call.log.write({**begun, "anchor": call.clock.anchor(), "started": round(started, 6)})
        if begin is None and call.past.last != END:
            self._lose_unknown(call, started)
        return started

    def _earlier_start(self, call: LoadCall) -> float:
        """Return the start that the pod before this one has recorded. Raises ProcessError if this one can't go on."""
        past, client = call.past, self._part.client
        if not past.client or past.client["anchor"] != call.clock.anchor():
            where = "runs on another node now" if past.client else "had not reported its start"
            raise ProcessError(f"the pod of client {client} died and was made again, and it {where}: begin a new run")
        if self.spec.streams and past.last != END:
            raise ProcessError(
                f"the pod of client {client} was killed. In a closed model nobody knows what it had sent since its "
                f"last report, so it can't go on: begin a new run"
            )
        return float(past.client["started"])

    def _lose_unknown(self, call: LoadCall, started: float) -> None:
        """Record what was due until now and has no line: the pod before this one may have sent it."""
        turns, now = self.spec.turns, call.clock.now() - started
        rows = call.plan.workloads[self._part.client * turns :: self._part.clients * turns]
        lost = [row for row in rows if row.index not in call.past.sent and (row.offset or 0.0) <= now]
        for row in lost:
            due = round(started + (row.offset or 0.0), 6)
            record = {"type": "sent", "index": row.index, "due": due, "sent": None}
            call.log.write(record)
            call.past.take(record)
        count = formats.format_count(len(lost), "request")
        self.progress.say(f"client {self._part.client} was made again: the fate of {count} is unknown, they are lost")

    def _send_share(self, call: LoadCall, started: float) -> dict[str, Any]:
        """Send what is missing; return the report of this client."""
        clock, past, spec = call.clock, call.past, self.spec
        start = int((started - clock.wall + clock.monotonic) * SECOND)
        # Streams begin now; those of a client that was made again have less time.
        late = max(0.0, (time.monotonic_ns() - start) / SECOND) if spec.streams else 0.0
        before, self.total = len(past.sent), self._part.size(len(call.plan.workloads) // spec.turns) * spec.turns
        engine, machine, wall = self._make_engine(call), MachineLoad(), time.monotonic()
        reports: list[ClientReport] = []

        def look(report: ClientReport) -> None:
            call.stop.check()
            machine.record()
            self._note_counts(_counts_of(report, before))
            self._show(report, before, wall)

        reason = "failed"
        try:
            schedule = self.requests.make_schedule(call.plan, past, self._part, late)
            self._drive(engine, schedule, start + int(late * SECOND), call.log, past, look, reports.append)
            reason = "done"
        except signals.Interrupted as error:
            reason = str(error)
            raise
        finally:
            call.log.write({"type": END, "at": round(clock.now(), 6), "reason": reason})
            call.log.sync()
            engine.close()
        [report] = reports
        if report.stopped:
            raise AccessError(f"the load was stopped, because {report.stopped}")
        seconds = round(time.monotonic() - wall, 6)
        return {"report": vars(report), "seconds": seconds, "machine": machine.document()}


def _counts_of(report: ClientReport, before: int) -> dict[str, int]:
    """Return what the controller shows of a client. before: requests that an earlier pod has sent."""
    outcomes = {name: report.outcomes[name] for name in (SUCCEEDED, FAILED, REFUSED, LOST)}
    return {"sent": report.sent + before, "open": report.open, **outcomes}
