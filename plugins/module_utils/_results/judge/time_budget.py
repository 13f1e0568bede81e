# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time that a run has spent on measuring, from the lines of schedule.jsonl; a budget limits it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError


def parse(text: object, setting: str) -> float | None:
    """Return the seconds of a budget, None without one: ``2h``, ``90m``, ``1 h 30 min`` or a number of seconds."""
    if text is None or text == "":
        return None
    try:
        found = formats.parse_value(text, "s")
    except InputError:
        found = 0.0
    if found <= 0:
        raise InputError(f"{setting}: budget '{text}' is no duration; write 2h, 90m or 45s")
    return found


def spent(lines: Iterable[Mapping[str, Any]], now: str) -> float:
    """Return the seconds spent on attempts, over all sessions.

    lines: of schedule.jsonl. now: the current time, in the format of the files. The time between two sessions does not
    count. How long an attempt ran until its session was killed is unknown: it counts as the longest complete attempt,
    at most until the next session.
    """
    complete: list[float] = []
    cut: list[float] = []
    begun: float | None = None
    for kind, at in [*((str(one.get("type")), _seconds(str(one["at"]))) for one in lines), ("now", _seconds(now))]:
        if begun is not None:
            (cut if kind == "session" else complete).append(max(0.0, at - begun))
        begun = at if kind == "decided" else None
    longest = max(complete, default=0.0)
    return sum(complete) + sum(min(one, longest) if longest else one for one in cut)


def left(budget: float | None, spent: float) -> float | None:
    """Return the seconds that are left of a budget, None without one."""
    return None if budget is None else max(0.0, budget - spent)


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
