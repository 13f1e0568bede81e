# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a load stands while it runs, and what it came to."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _quantiles
from ansible_collections.perfscale.seatrial.plugins.module_utils._load import cpu_steal, ledger
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.dispatcher import Dispatcher
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.stalled_load import StalledLoad
from ansible_collections.perfscale.seatrial.plugins.module_utils._plan import template_renderer, workload_plan
from ansible_collections.perfscale.seatrial.plugins.module_utils._sample import pending_reasons

if TYPE_CHECKING:
    from ansible_collections.perfscale.seatrial.plugins.module_utils._load.load_spec import LoadSpec
    from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.sampler_process import SamplerProcess
    from ansible_collections.perfscale.seatrial.plugins.module_utils._stages.sampling_spec import NoSampler

#: Which part of the processor time has to be stolen before a message about lateness says so.
_MUCH_STOLEN = 0.01
#: How many names a message gives of those that something is still waited for.
_NAMED = 5


class LoadState:
    """Counts of a load, from what sends it, what watches it, and what earlier sessions did."""

    def __init__(
        self,
        request: LoadSpec,
        planned: workload_plan.Plan,
        past: ledger.ResumeState,
        dispatch: Dispatcher,
        child: SamplerProcess | NoSampler,
        stall: StalledLoad,
    ) -> None:
        self.request = request
        self.planned = planned
        self.opened = 0.0  # when connections began to be opened, time.monotonic()
        self.started = 0.0
        self.timed_out = False
        self.stopped = ""  # why the circuit breaker ended the load
        self._dispatch = dispatch
        self._child = child
        self._stall = stall
        self._sessions = past.sessions + 1
        self._stolen = cpu_steal.reading()
        self._loads: list[float] = []  # load averages, one a second
        self._looked = float("-inf")
        kinds = {one["name"]: one["kind"] for one in planned.header["templates"]}
        found = [past.outcomes.get((kinds[one.template], one.name)) for one in planned.workloads]
        self.todo = found.count(None)
        self._before = Counter(one for one in found if one)

    def count(self, outcome: str) -> int:
        """Return how many workloads have this final outcome, of all sessions."""
        return self._before[outcome] + self._dispatch.outcomes.get(outcome, 0)

    @property
    def there(self) -> int:
        """Workloads that were created, now or before."""
        return self.count(ledger.CREATED) + self.count(ledger.ALREADY_MINE)

    def ended(self) -> int:
        """Return how many workloads have been seen to end, well or badly."""
        return sum(self._child.state.get(name, 0) for name in ("succeeded", "failed", "deleted"))

    def unfinished(self) -> int:
        """Return how many of those that were created have not been seen to end."""
        return self.there - self.ended()

    def unseen(self) -> int:
        """Return how many of those that were created the sampler has not seen; 0 when it does not look for them."""
        if not self.request.sample:
            return 0
        watched = {one["kind"] for one in self.request.stages}
        kinds = {one["kind"] for one in self.planned.header["templates"]}
        return self.there - self._child.state.get("seen", 0) if kinds <= watched else 0

    def rate(self) -> float:
        """Return workloads created a second in this session, between the answers to the first and the last."""
        dispatch = self._dispatch
        created = dispatch.outcomes.get(ledger.CREATED, 0)
        seconds = dispatch.last_answered - dispatch.first_answered
        # Between the first and the last lie one less than there are.
        return (created - 1) / seconds if created > 1 and seconds > 0 else 0.0

    def hopeless(self) -> str:
        """Return why nothing of the load can ever run; empty while it may, or when it is not to be waited for."""
        if self.request.wait:
            self._stall.look(self._child.state, self.unfinished())
        return self._stall.hopeless

    def _pending(self) -> list[str]:
        return pending_reasons.told(self._child.state.get("reasons") or self._stall.reasons)

    def state(self) -> str:
        """Return a text that changes when something happened."""
        counts = sorted(self._counts().items())
        return f"{self._dispatch.submitted} {self.there} {counts} {self._pending()} {self._dispatch.retries}"

    def _counts(self) -> dict[str, int]:
        return {name: self._child.state.get(name, 0) for name in ("running", "succeeded", "failed", "deleted")}

    def line(self) -> str:
        """Return where the load stands, for people."""
        of = self.request.count
        counts = self._counts()
        submitted = of - self.todo + self._dispatch.submitted
        parts = [
            f"{submitted}/{of} submitted",
            f"{self.there} created",
            f"{counts['running']} running",
            f"{counts['succeeded']} done",
            f"{counts['failed']} failed",
            *self._pending(),
        ]
        for name, number in (
            ("deleted", counts["deleted"]),
            ("refused", self.count(ledger.REFUSED) + self._dispatch.blocked),
            ("retries", self._dispatch.retries),
        ):
            if number:
                parts.append(f"{number} {name}")
        if self._dispatch.submitted:
            parts.append(f"{self.rate():.1f}/s")
        if self.started:
            parts.append(f"{max(0.0, time.monotonic() - self.started):.0f} s")
        return f"workload {self.request.point}: {', '.join(parts)}"

    def look(self) -> None:
        """Take note of how busy this machine is, at most once a second."""
        now = time.monotonic()
        if now - self._looked >= 1.0:
            self._looked = now
            self._loads.append(os.getloadavg()[0])

    def machine(self) -> dict[str, Any]:
        """Return how busy this machine was since the load began, as in the end of a ledger."""
        load = round(sum(self._loads) / len(self._loads), 2) if self._loads else None
        return {"cpus": os.cpu_count() or 0, "stolen": cpu_steal.share(self._stolen, cpu_steal.reading()), "load": load}

    def result(self, seconds: float) -> dict[str, Any]:
        """Return what the module returns. For after the sampler has ended: counts are final then."""
        late = _quantiles.summary(self._dispatch.lateness)
        counts = self._counts()
        refused, blocked = self.count(ledger.REFUSED), self._dispatch.blocked
        there = self.there
        waiting = max(0, self.unfinished())
        # Not at the top: "failed" and "changed" are Ansible's own words there.
        tallied = {
            "planned": self.request.count,
            "created": self.count(ledger.CREATED),
            "already_mine": self.count(ledger.ALREADY_MINE),
            "refused": refused,
            "blocked": blocked,
            "unsent": self.request.count - there - refused - blocked,
            "retries": self._dispatch.retries,
            "succeeded": counts["succeeded"],
            "failed": counts["failed"],
            "deleted": counts["deleted"],
            "unfinished": waiting,
        }
        found: dict[str, Any] = {
            "changed": self._dispatch.outcomes.get(ledger.CREATED, 0) > 0,
            "counts": tallied,
            "timed_out": self.timed_out,
            "stopped": self.stopped or self._stall.hopeless,
            "waiting_for": self._waiting_for() if self.timed_out else [],
            "refusals": self._refusals() if refused or blocked else [],
            "lateness": late,
            "max_lateness": self.request.max_lateness,
            "held_back": self._dispatch.held_back,
            "stolen": cpu_steal.share(self._stolen, cpu_steal.reading()),
            "on_time": _quantiles.on_time(late, self.request.max_lateness),
            "rate": round(self.rate(), 3),
            "load_seconds": round(max(0.0, self._dispatch.last_answered - self.opened), 3) if self.opened else 0.0,
            "repeated": {str(status): number for status, number in sorted(self._dispatch.repeated.items())},
            "sessions": self._sessions,
            "events": self._child.state.get("events", 0),
            "gaps": self._child.state.get("gaps", 0),
            "sampling": self._child.state.get("sampling", {}),
            "notes": self._child.state.get("notes", []),
            "seconds": round(seconds, 3),
        }
        return {**found, "msg": self._message(found)}

    def _waiting_for(self) -> list[str]:
        indices = self._child.state.get("waiting") or []
        return [template_renderer.workload_name(self.request.run, self.request.point, index) for index in indices]

    def _refusals(self) -> list[dict[str, Any]]:
        """Return what the server refused and why, the most frequent first."""
        reasons: Counter[tuple[str, int, str]] = Counter()
        examples: dict[tuple[str, int, str], str] = {}
        for record in _files.read_lines(self.request.point_dir / "ledger.jsonl"):
            if record["type"] == "attempt" and record["outcome"] == ledger.REFUSED:
                key = (record["kind"], record["status"], record.get("reason") or "")
                reasons[key] += 1
                examples.setdefault(key, record.get("message") or "")
        return [
            {"kind": key[0], "status": key[1], "reason": key[2], "count": number, "message": examples[key]}
            for key, number in reasons.most_common(10)
        ]

    def _message(self, found: dict[str, Any]) -> str:
        """Return the whole result in one line."""
        counts = found["counts"]
        parts = [f"{counts['created'] + counts['already_mine']} of {counts['planned']} created"]
        if found["rate"]:
            parts[0] += f" at {found['rate']:.1f}/s"
        if self.request.wait:
            parts.append(f"{counts['succeeded']} succeeded")
        for name in ("failed", "deleted", "refused", "blocked", "unsent", "retries"):
            if counts[name]:
                parts.append(f"{counts[name]} {name}")
        late = found["lateness"]
        if late is not None:
            parts.append(f"sent P99 {late['p99'] * 1000:.1f} ms late")
            if not found["on_time"]:
                parts.append(
                    f"which is more than the {found['max_lateness'] * 1000:g} ms allowed: the generator was not on time"
                )
                if found["held_back"]:
                    parts.append(
                        f"{found['held_back']} were due while all {self.request.in_flight} requests that in_flight "
                        f"allows were on their way"
                    )
                if (found["stolen"] or 0) >= _MUCH_STOLEN:
                    parts.append(f"the hypervisor took {found['stolen'] * 100:.0f} % of this machine's processor time")
        told = f"workload {self.request.point}: {', '.join(parts)}, in {found['seconds']:.0f} s"
        if self.stopped:
            told = f"{told}. The circuit breaker ended the load: {self.stopped}"
        elif self._stall.hopeless:
            told = f"{told}. The load was ended early: {self._stall.hopeless}"
        if not found["timed_out"]:
            return told
        names = ", ".join(found["waiting_for"][:_NAMED])
        more = ", …" if counts["unfinished"] > _NAMED else ""
        why = "".join(f"; {one}" for one in self._pending())
        return f"{told}. After {self.request.timeout:g} s {counts['unfinished']} had not ended: {names}{more}{why}"
