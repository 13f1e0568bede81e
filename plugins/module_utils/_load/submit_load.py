# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Applies a load to a cluster in one call: plan, sampler, sending, waiting, result."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _interrupt
from ansible_collections.perfscale.seatrial.plugins.module_utils._anchored_clock import Clock
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._jsonl_appender import JsonlAppender, session_line
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load import ledger, load_state
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.api_health_breaker import (
    CircuitBreaker,
    require_answer,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.dispatcher import (
    LOOP,
    Dispatcher,
    raise_priority,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.lifetimes import Lifetimes
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sender import FIELD_MANAGER, SenderSettings
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.stalled_load import StalledLoad
from ansible_collections.perfscale.seatrial.plugins.module_utils._plan import arrivals, template_renderer, workload_plan
from ansible_collections.perfscale.seatrial.plugins.module_utils._progress import Progress
from ansible_collections.perfscale.seatrial.plugins.module_utils._stages.sampling_spec import (
    NoSampler,
    SamplingSpec,
    definitions_for,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stages.stage_definitions import (
    KindStages,
    compile_kinds,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_files import Step

if TYPE_CHECKING:
    from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.sampler_process import SamplerProcess

#: Polling interval for the state of the load, seconds.
_LOOK = 0.2
#: Timeout for the sampler to see everything that was created, for a load without wait, seconds.
_SEEN_WITHIN = 10.0
#: How long an interrupted call waits for the responses to requests in flight, seconds.
_PATIENCE = 2.0


class Load:
    """A load from its plan to its result. ``run`` does all of it."""

    def __init__(self, request: LoadSpec, step: Step, progress: Progress) -> None:
        self.request = request
        self.step = step
        self.progress = progress
        self.began = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Create the missing workloads, wait, and return the module's result.

        Raises InputError before anything is created; AccessError, ApiError and Interrupted with the counts so far.
        """
        client, kinds, rendered, planned = self._prepared()
        request = self.request
        namespace = request.namespace or client.access.namespace
        own = sorted({one.workload.kind for one in rendered})
        request.point_dir.mkdir(parents=True, exist_ok=True)
        log, past = ledger.open_ledger(request.point_dir / "ledger.jsonl")
        try:
            workload_plan.settle(request.point_dir / "plan.jsonl", planned)
            firsts = [document.manifest(one.first) for one in rendered for document in one.documents]
            self.step.manifest("workload", firsts)
            clock = Clock.resume(past.anchor or {})
            last = {one.template.name: one.workload.kind for one in rendered}
            todo = [one for one in planned.workloads if (last[one.template], one.name) not in past.outcomes]
            if todo:
                dry_run(client, rendered)
            namespaces = {one.namespace or namespace for one in template_renderer.documents(rendered)}
            watched = namespaces.pop() if len(namespaces) == 1 else ""
            sampling = request.sampling(kinds, own, watched, namespace)
            sampling = replace(sampling, completions=bool(request.lifetime))
            client.close()
            return self._with_sampler(client, sampling, clock, log, past, planned, todo, rendered)
        finally:
            log.close()

    def check(self) -> dict[str, Any]:
        """Check everything that run() checks before it writes or creates anything; return what it would do."""
        client, _kinds, rendered, planned = self._prepared()
        past = ledger.read(self.request.point_dir / "ledger.jsonl")
        kinds = {one["name"]: one["kind"] for one in planned.header["templates"]}
        missing = sum((kinds[one.template], one.name) not in past.outcomes for one in planned.workloads)
        dry_run(client, rendered)
        return {
            "changed": missing > 0,
            "counts": {"planned": self.request.count},
            "msg": f"{missing} workloads would be created",
        }

    def _prepared(self) -> tuple[Client, list[KindStages], list[template_renderer.Rendered], workload_plan.Plan]:
        """Read, check and render everything that the load needs, without writing or creating anything."""
        request = self.request
        path = request.point_dir / "plan.jsonl"
        seed = workload_plan.seed_for(path, request.seed, arrivals.draws_from_seed(request.arrival))
        found = arrivals.arrivals(request.arrival, request.count, seed)
        request = self.request = replace(request, count=found.count, seed=seed)
        if not request.sample and (request.wait or found.header.get("at_once")):
            option = "wait" if request.wait else "arrival at_once"
            raise InputError(f"{option} cannot be used with sample=false: the sampler observes the end of workloads")
        kinds = compile_kinds(request.stages)
        client = Client.from_kubeconfig(request.kubeconfig, request.context, request.request_timeout)
        namespace = request.namespace or client.access.namespace
        chosen = _chosen(request, found)
        rendered = _rendered(request, namespace, chosen)
        if request.wait or found.header.get("at_once"):
            definitions_for(sorted({one.workload.kind for one in rendered}), kinds)
        template_renderer.resolve(client, rendered, namespace)
        headers = [one.header() for one in rendered]
        planned = workload_plan.make(request.run, request.point, found, request.in_flight, seed, headers, chosen)
        return client, kinds, rendered, planned

    def _with_sampler(
        self,
        client: Client,
        sampling: SamplingSpec,
        clock: Clock,
        log: JsonlAppender,
        past: ledger.ResumeState,
        planned: workload_plan.Plan,
        todo: list[workload_plan.Planned],
        rendered: list[template_renderer.Rendered],
    ) -> dict[str, Any]:
        request = self.request
        with _interrupt.noticed(request.lock_lost) as stop:
            sampler = self._start_sampler(client, sampling, clock, log)
            raise_priority(any(one.offset is not None for one in todo[:1]))
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
                templates = {one.template.name: one for one in rendered}
                loop = {key: value for key, value in planned.header["arrival"].items() if key in LOOP}
                dispatcher = Dispatcher(settings, templates, todo, past, request.in_flight, loop)
                stall = StalledLoad(client.access, sampling)
                lifetimes = _lifetimes(request, settings, templates, planned, past)
                state = load_state.LoadState(request, planned, past, dispatcher, sampler, stall, lifetimes)
                dispatcher.before = state.there
                reason = "failed"
                log.write(session_line(ledger.SCHEMA, request.run, request.point, clock))
                try:
                    self._await_watches(sampler, stop)
                    self._send(dispatcher, sampler, stop, state, log, clock)
                    self._wait(sampler, stop, state)
                    stopped = state.stopped or state.hopeless()
                    reason = f"stopped: {stopped}" if stopped else "timed out" if state.timed_out else "done"
                except _interrupt.Interrupted as error:
                    reason = str(error)
                    raise _interrupt.Interrupted(f"{error}: {state.line()}") from error
                finally:
                    dispatcher.stop(_PATIENCE)
                    if lifetimes is not None:
                        lifetimes.close(_PATIENCE)
                    end = {"type": "end", "at": round(clock.now(), 6), "reason": reason, "machine": state.machine()}
                    log.write(end)
                    log.sync()
            finally:
                sampler.finish()
        result = state.result(time.monotonic() - self.began)
        self.progress.say(result["msg"])
        if state.stopped or state.timed_out:
            require_answer(client.access, request.namespace or "default", result["msg"])
        if client.access.insecure:
            result["warnings"] = [client.access.insecure_warning()]
        return result

    def _start_sampler(
        self, client: Client, sampling: SamplingSpec, clock: Clock, log: JsonlAppender
    ) -> SamplerProcess | NoSampler:
        if not self.request.sample:
            return NoSampler()
        # Imported only if needed: another process may sample the load.
        from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.sampler_process import SamplerProcess

        return SamplerProcess(client.access, sampling, clock, log.close)

    def _await_watches(self, sampler: SamplerProcess | NoSampler, stop: _interrupt.Interrupt) -> None:
        """Wait until every watch is established. Nothing is sent before."""
        while not sampler.watching:
            stop.check()
            sampler.poll(_LOOK)

    def _send(
        self,
        dispatcher: Dispatcher,
        sampler: SamplerProcess | NoSampler,
        stop: _interrupt.Interrupt,
        state: load_state.LoadState,
        log: JsonlAppender,
        clock: Clock,
    ) -> None:
        if not state.todo:
            return
        state.opened = time.monotonic()
        dispatcher.open()
        started = dispatcher.start()
        state.started = started
        log.write({"type": "start", "at": round(clock.from_monotonic(started), 6)})
        next_sync = time.monotonic() + 1.0
        with CircuitBreaker(
            dispatcher.access, self.request.namespace or "default", self.request.breaker_latency
        ) as breaker:
            while not dispatcher.done.is_set():
                stop.check()
                self._look(sampler, state)
                dispatcher.note_ended(state.gone())
                if breaker.reason:
                    state.stopped = breaker.reason
                    self.progress.say(
                        f"workload {self.request.point}: circuit breaker: {breaker.reason}; nothing more is sent"
                    )
                if state.stopped or state.hopeless():
                    dispatcher.stop(_PATIENCE)
                    break
                if time.monotonic() >= next_sync:
                    log.sync()
                    next_sync = time.monotonic() + 1.0
        if dispatcher.error is not None:
            raise type(dispatcher.error)(*_explained(dispatcher.error, state)) from dispatcher.error
        self.step.timing("load", time.monotonic() - started, f"point {self.request.point}")

    def _wait(
        self, sampler: SamplerProcess | NoSampler, stop: _interrupt.Interrupt, state: load_state.LoadState
    ) -> None:
        """Wait until every created workload has ended, or without wait has been seen; then settle.

        The timeout is for the ends; a lifetime that is longer still passes.
        """
        began = time.monotonic()
        wait = self.request.wait
        deadline = began + (self.request.timeout if wait else _SEEN_WITHIN)
        self._take_completed(sampler, state)  # those of earlier sessions
        while (state.unfinished() + state.alive() if wait else state.unseen()) > 0 and not state.hopeless():
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
                sampler.poll(min(_LOOK, left))
        self.step.timing("wait", time.monotonic() - began, f"point {self.request.point}")

    def _look(self, sampler: SamplerProcess | NoSampler, state: load_state.LoadState) -> None:
        """Take what the sampler saw; raise the error of the lifetimes, if any."""
        sampler.poll(_LOOK)
        self._take_completed(sampler, state)
        self._report(state)

    def _take_completed(self, sampler: SamplerProcess | NoSampler, state: load_state.LoadState) -> None:
        if state.lifetimes is not None:
            state.lifetimes.note(sampler.completed)
            sampler.completed.clear()
            state.lifetimes.check()

    def _report(self, state: load_state.LoadState) -> None:
        state.record_machine()
        self.progress.update(state.state(), state.line())


def _lifetimes(
    request: LoadSpec,
    settings: SenderSettings,
    templates: dict[str, template_renderer.Rendered],
    planned: workload_plan.Plan,
    past: ledger.ResumeState,
) -> Lifetimes | None:
    """Return what stops the workloads, None if nothing does."""
    if not request.lifetime:
        return None

    def find(index: int) -> tuple[str, str, str]:
        workload = templates[planned.workloads[index].template].workload
        return workload.kind, workload.path, workload.name(index)

    return Lifetimes(settings, request.lifetime, request.seed or 1, find, past.stopped)


def _chosen(request: LoadSpec, found: arrivals.Arrivals) -> list[str]:
    """Return the template of each workload. Raises InputError for missing templates, equal names, bad weights."""
    if not request.templates:
        raise InputError("templates is empty: there is nothing to submit")
    names = [one.name for one in request.templates]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError(f"templates: two have the name '{twice}'")
    if any(one.weight < 1 for one in request.templates):
        raise InputError("templates: a weight must be 1 or more")
    return workload_plan.assigned(found, names, [one.weight for one in request.templates])


def _rendered(request: LoadSpec, namespace: str, chosen: Sequence[str]) -> list[template_renderer.Rendered]:
    """Render each template for the workloads that use it, and no others: there may be many templates."""
    used: dict[str, array[int]] = {one.name: array("Q") for one in request.templates}
    for index, name in enumerate(chosen):
        used[name].append(index)
    return [
        template_renderer.render(one, request.run, request.point, namespace, used[one.name])
        for one in request.templates
    ]


def dry_run(client: Client, rendered: list[template_renderer.Rendered]) -> None:
    """Have the API server check the first object of each template, and its related ones, in a dry run.

    Raises InputError with the server's message, so that a mistake in a template shows once and not a thousand times.
    """
    query = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": FIELD_MANAGER}
    for one in rendered:
        for document in one.documents:
            try:
                client.request("POST", document.path, document.body(one.first), query)
            except ApiError as error:
                if error.status == 409 and error.reason == "AlreadyExists":
                    continue
                raise InputError(
                    f"template '{one.template.name}': the API server refuses its first {document.kind}: {error}"
                ) from error


def _explained(error: Exception, state: load_state.LoadState) -> tuple[Any, ...]:
    """Return the arguments of an error of the same type that also reports the progress of the load."""
    text = f"{error}. So far: {state.line()}"
    return (text, error.status, error.reason) if isinstance(error, ApiError) else (text,)
