# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clocks of all clients of a point: what each moment is on the clock of the timeline, without trusting any clock.

A single client has the clock of the timeline. Of several, it is that of the client whose own writes span the most
revisions; offsets bound it for the moments of the others. Clients on one machine have its clock: their offsets are
known, and the writes of all make one revision clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import (
    ONE,
    ClientClock,
    PointInputs,
    SentWorkload,
    shift_between_clocks,
)

from .revision_and_server_clocks import ClockOffset, KnownOffset, RevisionClock, probes_with_etcd_revision


class ClientClocks:
    """Times of any clock of ``inputs`` on the clock of the timeline, in seconds.

    several: whether there is more than one client. reference: key of the timeline's clock. notes: about clocks whose
    rates differ more than clocks do.
    """

    def __init__(self, inputs: PointInputs) -> None:
        self._inputs = inputs
        kept = {key: clock for key, clock in inputs.clocks.items() if key != ONE or len(inputs.clocks) == 1}
        self.several = ONE not in kept
        machines = _clocks_of_machines(kept)
        self._clocks = {key: clock for machine in machines for key, clock in _joint_clocks(machine).items()}
        self.reference = max(kept, key=lambda key: (self._clocks[key].span, -_client_number(kept[key])))
        self._offsets = {
            key: offset
            for machine in machines
            for key, offset in self._offsets_of_machine(machine).items()
            if key != self.reference
        }
        self.notes = [
            _clock_problem_note(kept[key], offset)
            for key, offset in self._offsets.items()
            if _clock_problem_note(kept[key], offset)
        ]
        self.started = self._first(kept, "started")
        self.watched_from = self._first(kept, "watched_from")
        #: Nothing was sent before this: each client starts its watches before it sends.
        seen = [self.earliest(key, clock.watched_from) for key, clock in kept.items() if clock.watched_from is not None]
        self.watched_first = min((moment for moment in seen if moment > -inf), default=-inf)
        self.ended = max(
            (self.middle(key, clock.ended) for key, clock in kept.items() if clock.ended is not None), default=None
        )

    def own(self, key: str) -> RevisionClock:
        """Return the revision clock of a client, on its own clock."""
        return self._clocks[key]

    def earliest(self, key: str, at: float) -> float:
        """Return the least that the timeline's clock can have shown at ``at`` of a clock."""
        offset = self._offsets.get(key)
        return at if offset is None else offset.earliest(at)

    def latest(self, key: str, at: float) -> float:
        """Return the most that the timeline's clock can have shown at ``at`` of a clock."""
        offset = self._offsets.get(key)
        return at if offset is None else offset.latest(at)

    def middle(self, key: str, at: float) -> float:
        """Return the middle of both bounds."""
        offset = self._offsets.get(key)
        return at if offset is None else offset.middle(at)

    def request(self, key: str, began: float | None, answered: float) -> tuple[float | None, float]:
        """Return between which moments a request was served; None if it is unknown when it was first sent."""
        return None if began is None else self.earliest(key, began), self.latest(key, answered)

    def own_create(self, sent: SentWorkload) -> tuple[float, float] | None:
        """Return between which moments our create of a workload was served; None if it was not ours."""
        if sent.created is None:
            return None
        _version, began, answered = sent.created
        return self.earliest(sent.answered_clock, began), self.latest(sent.answered_clock, answered)

    def header(self) -> dict[str, Any]:
        """Return start, end and gaps of a point for the header of a timeline; of several clients, also their clocks."""
        inputs = self._inputs
        moments = [self.middle(sent.clock, sent.sent) for sent in inputs.sent.values() if sent.sent is not None]
        starts = (self.started, min(moments, default=None), self.watched_from)
        start = next((moment for moment in starts if moment is not None), 0.0)
        gaps = [
            {**gap, "from": self.earliest(key, gap["from"]), "to": self.latest(key, gap["to"])}
            for gap, key in inputs.gaps
        ]
        header: dict[str, Any] = {"start": start, "end": self.ended if self.ended is not None else start, "gaps": gaps}
        if self.several:
            header["clocks"] = self._compared()
            numbers = [clock.client + 1 for clock in inputs.clocks.values() if clock.client is not None]
            header["clients"] = max(numbers + [lost["clients"] for lost in inputs.lost])
        return header

    def _compared(self) -> list[dict[str, Any]]:
        """Return each clock with the bounds of the timeline's clock minus it, at its start, in seconds."""
        entries = []
        for key, clock in self._inputs.clocks.items():
            if key not in self._clocks:
                continue
            at = next((moment for moment in (clock.started, clock.watched_from) if moment is not None), None)
            offset = self._offsets.get(key)
            bounds = None if at is None else [self.earliest(key, at) - at, self.latest(key, at) - at]
            known = bounds is not None and -inf < bounds[0] and bounds[1] < inf
            entry = {"client": clock.client, "offset": bounds if known else None, "reference": key == self.reference}
            entries.append({**entry, "drift": offset.drift if offset is not None else 0.0})
        return entries

    def _offsets_of_machine(self, machine: Mapping[str, ClientClock]) -> dict[str, ClockOffset | KnownOffset]:
        """Return the offset of the reference from each clock of a machine."""
        if self.reference in machine:
            to = machine[self.reference]
            return {key: KnownOffset(_shift(clock, to)) for key, clock in machine.items()}
        return {key: self._offset(clock, machine.values()) for key, clock in machine.items()}

    def _offset(self, clock: ClientClock, machine: Iterable[ClientClock]) -> ClockOffset:
        """Compare a clock with the reference, by every write and probe of the clients of its machine."""
        reference = self._clocks[self.reference]
        floors, ceilings = [], []
        for at, sent, answered in _on_clock(machine, "writes", clock):
            floors.append((answered, reference.after(at)))
            ceilings.append((sent, reference.before(at)))
        for at, sent, answered in _on_clock(machine, "revision_probes", clock):
            # The revision was current in between: it was committed before, the next one after.
            floors.append((answered, reference.after(at)))
            ceilings.append((sent, reference.before(at + 1)))
        return ClockOffset(floors, ceilings)

    def _first(self, kept: dict[str, ClientClock], name: str) -> float | None:
        """Return a moment of the reference, or one that was before it; without it the first one of the others."""
        own = getattr(kept[self.reference], name)
        others = {key: getattr(clock, name) for key, clock in kept.items() if getattr(clock, name) is not None}
        if own is None:
            return min((self.middle(key, at) for key, at in others.items()), default=None)
        # The reference may be the clock on which a client was continued.
        before = [self.middle(key, at) for key, at in others.items() if self.latest(key, at) < own]
        return float(min([own, *before]))


def _clocks_of_machines(clocks: Mapping[str, ClientClock]) -> list[dict[str, ClientClock]]:
    """Return the clocks by machine; a clock of which the boot of its machine is unknown is alone."""
    machines: dict[str, dict[str, ClientClock]] = {}
    for key, clock in clocks.items():
        boot = (clock.anchor or {}).get("boot")
        machines.setdefault(f"boot {boot}" if boot else f"clock {key}", {})[key] = clock
    return list(machines.values())


def _joint_clocks(machine: Mapping[str, ClientClock]) -> dict[str, RevisionClock]:
    """Return one revision clock of all clients of a machine, on the clock of each."""
    base = next(iter(machine.values()))
    joint = RevisionClock(*(_on_clock(machine.values(), name, base) for name in ("writes", "revision_probes")))
    return {key: joint.moved(_shift(base, clock)) for key, clock in machine.items()}


def _on_clock(clocks: Iterable[ClientClock], name: str, to: ClientClock) -> Iterator[tuple[int, float, float]]:
    """Yield the writes or the probes of the clients of one machine, on the clock of one of them."""
    for clock in clocks:
        shift = _shift(clock, to)
        for at, sent, answered in probes_with_etcd_revision(getattr(clock, name)):
            yield at, sent + shift, answered + shift


def _shift(clock: ClientClock, to: ClientClock) -> float:
    """Return what another clock of the same machine shows more: both count the seconds since its boot."""
    return shift_between_clocks(clock.anchor, to.anchor) if clock.anchor and clock is not to else 0.0


def _client_number(clock: ClientClock) -> int:
    return clock.client or 0


def _clock_problem_note(clock: ClientClock, offset: ClockOffset | KnownOffset) -> str:
    if offset.contradictory:
        return f"the clock of client {clock.client} contradicts the others: it has jumped, and its times are wrong"
    if offset.widened:
        return f"the rate of the clock of client {clock.client} differs by more than clocks do: its intervals are wider"
    return ""
