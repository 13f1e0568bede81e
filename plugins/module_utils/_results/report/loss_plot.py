# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plot of the loss during the trainings of a point, one curve per job."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi.point_data import PointData
from . import plot_canvas
from .plot_canvas import COLOURS, GREY
from .plotted_stages import Drawing

#: Curves of more jobs than this are thin and grey, with their median at each position.
FEW_CURVES = 6


def loss(data: PointData, label: str) -> Drawing | None:
    """Draw the loss over the steps or epochs; None unless a log has it at two positions at least."""
    rows = [row for row in data.extras.training if len(row.get("loss", {}).get("points", ())) > 1]
    if not rows:
        return None
    np = data.np
    many = len(rows) > FEW_CURVES
    figure, (axis,) = plot_canvas.stacked([2.6], top=0.45, gap=0, bottom=0.56)
    table: list[list[Any]] = []
    for row in rows:
        along, losses = zip(*row["loss"]["points"], strict=True)
        axis.plot(
            along,
            losses,
            color="#BBBBBB" if many else COLOURS[0],
            alpha=1.0 if many else 0.8,
            linewidth=0.8 if many else 1.5,
            linestyle="--" if row["simulated"] else "-",
        )
        table += [[row.get("workload") or row["pod"], at, value] for at, value in zip(along, losses, strict=True)]
    if many:
        places = sorted({one[1] for one in table})
        medians = [float(np.median([one[2] for one in table if one[1] == at])) for at in places]
        axis.plot(places, medians, color=COLOURS[0], linewidth=2)
    over = rows[0]["loss"]["over"].replace("_", " ")
    axis.set_xlabel(over)
    axis.set_ylabel("loss")
    simulated = all(row["simulated"] for row in rows)
    title = plot_canvas.titled(f"Loss of the trainings{' – SIMULATED' if simulated else ''}", label)
    plot_canvas.heading(figure, title)
    axis.set_title(formats.count(len(rows), "job"), loc="right", fontsize=8.5, color=GREY)
    ends = [formats.number(float(np.median([row["loss"]["points"][place][1] for row in rows]))) for place in (0, -1)]
    alt = f"{title}, over {over}: median {ends[0]} at first, {ends[1]} at last."
    return Drawing(figure, title, alt, ["job", over.replace(" ", "_"), "loss"], table)
