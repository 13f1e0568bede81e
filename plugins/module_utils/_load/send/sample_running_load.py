# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples a load that another call submits or has submitted, until its workloads have ended."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.clock import Clock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Progress, Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from ..kinds.sampling_spec import definitions_for
from ..kinds.stage_definitions import compile_kinds
from ..plan import templates, workload_plan
from ..sample import workload_tally
from ..sample.sampler import Sampler
from . import ledger
from .early_end import StalledLoad, require_answer
from .load_spec import WatchSpec

#: Polling interval for the state of the load, seconds.
_LOOK = 0.2
#: Maximum number of names in a message about unfinished workloads.
_NAMED = 5


class RunningLoadSampler:
    """Samples until every existing workload has ended, or until the timeout."""

    def __init__(self, request: WatchSpec, step: Step, progress: Progress) -> None:
        self.request = request
        self.step = step
        self.progress = progress
        self.began = time.monotonic()
        self.timed_out = False

    def run(self) -> dict[str, Any]:
        """Sample and return the module's result.

        Raises DataError without a plan, OwnershipError if another sampler is running, InputError, AccessError.
        """
        request = self.request
        header = workload_plan.read(request.point_dir / "plan.jsonl").header
        own = sorted({one["kind"] for one in header["templates"]})
        kinds = compile_kinds(request.stages)
        definitions_for(own, kinds)
        past = ledger.read(request.point_dir / "ledger.jsonl")
        client = Client.from_kubeconfig(request.kubeconfig, request.context)
        namespace = request.namespace or client.access.namespace
        spec = request.sampling(kinds, own, namespace, namespace)
        warnings = [client.access.insecure_warning()] if client.access.insecure else []
        with client, signals.interrupt_recorded(request.lock_lost) as stop:
            sampler = Sampler(client, spec, Clock.resume(past.anchor or {}))
            self.stall = StalledLoad(client.access, spec)
            reason = "failed"
            try:
                sampler.start()
                sampler.watching(stop.event.is_set)
                self._sample(sampler, stop, header["count"])
                reason = "timed out" if self.timed_out else "done"
                reason = f"stopped: {self.stall.hopeless}" if self.stall.hopeless else reason
            except signals.Interrupted as error:
                reason = str(error)
                raise signals.Interrupted(f"{error}: {self._line(sampler, header['count'])}") from error
            finally:
                sampler.close(reason)
        result = self._result(sampler, header["count"])
        if self.timed_out:
            require_answer(client.access, namespace, result["msg"])
        return {**result, **({"warnings": warnings} if warnings else {})}

    def _sample(self, sampler: Sampler, stop: signals.Interrupt, planned: int) -> None:
        deadline = time.monotonic() + self.request.timeout
        next_look = 0.0
        over = False
        while not over:
            stop.check()
            sampler.step(_LOOK)
            now = time.monotonic()
            if now < next_look:
                continue
            next_look = now + _LOOK
            counts = {**sampler.tally.counts(), "reasons": sampler.tally.reasons()}
            self.stall.look(counts, self._unfinished(sampler))
            self.progress.update(str(counts), self._line(sampler, planned))
            ended = not self._unfinished(sampler) and not submitter_runs(self.request.point_dir / "ledger.jsonl")
            over = ended or bool(self.stall.hopeless)
            if not over and now >= deadline:
                self.timed_out = over = True
        if not (self.timed_out or self.stall.hopeless):
            sampler.settle(self.request.settle, stop.check, _LOOK)
        self.step.timing("wait", time.monotonic() - self.began, f"point {self.request.point}")

    def _unfinished(self, sampler: Sampler) -> int:
        return len(sampler.tally.seen) - len(sampler.tally.ended)

    def _line(self, sampler: Sampler, planned: int) -> str:
        counts = sampler.tally.counts()
        parts = [
            f"{counts['seen']}/{planned} seen",
            f"{counts['running']} running",
            f"{counts['succeeded']} done",
            f"{counts['failed']} failed",
        ]
        if counts["deleted"]:
            parts.append(f"{counts['deleted']} deleted")
        parts += workload_tally.lines(sampler.tally.reasons() or self.stall.reasons)
        return f"workload {self.request.point}: {', '.join(parts)}, {time.monotonic() - self.began:.0f} s"

    def _result(self, sampler: Sampler, planned: int) -> dict[str, Any]:
        past = ledger.read(self.request.point_dir / "ledger.jsonl")
        own = sampler.spec.own
        created = {
            name
            for (kind, name), outcome in past.outcomes.items()
            if kind in own and outcome in (ledger.CREATED, ledger.ALREADY_MINE)
        }
        seen = {templates.workload_name(self.request.run, self.request.point, index) for index in sampler.tally.seen}
        waiting = [
            templates.workload_name(self.request.run, self.request.point, index) for index in sampler.tally.waiting(10)
        ]
        line = self._line(sampler, planned)
        if self.timed_out:
            names = ", ".join(waiting[:_NAMED])
            line += f": timed out with {self._unfinished(sampler)} unfinished" + (f" ({names})" if names else "")
        elif self.stall.hopeless:
            line += f". It was ended early: {self.stall.hopeless}"
        missing = len(created - seen)
        if missing:
            line += f", {missing} created but never seen"
        self.progress.say(line)
        return {
            "changed": False,
            "counts": {
                "planned": planned,
                **sampler.tally.counts(),
                "unfinished": self._unfinished(sampler),
                "missing": missing,
            },
            "timed_out": self.timed_out,
            "stopped": self.stall.hopeless,
            "waiting_for": waiting if self.timed_out else [],
            "events": sampler.events,
            "gaps": sampler.gaps,
            "sampling": sampler.sampling(),
            "notes": sampler.notes(),
            "seconds": round(time.monotonic() - self.began, 3),
            "msg": line,
        }


def submitter_runs(path: Path) -> bool:
    """Return whether another process holds the lock of the ledger."""
    try:
        with open(path, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False
