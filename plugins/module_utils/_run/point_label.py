# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The label of a test point: its matrix values."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import setting_text

from .run_reader import Point


def point_label(point: Point, project: str = "") -> str:
    """Return the matrix values of a point with shortened names, "point <number>" without any."""
    names = {key: key.removeprefix(f"{project}_") for key in point.settings}
    ends = [name.rpartition(".")[2] for name in names.values()]
    if len(set(ends)) == len(ends):
        names = dict(zip(names, ends, strict=True))
    values = ", ".join(f"{names[key]} = {setting_text(value, 40)}" for key, value in point.settings.items())
    if values and point.attempt > 1:
        return f"{values}, attempt {point.attempt}"
    return values or f"point {point.number}"
