# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots of failures show every pod, failure and GPU-second that the figures are made of."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import PointData, PointExtras
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import failure_plots, plot_canvas
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.failure_recoveries import (
    NEVER,
    PointFailures,
    join_failures,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.recovery_stages import FailingPod
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable
from pytest import approx


def pod(index: int, running: float, ended: float, end: str, gpus: float = 2.0) -> FailingPod:
    """A pod that was scheduled a second before it ran."""
    before, when = (running - 1, running - 1), (running, running)
    return FailingPod(index, gpus, before, before, when, NEVER, (ended, ended), end)


def failures(gpus: float = 2.0) -> PointFailures:
    """Two pods of workload 0, one of which is lost at 10 s; a pod of workload 1; an API server away from 20 to 30 s."""
    pods = {
        "a": pod(0, 1, 15, "deleted", gpus),
        "b": pod(0, 1, 60, "succeeded", gpus),
        "a2": pod(0, 18, 60, "succeeded", gpus),
        "c": pod(1, 2, 50, "succeeded", gpus),
    }
    rows = [
        {"type": "inject", "kind": "node_lost", "number": 0, "target": "n", "pods": [{"uid": "a"}]},
        {"type": "injected", "number": 0, "target": "n", "sent": 10.0, "answered": 10.0},
        {"type": "inject", "kind": "api_away", "number": 1, "target": "kube-apiserver", "pods": []},
        {"type": "injected", "number": 1, "target": "kube-apiserver", "sent": 20.0, "answered": 20.0},
        {"type": "undone", "number": 1, "target": "kube-apiserver", "sent": 30.0, "answered": 30.0, "changed": True},
    ]
    return join_failures(rows, pods, {0: 2, 1: 1}, {0: "succeeded", 1: "succeeded"}, 70.0, 0.0, lambda row: NEVER)


def point(found: PointFailures | None) -> PointData:
    stages = [{"name": "running", "kind": "Pod", "writer": "node", "simulated": True, "ends": None}]
    table = TimelineTable({"start": 0.0, "end": 70.0, "planned": 2, "stages": stages, "schema": "timeline/1"})
    table.earliest = {"running": array("d")}
    return PointData(table, PointExtras(failures=(lambda: found) if found is not None else None))


def test_a_load_without_failures_has_no_plots_of_them() -> None:
    assert failure_plots.draw_failed_ranks(point(None), "") is None
    assert failure_plots.draw_use_of_gpu_seconds(point(None), "") is None
    assert failure_plots.draw_use_of_gpu_seconds(point(PointFailures()), "") is None


def test_a_replacement_takes_the_line_of_the_pod_that_was_lost(tmp_path: Path) -> None:
    found = failures()
    ranks = failure_plots.arrange_pods_in_lines(found.lives[0])
    assert [len(rank) for rank in ranks] == [2, 1] and ranks[0][1].running[0] == 18
    with plot_canvas.plot_style_context():
        drawing = failure_plots.draw_failed_ranks(point(found), "")
        assert drawing is not None
        file = plot_canvas.write_png_and_csv(drawing, tmp_path / "ranks")
    lines = (tmp_path / "ranks.csv").read_text().splitlines()
    assert file.path.stat().st_size > 1000 and "SIMULATED" in file.title
    assert {"0,0,running,1,10", "0,0,running,18,60", "1,2,running,2,50", "0,0,lost,10,10"} <= set(lines)
    assert {"0,,not whole,10,18", ",,api_away of kube-apiserver,20,30"} <= set(lines)
    assert "1 recovery of 1 workload, of 2 in all; 1 failure of the control plane" in file.alt


def test_the_parts_of_the_gpu_seconds_are_what_was_held(tmp_path: Path) -> None:
    found = failures()
    with plot_canvas.plot_style_context():
        drawing = failure_plots.draw_use_of_gpu_seconds(point(found), "")
        assert drawing is not None
        plot_canvas.write_png_and_csv(drawing, tmp_path / "gpu_seconds")
    seconds = {row[0]: row[1] for row in drawing.rows}
    held = seconds.pop("held")
    assert sum(seconds.values()) == approx(held) == found.held
    # Until all run: one second of each pod but the replacement, whose second counts as waiting.
    assert seconds["starting"] == approx(6) and seconds["waiting"] == approx(16) and seconds["redone"] == approx(18)


def test_of_pods_without_gpus_the_plot_shows_what_became_of_their_seconds() -> None:
    with plot_canvas.plot_style_context():
        with_gpus, without = (failure_plots.draw_use_of_gpu_seconds(point(failures(gpus)), "") for gpus in (2, 0))
    assert with_gpus is not None and without is not None
    assert without.title == with_gpus.title.replace("GPU-seconds", "pod-seconds") != with_gpus.title
    assert without.columns == ["part", "pod_seconds", "share"]
    assert [row[1] for row in without.rows] == [approx(row[1] / 2) for row in with_gpus.rows]


@pytest.mark.parametrize("label", ["", "seed = 1", "workload_scale_tolerations[0].tolerationSeconds = 20, seed = 1"])
def test_the_title_of_a_plot_is_not_wider_than_the_plot(label: str) -> None:
    with plot_canvas.plot_style_context():
        drawing = failure_plots.draw_use_of_gpu_seconds(point(failures()), label)
        assert drawing is not None
        (title,) = (text for text in drawing.figure.texts if text.get_fontweight() == "bold")
        assert title.get_window_extent().x1 <= drawing.figure.bbox.x1
        assert (title.get_fontsize() < 12.5) is (len(label) > 20)
