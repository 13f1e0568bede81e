# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that a directive may ask for have a bound, also where they have no stated number."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import point_loads


def trace(number: int, interval: float, **more: Any) -> dict[str, Any]:
    """A trace of so many requests, one after each interval."""
    lines = "".join(f"{interval * index}\n" for index in range(number))
    return {"type": "trace", "src": "lab.csv", "content": f"offset\n{lines}", **more}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"count": 100_000, "streams": 4}, ""),
        ({"count": 100_001, "streams": 4}, "has 100,001 requests"),
        ({"streams": 300, "duration": 600}, ""),
        ({"streams": 300, "duration": 3600}, "has 300 streams without a number of requests for .*300,000 seconds"),
        ({"streams": 300, "duration": 3600, "warm_up": 5}, "without a number of requests"),
        ({"streams": 300, "duration": 3600, "count": 1000}, ""),
        ({"arrival": {"src": "lab.csv"}}, "has the trace lab.csv, which can't be read here"),
        ({"arrival": {"src": "lab.csv"}, "count": 100}, ""),
        ({"arrival": trace(100_001, 1)}, "has 100,001 requests"),
        ({"arrival": trace(100_001, 1), "count": 100}, ""),
        ({"arrival": trace(1000, 0.01)}, ""),
        ({"arrival": trace(1000, 0.001)}, "sends 1,000 requests in a second"),
        ({"arrival": trace(1000, 0.01, speed=10)}, "sends 1,000 requests in a second"),
        ({"arrival": trace(1000, 4)}, "sends requests for 66 min"),
    ],
)
def test_requests_without_a_stated_number_have_a_bound(asked: dict[str, Any], why: str) -> None:
    found = point_loads.why_load_is_heavy(asked)
    assert re.search(why, found) if why else found == ""
