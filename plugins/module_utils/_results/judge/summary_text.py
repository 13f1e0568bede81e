# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The summary of a run as Markdown, for a comment on a change: verdict, answer, five figures, reasons, links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

from ..statistics.readings import NOT_MEASURED, PASS, of_suite
from . import overall_verdict
from .history_reason import percent

#: Number of figures in the table, and of reasons below it.
FIGURES, REASONS = 5, 5
#: Maximum length of a sentence: a comment is read at a glance.
LONGEST = 300
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def summary(run: Run, verdict: Mapping[str, Any]) -> str:
    """Return the summary of a run with its verdict (schema verdict/2), which is empty if there is none."""
    name = f"{run.record.get('project') or 'run'} {'+'.join(run.record.get('presets') or [])}".strip()
    blocks = [f"# {verdict.get('verdict') or 'no verdict'}: {_plain(name)}"]
    reasons = (
        overall_verdict.explanation(verdict) if verdict else [line for line in run.failures.splitlines() if line][:1]
    )
    bullets = [_bullets(reasons)] if reasons else []
    answer = [_plain(one) for one in verdict.get("answer") or []]
    rows = list(_table(verdict))
    table = ["\n".join(rows)] if rows else []
    worse = verdict.get("verdict") == overall_verdict.REGRESSION
    blocks += [*bullets, *answer, *table] if worse else [*answer, *table, *bullets]
    blocks += [f"Warning: {_plain(one)}" for one in verdict.get("warnings") or []]
    if verdict.get("history"):
        blocks.append(_plain(overall_verdict.history_sentence(verdict)))
    return "\n\n".join([*blocks, _links(run)]) + "\n"


def _bullets(reasons: list[str]) -> str:
    more = [f"{formats.count(len(reasons) - REASONS, 'further reason')} in verdict.json"]
    shown = reasons[:REASONS] + (more if len(reasons) > REASONS else [])
    return "\n".join(f"- {_plain(one)}" for one in shown)


def _table(verdict: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of the figures that matter most: the gravest first."""
    figures = sorted(verdict.get("kpis") or [], key=_gravity)[:FIGURES]
    if not figures:
        return
    several = len({one["point"] for one in figures}) > 1
    yield f"| {'point | ' if several else ''}figure | value | before | change | reading |"
    yield f"|{'---|' if several else ''}---|---|---|---|---|"
    for one in figures:
        old = (one.get("old") or {}).get("value")
        cells = [
            *([one["point"]] if several else []),
            one["title"] + (" (simulated)" if one["simulated"] else ""),
            formats.value(one["value"], one["unit"]),
            formats.value(old, one["unit"]),
            change(one),
            _reading(one),
        ]
        yield "| " + " | ".join(_plain(cell) for cell in cells) + " |"


def _gravity(kpi: Mapping[str, Any]) -> int:
    result = of_suite([kpi["reading"], (kpi.get("limit") or {}).get("result", PASS)])
    return overall_verdict.PRECEDENCE.index(result)


def change(kpi: Mapping[str, Any]) -> str:
    """Return the change of a judged KPI with its interval: +12 % (8 to 16 %); "–" if unknown.

    With several new runs it is that of their mean, which is stated: the value in the same row is that of one run.
    """
    if kpi.get("change") is None:
        return "–"
    low, high = kpi.get("change_low"), kpi.get("change_high")
    inside = f" ({percent(low)} to {percent(high)} %)" if low is not None and high is not None else ""
    sign = "+" if kpi["change"] > 0 else ""
    new = (kpi.get("new") or {}).get("n") or 1
    return f"{sign}{percent(kpi['change'])} %{inside}" + (f", mean of {new} runs" if new > 1 else "")


def _reading(kpi: Mapping[str, Any]) -> str:
    limit = (kpi.get("limit") or {}).get("result")
    parts = [kpi["reading"]] if kpi["reading"] != overall_verdict.NOT_JUDGED else []
    return ", ".join([*parts, *([f"{limit} limit" if limit != NOT_MEASURED else limit] if limit else [])]) or "–"


def _links(run: Run) -> str:
    parts = ["report: report/index.html"] if (run.top / "report" / "index.html").exists() else []
    parts += [f"{one['target']}: {one['address']}" for one in run.record.get("exported") or []]
    return "\n".join(f"- {_plain(one)}" for one in [f"run: {run.id}", f"directory: {run.top}", *parts])


def _plain(text: object) -> str:
    """Return text on one line, without meaning as Markdown or HTML."""
    flat = " ".join(str(text).split())
    return _SPECIAL.sub(r"\\\1", flat if len(flat) <= LONGEST else f"{flat[: LONGEST - 1]}…")
