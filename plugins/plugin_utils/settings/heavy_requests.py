# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a load of requests, such as that of an inference server, is one that others would notice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.capacity_search import USUAL_HIGH
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import load_estimate

#: Above these numbers a load is heavy: requests of a point, requests in one second, streams, seconds of a point.
HEAVY_REQUESTS, HEAVY_REQUEST_RATE, HEAVY_STREAMS, HEAVY_SECONDS = 100_000, 500, 300, 3600
#: Above this many seconds of all streams of a point together, streams without a number of requests are heavy.
HEAVY_STREAM_SECONDS = 300_000
#: Seconds of a search without ``timespan``.
_USUAL_TIMESPAN = 600.0


def why_heavy(asked: Mapping[str, Any]) -> str:
    """Return why the requests of a point are heavy, an empty string if they are not.

    asked: entry ``requests`` of a meta/doctor.yml, rendered. Raises InputError for invalid arrivals.
    """
    trace = dict(asked.get("arrival") or {})
    if trace.get("src") and not trace.get("content") and not asked.get("count") and not asked.get("streams"):
        return f"has the trace {trace['src']}, which can't be read here: the number of its requests is unknown"
    number, rate, seconds = _requests_of_point(asked)
    streams, warm_up = int(asked.get("streams") or 0), int(asked.get("warm_up") or 0)
    if (number := number * int(asked.get("turns") or 1) + warm_up) > HEAVY_REQUESTS:
        return f"has {formats.format_count(number, 'request')} (at most {HEAVY_REQUESTS:,})"
    if rate > HEAVY_REQUEST_RATE:
        return f"sends {formats.format_count(round(rate), 'request')} in a second (at most {HEAVY_REQUEST_RATE})"
    if streams > HEAVY_STREAMS:
        return f"has {formats.format_count(streams, 'stream')} (at most {HEAVY_STREAMS})"
    if streams and not asked.get("count") and streams * seconds > HEAVY_STREAM_SECONDS:
        return (
            f"has {formats.format_count(streams, 'stream')} without a number of requests for "
            f"{formats.format_duration(seconds)} (at most {HEAVY_STREAM_SECONDS:,} seconds of all streams)"
        )
    if seconds > HEAVY_SECONDS:
        return (
            f"sends requests for {formats.format_duration(seconds)} (at most {formats.format_duration(HEAVY_SECONDS)})"
        )
    return ""


def _requests_of_point(asked: Mapping[str, Any]) -> tuple[int, float, float]:
    """Return the first requests of all conversations, the most of them in a second, and the seconds of a point."""
    search = {name: value for name, value in dict(asked.get("search") or {}).items() if value is not None}
    if search:
        high, timespan = float(search.get("high") or USUAL_HIGH), float(search.get("timespan") or _USUAL_TIMESPAN)
        return round(high * timespan), high, timespan
    count, duration = int(asked.get("count") or 0), float(asked.get("duration") or 0)
    if asked.get("streams"):
        return count, 0.0, duration
    arrival = dict(asked.get("arrival") or {})
    if arrival.get("src") and not arrival.get("content"):
        return count, 0.0, 0.0
    # What an open load states is bounded before its times are made, which may be many.
    if (rate := float(arrival.get("rate") or 0)) > HEAVY_REQUEST_RATE or count > HEAVY_REQUESTS:
        return count, rate, 0.0
    try:
        load = load_estimate.point_load("", {"workloads": count, "arrival": arrival, "seed": asked.get("seed")})
    except InputError as error:
        raise InputError(f"the requests of a point: {error}") from error
    return load.workloads, load_estimate.most_in_a_second(load), max(load.offsets, default=0.0)
