# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sections of a report on decisions of the schedule: repeated points, and a bisection."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

from . import bisection_plot, repetition_plot


def decisions(run: Run) -> list[dict[str, str]]:
    """Return the decisions of a run that repeats or bisects, one line each; none for any other run."""
    if not run.repeats and not run.bisection:
        return []
    kinds = {"decided": "", "finished": "end"}
    return [
        {"at": str(one["at"]), "point": str(one.get("point") or kinds[one["type"]]), "why": str(one["why"])}
        for one in run.schedule
        if one.get("type") in kinds
    ]


def repeated(run: Run, verdict: Mapping[str, Any], folder: Path, notes: list[str]) -> list[dict[str, Any]]:
    """Return plot and sentence of each figure that was repeated; none if points are not repeated."""
    found: list[dict[str, Any]] = []
    for place, kpi in enumerate(repetition_plot.repeated_kpis(verdict.get("kpis") or ()) if run.repeats else ()):
        label = f"point {kpi['point']}" if len({point.of for point in run.points}) > 1 else ""
        try:
            plot = repetition_plot.draw_repetition(kpi, run.schedule, folder / f"repeated_{place:02d}", label)
        except ImportError:
            return found  # the plots of the points report it
        except Exception as error:  # any exception of a drawing library on unusual data
            notes.append(f"attempts of {kpi['name']} could not be drawn: {type(error).__name__}: {error}")
        else:
            limit = (kpi.get("limit") or {}).get("text")
            found.append({"plot": plot, "text": " ".join(dict.fromkeys(one for one in (limit, kpi["why"]) if one))})
    return found


def bisection(run: Run, folder: Path, notes: list[str]) -> dict[str, Any]:
    """Return sentence, table and plot of a bisection; empty without one."""
    found = run.bisection
    if not found:
        return {}
    kpis = (kpi for point in run.points for kpi in point.kpis or [])
    unit = next((str(kpi["unit"]) for kpi in kpis if kpi["name"] == found["kpi"]), "")
    section = {
        "why": found["why"],
        "over": found["over"],
        "kpi": found["kpi"],
        "rows": bisection_plot.bisection_rows(found, unit),
        "plot": None,
    }
    try:
        return {**section, "plot": bisection_plot.draw_bisection(found, unit, folder / "bisection")}
    except ImportError:
        return section
    except Exception as error:  # as above
        notes.append(f"the bisection could not be drawn: {type(error).__name__}: {error}")
        return section
