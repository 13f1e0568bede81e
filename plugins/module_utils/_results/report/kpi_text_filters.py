# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures as text, as filters of the templates: value, measurement bounds and confidence interval of a KPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..judge import headline


def format_kpi_value(kpi: Mapping[str, Any]) -> str:
    """Return value and unit; the bound of an unknown value, or of a duration that is not told from none; or a dash."""
    if kpi["value"] is None:
        return "–" if kpi.get("at_least") is None else f"≥ {formats.format_with_unit(kpi['at_least'], kpi['unit'])}"
    bound = headline.upper_bound_of_unresolved_duration(kpi)
    return f"≤ {bound}" if bound else formats.format_with_unit(kpi["value"], kpi["unit"])


def format_measurement_bounds(kpi: Mapping[str, Any]) -> str:
    """Return the measurement bounds, empty if there are none."""
    interval = kpi.get("interval")
    if not interval or interval[0] == interval[1]:
        return ""
    low, high = (formats.format_with_unit(end, kpi["unit"]) for end in interval)
    return f"measured to be between {low} and {high}" if low != high else ""


def format_confidence_interval(kpi: Mapping[str, Any]) -> str:
    """Return the confidence interval: "95 % interval: 1.2 s – 3 s"."""
    confidence = kpi.get("confidence")
    if not confidence or confidence.get("low") is None:
        return ""
    name = f"{100 * confidence['level']:.0f} % interval"
    if confidence.get("high") is None:
        return f"{name}: {formats.format_with_unit(confidence['low'], kpi['unit'])} or more"
    return f"{name}: {formats.format_range(confidence['low'], confidence['high'], kpi['unit'])}"


def label_of_stage(name: str) -> str:
    """Return the display name of a stage; the part of sending is its lateness."""
    return "sent (lateness)" if name == "sent" else formats.stage_display_name(name)


#: Filters of the templates.
FILTERS = {
    "confidence_text": format_confidence_interval,
    "count": formats.format_count,
    "joined": formats.join_with_and,
    "measured_text": format_measurement_bounds,
    "seconds": formats.format_duration,
    "stage": formats.stage_display_name,
    "stage_name": label_of_stage,
    "value_text": format_kpi_value,
    "writer": formats.stage_writer_display_name,
}
