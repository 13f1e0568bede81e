# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clocks of a load of requests whose clients are pods, compared by their writes to one etcd.

The clock of the controller is that of the timeline. A client on the same machine has a known offset. That of another
one is bounded by the writes of both (revision_and_server_clocks.py), and its times are moved by the middle of both
bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import (
    read_json_lines,
    shift_between_clocks,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.request_reader import (
    InferenceRequests,
    ShiftAt,
    read_requests,
)

from .revision_and_server_clocks import ClockOffset, KnownOffset, RevisionClock, probes_with_etcd_revision

FILE = "clocks.jsonl"
#: (resourceVersion, sent, answered) of a write.
Write = tuple[str, float, float]


class RequestClocks:
    """The clocks of the point in ``folder``. Clocks of one boot are one clock."""

    def __init__(self, folder: Path, notes: list[str]) -> None:
        self._anchors: dict[str, dict[str, Any]] = {}  # boot -> anchor of its first session
        self._writes: dict[str, list[Write]] = {}
        self._offsets: dict[tuple[str, str], ClockOffset] = {}
        boot, shift = "", 0.0
        for record in read_json_lines(folder / FILE, notes) if (folder / FILE).is_file() else ():
            if record["type"] == "session":
                boot = record["anchor"]["boot"]
                shift = shift_between_clocks(record["anchor"], self._anchors.setdefault(boot, record["anchor"]))
            elif record["type"] == "canary":
                write = (record["resource_version"], record["sent"] + shift, record["answered"] + shift)
                self._writes.setdefault(boot, []).append(write)

    def offset(self, anchor: dict[str, Any], to: dict[str, Any]) -> ClockOffset | KnownOffset | None:
        """Return what the clock ``to`` shows more than that of ``anchor``; None if nothing bounds it."""
        if anchor["boot"] and anchor["boot"] == to["boot"]:
            return KnownOffset(shift_between_clocks(anchor, to))
        own, reference = (self._writes_on(clock) for clock in (anchor, to))
        floors, ceilings = [], []
        revisions = RevisionClock(probes_with_etcd_revision(reference))
        for at, sent, answered in probes_with_etcd_revision(own):
            floors.append((answered, revisions.after(at)))
            ceilings.append((sent, revisions.before(at)))
        offset = ClockOffset(floors, ceilings)
        moment = next((sent for _version, sent, _answered in own), 0.0)
        known = not offset.contradictory and -inf < offset.earliest(moment) <= offset.latest(moment) < inf
        return offset if known else None

    def _writes_on(self, anchor: dict[str, Any]) -> list[Write]:
        """Return the writes of a machine on one of its clocks."""
        base = self._anchors.get(anchor["boot"])
        shift = shift_between_clocks(base, anchor) if base else 0.0
        return [(at, sent + shift, answered + shift) for at, sent, answered in self._writes.get(anchor["boot"], ())]

    def compare(self, anchor: dict[str, Any], to: dict[str, Any]) -> ShiftAt:
        """Return what to add to times of the clock of ``anchor``; 0 if nothing bounds it, as both are wall time."""
        offset = self.offset(anchor, to)
        return lambda at: 0.0 if offset is None else offset.middle(at) - at


def read_requests_on_one_clock(folder: Path) -> InferenceRequests:
    """Read the requests of a point; those of clients in pods on the clock of the controller."""
    notes: list[str] = []
    clocks = RequestClocks(folder, notes)
    read = read_requests(folder, clocks.compare)
    read.notes += notes
    return read


def clocks_of_clients(folder: Path, read: InferenceRequests) -> Iterator[dict[str, Any]]:
    """Yield each client in a pod with the bounds of what to add to its clock at its start, as a timeline has them."""
    clocks = RequestClocks(folder, [])
    reference = read.sessions[0]["anchor"] if read.sessions else None
    for client in read.clients:
        offset = clocks.offset(client["anchor"], reference) if reference else None
        at = client["started"]
        bounds = None if offset is None else [offset.earliest(at) - at, offset.latest(at) - at]
        drift = 0.0 if offset is None else offset.drift
        yield {"client": client["client"], "offset": bounds, "reference": False, "drift": drift}
