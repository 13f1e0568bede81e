"""Plots: the data behind them, and that no bad outcome is hidden among many workloads."""

from __future__ import annotations

import csv
from types import SimpleNamespace

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.compare import comparison_page
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.knee_and_capacity_functions import (
    find_knee_by_kneedle,
    latency_by_load_step,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import PointData, PointExtras
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import (
    draw_run_plots,
    matrix_plots,
    plot_canvas,
    progress_plots,
    stage_duration_plots,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report.progress_plots import (
    draw_cluster_occupancy,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from run_directory import RUN, World, write_point


@pytest.fixture(scope="module")
def mixed_data(mixed):
    return PointData(mixed[2])


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in draw_run_plots.POINT_PLOTS
        if name
        not in (
            *("metrics", "saturation", "loss", "rate", "requests", "gaps", "ranks", "gpu_seconds"),
            *("placement", "shares", "servers"),
        )
    ],
)
def test_every_plot_has_its_numbers_beside_it(mixed_data, tmp_path, name):
    plot = draw_run_plots.draw_point_plot(mixed_data, name, tmp_path / name, "point 7, first 3 of 12 workloads", 160)
    assert "point 7, first 3 of 12 workloads" in plot.title
    rows = list(csv.reader(plot.data.open()))
    assert len(rows) > 3 and {len(row) for row in rows} == {len(rows[0])}
    assert plot.path.stat().st_size > 5000


@pytest.mark.parametrize("label", ["$x_{ b$", "$" + "{" * 300 + "}" * 300 + "$", "$HOME to $USER", "<b>&amp;\\frac"])
@pytest.mark.parametrize("name", ["durations", "raster"])
def test_no_text_is_read_as_a_formula(mixed_data, tmp_path, name, label):
    assert label in draw_run_plots.draw_point_plot(mixed_data, name, tmp_path / name, label).title


def test_a_point_without_metrics_has_no_plot_of_them(mixed_data, tmp_path):
    assert draw_run_plots.draw_point_plot(mixed_data, "metrics", tmp_path / "x") is None


@pytest.mark.parametrize("jobs", [2, 9])
def test_the_loss_of_each_job_is_drawn_over_its_steps(mixed_data, tmp_path, jobs):
    points = [[1.0, 3.0], [2.0, 2.0], [3.0, 1.5]]
    rows = [
        {"index": n, "pod": f"p{n}", "simulated": True, "figures": {}, "loss": {"over": "step", "points": points}}
        for n in range(jobs)
    ]
    without = {"index": jobs, "pod": "none", "simulated": True, "figures": {}}
    data = PointData(mixed_data.table, PointExtras([*rows, without]))
    plot = draw_run_plots.draw_point_plot(data, "loss", tmp_path / "loss", "point 7")
    assert plot.title == "Loss of the trainings – SIMULATED – point 7"
    head, *found = csv.reader(plot.data.open())
    assert head == ["job", "step", "loss"] and len(found) == 3 * jobs
    assert "median 3 at first, 1.50 at last" in plot.alt
    assert (
        draw_run_plots.draw_point_plot(PointData(mixed_data.table, PointExtras([without])), "loss", tmp_path / "x")
        is None
    )


def test_a_load_that_did_not_come_in_steps_has_no_saturation_curve(mixed_data, tmp_path):
    assert draw_run_plots.draw_point_plot(mixed_data, "saturation", tmp_path / "x") is None


def test_the_saturation_curve_has_each_stage_at_each_rate_and_its_knee(tmp_path):
    table = timeline_builder.build_timeline_of_workloads(
        write_point(tmp_path / "000", World(count=60, rate=4.0)), RUN, "000"
    )
    data = PointData(table, PointExtras(steps=((4.0, 5.0), (8.0, 5.0), (16.0, 5.0))))
    plot = draw_run_plots.draw_point_plot(data, "saturation", tmp_path / "x", "point 3")
    assert plot.title == "Saturation – point 3"
    head, *rows = csv.reader(plot.data.open())
    assert head == ["stage", "rate_per_s", "took_p95_s", "workloads", "knee"]
    assert {row[0] for row in rows} == set(plot_canvas.stages_to_plot(data))
    for stage in plot_canvas.stages_to_plot(data):
        curve = latency_by_load_step(data, stage, "needed", 0.95)
        mine = [row for row in rows if row[0] == stage]
        assert [(float(row[1]), float(row[2]), int(row[3])) for row in mine] == [
            (rate, pytest.approx(latency, abs=1e-6), count) for rate, latency, count in curve
        ]
        place = find_knee_by_kneedle([one[0] for one in curve], [one[1] for one in curve])
        assert [row[4] == "True" for row in mine] == [at == place for at in range(len(mine))]
        assert (f"{formats.stage_display_name(stage)}" in plot.alt) and ("bend" in plot.alt)


def test_saturation_comes_first():
    assert list(draw_run_plots.POINT_PLOTS)[:2] == ["rate", "saturation"], "a point has at most one of them"


def beyond(made):
    """Return the texts and lines of a drawing that extend beyond it."""
    figure = made.figure
    (axis,) = figure.axes
    low, high = axis.get_xlim()
    figure.canvas.draw()
    (left, right), found = axis.get_window_extent().intervalx, []
    for text in axis.texts:
        place = text.get_window_extent().intervalx
        if place[0] < left - 1 or place[1] > right + 1:
            found.append(text.get_text())
    for lines in axis.collections:
        for segment in lines.get_segments():
            found += [f"whisker to {x}" for x, _y in segment if not low <= x <= high]
    return found


@pytest.mark.parametrize("high", [1.2, 3.0, 40.0])
@pytest.mark.parametrize("value", [0.02, 1.0, 55_555.0])
def test_values_beside_bars_and_whiskers_are_never_clipped(monkeypatch, tmp_path, value, high):
    drawn = []
    monkeypatch.setattr(plot_canvas, "write_png_and_csv", lambda made, path: drawn.append(made))
    points = [
        {"point": "000", "value": value, "n": 9, "of": 9, "confidence": {"low": value / 2, "high": value * high}},
        {"point": "001", "value": value / 3, "n": 9, "of": 9, "confidence": None},
        {"point": "002", "value": None, "n": 3, "of": 9, "note": "≥ 14.6 s: 6 of 9 were not seen to reach it"},
    ]
    entry = {"name": "x", "title": "X", "unit": "s", "direction": "lower", "simulated": False, "points": points}
    matrix_plots.draw_figure_bars_over_points(
        [entry], ["gpus = 1", "gpus = 2", "gpus = 4"], ["000", "001", "002"], tmp_path
    )
    assert beyond(drawn[0]) == []


@pytest.mark.parametrize("reach", [0.1, 1.0, 20.0])
def test_the_parts_of_a_difference_and_of_a_time_are_never_clipped(reach):
    def part(name, mean, spread):
        confidence = {"low": mean - spread, "high": mean + spread}
        shares = {"mean": abs(mean), "share": 0.5, "slowest": None}
        return {"name": name, "writer": "node", "simulated": False, "difference": mean, "before": 0.0, "after": 0.0,
                "confidence": confidence, **shares}  # fmt: skip

    parts = [part("created", 1.0, 0.1), part("pods_running", 9.0, reach), part("succeeded", -4.0, reach)]
    with plot_canvas.plot_style_context():
        assert beyond(comparison_page.draw_stage_contributions(parts, "")) == []
        positive = [part("created", 1.0, 0.1), part("succeeded", 9.0, reach)]
        assert [
            one
            for one in beyond(stage_duration_plots.draw_mean_stage_waterfall(positive, 10.0, 3, 3, ""))
            if "-" not in one
        ] == []


def test_each_line_of_a_large_raster_shows_what_most_did_and_every_bad_end(tmp_path):
    world = World(count=60, rate=20, outcomes={31: "failed", 47: "unfinished"}, training=False, canary=5.0)
    data = PointData(timeline_builder.build_timeline_of_workloads(write_point(tmp_path / "000", world), RUN, "000"))
    states = progress_plots._workload_state_times(data)
    lines = 6
    line_of = numpy.arange(60) * lines // 60
    most = progress_plots._most_frequent_states(
        data, [moments for _name, moments in states], line_of, lines, data.end - data.start
    )
    names = ["", *(name for name, _moments in states)]
    assert names[most[0, 0]] == "" and names[most[5, 0]] == ""
    assert {names[most[line, -1]] for line in range(lines)} == {"succeeded"}
    # Beside the last line's middle, most of its workloads run.
    assert "running" in {names[state] for state in most[2]}
    rows = progress_plots._raster_rows(data, states, line_of, lines)
    assert [row[-1] for row in rows] == ["succeeded", "succeeded", "succeeded", "failed", "unfinished", "succeeded"]
    assert [(row[0], row[1], row[2]) for row in rows[:2]] == [(0, 9, 10), (10, 19, 10)]


@pytest.mark.parametrize("count", [1, 9, 15, 40])
def test_no_two_stages_have_the_same_colour(count):
    names = [*list(plot_canvas.USUAL)[: count // 2], *(f"stage_{number}" for number in range(count - count // 2))]
    stages = [{"name": name, "ends": None} for name in names]
    table = SimpleNamespace(stages=stages, seen=lambda _name: 1)
    found = plot_canvas.stage_colours(SimpleNamespace(table=table, end_stages=list, sent_is=""))
    assert len({found[name] for name in names}) == len(names)
    assert plot_canvas.GREY not in [found[name] for name in names]


def test_who_ended_is_no_longer_shown_as_being_in_a_state(mixed_data):
    states = progress_plots._workload_state_times(mixed_data)
    assert states[0][0] == "sent" and states[-1][0] == "succeeded"
    ended = mixed_data.stage_midpoints("ended")
    known = ~numpy.isnan(ended)
    for _name, moments in states:
        assert (moments[known] <= ended[known] + 1e-9).all()


def test_the_queue_and_the_gpus_agree_with_the_truth(good):
    world, _folder, table = good
    with plot_canvas.plot_style_context():
        drawing = draw_cluster_occupancy(PointData(table), "", 160)
    truth = []
    for index in range(world.count):
        held = max(world.truth[index, f"pod{n}_scheduled"] for n in range(2)), world.truth[index, "succeeded"]
        truth.append(held)
    most = max(sum(2 for begin, end in truth if begin <= moment < end) for moment, _end in truth)
    drawn = max(row[2] for row in drawing.rows if row[0] == "GPUs held")
    assert abs(drawn - most) <= 2
    assert "The cluster has 160 GPUs." in drawing.alt


def test_gpus_are_free_when_the_pods_have_ended_and_not_when_the_controller_says_so(tmp_path):
    world = World(count=8, rate=0.5, run_for=1.0, controller_delay=20.0)
    folder = write_point(tmp_path / "000", world)
    with plot_canvas.plot_style_context():
        drawing = draw_cluster_occupancy(
            PointData(timeline_builder.build_timeline_of_workloads(folder, RUN, "000")), ""
        )
    most = {
        curve: max(row[2] for row in drawing.rows if row[0] == curve)
        for curve in ("GPUs held", "GPUs of running workloads")
    }
    # A workload comes every 2 s and holds two GPUs for under 4 s; until the controller ends them, all eight overlap
    assert 0 < most["GPUs of running workloads"] <= most["GPUs held"] <= 6


SETTINGS = [{"gpus": gpus, "rank": rank, "same": 1} for gpus in (1, 2) for rank in (4, 8, 16)]


def test_a_matrix_of_two_settings_is_a_grid():
    at = matrix_plots.grid_of_matrix(SETTINGS, [f"{n:03d}" for n in range(6)])
    assert (at.along, list(at.down), list(at.rows), list(at.columns)) == (
        "rank",
        ["gpus"],
        ["1", "2"],
        ["4", "8", "16"],
    )
    assert at.places["004"] == (1, 1)


@pytest.mark.parametrize("settings", [[{"gpus": 1}, {"gpus": 2}], [{}, {}], [*SETTINGS, SETTINGS[0]]])
def test_what_is_no_grid_has_bars_instead(settings):
    assert matrix_plots.grid_of_matrix(settings, [str(n) for n in range(len(settings))]) is None


def test_a_heat_map_says_each_cell_also_of_points_without_a_value(tmp_path):
    at = matrix_plots.grid_of_matrix(SETTINGS, [f"{n:03d}" for n in range(6)])
    points = [{"point": f"{n:03d}", "value": n + 0.5, "n": 1, "of": 1} for n in range(5)]
    points.append({"point": "005", "value": None, "note": "≥ 12 s: 1 of 1 were not seen", "n": 0, "of": 1})
    entry = {"name": "makespan", "title": "Makespan", "unit": "s", "direction": "lower", "simulated": True}
    (plot,) = matrix_plots.draw_figure_heatmaps([{**entry, "points": points}], at, tmp_path)
    assert "1 / 8 (point 001): 1.50 s." in plot.alt and "2 / 16 (point 005): ≥ 12 s." in plot.alt
    assert "SIMULATED" in plot.title
    assert len(plot.data.read_text().splitlines()) == 7
