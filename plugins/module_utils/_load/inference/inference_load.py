# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends a load of requests to inference servers in one call: checks, plan, warm-up, requests, result."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.capacity_search import CapacitySearch
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender, session_line
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.load_generator_health import (
    MachineLoad,
    client_bottleneck,
    processor_seconds,
    raise_file_limit,
    raised_thread_priority,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import tls_context

from ..plan import workload_plan
from ..plan.workload_plan import ClientPart, WorkloadPlan
from . import replica_polling, several_clients
from .inference_request import FAILED, LOST, REFUSED, SECOND, SUCCEEDED, InferenceRequest
from .inference_spec import InferenceSpec
from .planned_and_past_requests import FILE, SCHEMA, LoadRequests, PastRequests, open_request_log, synced_every_second
from .probe_servers import ServerProbe, choose_models
from .request_bodies import PromptTexts, RequestBodies
from .request_connection import InferenceServer
from .request_engine import RequestEngine
from .request_schedule import RequestSchedule, SearchSchedule, SearchSpec, has_kept_slo
from .several_clients import ClientReport, SendReport, SeveralClients, join_reports

#: Seconds from the decision to start to the first due time, for each client.
_START_LEAD = 0.1
#: Requests of a warm-up at a time.
_WARM_UP_STREAMS = 8
#: Gets what was done so far; may raise.
Look = Callable[[ClientReport], None]


@dataclass
class LoadCall:
    """What one call of a load works with. ``past``: what earlier calls have sent; and this one, once it has ended.

    session: further keys of its first line: whether the servers are simulated, and the seconds until the first token of
    the first request of each.
    """

    servers: list[InferenceServer]
    plan: WorkloadPlan
    past: PastRequests
    clock: MonotonicWallClock
    log: JsonlAppender
    stop: signals.Interrupt
    session: dict[str, Any]


class InferenceLoad:
    """A load from its options to its result. ``run`` does all of it."""

    def __init__(self, spec: InferenceSpec, step: StepDirectory, progress: ProgressLog) -> None:
        self.spec = spec
        self.step = step
        self.progress = progress
        load = f"{spec.run} {spec.point}"
        texts = PromptTexts(spec.seed, load, spec.shared_prefix_tokens, spec.prompts, spec.word_costs)
        extra = {**({"ignore_eos": True} if spec.ignore_eos else {}), **spec.body}
        self.bodies = RequestBodies(spec.api, spec.streamed, texts, spec.prompt_tokens, spec.seed, spec.headers, extra)
        self.requests = LoadRequests(spec, self.bodies)
        self.max_open = -(-spec.limits.max_open // spec.clients)  # of each client
        self.total = 0
        self.first_tokens: deque[int] = deque(maxlen=200)  # nanoseconds, of the latest requests

    def run(self) -> dict[str, Any]:
        """Send what is missing, and return the module's result.

        Raises InputError and AccessError before anything is sent; AccessError and Interrupted with the counts so far.
        """
        spec = self.spec
        began = time.monotonic()
        self._check_open_requests()
        spec.point_dir.mkdir(parents=True, exist_ok=True)
        log, past = open_request_log(spec.point_dir / FILE)
        try:
            with signals.record_termination_signals() as stop:
                call, probe = self._prepare(log, past, stop)
                path = spec.point_dir / replica_polling.FILE
                watch = session_line(replica_polling.SCHEMA, spec.run, spec.point, call.clock)
                with replica_polling.poll_replicas(spec.pods, path, watch, log.close):
                    return self._run(call, probe, began)
        finally:
            log.close()

    def _check_open_requests(self) -> None:
        """Check that the clients may have a request of each stream open. Raises InputError."""
        spec, most = self.spec, raise_file_limit(self.max_open)
        if spec.streams > most * spec.clients:
            permitted = f"{self._limit_of_open(most)} permits {most * spec.clients:,} requests at a time"
            raise InputError(f"streams.count is {spec.streams:,}, and {permitted}")

    def _prepare(self, log: JsonlAppender, past: PastRequests, stop: signals.Interrupt) -> tuple[LoadCall, ServerProbe]:
        """Ask the servers, send each a first request, and make the plan. Raises InputError and AccessError."""
        spec = self.spec
        several_clients.join_client_files(spec.point_dir, log, past.take)
        servers = self._resolve_servers(spec.urls)
        probe = ServerProbe(self.bodies, spec.limits, stop.check)
        self.requests.models, simulated = choose_models(probe, servers, self.requests.models)
        first = [probe.try_request(server, self.requests.make_warm_up_request(server.number, 0)) for server in servers]
        plan = self.requests.make_plan()
        workload_plan.write_plan_or_compare(spec.point_dir / "plan.jsonl", plan)
        clock = MonotonicWallClock.resume(past.anchor or {})
        session = {"simulated": simulated, "first_tokens": [round(seconds, 6) for seconds in first]}
        return LoadCall(servers, plan, past, clock, log, stop, session), probe

    def _resolve_servers(self, urls: Sequence[str]) -> list[InferenceServer]:
        context = tls_context(self.spec.ca_file, not self.spec.validate_certs)
        return [InferenceServer.from_url(number, url, context) for number, url in enumerate(urls)]

    def _run(self, call: LoadCall, probe: ServerProbe, began: float) -> dict[str, Any]:
        spec, clock, past, log = self.spec, call.clock, call.past, call.log
        engine = self._make_engine(call)
        try:
            warm = self._warm_up(engine, call.stop)
            sources = self._metrics_sources(call.servers, probe)
            before = [one.metrics_of(server) for one, server in sources]
            log.write({**session_line(SCHEMA, spec.run, spec.point, clock), **call.session})
            self.total, sent = len(call.plan.workloads), len(past.sent)
            reason, wall = "failed", time.monotonic()
            offset = 0.0 if spec.search else self._offset_of_now(call.plan, past)
            start = time.monotonic_ns() + int((_START_LEAD * spec.clients - offset) * SECOND)
            log.write({"type": "start", "at": round(clock.from_monotonic(start / SECOND), 6)})
            send = self._send if spec.clients == 1 else self._send_by_clients
            reports: list[ClientReport] = []
            machine = MachineLoad()
            look = self._progress_callback(call, wall, machine)
            try:
                send(engine, call, start, look, reports)
                stopped = join_reports(reports).stopped
                reason = f"stopped: {stopped}" if stopped else "done"
            except signals.Interrupted as error:
                reason = str(error)
                line = join_reports(reports).progress_line(spec.point, sent, self.total, time.monotonic() - wall)
                raise signals.Interrupted(f"{error}: {line}") from error
            finally:
                wall = time.monotonic() - wall
                total = join_reports(reports)
                log.write(total.end_line(clock, reason, wall, machine.document()))
                log.sync()
        finally:
            engine.close()
        self.step.timing("load", wall, f"point {spec.point}")
        self._write_server_metrics(sources, before, total.sent > 0)
        result = self._result(call, reports, wall)
        result.update(
            {"warm_up": warm, "simulated": call.session["simulated"], "seconds": round(time.monotonic() - began, 3)}
        )
        self.progress.say(result["msg"])
        if total.stopped:
            raise AccessError(f"the load was stopped, because {total.stopped}. So far: {result['msg']}")
        return result

    def _make_engine(self, call: LoadCall) -> RequestEngine:
        """Return the engine of one client."""
        limits = replace(self.spec.limits, max_open=self.max_open)
        return RequestEngine(call.servers, limits, self.bodies.encode, call.clock, self.spec.clients)

    def _progress_callback(self, call: LoadCall, began: float, machine: MachineLoad) -> Look:
        """Return what checks for an interruption and shows the progress, several times a second."""
        sent = len(call.past.sent)

        def look(report: ClientReport) -> None:
            call.stop.check()
            machine.record()
            self._show(report, sent, began)

        return look

    def _send(self, engine: RequestEngine, call: LoadCall, start: int, look: Look, reports: list[ClientReport]) -> None:
        """Send what is missing as the only client. ``reports`` gets what was done, however this ends."""
        spec, past = self.spec, call.past
        if spec.search is not None:
            schedule: RequestSchedule = self._search_schedule(spec.search, past, call.log, call.clock)
        else:
            schedule = self.requests.make_schedule(call.plan, past, ClientPart(), past.spent)
        self._drive(engine, schedule, start, call.log, past, look, reports.append)

    def _drive(
        self,
        engine: RequestEngine,
        schedule: RequestSchedule,
        start: int,
        log: JsonlAppender,
        past: PastRequests,
        look: Look,
        ended: Callable[[ClientReport], None],
    ) -> None:
        """Send a schedule. ``look`` gets what was done, several times a second, and ``ended`` at the end."""

        def note_ended(request: InferenceRequest) -> None:
            self._note_ended(request)
            past.note_ended(request.index, request.outcome)

        engine.write, engine.ended = log.write_rows, note_ended

        def tick() -> None:
            look(ClientReport.of_engine(engine, self.first_tokens))

        cpu = processor_seconds()
        with raised_thread_priority(), synced_every_second(log):
            schedule.begin(start)
            try:
                engine.run(schedule, tick)
            finally:
                cpu = processor_seconds() - cpu
                ended(replace(ClientReport.of_engine(engine, self.first_tokens, ended=True), cpu=cpu))

    def _send_by_clients(
        self, warm: RequestEngine, call: LoadCall, start: int, look: Look, reports: list[ClientReport]
    ) -> None:
        """Send what is missing by several clients, each a process. Raises ProcessError if one can't go on."""
        spec, past = self.spec, call.past
        warm.close()  # the clients would share its connections

        def run_client(number: int, log: JsonlAppender, stop: signals.Interrupt, report: SendReport) -> None:
            part = ClientPart(number, spec.clients)
            late = max(0.0, (time.monotonic_ns() - start) / SECOND) if spec.streams else 0.0  # it was started again
            for record in files.read_json_lines(log.path):
                past.take(record)
            schedule = self.requests.make_schedule(call.plan, past, part, spent + late)
            begin = start + int(late * SECOND)

            def send(state: ClientReport) -> None:
                stop.check()
                report(state)

            self._drive(self._make_engine(call), schedule, begin, log, past, send, report)

        spent = past.spent
        clients = SeveralClients(spec.point_dir, spec.clients, run_client, call.log.close)
        try:
            clients.run(look)
        finally:
            reports += clients.ended
            several_clients.join_client_files(spec.point_dir, call.log, past.take)

    def _metrics_sources(
        self, servers: list[InferenceServer], probe: ServerProbe
    ) -> list[tuple[ServerProbe, InferenceServer]]:
        """Return the servers whose metrics are read, each with what asks it.

        They are those that get the requests, unless a gateway is before them. Others get neither key nor headers.
        """
        if self.spec.metrics_urls == self.spec.urls:
            return [(probe, server) for server in servers]
        origins = {(server.authority, server.tls is None) for server in servers}
        anonymous = replace(probe, bodies=self.bodies.without_headers())
        return [
            (probe if (server.authority, server.tls is None) in origins else anonymous, server)
            for server in self._resolve_servers(self.spec.metrics_urls)
        ]

    def _write_server_metrics(
        self, sources: list[tuple[ServerProbe, InferenceServer]], before: list[dict[str, Any]], sent: bool
    ) -> None:
        """Write the metrics of the servers before and after the load; not of a call that has sent nothing more."""
        path = self.spec.point_dir / "server.json"
        after = [probe.metrics_of(server) for probe, server in sources]
        records = [_server_record(source[1], *pair) for source, *pair in zip(sources, before, after, strict=True)]
        if sent or not path.exists():
            files.write_json(path, {"servers": records})

    def _limit_of_open(self, most: int) -> str:
        """Return what limits the requests at a time to ``most``."""
        return "max_open" if most == self.max_open else "the limit of open files (ulimit -n)"

    def _offset_of_now(self, plan: WorkloadPlan, past: PastRequests) -> float:
        """Return the offset that is now: of a load that goes on, the first missing request is due at once."""
        missing = (row for row in plan.workloads[:: self.spec.turns] if row.index not in past.sent)
        first = next(missing, None) if past.sent else None
        return 0.0 if first is None or first.offset is None else float(first.offset)

    def _search_schedule(
        self, wanted: SearchSpec, past: PastRequests, log: JsonlAppender, clock: MonotonicWallClock
    ) -> SearchSchedule:
        """Return the schedule of a search, which goes on after the steps of earlier sessions."""
        search = CapacitySearch(wanted.low, wanted.high, wanted.share)
        for step in past.ended_steps(lambda record: has_kept_slo(record, wanted.slo)):
            search.take(step)

        def begun(index: int, rate: float) -> None:
            log.write({"type": "step", "index": index, "rate": rate})
            found = search.estimate()
            low, high = formats.format_number(found.low or wanted.low), formats.format_number(found.high or wanted.high)
            text = f"step {search.steps + 1}, {formats.format_number(rate)} requests/s"
            self.progress.say(f"requests {self.spec.point}: {text}; the capacity is between {low} and {high} so far")

        return SearchSchedule(
            self.requests.make_request,
            max(past.sent, default=-1) + 1,
            self.spec.seed,
            wanted,
            search,
            lambda request: has_kept_slo(request.record(clock), wanted.slo),
            begun,
            past.spent,
        )

    def _warm_up(self, engine: RequestEngine, stop: signals.Interrupt) -> dict[str, Any]:
        """Send requests that are not counted; their connections stay open."""
        count = self.spec.warm_up
        if not count:
            return {"requests": 0, "seconds": 0.0}
        began = time.monotonic()
        self.progress.say(f"requests {self.spec.point}: warming up with {count:,} requests")
        numbers: Iterator[tuple[int, float | None]] = ((number, None) for number in range(count))
        schedule = RequestSchedule(
            lambda number, due: self.requests.make_warm_up_request(number + 1000, due),
            numbers,
            streams=min(_WARM_UP_STREAMS, count),
        )
        schedule.begin(time.monotonic_ns())
        engine.run(schedule, stop.check)
        if engine.stopped:
            raise AccessError(f"the warm-up was stopped, because {engine.stopped}")
        engine.reset_counts()
        return {"requests": count, "seconds": round(time.monotonic() - began, 3)}

    def _note_ended(self, request: InferenceRequest) -> None:
        self.bodies.note_ended(request)
        if request.answer.times:
            self.first_tokens.append(request.answer.times[0] - request.due)

    def _show(self, report: ClientReport, sent_before: int, began: float) -> None:
        state = f"{report.sent} {dict(report.outcomes)}"
        seconds = time.monotonic() - began
        self.progress.update(state, report.progress_line(self.spec.point, sent_before, self.total, seconds))

    def _result(self, call: LoadCall, reports: Sequence[ClientReport], wall: float) -> dict[str, Any]:
        past, total = call.past, join_reports(reports)
        outcomes, sent = Counter(past.outcomes.values()), len(past.sent)
        planned = len(call.plan.workloads)
        counts = {
            "planned": planned or sent,
            "sent": sent,
            SUCCEEDED: outcomes[SUCCEEDED],
            FAILED: outcomes[FAILED],
            REFUSED: outcomes[REFUSED],
            LOST: outcomes[LOST] + past.lost,
            "unsent": max(planned - sent, 0),
        }
        bottleneck = next((text for report in reports if (text := self._bottleneck(report, wall))), "")
        rest = [f"{counts[name]:,} {name}" for name in (FAILED, REFUSED, LOST, "unsent") if counts[name]]
        text = f"{counts[SUCCEEDED]:,} of {counts['planned']:,} requests succeeded"
        msg = f"requests {self.spec.point}: {', '.join([text, *rest])}, {total.tokens:,} tokens in {wall:.1f} s"
        return {
            "changed": total.sent > 0,
            "msg": f"{msg}. {bottleneck}" if bottleneck else msg,
            "counts": counts,
            "tokens": total.tokens,
            "lag": total.lag,
            "lateness": total.lateness,
            "cpu_per_token": total.cpu / total.tokens if total.tokens else None,
            "bottleneck": bottleneck,
        }

    def _bottleneck(self, report: ClientReport, wall: float) -> str:
        """Return why a client and not the server determined the times, an empty string if it did not."""
        lateness = None if self.spec.streams else report.lateness
        bottleneck = client_bottleneck(report.lag, lateness, report.cpu, wall)
        if bottleneck or not report.open_max >= report.most_open > self.spec.streams / self.spec.clients:
            return bottleneck
        permitted = f"{self._limit_of_open(report.most_open)} permits {report.most_open:,} requests at a time"
        return f"The client was the bottleneck: {permitted}, and later ones had to wait"


def _server_record(server: InferenceServer, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    error = before.get("error") or after.get("error")
    record = {"url": server.url, "before": before["metrics"], "after": after["metrics"]}
    return {**record, "error": error} if error else record


def run_inference_load(spec: InferenceSpec, step: StepDirectory, progress: ProgressLog) -> dict[str, Any]:
    """Run a load. Raises SeatrialError."""
    try:
        return InferenceLoad(spec, step, progress).run()
    except OSError as error:
        raise SeatrialError(f"the load cannot go on: {error.strerror or error}") from error
