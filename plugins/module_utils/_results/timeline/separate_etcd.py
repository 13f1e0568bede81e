# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stages of kinds that are kept in a separate etcd, whose resourceVersions cannot be compared with our writes.

Two things remain: the moment at which an event was received and, of creations, the second that the API server states
in creationTimestamp. Our own creates bound the server's clock: each second that it states for one of them began before
we had the answer and ended after we had sent the request (_results/timeline/server_clock.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .server_clock import ServerClock, Statement

Reach = Callable[[int, float, float], None]


class SeparateEtcd:
    """Keeps the stages that such events show until all creates were seen: each may narrow the server's clock."""

    def __init__(self) -> None:
        self._pending: list[tuple[Reach, int, float, float, Any]] = []
        self._stated: list[Statement] = []

    def created(self, stated: Any, sent: float, answered: float) -> None:
        """Narrow the server's clock by an own create and the creationTimestamp that it stated for it."""
        if isinstance(stated, str):
            self._stated.append((stated, sent, answered))

    def keep(self, reach: Reach, row: int, earliest: float, latest: float, stated: Any) -> None:
        """Keep a stage for settle(). ``stated``: its creationTimestamp, None for times of other writers."""
        self._pending.append((reach, row, earliest, latest, stated))

    def settle(self) -> None:
        """Pass all stages to their reducers, each interval narrowed to the second that was stated."""
        server = ServerClock(self._stated)
        for reach, row, earliest, latest, stated in self._pending:
            span = server.span(stated) if isinstance(stated, str) else None
            if span is not None:
                earliest, latest = max(earliest, span[0]), min(latest, span[1])
            reach(row, earliest, latest)
