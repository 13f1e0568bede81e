# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples a load that another call or somebody else submits, until it has ended or one of the limits is reached.

Of a load that others submit, it says which objects the selectors leave out.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from ..kinds.sampling_spec import SamplingSpec, check_kinds_have_end_stage
from ..plan import workload_plan
from ..sample import workload_progress_and_waits
from ..sample.sampler import Sampler
from . import creation_ledger
from .early_load_end import StalledLoad, require_answering_api_server
from .load_spec import OTHERS, SampleSpec

#: Interval between two lists without selectors, seconds, and the maximum number of objects that are compared.
_LEFT_OUT_INTERVAL, _MOST_LOOKED_AT = 3.0, 2000


def find_existing_namespace(client: Client, names: Sequence[str]) -> str:
    """Return the first namespace that exists, for the canary: the load may create its own later. Raises InputError."""
    kind = client.kind("v1", "Namespace")
    for name in names:
        try:
            if client.get(kind, name, metadata_only=True) is not None:
                return name
        except ApiError:  # no permission to read it
            return name
    raise InputError(
        f"none of the namespaces {formats.format_list(names)} exists yet, and the canary needs one: name one that"
        " exists, canary_namespace (sample_canary_namespace)"
    )


class ObjectsLeftOut:
    """Objects of the workloads' kind that appear, and that the selectors leave out."""

    def __init__(self, client: Client, request: SampleSpec) -> None:
        self.sentence = ""  # for the user, once there are such objects
        self._client = client
        self._request = request
        self._next = time.monotonic() + _LEFT_OUT_INTERVAL if request.label_selector or request.field_selector else inf
        self._before = {item["metadata"]["uid"] for item in self._listed_objects()} if self._next < inf else set()
        if len(self._before) >= _MOST_LOOKED_AT:
            self._next = inf  # older objects that were not listed would look new

    def look(self) -> str:
        """Return a sentence when the first such objects have appeared, otherwise an empty text."""
        if self.sentence or time.monotonic() < self._next:
            return ""
        self._next = time.monotonic() + _LEFT_OUT_INTERVAL
        new = [item["metadata"] for item in self._listed_objects() if item["metadata"]["uid"] not in self._before]
        if not new:
            return ""
        request = self._request
        selectors = " and ".join(filter(None, (request.label_selector, request.field_selector)))
        labels = (
            ", ".join(f"{key}={value}" for key, value in sorted((new[0].get("labels") or {}).items())) or "no labels"
        )
        name = "/".join(filter(None, (new[0].get("namespace"), new[0]["name"])))
        self.sentence = (
            f"{formats.format_count(len(new), request.kinds[0].kind)} appeared that {selectors} leaves out, such as"
            f" {name} with {labels}"
        )
        return self.sentence

    def _listed_objects(self) -> list[dict[str, Any]]:
        """Return the metadata of at most _MOST_LOOKED_AT objects; none if they can't be read."""
        things: list[dict[str, Any]] = []
        first = self._request.kinds[0]
        for version in first.api_versions:
            with contextlib.suppress(InputError, ApiError, AccessError):
                kind = self._client.kind(version, first.kind)
                for namespace in self._request.namespaces or ("",):
                    for page in self._client.pages(kind, namespace, metadata_only=True):
                        things += page["items"]
                        if len(things) >= _MOST_LOOKED_AT:
                            return things
                break
        return things


#: File in the directory of the point that ends the sampling of a load of others.
END_FILE = "END"
#: Polling interval for the state of the load, seconds.
_POLL_INTERVAL = 0.2
#: Maximum number of names in a message about unfinished workloads.
_NAMED = 5


def run_load_sampling(request: SampleSpec, step: StepDirectory, progress: ProgressLog) -> dict[str, Any]:
    """Sample the load of a point and return the result of module workload_sample.

    Raises:
        DataError: without a plan, unless others submit the load.
        InputError: for a kind that the server does not have, or that never ends.
        OwnershipError: if another sampler is running.
        AccessError: if the API server does not answer.
        Interrupted: with the counts so far.
    """
    sampler = ForeignLoadSampler if request.submitted_by == OTHERS else PlannedLoadSampler
    return sampler(request, step, progress).run()


class LoadSampler:
    """One call. A subclass knows which objects belong to the load, and when it is over."""

    label = ""  # before the point in progress lines
    ended_early = False  # nothing more is expected: no time to settle

    def __init__(self, request: SampleSpec, step: StepDirectory, progress: ProgressLog) -> None:
        self.request = request
        self.step = step
        self.progress = progress
        self.began = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Sample until the load is over; see sample()."""
        request = self.request
        client = Client.from_kubeconfig(request.kubeconfig, request.context)
        spec, clock = self._prepare(client)
        with (
            client,
            signals.record_termination_signals(request.lock_lost) as stop,
            self.step.timed("wait", f"point {request.point}"),
        ):
            sampler = Sampler(client, spec, clock)
            reason = "failed"
            try:
                sampler.start()
                sampler.watching(stop.event.is_set)
                reason = self._sample(sampler, stop)
            except signals.Interrupted as error:
                reason = str(error)
                raise signals.Interrupted(f"{error}: {self._line(sampler)}") from error
            finally:
                sampler.close(reason)
        details = self._details(sampler, reason)
        result = {
            "changed": False,
            "events": sampler.events,
            "gaps": sampler.gaps,
            "sampling": sampler.sampling(),
            "notes": sampler.notes(),
            "seconds": round(time.monotonic() - self.began, 3),
            "ended_by": reason,
            **details,
            "counts": {
                **sampler.tally.counts(),
                "unfinished": _count_unfinished_workloads(sampler),
                **details["counts"],
            },
        }
        self.progress.say(result["msg"])
        if self._needs_answer(sampler):
            require_answering_api_server(client.access, spec.canary_namespace, result["msg"])
        return {**result, **({"warnings": [client.access.insecure_warning()]} if client.access.insecure else {})}

    def _prepare(self, client: Client) -> tuple[SamplingSpec, MonotonicWallClock]:
        """Return the sampler's parameters and the clock of the point, after all checks."""
        raise NotImplementedError

    def _time_limit(self) -> float:
        """Return the maximum duration of sampling, seconds."""
        raise NotImplementedError

    def _over(self, sampler: Sampler, quiet: float, late: bool) -> str:
        """Return why sampling is over; empty if it is not. quiet: seconds since the last event of the load."""
        raise NotImplementedError

    def _reasons(self, sampler: Sampler) -> list[tuple[int, str]]:
        """Return why workloads wait: (number, reason)."""
        return sampler.tally.reasons()

    def _counted(self, sampler: Sampler) -> list[str]:
        """Return the counts for a progress line."""
        raise NotImplementedError

    def _details(self, sampler: Sampler, reason: str) -> dict[str, Any]:
        """Return what the result has of this kind of load: ``counts`` and ``msg`` at least."""
        raise NotImplementedError

    def _needs_answer(self, sampler: Sampler) -> bool:
        """Return whether an API server that does not answer may be the reason for how it ended."""
        raise NotImplementedError

    def _sample(self, sampler: Sampler, stop: signals.Interrupt) -> str:
        """Sample until the load is over; return why it is."""
        deadline = time.monotonic() + self._time_limit()
        next_look, last_change, events = 0.0, time.monotonic(), -1
        reason = ""
        while not reason:
            stop.check()
            sampler.process_events(_POLL_INTERVAL)
            now = time.monotonic()
            if now < next_look:
                continue
            next_look = now + _POLL_INTERVAL
            if sampler.events != events:
                events, last_change = sampler.events, now
            reason = self._over(sampler, now - last_change, now >= deadline)
            self.progress.update(f"{sampler.tally.counts()} {self._reasons(sampler)}", self._line(sampler))
        if not self.ended_early:
            sampler.settle(self.request.settle, stop.check, _POLL_INTERVAL)
        return reason

    def _line(self, sampler: Sampler) -> str:
        waits = workload_progress_and_waits.format_pending_reasons(self._reasons(sampler))
        parts = [*self._counted(sampler), *waits]
        return f"{self.label} {self.request.point}: {', '.join(parts)}, {time.monotonic() - self.began:.0f} s"


class PlannedLoadSampler(LoadSampler):
    """Samples the load of a plan until every existing workload has ended, or until the timeout."""

    label = "workload"

    def __init__(self, request: SampleSpec, step: StepDirectory, progress: ProgressLog) -> None:
        super().__init__(request, step, progress)
        self.timed_out = False
        plan = workload_plan.read_complete_plan(request.point_dir / "plan.jsonl")
        header = plan.header
        self._names = {workload.index: workload.name for workload in plan.workloads}
        self._planned = header["count"]
        self._own = sorted({template["kind"] for template in header["templates"]})
        check_kinds_have_end_stage(self._own, request.kinds)

    def _prepare(self, client: Client) -> tuple[SamplingSpec, MonotonicWallClock]:
        access = client.access
        namespace = self.request.namespace or access.namespace
        spec = self.request.sampling(self.request.kinds, self._own, namespace, namespace)
        self._stall = StalledLoad(access, spec)
        past = creation_ledger.read_ledger_file(self.request.point_dir / "ledger.jsonl")
        return spec, MonotonicWallClock.resume(past.anchor or {})

    def _time_limit(self) -> float:
        return self.request.timeout

    def _over(self, sampler: Sampler, quiet: float, late: bool) -> str:
        counts = {**sampler.tally.counts(), "reasons": sampler.tally.reasons()}
        self._stall.look(counts, _count_unfinished_workloads(sampler))
        if self._stall.unschedulable:
            self.ended_early = True
            return f"stopped: {self._stall.unschedulable}"
        ledger = self.request.point_dir / "ledger.jsonl"
        if not _count_unfinished_workloads(sampler) and not is_submitter_running(ledger):
            return "done"
        self.timed_out = self.ended_early = late
        return "timed out" if late else ""

    def _reasons(self, sampler: Sampler) -> list[tuple[int, str]]:
        return sampler.tally.reasons() or self._stall.reasons

    def _counted(self, sampler: Sampler) -> list[str]:
        counts = sampler.tally.counts()
        parts = [
            f"{counts['seen']}/{self._planned} seen",
            f"{counts['running']} running",
            f"{counts['succeeded']} done",
            f"{counts['failed']} failed",
        ]
        return [*parts, f"{counts['deleted']} deleted"] if counts["deleted"] else parts

    def _details(self, sampler: Sampler, reason: str) -> dict[str, Any]:
        request = self.request
        past = creation_ledger.read_ledger_file(request.point_dir / "ledger.jsonl")
        created = {
            name
            for (kind, name), outcome in past.outcomes.items()
            if kind in self._own and outcome in (creation_ledger.CREATED, creation_ledger.ALREADY_MINE)
        }
        seen = {self._names.get(index) for index in sampler.tally.seen}
        waiting = [self._names[index] for index in sampler.tally.waiting(10) if index in self._names]
        line = self._line(sampler)
        if self.timed_out:
            names = ", ".join(waiting[:_NAMED])
            line += f": timed out with {_count_unfinished_workloads(sampler)} unfinished" + (
                f" ({names})" if names else ""
            )
        elif self._stall.unschedulable:
            line += f". It was ended early: {self._stall.unschedulable}"
        missing = len(created - seen)
        if missing:
            line += f", {missing} created but never seen"
        return {
            "counts": {"planned": self._planned, "missing": missing},
            "timed_out": self.timed_out,
            "stopped": self._stall.unschedulable,
            "waiting_for": waiting if self.timed_out else [],
            "msg": line,
        }

    def _needs_answer(self, sampler: Sampler) -> bool:
        return self.timed_out


class ForeignLoadSampler(LoadSampler):
    """Samples a load that others submit, until one of its limits. Writes nothing to the cluster but the canary."""

    label = "sample"

    def __init__(self, request: SampleSpec, step: StepDirectory, progress: ProgressLog) -> None:
        super().__init__(request, step, progress)
        self.end_file = request.point_dir / END_FILE
        self._left_out: ObjectsLeftOut | None = None

    def _prepare(self, client: Client) -> tuple[SamplingSpec, MonotonicWallClock]:
        self.request.point_dir.mkdir(parents=True, exist_ok=True)
        self.end_file.unlink(missing_ok=True)
        spec = self.request.sampling_of_others(client.access.namespace)
        if spec.canary_rate > 0 and not self.request.canary_namespace:
            spec = replace(
                spec,
                canary_namespace=find_existing_namespace(client, [*self.request.namespaces, client.access.namespace]),
            )
        self._left_out = ObjectsLeftOut(client, self.request)
        # The clock of the point is that of its first session, if there was one.
        first = next(files.read_json_lines(spec.path), {}) if spec.path.exists() else {}
        return spec, MonotonicWallClock.resume(first.get("anchor") or {})

    def _time_limit(self) -> float:
        return self.request.duration or float("inf")

    def _sample(self, sampler: Sampler, stop: signals.Interrupt) -> str:
        request = self.request
        where = f"in {formats.format_list(request.namespaces)}" if request.namespaces else "everywhere"
        selectors = [selector for selector in (request.label_selector, request.field_selector) if selector]
        matching = f" with {' and '.join(selectors)}" if selectors else ""
        self.progress.say(
            f"sample {request.point}: follows every {request.kinds[0].kind} {where}{matching}; "
            f"to end it: touch {self.end_file}"
        )
        for note in sampler.notes():
            self.progress.say(f"sample {request.point}: {note}")
        return super()._sample(sampler, stop)

    def _say_what_is_left_out(self, sampler: Sampler) -> None:
        """Say once which objects have appeared that the selectors leave out, while no workload was seen."""
        sentence = self._left_out.look() if self._left_out is not None and not sampler.tally.seen else ""
        if sentence:
            self.progress.say(f"sample {self.request.point}: {sentence}")

    def _over(self, sampler: Sampler, quiet: float, late: bool) -> str:
        request, tally = self.request, sampler.tally
        self._say_what_is_left_out(sampler)
        ends = request.kinds[0].ends
        done = len(tally.ended) if ends else len(tally.seen)
        if self.end_file.exists():
            return f"{END_FILE} was written"
        if request.count and done >= request.count:
            return f"{formats.format_count(done, 'workload')} {'ended' if ends else 'seen'}"
        if request.idle and tally.seen and quiet >= request.idle:
            return f"nothing changed for {request.idle:g} s"
        return f"{request.duration:g} s passed" if late else ""

    def _counted(self, sampler: Sampler) -> list[str]:
        counts = sampler.tally.counts()
        parts = [f"{counts['seen']} seen", f"{counts['running']} running", f"{counts['succeeded']} done"]
        return parts + [f"{counts[name]} {name}" for name in ("failed", "deleted") if counts[name]]

    def _details(self, sampler: Sampler, reason: str) -> dict[str, Any]:
        left_out = self._left_out.sentence if self._left_out is not None and not sampler.tally.seen else ""
        return {"counts": {}, "msg": ". ".join(filter(None, (f"{self._line(sampler)}: {reason}", left_out)))}

    def _needs_answer(self, sampler: Sampler) -> bool:
        return not sampler.tally.seen


def _count_unfinished_workloads(sampler: Sampler) -> int:
    return len(sampler.tally.seen) - len(sampler.tally.ended)


def is_submitter_running(path: Path) -> bool:
    """Return whether another process holds the lock of the ledger."""
    try:
        with open(path, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False
