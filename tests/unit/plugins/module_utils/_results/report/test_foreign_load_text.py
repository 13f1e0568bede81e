"""Where the times of a load of others come from, as the report shows it."""

from __future__ import annotations

from array import array
from math import nan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import point_details
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable


def table(**header: Any) -> TimelineTable:
    stages = [{"name": name} for name in ("created", "pods_running_first", "pods_running")]
    found = TimelineTable({"stages": stages, **header})
    for name in ("created", "pods_running_first", "pods_running"):
        found.earliest[name], found.latest[name] = array("d", [1.0, 1.0, nan]), array("d", [1.5, 3.0, nan])
    return found


def test_each_stage_has_its_sources_and_widths() -> None:
    dated = {"created": {"creationTimestamp": 1, "revision clock": 1000}, "pods_running": {"list": 2}}
    found = point_details.time_sources_section(
        table(sent_is="created", dated_by={**dated, "pods_running_first": {"list": 2}})
    )
    assert found is not None
    assert found["rows"] == [
        {
            "stage": "created",
            "sources": "revision clock 1,000, creationTimestamp 1",
            "median": "2 s",
            "p99": "2 s",
        },
        {"stage": "pods running", "sources": "list 2", "median": "2 s", "p99": "2 s"},
    ]
    assert [name for name, _text in found["sources"]] == ["revision clock", "creationTimestamp", "list"]


def test_a_load_of_ours_has_no_such_table() -> None:
    assert point_details.time_sources_section(table()) is None
