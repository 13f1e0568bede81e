# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends a load of requests to inference servers in one call: checks, plan, warm-up, requests, result."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count as counter
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, quantiles, signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.capacity_search import CapacitySearch
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender, session_line
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import ProgressLog, Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import tls_context

from ..plan import workload_plan
from ..plan.workload_plan import WorkloadPlan
from . import replica_watch
from .client_process import client_bottleneck, processor_seconds, raise_file_limit, raised_priority
from .inference_request import FAILED, LOST, REFUSED, SECOND, SUCCEEDED, InferenceRequest
from .inference_spec import InferenceSpec
from .load_requests import LoadRequests
from .probe_servers import ServerProbe, choose_models
from .request_bodies import PromptTexts, RequestBodies
from .request_connection import InferenceServer
from .request_engine import RequestEngine
from .request_log import FILE, SCHEMA, PastRequests, open_request_log
from .request_schedule import RequestSchedule
from .search_schedule import SearchSchedule, SearchSpec, has_kept

#: Seconds from the decision to start to the first due time, and between two syncs of the file to disk.
_START_LEAD, _SYNC_INTERVAL = 0.1, 1.0
#: Requests of a warm-up at a time.
_WARM_UP_STREAMS = 8


class InferenceLoad:
    """A load from its options to its result. ``run`` does all of it."""

    def __init__(self, spec: InferenceSpec, step: Step, progress: ProgressLog) -> None:
        self.spec = spec
        self.step = step
        self.progress = progress
        texts = PromptTexts(spec.seed, f"{spec.run} {spec.point}", spec.shared_prefix_tokens, spec.prompts)
        extra = {**({"ignore_eos": True} if spec.ignore_eos else {}), **spec.body}
        self.bodies = RequestBodies(spec.api, spec.streamed, texts, spec.prompt_tokens, spec.seed, spec.headers, extra)
        self.requests = LoadRequests(spec, self.bodies)
        self.total = 0
        self.first_tokens: deque[int] = deque(maxlen=200)  # nanoseconds, of the latest requests

    def run(self) -> dict[str, Any]:
        """Send what is missing, and return the module's result.

        Raises InputError and AccessError before anything is sent; AccessError and Interrupted with the counts so far.
        """
        spec = self.spec
        began = time.monotonic()
        most = raise_file_limit(spec.limits.max_open)
        if spec.streams > most:
            permitted = f"{self._limit_of_open(most)} permits {most:,} requests at a time"
            raise InputError(f"streams.count is {spec.streams:,}, and {permitted}")
        spec.point_dir.mkdir(parents=True, exist_ok=True)
        log, past = open_request_log(spec.point_dir / FILE)
        try:
            with signals.interrupt_recorded() as stop:
                context = tls_context(spec.ca_file, not spec.validate_certs)
                servers = [InferenceServer.from_url(number, url, context) for number, url in enumerate(spec.urls)]
                probe = ServerProbe(self.bodies, spec.limits, stop.check)
                self.requests.models, simulated = choose_models(probe, servers, self.requests.models)
                for server in servers:
                    probe.try_request(server, self.requests.make_warm_up_request(server.number, 0))
                plan = self.requests.make_plan()
                workload_plan.write_or_compare(spec.point_dir / "plan.jsonl", plan)
                clock = MonotonicWallClock.resume(past.anchor or {})
                engine = RequestEngine(servers, spec.limits, self.bodies.encode, clock)
                session = session_line(replica_watch.SCHEMA, spec.run, spec.point, clock)
                path = spec.point_dir / replica_watch.FILE
                try:
                    with replica_watch.watch_replicas(spec.pods, path, session, log.close):
                        return self._run(engine, probe, servers, log, past, plan, clock, simulated, stop, began)
                finally:
                    engine.close()
        finally:
            log.close()

    def _run(
        self,
        engine: RequestEngine,
        probe: ServerProbe,
        servers: list[InferenceServer],
        log: JsonlAppender,
        past: PastRequests,
        plan: WorkloadPlan,
        clock: MonotonicWallClock,
        simulated: bool,
        stop: signals.Interrupt,
        began: float,
    ) -> dict[str, Any]:
        spec = self.spec
        warm = self._warm_up(engine, stop)
        sources = self._metrics_servers(servers)
        origins = {(server.authority, server.tls is None) for server in servers}
        anonymous = replace(probe, bodies=self.bodies.without_headers())
        probes = [probe if (one.authority, one.tls is None) in origins else anonymous for one in sources]
        before = [one.metrics_of(server) for one, server in zip(probes, sources, strict=True)]
        session = session_line(SCHEMA, spec.run, spec.point, clock)
        log.write({**session, "simulated": simulated})
        schedule, offset = self._schedule(plan, past, log, clock)
        engine.write, engine.ended = log.write_rows, self._note_ended
        self.total = len(plan.workloads)
        reason, cpu, wall = "failed", processor_seconds(), time.monotonic()
        with raised_priority(), _synced(log):
            start = time.monotonic_ns() + int((_START_LEAD - offset) * SECOND)
            log.write({"type": "start", "at": round(clock.from_monotonic(start / SECOND), 6)})
            schedule.begin(start)

            def tick() -> None:
                stop.check()
                self._report(engine, past, wall)

            try:
                engine.run(schedule, tick)
                reason = f"stopped: {engine.stopped}" if engine.stopped else "done"
            except signals.Interrupted as error:
                reason = str(error)
                raise signals.Interrupted(f"{error}: {self._line(engine, past, wall)}") from error
            finally:
                cpu, wall = processor_seconds() - cpu, time.monotonic() - wall
                end = _end_line(engine, clock, reason, cpu, wall)
                log.write(end)
                log.sync()
        self.step.timing("load", wall, f"point {spec.point}")
        after = [one.metrics_of(server) for one, server in zip(probes, sources, strict=True)]
        metrics = {"servers": [_server_record(*row) for row in zip(sources, before, after, strict=True)]}
        path = spec.point_dir / "server.json"
        if engine.submitted or not path.exists():  # a call that sends nothing more shows nothing of the servers
            files.write_json(path, metrics)
        result = self._result(engine, past, plan, cpu, wall, end)
        result.update({"warm_up": warm, "simulated": simulated, "seconds": round(time.monotonic() - began, 3)})
        self.progress.say(result["msg"])
        if engine.stopped:
            raise AccessError(f"the load was stopped, because {engine.stopped}. So far: {result['msg']}")
        return result

    def _metrics_servers(self, servers: list[InferenceServer]) -> list[InferenceServer]:
        """Return the servers whose metrics are read: those that get the requests, unless a gateway is before them."""
        if self.spec.metrics_urls == self.spec.urls:
            return servers
        context = tls_context(self.spec.ca_file, not self.spec.validate_certs)
        urls = enumerate(self.spec.metrics_urls)
        return [InferenceServer.from_url(number, url, context) for number, url in urls]

    def _limit_of_open(self, most: int) -> str:
        """Return what limits the requests at a time to ``most``."""
        return "max_open" if most == self.spec.limits.max_open else "the limit of open files (ulimit -n)"

    def _schedule(
        self, plan: WorkloadPlan, past: PastRequests, log: JsonlAppender, clock: MonotonicWallClock
    ) -> tuple[RequestSchedule, float]:
        """Return what is still to be sent, and the offset that is now: the first missing request is due at once."""
        spec = self.spec
        if spec.search is not None:
            return self._search_schedule(spec.search, past, log, clock), 0.0
        offset = 0.0
        if plan.workloads:
            missing = [(row.index, row.offset) for row in plan.workloads[:: spec.turns] if row.index not in past.sent]
            conversations: Iterator[tuple[int, float | None]] = iter(missing)
            if past.sent and missing and missing[0][1] is not None:
                offset = missing[0][1]
        else:
            first = max(past.sent, default=-1) // spec.turns + 1
            conversations = ((index * spec.turns, None) for index in counter(first))
        duration = max(spec.duration - past.spent, 0.001) if spec.duration else 0.0
        schedule = RequestSchedule(
            self.requests.make_request, conversations, spec.turns, spec.streams, self.requests.think_time, duration
        )
        return schedule, offset

    def _search_schedule(
        self, wanted: SearchSpec, past: PastRequests, log: JsonlAppender, clock: MonotonicWallClock
    ) -> SearchSchedule:
        """Return the schedule of a search, which goes on after the steps of earlier sessions."""
        search = CapacitySearch(wanted.low, wanted.high, wanted.share)
        for step in past.ended_steps(lambda record: has_kept(record, wanted.slo)):
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
            lambda request: has_kept(request.record(clock), wanted.slo),
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

    def _report(self, engine: RequestEngine, past: PastRequests, began: float) -> None:
        state = f"{engine.submitted} {dict(engine.outcomes)}"
        self.progress.update(state, self._line(engine, past, began))

    def _line(self, engine: RequestEngine, past: PastRequests, began: float) -> str:
        """Return the progress in one line."""
        sent = engine.submitted + len(past.sent)
        ended = sum(engine.outcomes.values())
        of = f"/{self.total:,}" if self.total else ""
        outcomes = [f"{engine.outcomes[name]:,} {name}" for name in (FAILED, REFUSED, LOST) if engine.outcomes[name]]
        latest = sorted(self.first_tokens)
        first = f", first token after {quantiles.quantile(latest, 0.5) / 1e6:.0f} ms (median)" if latest else ""
        words = [
            f"{sent:,}{of} sent",
            f"{engine.outcomes[SUCCEEDED]:,} succeeded",
            *outcomes,
            f"{len(engine.open):,} open",
        ]
        seconds = max(time.monotonic() - began, 0.001)
        return f"requests {self.spec.point}: {', '.join(words)}{first}, {ended / seconds:.1f}/s, {seconds:.0f} s"

    def _result(
        self,
        engine: RequestEngine,
        past: PastRequests,
        plan: WorkloadPlan,
        cpu: float,
        wall: float,
        end: dict[str, Any],
    ) -> dict[str, Any]:
        outcomes = engine.outcomes.copy()
        for outcome in past.outcomes.values():
            outcomes[outcome] += 1
        sent = engine.submitted + len(past.sent)
        counts = {
            "planned": len(plan.workloads) or sent,
            "sent": sent,
            SUCCEEDED: outcomes[SUCCEEDED],
            FAILED: outcomes[FAILED],
            REFUSED: outcomes[REFUSED],
            LOST: outcomes[LOST] + past.lost,
            "unsent": max(len(plan.workloads) - sent, 0),
        }
        lag, lateness = end["lag"], end["lateness"]
        bottleneck = client_bottleneck(lag, None if self.spec.streams else lateness, cpu, wall)
        if not bottleneck and engine.open_max >= engine.most_open > self.spec.streams:
            permitted = f"{self._limit_of_open(engine.most_open)} permits {engine.most_open:,} requests at a time"
            bottleneck = f"The client was the bottleneck: {permitted}, and later ones had to wait"
        rest = [f"{counts[name]:,} {name}" for name in (FAILED, REFUSED, LOST, "unsent") if counts[name]]
        text = f"{counts[SUCCEEDED]:,} of {counts['planned']:,} requests succeeded"
        msg = f"requests {self.spec.point}: {', '.join([text, *rest])}, {engine.tokens:,} tokens in {wall:.1f} s"
        return {
            "changed": engine.submitted > 0,
            "msg": f"{msg}. {bottleneck}" if bottleneck else msg,
            "counts": counts,
            "tokens": engine.tokens,
            "lag": lag,
            "lateness": lateness,
            "cpu_per_token": cpu / engine.tokens if engine.tokens else None,
            "bottleneck": bottleneck,
        }


def _seconds_summary(nanoseconds: Any) -> dict[str, float] | None:
    return quantiles.percentile_summary([value / SECOND for value in nanoseconds])


def _end_line(engine: RequestEngine, clock: MonotonicWallClock, reason: str, cpu: float, wall: float) -> dict[str, Any]:
    return {
        "type": "end",
        "at": round(clock.now(), 6),
        "reason": reason,
        "cpu": round(cpu, 6),
        "wall": round(wall, 6),
        "cpus": os.cpu_count() or 0,
        "sent": engine.submitted,
        "tokens": engine.tokens,
        "open_max": engine.open_max,
        "lag": _seconds_summary(engine.lags),
        "lateness": _seconds_summary(engine.lateness),
    }


def _server_record(server: InferenceServer, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    error = before.get("error") or after.get("error")
    record = {"url": server.url, "before": before["metrics"], "after": after["metrics"]}
    return {**record, "error": error} if error else record


@contextmanager
def _synced(log: JsonlAppender) -> Iterator[None]:
    """Sync the file to disk once a second, on a separate thread because that may take long."""
    over = threading.Event()

    def sync() -> None:
        while not over.wait(_SYNC_INTERVAL):
            with suppress(OSError):
                log.sync()

    thread = signals.SignalBlockingThread(target=sync, name="sync", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run_inference_load(spec: InferenceSpec, step: Step, progress: ProgressLog) -> dict[str, Any]:
    """Run a load. Raises SeatrialError."""
    try:
        return InferenceLoad(spec, step, progress).run()
    except OSError as error:
        raise SeatrialError(f"the load cannot go on: {error.strerror or error}") from error
