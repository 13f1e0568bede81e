# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clocks of the clients of a point, and what the times of each are on the clock of the timeline.

One client: its clock is that of the timeline. Several: the clock of the timeline is that of the client whose own writes
span the most revisions; an offset bounds it for the moments of every other clock (_results/timeline/clock_offset.py).
"""

from __future__ import annotations

from math import inf
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import (
    ONE,
    ClientClock,
    PointInputs,
)

from .clock_offset import ClockOffset
from .revision_clock import RevisionClock, numbered


class ClientClocks:
    """Times of any clock of ``inputs`` on the clock of the timeline, in seconds.

    several: whether there is more than one client. reference: key of the timeline's clock. notes: about clocks whose
    rates differ more than clocks do.
    """

    def __init__(self, inputs: PointInputs) -> None:
        kept = {key: one for key, one in inputs.clocks.items() if key != ONE or len(inputs.clocks) == 1}
        self.several = ONE not in kept
        self._clocks = {
            key: RevisionClock(numbered(one.writes), numbered(one.revision_probes)) for key, one in kept.items()
        }
        self.reference = max(kept, key=lambda key: (self._clocks[key].span, -_client(kept[key])))
        self._offsets = {key: self._offset(one) for key, one in kept.items() if key != self.reference}
        self.notes = [_note(kept[key], offset) for key, offset in self._offsets.items() if _note(kept[key], offset)]
        self.started = self._first(kept, "started")
        self.watched_from = self._first(kept, "watched_from")
        #: Nothing was sent before this: each client starts its watches before it sends.
        seen = [self.earliest(key, one.watched_from) for key, one in kept.items() if one.watched_from is not None]
        self.watched_first = min((moment for moment in seen if moment > -inf), default=-inf)
        self.ended = max(
            (self.middle(key, one.ended) for key, one in kept.items() if one.ended is not None), default=None
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

    def gap(self, gap: dict[str, Any], key: str) -> dict[str, Any]:
        """Return a gap of a client, on the timeline's clock."""
        return {**gap, "from": self.earliest(key, gap["from"]), "to": self.latest(key, gap["to"])}

    def header(self, inputs: PointInputs) -> list[dict[str, Any]]:
        """Return each clock with the bounds of the timeline's clock minus it, at its start, in seconds."""
        found = []
        for key, one in inputs.clocks.items():
            if key not in self._clocks:
                continue
            at = next((moment for moment in (one.started, one.watched_from) if moment is not None), None)
            offset = self._offsets.get(key)
            bounds = None if at is None else [self.earliest(key, at) - at, self.latest(key, at) - at]
            known = bounds is not None and -inf < bounds[0] and bounds[1] < inf
            entry = {"client": one.client, "offset": bounds if known else None, "reference": key == self.reference}
            found.append({**entry, "drift": offset.drift if offset is not None else 0.0})
        return found

    def _offset(self, clock: ClientClock) -> ClockOffset:
        """Compare a clock with the reference, by every write and probe of its client."""
        reference = self._clocks[self.reference]
        floors, ceilings = [], []
        for at, sent, answered in numbered(clock.writes):
            floors.append((answered, reference.after(at)))
            ceilings.append((sent, reference.before(at)))
        for at, sent, answered in numbered(clock.revision_probes):
            # The revision was current in between: it was committed before, the next one after.
            floors.append((answered, reference.after(at)))
            ceilings.append((sent, reference.before(at + 1)))
        return ClockOffset(floors, ceilings)

    def _first(self, kept: dict[str, ClientClock], name: str) -> float | None:
        """Return a moment of the reference, or one that was before it; without it the first one of the others."""
        own = getattr(kept[self.reference], name)
        others = {key: getattr(one, name) for key, one in kept.items() if getattr(one, name) is not None}
        if own is None:
            return min((self.middle(key, at) for key, at in others.items()), default=None)
        # The reference may be the clock on which a client was continued.
        before = [self.middle(key, at) for key, at in others.items() if self.latest(key, at) < own]
        return float(min([own, *before]))


def _client(clock: ClientClock) -> int:
    return clock.client or 0


def _note(clock: ClientClock, offset: ClockOffset) -> str:
    if offset.contradictory:
        return f"the clock of client {clock.client} contradicts the others: it has jumped, and its times are wrong"
    if offset.widened:
        return f"the rate of the clock of client {clock.client} differs by more than clocks do: its intervals are wider"
    return ""
