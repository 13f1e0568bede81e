"""What each client sent, how late and by which clock, as the report shows it."""

from __future__ import annotations

from array import array
from math import nan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import point_details
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable


def table(**header: Any) -> TimelineTable:
    found = TimelineTable({"stages": [], **header})
    found.index = [0, 1, 2, 3, 4, 5]
    found.moments = {
        "intended": array("d", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        "sent": array("d", [1.5, 2.001, nan, 4.5, 5.003, nan]),
    }
    return found


def clock(client: int, low: float, high: float) -> dict[str, Any]:
    return {"client": client, "reference": low == high, "offset": [low, high], "drift": 0.01}


def test_each_client_has_its_lateness_and_its_clock() -> None:
    found = point_details.section_of_load_clients(
        table(clients=3, clocks=[clock(0, 0.0, 0.0), clock(1, -3600.0, -3599.96)])
    )
    assert found == [
        {"client": 0, "planned": 2, "sent": 2, "p50": "500 ms", "p99": "500 ms", "max": "500 ms",
         "clock": "that of the timeline"},
        {"client": 1, "planned": 2, "sent": 2, "p50": "2 ms", "p99": "2.98 ms", "max": "3 ms",
         "clock": "known to 40 ms"},
        {"client": 2, "planned": 2, "sent": 0, "p50": "–", "p99": "–", "max": "–", "clock": "unknown"},
    ]  # fmt: skip


def test_a_clock_without_common_writes_is_told() -> None:
    apart = {"client": 1, "reference": False, "offset": None, "drift": 0.01}
    assert (
        point_details.section_of_load_clients(table(clients=2, clocks=[clock(0, 0.0, 0.0), apart]))[1]["clock"]
        == "not comparable"
    )


def test_a_load_by_one_client_has_no_such_table() -> None:
    assert point_details.section_of_load_clients(table()) == []
