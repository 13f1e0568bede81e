# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The revision clock of etcd, the API server's clock and the offset of two clocks; none of them is trusted.

- RevisionClock: when a resourceVersion was committed, on the clock of the client that wrote before and after it.
- ClockOffset: what one clock showed while another one showed a given moment.
- ServerClock: our clock as a function of the API server's, which states whole seconds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from datetime import datetime
from itertools import accumulate
from math import inf
from typing import Any

#: Assumed maximum difference of the rates of two clocks, then those that are tried if the points contradict it.
MAX_DRIFT = 0.01
_LARGER = (0.1, 0.5)
#: Times are written in whole microseconds, by both clocks.
_ROUNDED = 2e-6
#: (moment on the clock, bound of the other clock at that moment)
ClockPoint = tuple[float, float]
#: (stated second, before, after): it was stated between these moments of our clock; both may be infinite.
Statement = tuple[str, float, float]


def parse_resource_version(text: str | None) -> int | None:
    """Return a resourceVersion as a number; None if it is missing or not one of etcd's."""
    if not text or not text.isdecimal() or text == "0":
        return None
    return int(text)


def probes_with_etcd_revision(probes: Iterable[tuple[str, float, float]]) -> Iterator[tuple[int, float, float]]:
    """Yield the probes with a resourceVersion of etcd's, as a number."""
    for text, sent, answered in probes:
        at = parse_resource_version(text)
        if at is not None:
            yield at, sent, answered


class RevisionClock:
    """Bounds for the moment of a commit, from our own writes and from probes of etcd's revision.

    The resourceVersions of one etcd increase in commit order. For each of our own writes we know when it was sent and
    when it was answered. So a change with resourceVersion r was committed

    - after any own write with a smaller (or the same) resourceVersion was sent, and
    - before any own write with a larger (or the same) resourceVersion was answered, and
    - before a watch delivered it to us.

    Between the writes, revision probes read etcd's current revision, which gives bounds of the same kind. No server
    clock is used. Compared with the audit log of a real API server, these bounds held for each of 1,500 Jobs, with a
    median width of about 30 ms at 20 own writes per second.

    writes: (resourceVersion, sent, answered) of each successful own write, times in seconds on one clock. Writes that
    were refused, retried or never answered are left out, because their resourceVersion is unknown.
    probes: (revision, sent, answered) of each revision probe. The revision was current at some moment in between, so
    commits up to it were made before the answer, and later commits after the request was sent.
    """

    def __init__(
        self,
        writes: Iterable[tuple[int, float, float]],
        probes: Iterable[tuple[int, float, float]] = (),
    ) -> None:
        import numpy

        row = numpy.dtype([("at", "i8"), ("sent", "f8"), ("answered", "f8")])
        own, read = numpy.fromiter(writes, row), numpy.fromiter(probes, row)
        # Each smaller revision is a lower bound, so the latest of their moments is the tightest. Likewise above.
        at, moment = _merge_versions_with_moments(numpy, (own["at"], read["at"] + 1), (own["sent"], read["sent"]))
        self._lower, self._sent = _fast_number_array("q", at), _fast_number_array("d", numpy.maximum.accumulate(moment))
        at, moment = _merge_versions_with_moments(numpy, (own["at"], read["at"]), (own["answered"], read["answered"]))
        self._upper, self._answered = (
            _fast_number_array("q", at),
            _fast_number_array("d", numpy.minimum.accumulate(moment[::-1])[::-1]),
        )
        self._own = len(own)
        self._shift = 0.0

    def moved(self, shift: float) -> RevisionClock:
        """Return the same on a clock that shows ``shift`` seconds more."""
        clock = copy(self)
        clock._shift = self._shift + shift
        return clock

    def __len__(self) -> int:
        return self._own

    @property
    def span(self) -> int:
        """Number of revisions between the first and the last of all writes and probes."""
        return self._upper[-1] - self._upper[0] if self._upper else 0

    def after(self, at: int) -> float:
        """Return the lower bound of the commit of resourceVersion ``at``, in seconds; -inf if unknown."""
        place = bisect_right(self._lower, at)
        return self._sent[place - 1] + self._shift if place else -inf

    def before(self, at: int) -> float:
        """Return the upper bound of the commit of resourceVersion ``at``, in seconds; inf if unknown."""
        place = bisect_left(self._upper, at)
        return self._answered[place] + self._shift if place < len(self._answered) else inf


def _merge_versions_with_moments(numpy: Any, versions: tuple[Any, Any], moments: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the versions of both arrays in ascending order, and their moments."""
    at = numpy.concatenate(versions)
    order = numpy.argsort(at, kind="stable")
    return at[order], numpy.concatenate(moments)[order]


def _fast_number_array(code: str, values: Any) -> array[Any]:
    """Return an array of eight bytes per number, of which single numbers are read faster than of numpy's."""
    column: array[Any] = array(code)
    column.frombytes(values.tobytes())
    return column


class ClockOffset:
    """Bounds of the other clock as functions of this clock, from writes to the same etcd; both in seconds.

    A client knows when it sent a write and when it was answered, on its own clock. The revision clock of another client
    bounds the commit of the same resourceVersion on the other clock. So the other clock showed

    - at least the lower bound of the commit when the write was answered here, and
    - at most the upper bound of the commit when the write was sent here.

    Between these points only the rates of the clocks matter. They are assumed to differ by at most MAX_DRIFT: the
    kernel lets NTP change the rate of a clock by 0.05 %. No clock is assumed to be right. If the points contradict the
    assumption, larger differences are tried.

    floors: the other clock showed at least this. ceilings: at most this. ``drift``: the difference of the rates that
    fits all points. ``contradictory``: none fits, so at least one of the clocks has jumped.
    """

    def __init__(self, floors: Iterable[ClockPoint], ceilings: Iterable[ClockPoint]) -> None:
        low = sorted((at, bound - _ROUNDED) for at, bound in floors if bound > -inf)
        high = sorted((at, bound + _ROUNDED) for at, bound in ceilings if bound < inf)
        self.contradictory = False
        for drift in (MAX_DRIFT, *_LARGER):
            self.drift = drift
            # The upper bound is the lower bound of the negated clocks.
            self._low = _LowerBound(low, drift)
            self._high = _LowerBound([(-at, -bound) for at, bound in reversed(high)], drift)
            if all(self.earliest(at) <= self.latest(at) for at, _bound in (*low, *high)):
                return
        self.contradictory = True

    @property
    def widened(self) -> bool:
        """Whether the rates differ by more than MAX_DRIFT."""
        return self.drift > MAX_DRIFT

    def earliest(self, at: float) -> float:
        """Return the least that the other clock can have shown at ``at``; -inf without points."""
        return self._low(at)

    def latest(self, at: float) -> float:
        """Return the most that the other clock can have shown at ``at``; inf without points."""
        return -self._high(-at)

    def middle(self, at: float) -> float:
        """Return the middle of both bounds; ``at`` itself where one of them is unknown."""
        low, high = self.earliest(at), self.latest(at)
        return (low + high) / 2 if -inf < low and high < inf else at


class KnownOffset:
    """The other clock shows ``shift`` seconds more: both are of one machine."""

    drift, contradictory, widened = 0.0, False, False

    def __init__(self, shift: float) -> None:
        self._shift = shift

    def earliest(self, at: float) -> float:
        """Return what the other clock showed at ``at``."""
        return at + self._shift

    latest = middle = earliest


class _LowerBound:
    """The largest bound that any point implies. From a point on, the other clock gains at least (1 - drift) a second;
    before it, it had gained at most (1 + drift)."""

    def __init__(self, points: Sequence[ClockPoint], drift: float) -> None:
        # Relative to the first point, so that the products keep their precision.
        self._from, self._base = points[0] if points else (0.0, 0.0)
        self._slow, self._fast = 1 - drift, 1 + drift
        moments = [at - self._from for at, _bound in points]
        bounds = [bound - self._base for _at, bound in points]
        self._at = moments
        self._past = list(accumulate((b - self._slow * a for a, b in zip(moments, bounds, strict=True)), max))
        later = [b - self._fast * a for a, b in zip(moments, bounds, strict=True)]
        self._future = list(accumulate(reversed(later), max))[::-1]

    def __call__(self, at: float) -> float:
        if not -inf < at < inf:
            return at
        since = at - self._from
        place = bisect_right(self._at, since)
        past = self._past[place - 1] + self._slow * since if place else -inf
        future = self._future[place] + self._fast * since if place < len(self._at) else -inf
        return self._base + max(past, future)


class ServerClock:
    """Our clock by that of the API server. ``contradictory``: no drift fits all statements, so a clock has jumped.

    When the server stated second s, its clock had reached s, and had not reached s + 1. So at its moment s our clock
    showed at most the later one of both moments of a statement, and at its moment s + 1 at least the earlier one.
    """

    def __init__(self, statements: Iterable[Statement]) -> None:
        floors: dict[float, float] = {}
        ceilings: dict[float, float] = {}
        for text, before, after in statements:
            second = _epoch_seconds(text)
            floors[second + 1] = max(floors.get(second + 1, -inf), before)
            ceilings[second] = min(ceilings.get(second, inf), after)
        self._ours = ClockOffset(floors.items(), ceilings.items())
        self.contradictory = self._ours.contradictory

    def span(self, text: str) -> tuple[float, float] | None:
        """Return [earliest, latest] of a stated second on our clock; None if that is unknown or contradictory."""
        second = _epoch_seconds(text)
        earliest, latest = self._ours.earliest(second), self._ours.latest(second + 1)
        known = not self.contradictory and -inf < earliest <= latest < inf
        return (earliest, latest) if known else None


def _epoch_seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
