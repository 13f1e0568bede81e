# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import csv

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import point_data, read_point_data
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import draw_run_plots
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from request_files import RUN, request, write_requests

STEPS = [(5.0, 4.0), (10.0, 4.0)]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "points" / "001"
    offsets = [place / 5 for place in range(20)] + [4 + place / 10 for place in range(40)]
    records = [request(index, offset, ttft=0.1 if offset < 4 else 0.4) for index, offset in enumerate(offsets)]
    write_requests(folder, records, offsets, STEPS)
    (folder / "settings.yml").write_text("serving_slo: {ttft: 0.2}\n")
    run = run_reader.read_run_directory(folder.parents[1])
    table = write_timeline.build_timeline_of_requests(folder, RUN, "001")
    data = point_data.PointData(table, read_point_data.extras_for_plots(run, run.points[0], table, []))
    plots = {
        name: draw_run_plots.draw_point_plot(data, name, folder / name)
        for name in ("rate", "requests", "gaps", "counts")
    }
    return {**plots, "table": table}


def rows(plot):
    with open(plot.data, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_the_plot_of_rates_has_each_latency_and_the_share_within_the_objective(drawn):
    values = {(row["figure"], row["rate_per_s"]): float(row["value"]) for row in rows(drawn["rate"])}
    assert values["ttft_p50_s", "5"] == pytest.approx(0.1) and values["ttft_p95_s", "10"] == pytest.approx(0.4)
    assert values["share_percent", "5"] == 100 and values["share_percent", "10"] == 0
    assert "SIMULATED" in drawn["rate"].title


def test_single_requests_are_drawn_with_each_chunk(drawn):
    moments = [row for row in rows(drawn["requests"]) if row["request"] == "slowest"]
    assert [row["moment"] for row in moments].count("chunk") == 10
    assert float(next(row for row in moments if row["moment"] == "first_token")["since_due_s"]) == pytest.approx(0.4)


def test_every_gap_is_in_the_heat_map(drawn):
    assert sum(int(row["gaps"]) for row in rows(drawn["gaps"])) == 60 * 9


def test_requests_that_are_open_at_a_time_are_drawn_and_called_so(drawn):
    # Those of the second step, ten a second, take 0.49 s each.
    most = max(float(row["workloads"]) for row in rows(drawn["counts"]) if row["curve"] == "open now")
    assert most == 5
    assert drawn["counts"].title.startswith("Requests over time") and "At most 5 open at once." in drawn["counts"].alt


def test_other_points_have_no_plots_of_requests(drawn, tmp_path):
    others = point_data.PointData(drawn["table"])
    for name in ("rate", "requests", "gaps"):
        assert draw_run_plots.draw_point_plot(others, name, tmp_path / name) is None
