# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Durations written by people, and the times of a QUADS server.

Up to version 2.2.6 a server returns its *local* time labelled GMT. Its offset from UTC is a multiple of a quarter of
an hour, as time zones are. It is derived from the start of a schedule, which the web server writes by the same clock as
the end, compared with the HTTP header ``Date`` of the same answer, which is correct, or with the time of the request
for the lease. Creation times can't be used: the database writes them, possibly in another time zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timezone

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import http_date

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
QUARTER = 900.0
#: Range of time zones.
WEST, EAST = -12 * 3600.0, 14 * 3600.0
#: Seconds by which the recorded time of a request may be late, because the clocks of two machines differ.
SLACK = 60.0


def parse_duration(text: str | float, name: str) -> float:
    """Return seconds of ``90``, ``90s``, ``30m``, ``4h`` or ``2d``. Raises InputError naming the option."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", str(text).strip())
    if not match:
        message = f"{name}: '{text}' is not a duration: write a number followed by s, m, h or d, such as 4h"
        raise InputError(message, setting=name)
    return float(match[1]) * UNITS[match[2] or "s"]


def server_utc_offset(written: str, date: float | None) -> float | None:
    """Return the server's offset (s) from UTC, from a time that it wrote at ``date`` (epoch, UTC)."""
    moment = http_date(written)
    return None if moment is None or date is None else round((moment - date) / QUARTER) * QUARTER


def offset_since(starts: Iterable[tuple[str, float]]) -> float | None:
    """Return the offset (s) from pairs: a schedule's start as the server wrote it, and the request time of its cloud.

    A schedule starts up to a quarter of an hour after the request, so the shortest difference is the offset plus that
    delay. None without a pair, and for a value outside all time zones: then the lease was completed much later.
    """
    distances = [start - asked for written, asked in starts if (start := http_date(written)) is not None]
    rounded = (min(distances) + SLACK) // QUARTER * QUARTER if distances else None
    return rounded if rounded is not None and WEST <= rounded <= EAST else None


def parse_server_time(written: str, ahead: float) -> float:
    """Return a time of the server as epoch seconds, UTC; 0.0 if it is not a time."""
    seconds = http_date(written)
    return 0.0 if seconds is None else seconds - ahead


def format_utc_timestamp(when: float) -> str:
    """Return epoch seconds as UTC text, whole seconds: 2026-11-21T04:41:18Z."""
    return datetime.fromtimestamp(when, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def describe_end(stamp: str | None) -> str:
    """Return an end of a lease for people; one without a zone (see Lease.view) is called that."""
    if stamp is None or stamp.endswith("Z"):
        return str(stamp)
    return f"{stamp} by the server's clock, whose time zone is unknown (quads_lease_utc_offset sets it)"


def format_server_local_time(when: float, ahead: float) -> str:
    """Return a time (epoch, UTC) in the format of GET /available: YYYY-MM-DDTHH:MM, the server's local time."""
    return datetime.fromtimestamp(when + ahead, timezone.utc).strftime("%Y-%m-%dT%H:%M")


def format_approximate_duration(seconds: float) -> str:
    """Return a duration for people: 3 d 4 h, 2 h 5 min, 45 s."""
    whole = int(max(seconds, 0))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
