# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of trainings from the rows of their logs."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import training_and_metric_functions
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import PointData, PointExtras
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable


def test_a_figure_names_the_logs_whose_figure_is_left_out() -> None:
    rows = [
        {"index": 0, "pod": "a", "figures": {"train_loss": 2.0, "total_batch_size": 8.0}, "simulated": False},
        {
            "index": 1,
            "pod": "b",
            "figures": {"total_batch_size": 8.0},
            "left_out": {"train_loss": "it was restarted"},
            "simulated": False,
        },
    ]
    table = TimelineTable({"start": 0.0, "end": 9.0, "planned": 2, "stages": [], "schema": "timeline/1"})
    table.index, table.outcome, table.template = [0, 1], ["succeeded"] * 2, ["job"] * 2
    data = PointData(table, PointExtras(training=rows))
    loss = training_and_metric_functions.training(data, "train_loss")
    assert (loss.value, loss.n, loss.of, loss.note) == (2.0, 1, 2, "1 log left out: it was restarted")
    assert training_and_metric_functions.training(data, "total_batch_size").note == ""
    alone = PointData(table, PointExtras(training=rows[1:]))
    assert training_and_metric_functions.training(alone, "train_loss").note == "1 log left out: it was restarted"
