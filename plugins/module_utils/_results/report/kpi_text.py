# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format a KPI as text: its value, measurement bounds and confidence interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats


def value_text(kpi: Mapping[str, Any]) -> str:
    """Return value and unit; the bound of an unknown value, or a dash."""
    note = str(kpi.get("note") or "")
    if kpi["value"] is None:
        return note.split(":", maxsplit=1)[0] if note.startswith("≥") else "–"
    return formats.value(kpi["value"], kpi["unit"])


def measured_text(kpi: Mapping[str, Any]) -> str:
    """Return the measurement bounds, empty if there are none."""
    interval = kpi.get("interval")
    if not interval or interval[0] == interval[1]:
        return ""
    low, high = (formats.value(one, kpi["unit"]) for one in interval)
    return f"measured to be between {low} and {high}" if low != high else ""


def confidence_text(kpi: Mapping[str, Any]) -> str:
    """Return the confidence interval: "95 %: 1.2 s – 3 s"."""
    found = kpi.get("confidence")
    if not found or found.get("low") is None:
        return ""
    percent = f"{100 * found['level']:.0f} %"
    if found.get("high") is None:
        return f"{percent}: {formats.value(found['low'], kpi['unit'])} or more"
    return f"{percent}: {formats.span(found['low'], found['high'], kpi['unit'])}"
