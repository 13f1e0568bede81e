# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One call that puts a load on a cluster and sees it through: plan, sampler, sending, waiting, figures."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _interrupt
from ansible_collections.perfscale.seatrial.plugins.module_utils._clock import Clock
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._jsonl_appender import JsonlAppender, session_line
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load import ledger, load_state
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.circuit_breaker import CircuitBreaker
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.dispatcher import (
    LOOP,
    Dispatcher,
    raise_priority,
)
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
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step

if TYPE_CHECKING:
    from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.sampler_process import SamplerProcess

#: Seconds between two looks at where the load stands.
_LOOK = 0.2
#: Seconds within which the sampler should have seen everything that was created, when the load is not waited for.
_SEEN_WITHIN = 10.0
#: Seconds that requests under way are given when the call is interrupted.
_PATIENCE = 2.0


class Load:
    """A load from its plan to its figures. ``run`` is the whole of it."""

    def __init__(self, request: LoadSpec, step: Step, progress: Progress) -> None:
        self.request = request
        self.step = step
        self.progress = progress
        self.began = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Submit what is missing, wait, and return the module's result.

        Raises InputError before anything is created; AccessError, ApiError, Interrupted with the counts so far.
        """
        client, kinds, rendered, planned = self._prepared()
        request = self.request
        namespace = request.namespace or client.access.namespace
        own = sorted({one.workload.kind for one in rendered})
        request.point_dir.mkdir(parents=True, exist_ok=True)
        book, past = ledger.open_ledger(request.point_dir / "ledger.jsonl")
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
            client.close()
            return self._with_sampler(client, sampling, clock, book, past, planned, todo, rendered)
        finally:
            book.close()

    def check(self) -> dict[str, Any]:
        """Do what run() does before it writes or creates anything; return what it would do."""
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
        """Read, check and render everything that the load needs; nothing is written or created."""
        request = self.request
        path = request.point_dir / "plan.jsonl"
        seed = workload_plan.seed_for(path, request.seed, arrivals.draws_from_seed(request.arrival))
        found = arrivals.arrivals(request.arrival, request.count, seed)
        request = self.request = replace(request, count=found.count, seed=seed)
        if not request.sample and (request.wait or found.header.get("at_once")):
            why = "wait" if request.wait else "arrival at_once"
            raise InputError(f"{why} needs the sampler, which sees workloads end: it does not go with sample=false")
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
        book: JsonlAppender,
        past: ledger.ResumeState,
        planned: workload_plan.Plan,
        todo: list[workload_plan.Planned],
        rendered: list[template_renderer.Rendered],
    ) -> dict[str, Any]:
        request = self.request
        with _interrupt.noticed(request.lock_lost) as stop:
            child = self._sampler(client, sampling, clock, book)
            raise_priority(any(one.offset is not None for one in todo[:1]))
            try:
                settings = SenderSettings(
                    client.access,
                    clock,
                    book.write_row,
                    request.request_timeout,
                    request.retry_time,
                    request.run,
                    request.point,
                )
                templates = {one.template.name: one for one in rendered}
                loop = {key: value for key, value in planned.header["arrival"].items() if key in LOOP}
                dispatch = Dispatcher(settings, templates, todo, past, request.in_flight, loop)
                stall = StalledLoad(client.access, sampling)
                story = load_state.LoadState(request, planned, past, dispatch, child, stall)
                dispatch.before = story.there
                reason = "failed"
                book.write(session_line(ledger.SCHEMA, request.run, request.point, clock))
                try:
                    self._watch_begins(child, stop)
                    self._send(dispatch, child, stop, story, book, clock)
                    self._wait(child, stop, story)
                    stopped = story.stopped or story.hopeless()
                    reason = f"stopped: {stopped}" if stopped else "timed out" if story.timed_out else "done"
                except _interrupt.Interrupted as error:
                    reason = str(error)
                    raise _interrupt.Interrupted(f"{error}: {story.line()}") from error
                finally:
                    dispatch.stop(_PATIENCE)
                    end = {"type": "end", "at": round(clock.now(), 6), "reason": reason, "machine": story.machine()}
                    book.write(end)
                    book.sync()
            finally:
                child.finish()
        result = story.result(time.monotonic() - self.began)
        self.progress.say(result["msg"])
        if client.access.insecure:
            result["warnings"] = [client.access.insecure_warning()]
        return result

    def _sampler(
        self, client: Client, sampling: SamplingSpec, clock: Clock, book: JsonlAppender
    ) -> SamplerProcess | NoSampler:
        if not self.request.sample:
            return NoSampler()
        # Not needed, and so not imported, by a load that another process samples.
        from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.sampler_process import SamplerProcess

        return SamplerProcess(client.access, sampling, clock, book.close)

    def _watch_begins(self, child: SamplerProcess | NoSampler, stop: _interrupt.Interrupt) -> None:
        """Wait until every watch is established: nothing is sent before."""
        while not child.watching:
            stop.check()
            child.poll(_LOOK)

    def _send(
        self,
        dispatch: Dispatcher,
        child: SamplerProcess | NoSampler,
        stop: _interrupt.Interrupt,
        story: load_state.LoadState,
        book: JsonlAppender,
        clock: Clock,
    ) -> None:
        if not story.todo:
            return
        story.opened = time.monotonic()
        dispatch.open()
        started = dispatch.start()
        story.started = started
        book.write({"type": "start", "at": round(clock.from_monotonic(started), 6)})
        next_sync = time.monotonic() + 1.0
        with CircuitBreaker(
            dispatch.access, self.request.namespace or "default", self.request.breaker_latency
        ) as breaker:
            while not dispatch.done.is_set():
                stop.check()
                child.poll(_LOOK)
                dispatch.note_ended(story.ended())
                self._tell(story)
                if breaker.reason:
                    story.stopped = breaker.reason
                    self.progress.say(
                        f"workload {self.request.point}: circuit breaker: {breaker.reason}; nothing more is sent"
                    )
                if story.stopped or story.hopeless():
                    dispatch.stop(_PATIENCE)
                    break
                if time.monotonic() >= next_sync:
                    book.sync()
                    next_sync = time.monotonic() + 1.0
        if dispatch.error is not None:
            raise type(dispatch.error)(*_explained(dispatch.error, story)) from dispatch.error
        self.step.timing("load", time.monotonic() - started, f"point {self.request.point}")

    def _wait(self, child: SamplerProcess | NoSampler, stop: _interrupt.Interrupt, story: load_state.LoadState) -> None:
        """Wait until every created workload has ended, or has been seen when there is no wait; then settle."""
        began = time.monotonic()
        wait = self.request.wait
        deadline = began + (self.request.timeout if wait else _SEEN_WITHIN)
        while (story.unfinished() if wait else story.unseen()) > 0 and not story.hopeless():
            if time.monotonic() >= deadline:
                story.timed_out = wait
                break
            stop.check()
            child.poll(_LOOK)
            self._tell(story)
        else:
            # What children of the last workloads still say is worth a moment.
            settled = time.monotonic() + (self.request.settle if self.request.sample else 0.0)
            while (left := settled - time.monotonic()) > 0:
                stop.check()
                child.poll(min(_LOOK, left))
        self.step.timing("wait", time.monotonic() - began, f"point {self.request.point}")

    def _tell(self, story: load_state.LoadState) -> None:
        story.look()
        self.progress.update(story.state(), story.line())


def _chosen(request: LoadSpec, found: arrivals.Arrivals) -> list[str]:
    """Return the template of each workload. Raises InputError for templates that can't be told apart or weighed."""
    if not request.templates:
        raise InputError("there are no templates: nothing could be submitted")
    names = [one.name for one in request.templates]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError(f"two templates are called '{twice}'")
    if any(one.weight < 1 for one in request.templates):
        raise InputError("a template's weight must be 1 or more")
    return workload_plan.assigned(found, names, [one.weight for one in request.templates])


def _rendered(request: LoadSpec, namespace: str, chosen: Sequence[str]) -> list[template_renderer.Rendered]:
    """Render what each template will be used for, and no more: there may be many templates."""
    used: dict[str, array[int]] = {one.name: array("Q") for one in request.templates}
    for index, name in enumerate(chosen):
        used[name].append(index)
    return [
        template_renderer.render(one, request.run, request.point, namespace, used[one.name])
        for one in request.templates
    ]


def dry_run(client: Client, rendered: list[template_renderer.Rendered]) -> None:
    """Have the API server check the first object of each template, with its related ones, without keeping it.

    Raises InputError with the server's words: a mistake in a template shows here and not a thousand times.
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


def _explained(error: Exception, story: load_state.LoadState) -> tuple[Any, ...]:
    """Return the arguments of an error of the same type that also says how far the load got."""
    text = f"{error}. So far: {story.line()}"
    return (text, error.status, error.reason) if isinstance(error, ApiError) else (text,)
