# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Applies a load to a cluster in one call: plan, sampler, sending, waiting, result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender, session_line
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from ..failures.failure_injector import FailureInjector
from ..failures.failure_schedule import PlannedFailure
from ..kinds.sampling_spec import NoSampler, SamplingSpec
from ..plan import rendered_workload_templates, workload_plan
from . import creation_ledger, load_progress, prepare_failures, prepare_load, workload_release_barrier
from .common_client_start import CommonStart
from .early_load_end import CircuitBreaker, StalledLoad, require_answering_api_server
from .load_spec import LoadSpec
from .object_creator import SenderSettings
from .plan_dispatcher import LOOP_KEYS, ObjectSendDispatcher, raise_priority
from .prepare_load import create_shared_objects
from .timed_requests import WorkloadLifetimeStopper

if TYPE_CHECKING:
    from ..sample.sampler_process import SamplerProcess

#: Polling interval for the state of the load, seconds.
_POLL_INTERVAL = 0.2
#: Timeout for the sampler to see everything that was created, for a load without wait, seconds.
_SEEN_TIMEOUT = 10.0
#: How long an interrupted call waits for the responses to requests in flight, seconds.
_GRACE_PERIOD = 2.0


class LoadRunner:
    """A load from its plan to its result. ``run`` does all of it."""

    def __init__(
        self,
        request: LoadSpec,
        step: StepDirectory,
        progress: ProgressLog,
        counts: Callable[[dict[str, int]], None] | None = None,
    ) -> None:
        """counts: called with the counts of the load when it shows its progress."""
        self.request = request
        self.step = step
        self.progress = progress
        self.counts = counts
        self.began = time.monotonic()
        self.failures: FailureInjector | None = None

    def run(self) -> dict[str, Any]:
        """Create the missing workloads, wait, and return the module's result.

        Raises InputError before anything is created; AccessError, ApiError and Interrupted with the counts so far.
        """
        prepared = prepare_load.prepare_load_or_part(self.request)
        client, rendered, planned = prepared.client, prepared.rendered, prepared.plan
        request = self.request = prepared.request
        namespace = request.namespace or client.access.namespace
        own = sorted({template.workload.kind for template in rendered})
        request.point_dir.mkdir(parents=True, exist_ok=True)
        log, past = creation_ledger.open_ledger(request.point_dir / "ledger.jsonl")
        try:
            if request.part.whole:  # a part was cut from the plan before
                workload_plan.write_plan_or_compare(request.point_dir / "plan.jsonl", planned)
            firsts = [document.manifest(template.first) for template in rendered for document in template.documents]
            self.step.manifest("workload", [manifest for template in rendered for manifest in template.shared] + firsts)
            clock = MonotonicWallClock.resume(past.anchor or {})
            last = {template.template.name: template.workload.kind for template in rendered}
            todo = [
                workload
                for workload in planned.workloads
                if (last[workload.template], workload.name) not in past.outcomes
            ]
            failures = prepare_failures.prepare_failures(client, request, planned.workloads, self.progress.say)
            if todo:
                if request.part.whole:  # for a part, the controller has created them
                    create_shared_objects(client, rendered, request.retry_time, self.progress.say)
                prepare_load.check_templates_in_dry_run(client, rendered, request, self.progress.say)
            watched = rendered_workload_templates.namespace_to_watch(rendered, namespace)
            sampling = request.sampling(prepared.kinds, own, watched, namespace)
            reports = request.release.get("stage") or ""
            sampling = replace(
                sampling, completions=bool(request.lifetime), reports=reports, client=request.client_number
            )
            client.close()
            return self._with_sampler(client, sampling, clock, log, past, planned, todo, rendered, failures)
        finally:
            log.close()

    def check(self) -> dict[str, Any]:
        """Check everything that run() checks before it writes or creates anything; return what it would do."""
        prepared = prepare_load.prepare_load_or_part(self.request)
        self.request = prepared.request
        past = creation_ledger.read_ledger_file(self.request.point_dir / "ledger.jsonl")
        kinds = {template["name"]: template["kind"] for template in prepared.plan.header["templates"]}
        missing = sum(
            (kinds[workload.template], workload.name) not in past.outcomes for workload in prepared.plan.workloads
        )
        prepare_failures.prepare_failures(prepared.client, self.request, prepared.plan.workloads)
        create_shared_objects(
            prepared.client, prepared.rendered, self.request.retry_time, self.progress.say, check=True
        )
        # Workloads that refer to objects that do not exist yet can't be checked.
        checked = [template for template in prepared.rendered if not template.shared]
        prepare_load.check_templates_in_dry_run(prepared.client, checked, self.request, self.progress.say)
        return {
            "changed": missing > 0,
            "counts": {"planned": self.request.count},
            "msg": f"{missing} workloads would be created",
        }

    def _with_sampler(
        self,
        client: Client,
        sampling: SamplingSpec,
        clock: MonotonicWallClock,
        log: JsonlAppender,
        past: creation_ledger.ResumeState,
        planned: workload_plan.WorkloadPlan,
        todo: list[workload_plan.PlannedWorkload],
        rendered: list[rendered_workload_templates.RenderedTemplate],
        failures: list[PlannedFailure],
    ) -> dict[str, Any]:
        request = self.request
        with signals.record_termination_signals(request.lock_lost) as stop:
            sampler = self._start_sampler(client, sampling, clock, log)
            raise_priority(any(row.offset is not None for row in todo[:1]))
            try:
                settings = SenderSettings(
                    client.access,
                    clock,
                    log.write_row,
                    request.request_timeout,
                    request.retry_time,
                    request.run,
                    request.point,
                )
                templates = {row.template.name: row for row in rendered}
                loop = {key: value for key, value in planned.header["arrival"].items() if key in LOOP_KEYS}
                dispatcher = ObjectSendDispatcher(settings, templates, todo, past, request.in_flight, loop)
                stall = StalledLoad(client.access, sampling)
                lifetimes = _make_lifetime_stopper(request, settings, templates, planned, past)
                barrier = workload_release_barrier.make_workload_releaser(
                    request, settings, sampling.canary_namespace, past
                )
                state = load_progress.LoadProgress(
                    request, planned, past, dispatcher, sampler, stall, lifetimes, barrier
                )
                dispatcher.before = state.there
                reason = "failed"
                log.write(
                    session_line(creation_ledger.SCHEMA, request.run, request.point, clock, request.client_number)
                )
                try:
                    self._await_watches(sampler, stop)
                    self._open_failures(client, clock, failures, planned.workloads, rendered)
                    stall.excused = self.failures.control_plane_ails if self.failures is not None else stall.excused
                    if barrier is not None:
                        barrier.create()
                    self._send(dispatcher, sampler, stop, state, log, clock, past)
                    self._wait(sampler, stop, state)
                    stopped = state.stopped or state.unschedulable()
                    reason = f"stopped: {stopped}" if stopped else "timed out" if state.timed_out else "done"
                except signals.Interrupted as error:
                    reason = str(error)
                    raise signals.Interrupted(f"{error}: {state.line()}") from error
                finally:
                    with ExitStack() as closing:  # each is closed even if another one can't be
                        closing.callback(self._end_ledger, log, clock, state, reason)
                        if barrier is not None:
                            closing.callback(barrier.close, _GRACE_PERIOD)
                        if lifetimes is not None:
                            closing.callback(lifetimes.close, _GRACE_PERIOD)
                        if self.failures is not None:
                            closing.callback(self.failures.close)
                        closing.callback(dispatcher.stop, _GRACE_PERIOD)
            finally:
                sampler.finish()
        result = state.result(time.monotonic() - self.began)
        if self.failures is not None:
            result["failures"] = self.failures.summary()
            counts = [f"{count} {kind}" for kind, count in result["failures"].items()]
            result["msg"] += f", failures: {', '.join(counts) or 'none'}"
        self.progress.say(result["msg"])
        if state.stopped or state.timed_out:
            require_answering_api_server(client.access, request.namespace or "default", result["msg"])
        if client.access.insecure:
            result["warnings"] = [client.access.insecure_warning()]
        return result

    def _end_ledger(
        self, log: JsonlAppender, clock: MonotonicWallClock, state: load_progress.LoadProgress, why: str
    ) -> None:
        log.write({"type": "end", "at": round(clock.now(), 6), "reason": why, "machine": state.machine.document()})
        log.sync()

    def _start_sampler(
        self, client: Client, sampling: SamplingSpec, clock: MonotonicWallClock, log: JsonlAppender
    ) -> SamplerProcess | NoSampler:
        if not self.request.sample:
            return NoSampler()
        # Imported only if needed: another process may sample the load.
        from ..sample.sampler_process import SamplerProcess

        return SamplerProcess(client.access, sampling, clock, log.close)

    def _open_failures(
        self,
        client: Client,
        clock: MonotonicWallClock,
        planned: list[PlannedFailure],
        workloads: Sequence[workload_plan.PlannedWorkload],
        rendered: Sequence[rendered_workload_templates.RenderedTemplate],
    ) -> None:
        """Prepare the injection of the failures of the load, if it has any."""
        request, seed = self.request, self.request.seed or 1
        if planned:
            places = [(workload.template, workload.index) for workload in workloads]
            namespaces = rendered_workload_templates.namespaces_of_workloads(
                rendered, places, request.namespace or client.access.namespace
            )
            where = (request.point_dir, request.run, request.point)
            self.failures = FailureInjector(client.access, clock, *where, seed, planned, namespaces, self.progress.say)
            self.failures.open()

    def _await_watches(self, sampler: SamplerProcess | NoSampler, stop: signals.Interrupt) -> None:
        """Wait until every watch is established. Nothing is sent before."""
        while not sampler.watching:
            stop.check()
            sampler.poll(_POLL_INTERVAL)

    def _send(
        self,
        dispatcher: ObjectSendDispatcher,
        sampler: SamplerProcess | NoSampler,
        stop: signals.Interrupt,
        state: load_progress.LoadProgress,
        log: JsonlAppender,
        clock: MonotonicWallClock,
        past: creation_ledger.ResumeState,
    ) -> None:
        if not state.todo:
            if self.failures is not None and past.started is not None:
                self.failures.begin(past.started - clock.wall + clock.monotonic)
            return
        state.opened = time.monotonic()
        dispatcher.open()
        started = dispatcher.start(None if self.request.part.whole else self._common_start(sampler, stop, clock, past))
        state.started = started
        log.write({"type": "start", "at": round(clock.from_monotonic(started), 6)})
        if self.failures is not None:
            self.failures.begin(started)
        next_sync = time.monotonic() + 1.0
        excused = self.failures.control_plane_ails if self.failures is not None else None
        with CircuitBreaker(
            dispatcher.access, self.request.namespace or "default", self.request.breaker_latency, excused=excused
        ) as breaker:
            while not dispatcher.done.is_set():
                stop.check()
                self._look(sampler, state)
                dispatcher.note_ended(state.gone())
                if breaker.reason:
                    state.stopped, state.stopped_by = breaker.reason, "The circuit breaker ended the load"
                    self.progress.say(
                        f"workload {self.request.point}: circuit breaker: {breaker.reason}; nothing more is sent"
                    )
                if state.over():
                    dispatcher.stop(_GRACE_PERIOD)
                    break
                if time.monotonic() >= next_sync:
                    log.sync()
                    next_sync = time.monotonic() + 1.0
        if dispatcher.error is not None:
            raise type(dispatcher.error)(*_error_with_progress(dispatcher.error, state)) from dispatcher.error
        self.step.timing("load", time.monotonic() - started, f"point {self.request.point}")

    def _common_start(
        self,
        sampler: SamplerProcess | NoSampler,
        stop: signals.Interrupt,
        clock: MonotonicWallClock,
        past: creation_ledger.ResumeState,
    ) -> float | None:
        """Wait for the start of all clients; return it (time.monotonic()), None if it was missed on another machine."""
        request = self.request

        def look() -> None:
            stop.check()
            sampler.poll(_POLL_INTERVAL)

        with Client.from_kubeconfig(request.kubeconfig, request.context, request.request_timeout) as client:
            namespace = request.namespace or client.access.namespace
            start = CommonStart(client, request.run, request.point, namespace, request.part)
            self.progress.say(f"workload {request.point}: ready, waits for the start of {request.clients} clients")
            begin = start.wait(look, request.start_timeout)
        if begin is None and past.started is not None and (past.anchor or {}).get("boot") == clock.boot:
            return past.started - clock.wall + clock.monotonic
        return begin

    def _wait(
        self, sampler: SamplerProcess | NoSampler, stop: signals.Interrupt, state: load_progress.LoadProgress
    ) -> None:
        """Wait until every created workload has ended, or without wait has been seen; then settle.

        The timeout is for the ends; a lifetime that is longer still passes.
        """
        began = time.monotonic()
        wait = self.request.wait
        deadline = began + (self.request.timeout if wait else _SEEN_TIMEOUT)
        self._take_completed(sampler, state)  # those of earlier sessions
        if state.releases is not None:
            state.releases.begin_timeout()
        while (state.unfinished() + state.alive() if wait else state.unseen()) > 0 and not state.over():
            if state.releases is not None and state.releases.left:
                deadline = time.monotonic() + self.request.timeout  # begins with the last release
            if time.monotonic() >= deadline and (state.unfinished() > 0 or not wait):
                state.timed_out = wait
                break
            stop.check()
            self._look(sampler, state)
        else:
            # Objects of the last workloads still change for a moment.
            settled = time.monotonic() + (self.request.settle if self.request.sample else 0.0)
            while (left := settled - time.monotonic()) > 0:
                stop.check()
                sampler.poll(min(_POLL_INTERVAL, left))
        self.step.timing("wait", time.monotonic() - began, f"point {self.request.point}")

    def _look(self, sampler: SamplerProcess | NoSampler, state: load_progress.LoadProgress) -> None:
        """Take what the sampler saw; raise the error of the lifetimes, if any."""
        sampler.poll(_POLL_INTERVAL)
        self._take_completed(sampler, state)
        if self.failures is not None:
            self.failures.check()
        self._report(state)

    def _take_completed(self, sampler: SamplerProcess | NoSampler, state: load_progress.LoadProgress) -> None:
        if state.lifetimes is not None:
            state.lifetimes.note(sampler.completed)
            sampler.completed.clear()
            state.lifetimes.check()
        if state.releases is not None:
            state.releases.note(sampler.reached)
            sampler.reached.clear()
            state.releases.check()
            state.stopped = state.stopped or state.releases.look()

    def _report(self, state: load_progress.LoadProgress) -> None:
        state.machine.record()
        self.progress.update(state.state(), state.line())
        if self.counts is not None:
            self.counts(state.brief())


def _make_lifetime_stopper(
    request: LoadSpec,
    settings: SenderSettings,
    templates: dict[str, rendered_workload_templates.RenderedTemplate],
    planned: workload_plan.WorkloadPlan,
    past: creation_ledger.ResumeState,
) -> WorkloadLifetimeStopper | None:
    """Return what stops the workloads, None if nothing does."""
    if not request.lifetime:
        return None

    def find(index: int) -> tuple[str, str, str]:
        workload = templates[planned.workloads[index // request.part.clients].template].workload
        return workload.kind, workload.path(index), workload.name(index)

    return WorkloadLifetimeStopper(settings, request.lifetime, request.seed or 1, find, past.stopped)


def _error_with_progress(error: Exception, state: load_progress.LoadProgress) -> tuple[Any, ...]:
    """Return the arguments of an error of the same type that also reports the progress of the load."""
    text = f"{error}. So far: {state.line()}"
    return (text, error.status, error.reason) if isinstance(error, ApiError) else (text,)
