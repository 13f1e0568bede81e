# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that the plots of judged figures share: their scale, the expected band, the limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import plot_canvas

Kpi = Mapping[str, Any]
_BAND, _LIMIT = plot_canvas.COLOURS[0], plot_canvas.COLOURS[6]
_LIMITS = {"min": "lower limit", "max": "upper limit"}


def value_scale(kpi: Kpi, values: Iterable[Mapping[str, Any]]) -> tuple[float, str]:
    """Return the factor and the unit in which the values of a figure are drawn."""
    known = [abs(one["value"]) for one in values if one["value"] is not None]
    return plot_canvas.scale(max(known, default=0.0)) if kpi["unit"] == "s" else (1.0, kpi["unit"])


def draw_band(axis: Any, kpi: Kpi, factor: float) -> None:
    """Draw the interval in which one more old run is expected, if it is known."""
    if kpi.get("band"):
        low, high = (one * factor for one in kpi["band"])
        axis.axhspan(low, high, color=_BAND, alpha=0.12, linewidth=0, label="expected of one more run")


def draw_limits(axis: Any, kpi: Kpi, factor: float) -> None:
    """Draw the limits of a figure."""
    for name, end in limits_of(kpi).items():
        axis.axhline(end * factor, color=_LIMIT, linestyle="--", linewidth=1.4, label=_LIMITS[name])


def limits_of(kpi: Kpi) -> dict[str, float]:
    """Return the limits that a figure has: min, max."""
    limit = kpi.get("limit") or {}
    return {name: limit[name] for name in _LIMITS if limit.get(name) is not None}
