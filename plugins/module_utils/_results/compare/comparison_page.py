# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Content of the comparison page, and the headline figures as lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import setting_text

from ..judge import overall_verdict, summary_text
from ..report import kpi_text
from ..report.latency_attribution_text import stage_name
from . import point_pairs


def headline_lines(pair: Mapping[str, Any]) -> list[str]:
    """Return the headline figures of a pair, one line each."""
    found = []
    for row in pair["kpis"]:
        if row["headline"]:
            shown = _texts(row)
            interval = f" ({shown['confidence']})" if shown["confidence"] else ""
            change = f"{shown['before']} → {shown['after']} {shown['percent']}{interval}: {row['reading']}"
            found.append(f"{pair['label']}: {row['title']} {change}{', SIMULATED' if row['simulated'] else ''}")
    return found


def _texts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a difference of a KPI with all figures formatted."""
    difference = row["difference"]
    signed = "–" if difference is None else f"{'+' if difference > 0 else ''}{formats.value(difference, row['unit'])}"
    percent = "" if row["percent"] is None else f"{row['percent']:+.1f} %"
    return {
        **row,
        "before": formats.value(row["before"], row["unit"]),
        "after": formats.value(row["after"], row["unit"]),
        "difference": signed,
        "percent": percent,
        "confidence": kpi_text.confidence_text({"confidence": row["confidence"], "unit": row["unit"]}),
        "rows": " / ".join(f"{n:,} of {of:,}" for n, of in zip(row["n"], row["of"], strict=True)),
        "note": row.get("note", ""),
    }


def verdict_lines(document: Mapping[str, Any]) -> list[str]:
    """Return which runs are A and B, the verdict with its reasons, and the stages that changed, one line each."""
    if "verdict" not in document:
        return []
    reasons = document["why"]
    more = f" ({formats.count(len(reasons) - 1, 'further reason')})" if len(reasons) > 1 else ""
    why = f": {reasons[0]}{more}" if reasons else ""
    return [*groups(document), f"verdict {document['verdict'].upper()}{why}", *_changed(document)]


def groups(document: Mapping[str, Any]) -> list[str]:
    """Return a line on each group: its runs, and the labels that differ from those of the first."""
    lines = []
    for place, one in enumerate(document.get("groups") or []):
        what = f", {one['what']}" if one["what"] else ", with the same labels" if place else ", the baseline"
        lines.append(f"{one['letter']} is {formats.listed(one['runs'], 10)}{what}")
    return lines


def _changed(document: Mapping[str, Any]) -> list[str]:
    found = document["changed"]
    several = len({one["point"] for one in found}) > 1
    return [
        f"{one['group']} against A" + (f", point {one['point']}" if several else "") + f": {one['text']}"
        for one in found
    ]


def _verdict(document: Mapping[str, Any], pictures: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return what the page says about the verdict; None without one."""
    if "verdict" not in document:
        return None
    several = len({one["point"] for one in document["kpis"]}) > 1
    rows = [
        {
            **one,
            "title": one["title"] + (f", point {one['point']}" if several else ""),
            "before": formats.value((one.get("old") or {}).get("value"), one["unit"]),
            "after": formats.value(one["value"], one["unit"]),
            "change": summary_text.change(one),
            "runs": f"{one['old']['n']} / {one['new']['n']}",
        }
        for one in document["kpis"]
    ]
    history = document.get("history")
    return {
        "verdict": document["verdict"],
        "why": list(document["why"]),
        "groups": groups(document),
        "changed": _changed(document),
        "kpis": rows,
        "history": overall_verdict.history_line(history) if history else "",
        "plots": list(pictures),
    }


def content(
    document: Mapping[str, Any],
    drawn: Sequence[Sequence[Mapping[str, Any]]],
    reports: Sequence[str],
    explaining: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the variables of the page's template.

    drawn: the plots of each pair. reports: relative paths of the runs' reports, empty where there is none.
    explaining: the plots of judged figures.
    """
    shown = []
    for pair, pictures in zip(document["pairs"], drawn, strict=True):
        rows = [_texts(row) for row in pair["kpis"]]
        total = [formats.seconds(one) if one is not None else "–" for one in pair["total"]]
        shown.append(
            {
                "label": pair["label"],
                "headline": [row for row in rows if row["headline"]],
                "changed": [row for row in rows if not row["headline"] and row["reading"] in ("better", "worse")],
                "others": [row for row in rows if not row["headline"] and row["reading"] not in ("better", "worse")],
                "counts": point_pairs.summary(pair["kpis"]),
                "total": total,
                "writers": [_part(one, formats.writer(one["name"])) for one in pair["writers"]],
                "stages": [_part(one, stage_name(one["name"])) for one in pair["stages"]],
                "plots": list(pictures),
            }
        )
    settings = [
        {"name": one["name"], "values": [textwrap.shorten(setting_text(value), 80) for value in one["values"]]}
        for one in document["settings"]
    ]
    return {
        "title": title(document["runs"]),
        "runs": [{**one, "report": where} for one, where in zip(document["runs"], reports, strict=True)],
        "judged": _verdict(document, explaining),
        "settings": settings,
        "pairs": shown,
        "notes": list(document["notes"]),
        "simulated": any(one["simulated"] for one in document["runs"]),
    }


def title(compared: Sequence[Mapping[str, Any]]) -> str:
    """Return the title of a comparison: of two runs, or of the points of one run."""
    first, second = compared[:2]
    return (
        f"the points of {first['run']}" if first["run"] == second["run"] else f"{second['run']} against {first['run']}"
    )


def _part(one: Mapping[str, Any], name: str) -> dict[str, Any]:
    signed = f"{'+' if one['difference'] > 0 else ''}{formats.seconds(one['difference'])}"
    return {
        "name": name,
        "writer": formats.writer(one["writer"]),
        "before": formats.seconds(one["before"]),
        "after": formats.seconds(one["after"]),
        "difference": signed,
        "confidence": kpi_text.confidence_text({"confidence": one["confidence"], "unit": "s"}),
        "simulated": one["simulated"],
    }
