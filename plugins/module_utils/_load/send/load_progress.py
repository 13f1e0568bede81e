# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress of a running load, and its result, with the load of the machine that sends."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, load_generator_health
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.load_generator_health import MachineLoad

from ..plan import workload_plan
from ..sample import workload_progress_and_waits
from . import creation_ledger
from .early_load_end import StalledLoad
from .plan_dispatcher import ObjectSendDispatcher
from .timed_requests import WorkloadLifetimeStopper
from .workload_release_barrier import WorkloadReleaser

if TYPE_CHECKING:
    from ..kinds.sampling_spec import NoSampler
    from ..sample.sampler_process import SamplerProcess
    from .load_spec import LoadSpec

#: Minimum share of stolen processor time that a message about lateness mentions.
_NOTABLE_STEAL = 0.01
#: Maximum number of names in a message about unfinished workloads.
_NAMED = 5


class LoadProgress:
    """Counts of a load, from its dispatcher, its sampler, and earlier sessions."""

    def __init__(
        self,
        request: LoadSpec,
        planned: workload_plan.WorkloadPlan,
        past: creation_ledger.ResumeState,
        dispatcher: ObjectSendDispatcher,
        sampler: SamplerProcess | NoSampler,
        stall: StalledLoad,
        lifetimes: WorkloadLifetimeStopper | None = None,
        releases: WorkloadReleaser | None = None,
    ) -> None:
        self.request = request
        self.planned = planned
        self.opened = 0.0  # when the first connection was opened, time.monotonic()
        self.started = 0.0
        self.timed_out = False
        self.stopped = ""  # why the circuit breaker or the barrier of a release ended the load
        self.stopped_by = "The load was ended early"
        self._dispatcher = dispatcher
        self._sampler = sampler
        self._stall = stall
        self.lifetimes = lifetimes
        self.releases = releases
        self._sessions = past.sessions + 1
        self.machine = MachineLoad()
        kinds = {template["name"]: template["kind"] for template in planned.header["templates"]}
        outcomes = [past.outcomes.get((kinds[workload.template], workload.name)) for workload in planned.workloads]
        self.todo = outcomes.count(None)
        self._before = Counter(outcome for outcome in outcomes if outcome)

    def count(self, outcome: str) -> int:
        """Return the number of workloads of all sessions with this final outcome."""
        return self._before[outcome] + self._dispatcher.outcomes.get(outcome, 0)

    @property
    def there(self) -> int:
        """Number of workloads that were created, in this session or before."""
        return self.count(creation_ledger.CREATED) + self.count(creation_ledger.ALREADY_MINE)

    def ended(self) -> int:
        """Return the number of workloads that were seen to end: succeeded, failed or deleted."""
        return sum(self._sampler.state.get(name, 0) for name in ("succeeded", "failed", "deleted"))

    def alive(self) -> int:
        """Return the number of workloads that are complete and will be stopped when their lifetime is over."""
        return self.lifetimes.left if self.lifetimes is not None else 0

    def gone(self) -> int:
        """Return the number of workloads that have ended and do not wait for the end of their lifetime."""
        return self.ended() - self.alive()

    def unfinished(self) -> int:
        """Return the number of created workloads that were not seen to end."""
        return self.there - self.ended()

    def unseen(self) -> int:
        """Return the number of created workloads that the sampler has not seen; 0 if it does not watch their kind."""
        if not self.request.sample:
            return 0
        watched = {stage["kind"] for stage in self.request.stages}
        kinds = {template["kind"] for template in self.planned.header["templates"]}
        return self.there - self._sampler.state.get("seen", 0) if kinds <= watched else 0

    def rate(self) -> float:
        """Return workloads created per second in this session, between the first and the last response."""
        dispatcher = self._dispatcher
        created = dispatcher.outcomes.get(creation_ledger.CREATED, 0)
        seconds = dispatcher.last_answered - dispatcher.first_answered
        # n responses enclose n - 1 intervals.
        return (created - 1) / seconds if created > 1 and seconds > 0 else 0.0

    def unschedulable(self) -> str:
        """Return why no workload can ever run; empty if one may, or for a load without wait."""
        if self.request.wait:
            self._stall.look(self._sampler.state, self.unfinished())
        return self._stall.unschedulable

    def over(self) -> str:
        """Return why the load ends early; empty if it goes on."""
        return self.stopped or self.unschedulable()

    def _pending(self) -> list[str]:
        return workload_progress_and_waits.format_pending_reasons(
            self._sampler.state.get("reasons") or self._stall.reasons
        )

    def state(self) -> str:
        """Return a text that changes with each change of the load."""
        counts = sorted(self._counts().items())
        freed = (len(self.releases.ready), self.releases.released) if self.releases else ()
        parts = (self._dispatcher.submitted, self.there, counts, freed, self._pending(), self._dispatcher.retries)
        return " ".join(str(part) for part in parts)

    def _counts(self) -> dict[str, int]:
        return {name: self._sampler.state.get(name, 0) for name in ("running", "succeeded", "failed", "deleted")}

    def brief(self) -> dict[str, int]:
        """Return the progress as numbers, which those of other clients can be added to."""
        submitted = self.request.count - self.todo + self._dispatcher.submitted
        refused = self.count(creation_ledger.REFUSED) + self._dispatcher.blocked
        numbers = {"submitted": submitted, "created": self.there, **self._counts(), "refused": refused}
        return {**numbers, "retries": self._dispatcher.retries}

    def line(self) -> str:
        """Return the progress of the load as a line of text."""
        of = self.request.count
        counts = self._counts()
        submitted = of - self.todo + self._dispatcher.submitted
        parts = [
            f"{submitted}/{of} submitted",
            f"{self.there} created",
            *([f"{len(self.releases.ready)} ready, {self.releases.released} released"] if self.releases else []),
            f"{counts['running']} running",
            f"{counts['succeeded']} done",
            f"{counts['failed']} failed",
            *self._pending(),
        ]
        for name, number in (
            ("deleted", counts["deleted"]),
            ("refused", self.count(creation_ledger.REFUSED) + self._dispatcher.blocked),
            ("stopped", len(self.lifetimes.stopped) if self.lifetimes is not None else 0),
            ("retries", self._dispatcher.retries),
        ):
            if number:
                parts.append(f"{number} {name}")
        if self._dispatcher.submitted:
            parts.append(f"{self.rate():.1f}/s")
        if self.started:
            parts.append(f"{max(0.0, time.monotonic() - self.started):.0f} s")
        return f"workload {self.request.point}: {', '.join(parts)}"

    def result(self, seconds: float) -> dict[str, Any]:
        """Return the module's result. Call it after the sampler has ended, when the counts are final."""
        late = load_generator_health.percentile_summary(
            [*self._dispatcher.lateness, *(self.releases.lateness if self.releases else ())]
        )
        counts = self._counts()
        refused, blocked = self.count(creation_ledger.REFUSED), self._dispatcher.blocked
        there = self.there
        waiting = max(0, self.unfinished())
        # Nested, because "failed" and "changed" have a meaning to Ansible at the top level.
        counted = {
            "planned": self.request.count,
            "created": self.count(creation_ledger.CREATED),
            "already_mine": self.count(creation_ledger.ALREADY_MINE),
            "refused": refused,
            "blocked": blocked,
            "lost": self._dispatcher.lost,
            "unsent": self.request.count - there - refused - blocked - self._dispatcher.lost,
            "retries": self._dispatcher.retries,
            "succeeded": counts["succeeded"],
            "failed": counts["failed"],
            "deleted": counts["deleted"],
            "unfinished": waiting,
            **({"stopped": len(self.lifetimes.stopped)} if self.lifetimes is not None else {}),
            **({"ready": len(self.releases.ready), "released": self.releases.released} if self.releases else {}),
        }
        result: dict[str, Any] = {
            "changed": self._dispatcher.outcomes.get(creation_ledger.CREATED, 0) > 0,
            "counts": counted,
            "timed_out": self.timed_out,
            "stopped": self.stopped or self._stall.unschedulable,
            "waiting_for": self._waiting_for() if self.timed_out else [],
            "refusals": self._refusals() if refused or blocked else [],
            "lateness": late,
            "max_lateness": self.request.max_lateness,
            "held_back": self._dispatcher.held_back,
            "stolen": self.machine.stolen(),
            "on_time": load_generator_health.is_load_on_time(late, self.request.max_lateness),
            "rate": round(self.rate(), 3),
            "load_seconds": round(max(0.0, self._dispatcher.last_answered - self.opened), 3) if self.opened else 0.0,
            "repeated": {str(status): number for status, number in sorted(self._dispatcher.repeats_by_status.items())},
            "sessions": self._sessions,
            "events": self._sampler.state.get("events", 0),
            "gaps": self._sampler.state.get("gaps", 0),
            "sampling": self._sampler.state.get("sampling", {}),
            "notes": self._sampler.state.get("notes", []),
            "seconds": round(seconds, 3),
        }
        return {**result, "msg": self._message(result)}

    def _waiting_for(self) -> list[str]:
        indices = self._sampler.state.get("waiting") or []
        return [self.planned.workloads[index // self.request.part.clients].name for index in indices]

    def _refusals(self) -> list[dict[str, Any]]:
        """Return refusals with their reasons, the most frequent first."""
        reasons: Counter[tuple[str, int, str]] = Counter()
        examples: dict[tuple[str, int, str], str] = {}
        for record in files.read_json_lines(self.request.point_dir / "ledger.jsonl"):
            if record["type"] == "attempt" and record["outcome"] == creation_ledger.REFUSED:
                key = (record["kind"], record["status"], record.get("reason") or "")
                reasons[key] += 1
                examples.setdefault(key, record.get("message") or "")
        return [
            {"kind": key[0], "status": key[1], "reason": key[2], "count": number, "message": examples[key]}
            for key, number in reasons.most_common(10)
        ]

    def _message(self, result: dict[str, Any]) -> str:
        """Return the result in one line."""
        counts = result["counts"]
        parts = [f"{counts['created'] + counts['already_mine']} of {counts['planned']} created"]
        if result["rate"]:
            parts[0] += f" at {result['rate']:.1f}/s"
        if self.request.wait:
            parts.append(f"{counts['succeeded']} succeeded")
        for name in ("stopped", "failed", "deleted", "refused", "blocked", "lost", "unsent", "retries"):
            if counts.get(name):
                parts.append(f"{counts[name]} {name}")
        late = result["lateness"]
        if late is not None:
            parts.append(f"sent P99 {late['p99'] * 1000:.1f} ms late")
            if not result["on_time"]:
                parts.append(
                    f"which is more than the {result['max_lateness'] * 1000:g} ms allowed: the generator"
                    " was not on time"
                )
                if result["held_back"]:
                    parts.append(
                        f"{result['held_back']} were due while all {self.request.in_flight} requests that in_flight "
                        f"allows were on their way"
                    )
                if (result["stolen"] or 0) >= _NOTABLE_STEAL:
                    parts.append(f"the hypervisor took {result['stolen'] * 100:.0f} % of this machine's processor time")
        text = f"workload {self.request.point}: {', '.join(parts)}, in {result['seconds']:.0f} s"
        if self.releases is not None and self.releases.absent:
            text = f"{text}. {self.releases.absent}"
        if self.stopped:
            text = f"{text}. {self.stopped_by}: {self.stopped}"
        elif self._stall.unschedulable:
            text = f"{text}. The load was ended early: {self._stall.unschedulable}"
        if not result["timed_out"]:
            return text
        names = ", ".join(result["waiting_for"][:_NAMED])
        more = ", …" if counts["unfinished"] > _NAMED else ""
        why = "".join(f"; {reason}" for reason in self._pending())
        return f"{text}. After {self.request.timeout:g} s {counts['unfinished']} had not ended: {names}{more}{why}"
