# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples a load that others submit, until enough workloads have ended, for some time, or until a file appears."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.clock import Clock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Progress, Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from ..kinds.sampling_spec import SamplingSpec, Selection
from ..kinds.stage_definitions import KindStages, compile_kinds
from ..sample import workload_tally
from ..sample.sampler import Sampler
from . import load_spec
from .early_end import require_answer

#: File in the directory of the point that ends the sampling.
END_FILE = "END"
#: Polling interval for the state of the load, seconds.
_LOOK = 0.2
#: Parameters that are taken as they are.
_PLAIN = ("canary_rate", "canary_namespace", "count", "duration", "idle", "settle")
_CREATION = "metadata.creationTimestamp"


@dataclass(frozen=True, kw_only=True)
class FollowSpec:
    """The parameters of workload_follow. Times in seconds; 0 for no such end."""

    kubeconfig: str
    context: str
    run: str
    point: str
    point_dir: Path
    kinds: tuple[KindStages, ...]  # the workloads' kind is the first
    selection: Selection
    simulated_writers: tuple[str, ...]
    canary_rate: float
    canary_namespace: str
    count: int
    duration: float
    idle: float
    settle: float

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> FollowSpec:
        """Check a module's parameters and return them. Raises InputError naming the option and its value."""
        load_spec.check(given)
        if not given["stages"]:
            raise InputError("stages is empty: the first of them must be the kind of the workloads")
        kinds = compile_kinds(given["stages"])
        first = kinds[0]
        if not any(one.get("field") == _CREATION for one in first.definition["stages"]):
            raise InputError(
                f"stage definition of {first.kind}: it needs a stage with field {_CREATION}, "
                f"which shows when a workload was sent"
            )
        return cls(
            kubeconfig=given["kubeconfig"],
            context=given["context"],
            run=given["run_id"],
            point=given["point"],
            point_dir=Path(given["point_dir"]),
            kinds=tuple(kinds),
            selection=Selection(
                namespaces=tuple(dict.fromkeys(given["namespaces"])),
                labels=given["label_selector"],
                fields=given["field_selector"],
                existing=given["existing"],
            ),
            simulated_writers=tuple(given["simulated_writers"]),
            **{name: given[name] for name in _PLAIN},
        )

    def sampling(self, namespace: str) -> SamplingSpec:
        """Return the sampler's part. namespace: that of the kubeconfig's context."""
        return SamplingSpec(
            run=self.run,
            point=self.point,
            path=self.point_dir / "observations.jsonl",
            namespace="",
            canary_namespace=self.canary_namespace or next(iter(self.selection.namespaces), namespace),
            kinds=self.kinds,
            own=frozenset([self.kinds[0].kind]),
            simulated_writers=self.simulated_writers,
            canary_rate=self.canary_rate,
            selection=self.selection,
        )


class ForeignLoadSampler:
    """Samples until one of the ends that were asked for. Writes nothing to the cluster but the canary."""

    def __init__(self, request: FollowSpec, step: Step, progress: Progress) -> None:
        self.request = request
        self.step = step
        self.progress = progress
        self.began = time.monotonic()
        self.end_file = request.point_dir / END_FILE

    def run(self) -> dict[str, Any]:
        """Sample and return the module's result.

        Raises InputError for a kind that the server does not have, OwnershipError if another sampler is running,
        AccessError, Interrupted.
        """
        request = self.request
        request.point_dir.mkdir(parents=True, exist_ok=True)
        self.end_file.unlink(missing_ok=True)
        client = Client.from_kubeconfig(request.kubeconfig, request.context)
        spec = request.sampling(client.access.namespace)
        with client, signals.interrupt_recorded() as stop, self.step.timed("wait", f"point {request.point}"):
            sampler = Sampler(client, spec, _clock(spec.path))
            reason = "failed"
            try:
                sampler.start()
                sampler.watching(stop.event.is_set)
                self.progress.say(self._beginning())
                reason = self._sample(sampler, stop)
            except signals.Interrupted as error:
                reason = str(error)
                raise signals.Interrupted(f"{error}: {self._line(sampler)}") from error
            finally:
                sampler.close(reason)
        result = self._result(sampler, reason)
        if not sampler.tally.seen:
            require_answer(client.access, spec.canary_namespace, result["msg"])
        return {**result, **({"warnings": [client.access.insecure_warning()]} if client.access.insecure else {})}

    def _sample(self, sampler: Sampler, stop: signals.Interrupt) -> str:
        """Sample until an end; return which it was."""
        deadline = time.monotonic() + self.request.duration if self.request.duration else float("inf")
        next_look, last_change, events = 0.0, time.monotonic(), -1
        reason = ""
        while not reason:
            stop.check()
            sampler.step(_LOOK)
            now = time.monotonic()
            if now < next_look:
                continue
            next_look = now + _LOOK
            if sampler.events != events:
                events, last_change = sampler.events, now
            self.progress.update(f"{sampler.tally.counts()} {sampler.tally.reasons()}", self._line(sampler))
            reason = self._over(sampler, now - last_change, now >= deadline)
        sampler.settle(self.request.settle, stop.check, _LOOK)
        return reason

    def _over(self, sampler: Sampler, quiet: float, late: bool) -> str:
        """Return why sampling is over; empty if it is not. quiet: seconds since the last event of the load."""
        request, tally = self.request, sampler.tally
        done = len(tally.ended) if request.kinds[0].ends else len(tally.seen)
        if self.end_file.exists():
            return f"{END_FILE} was written"
        if request.count and done >= request.count:
            return f"{formats.count(done, 'workload')} {'ended' if request.kinds[0].ends else 'seen'}"
        if request.idle and tally.seen and quiet >= request.idle:
            return f"nothing changed for {request.idle:g} s"
        return f"{request.duration:g} s passed" if late else ""

    def _beginning(self) -> str:
        request = self.request
        where = (
            f"in {formats.format_list(request.selection.namespaces)}" if request.selection.namespaces else "everywhere"
        )
        chosen = [one for one in (request.selection.labels, request.selection.fields) if one]
        matching = f" with {' and '.join(chosen)}" if chosen else ""
        kind = request.kinds[0].kind
        return f"sample {request.point}: follows every {kind} {where}{matching}; to end it: touch {self.end_file}"

    def _line(self, sampler: Sampler) -> str:
        counts = sampler.tally.counts()
        parts = [f"{counts['seen']} seen", f"{counts['running']} running", f"{counts['succeeded']} done"]
        parts += [f"{counts[name]} {name}" for name in ("failed", "deleted") if counts[name]]
        parts += workload_tally.lines(sampler.tally.reasons())
        return f"sample {self.request.point}: {', '.join(parts)}, {time.monotonic() - self.began:.0f} s"

    def _result(self, sampler: Sampler, reason: str) -> dict[str, Any]:
        tally = sampler.tally
        line = f"{self._line(sampler)}: {reason}"
        self.progress.say(line)
        return {
            "changed": False,
            "counts": {**tally.counts(), "unfinished": len(tally.seen) - len(tally.ended)},
            "ended_by": reason,
            "events": sampler.events,
            "gaps": sampler.gaps,
            "sampling": sampler.sampling(),
            "notes": sampler.notes(),
            "seconds": round(time.monotonic() - self.began, 3),
            "msg": line,
        }


def _clock(path: Path) -> Clock:
    """Return the clock of the point: that of its first session, if there was one."""
    first = next(files.read_lines(path), {}) if path.exists() else {}
    return Clock.resume(first.get("anchor") or {})
