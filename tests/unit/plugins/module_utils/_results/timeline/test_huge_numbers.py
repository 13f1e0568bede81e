# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers in the files of a stranger's run: what would fill the memory is an error of its point."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.scheduler_functions import WorkloadGangs
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, timeline_views
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.point_reader import PointInputs
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

HUGE = 10**12


def test_a_client_of_any_number_makes_no_list_for_each_before_it() -> None:
    with pytest.raises(DataError, match="1,000,000,000,000 clients"):
        timeline_views.rows_by_client(TimelineTable({"clients": HUGE}))


def test_a_gang_of_any_size_is_refused() -> None:
    template = {"name": "gang", "parameters": {"scheduling": {"pods": HUGE}}}
    with pytest.raises(DataError, match="1,000,000,000,000 pods"):
        WorkloadGangs(SimpleNamespace(table=TimelineTable({}, template=["gang"])), {"templates": [template]}, [])  # type: ignore[arg-type]


def test_a_definition_makes_no_more_kpis_than_a_page_can_show() -> None:
    entry = {"name": "wait_{queue}", "for_each": {"queue": list(range(101)), "quantile": list(range(100))}}
    with pytest.raises(DataError, match="would be 10,100 KPIs"):
        list(write_kpis._for_each_combinations(entry, SimpleNamespace()))  # type: ignore[arg-type]


def test_lost_clients_are_not_compared_with_each_workload_without_end(tmp_path: Any) -> None:
    lost = [{"client": number, "clients": HUGE, "reason": ""} for number in range(timeline_builder.MOST_LOST + 1)]
    with pytest.raises(DataError, match="1,001 lost clients"):
        timeline_builder._notes_on_lost_clients(PointInputs(tmp_path, lost=lost), [])


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), AttributeError("'str' object"), IndexError()])
def test_a_point_with_impossible_values_does_not_stop_the_others(tmp_path: Any, error: Exception) -> None:
    def action(point: Point, _warnings: list[str]) -> dict[str, Any]:
        if point.number == "001":
            raise error
        return {"point": point.number}

    run = Run(tmp_path, points=[Point("001", tmp_path), Point("002", tmp_path)])
    result = run_reader.process_points_and_note_errors(run, (), ("timeline.jsonl",), action)
    assert result["points"] == [{"point": "002"}]
    assert result["warnings"][0].startswith(f"point 001: no timeline.jsonl: {type(error).__name__}")
