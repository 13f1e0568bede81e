# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures as text: value, measurement bounds and confidence interval of a KPI; the latency attribution of a point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats


def value_text(kpi: Mapping[str, Any]) -> str:
    """Return value and unit; the bound of an unknown value, or a dash."""
    if kpi["value"] is None:
        return "–" if kpi.get("at_least") is None else f"≥ {formats.value(kpi['at_least'], kpi['unit'])}"
    return formats.value(kpi["value"], kpi["unit"])


def measured_text(kpi: Mapping[str, Any]) -> str:
    """Return the measurement bounds, empty if there are none."""
    interval = kpi.get("interval")
    if not interval or interval[0] == interval[1]:
        return ""
    low, high = (formats.value(end, kpi["unit"]) for end in interval)
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


def attribution_section(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the content of a page from a document attribution/1; None if it is missing or empty."""
    if not found or not (found.get("stages") or found.get("waiting")):
        return None
    slowest = found.get("slowest") or 0
    return {
        "total": formats.seconds(found["total"]) if found.get("total") is not None else "–",
        "n": found["n"],
        "of": found["of"],
        "slowest": formats.count(slowest, "slowest workload"),
        "stages": [_row(stage, stage_name(stage["name"])) for stage in found["stages"]],
        "writers": [_row(writer, formats.writer(writer["name"])) for writer in found["writers"]],
        "waiting": [
            f"{formats.count(wait['n'], 'workload')} still waited for {formats.stage(wait['name'])}, "
            f"{formats.seconds(wait['mean'])} on average"
            for wait in found.get("waiting") or []
        ],
    }


def stage_name(name: str) -> str:
    """Return the display name of a stage; the part of sending is its lateness."""
    return "sent (lateness)" if name == "sent" else formats.stage(name)


def _row(one: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {
        "name": name,
        "writer": formats.writer(one["writer"]),
        "simulated": one["simulated"],
        "mean": formats.seconds(one["mean"]),
        "confidence": confidence_text({"confidence": one.get("confidence"), "unit": "s"}),
        "percent": f"{100 * one['share']:.1f} %",
        "width": round(max(min(100 * one["share"], 100.0), 0.0), 1),
        "slowest": formats.seconds(one["slowest"]) if one.get("slowest") is not None else "",
    }
