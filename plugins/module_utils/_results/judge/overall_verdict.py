# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a run or comparison, from the results of its checks and the readings of its figures; and in words.

``summary.md`` is for a comment on a change: verdict, answer, five figures, reasons, links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_and_comparison_schemas import (
    VERDICTS,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import escape_markdown_line
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

from ..statistics.readings_from_p_values import (
    ACKNOWLEDGED,
    IMPROVEMENT,
    INCONCLUSIVE,
    NOT_JUDGED,
    NOT_MEASURED,
    OUTSIDE,
    PASS,
    REGRESSION,
    gravest_reading,
)

INVALID, ERROR = "invalid", "error"
#: The check that no phase failed.
PHASES = "phases"
#: Verdicts, the one that outweighs the others first: an invalid load proves nothing about the product, and after an
#: error there is no load.
PRECEDENCE = (ERROR, INVALID, REGRESSION, INCONCLUSIVE, IMPROVEMENT, PASS)
#: Result of a check -> the verdict that it asks for.
OF_CHECK = {PASS: PASS, OUTSIDE: REGRESSION, INVALID: INVALID, ERROR: ERROR, NOT_JUDGED: INCONCLUSIVE}
#: Number of figures in the table of a summary, and of reasons below it.
FIGURES, REASONS = 5, 5
#: Number of known causes in a summary.
FINDINGS = 3
#: Figures that were not compared with all runs, and that are named.
NAMED = 2


def compute_overall_verdict(results: Iterable[str], readings: Iterable[str] = ()) -> str:
    """Return the verdict from the results of all checks and the readings of the judged figures."""
    verdicts = {OF_CHECK[result] for result in results} | {gravest_reading(list(readings))}
    return next((verdict for verdict in PRECEDENCE if verdict in verdicts), PASS)


def verdict_with_exit_status(results: Iterable[str], readings: Iterable[str] = ()) -> dict[str, Any]:
    """Return verdict, code and exit status, as in schemas verdict/2 and comparison/2."""
    verdict = compute_overall_verdict(results, readings)
    code, status = VERDICTS[verdict]
    return {"verdict": verdict, "code": code, "exit_status": status}


def reasons_of_verdict(verdict: Mapping[str, Any]) -> list[str]:
    """Return the sentences that explain a verdict (schema verdict/2), checks first, then figures.

    Of a pass they are those on acknowledged regressions. A failed phase that does not decide the verdict comes last.
    """
    result = verdict.get("verdict", PASS)
    known = [_kpi_reason(kpi) for kpi in verdict.get("kpis") or [] if kpi["reading"] == ACKNOWLEDGED]
    if result == PASS:
        return known
    checks = verdict.get("checks") or []
    deciding = [check for check in checks if OF_CHECK.get(check["result"], PASS) == result]
    phases = [
        check
        for check in checks
        if check["check"] == PHASES and check["result"] != PASS and OF_CHECK[check["result"]] != result
    ]
    kpis = [_kpi_reason(kpi) for kpi in verdict.get("kpis") or [] if _verdict_of_kpi(kpi) == result]
    return [*map(_check_reason, deciding), *kpis, *map(_check_reason, phases), *known]


def explain_verdict(verdict: Mapping[str, Any]) -> list[str]:
    """Return the reasons of a verdict; for a pass, how its figures compare with the history, if there is one."""
    if verdict.get("verdict", PASS) != PASS or not verdict.get("baseline"):
        return reasons_of_verdict(verdict)
    return [
        *reasons_of_verdict(verdict),
        *(_kpi_reason(kpi) for kpi in verdict.get("kpis") or [] if kpi["reading"] == PASS),
    ]


def _check_reason(check: Mapping[str, Any]) -> str:
    return f"{check['check']}{_format_point_suffix(check)}: {check['detail']}"


def _kpi_reason(kpi: Mapping[str, Any]) -> str:
    return f"{kpi['name']}{_format_point_suffix(kpi)}: {kpi['why']}"


def _format_point_suffix(entry: Mapping[str, Any]) -> str:
    return f" (point {entry['point']})" if entry.get("point") else ""


def _verdict_of_kpi(kpi: Mapping[str, Any]) -> str:
    return gravest_reading([kpi["reading"], (kpi.get("limit") or {}).get("result", PASS)])


def verdict_with_first_reason(verdict: Mapping[str, Any]) -> str:
    """Return the verdict and its first reason as one line."""
    why = reasons_of_verdict(verdict)
    more = f" ({formats.format_count(len(why) - 1, 'further reason')})" if len(why) > 1 else ""
    return f"{verdict['verdict']}: {why[0]}{more}" if why else str(verdict["verdict"])


def comparison_basis_text(verdict: Mapping[str, Any]) -> str:
    """Return what the run was compared with: "against 18 runs of 4.19.3", "not enough history: 1 past run".

    It says which figures were compared with fewer runs, or with none.
    """
    history = verdict.get("history")
    missing = list((history or {}).get("not_compared") or ())
    if verdict.get("baseline"):
        return "; ".join([f"against {verdict['baseline']}", *_not_compared_texts(missing, named=True)])
    if not history:
        return "no history to compare with"
    used = history["used"]
    if missing:
        return "; ".join(["not enough history", *_not_compared_texts(missing, named=len(missing) > 1)])
    return (
        f"not enough history: {formats.format_count(used, 'comparable past run') if used else 'no comparable past run'}"
    )


def _not_compared_texts(missing: Sequence[Mapping[str, Any]], named: bool) -> list[str]:
    """Return texts on judged figures that not all comparable runs have, those with the fewest runs first."""
    ordered = sorted(missing, key=lambda entry: entry["runs"])
    texts = [
        f"{entry['name'] + ' ' if named else ''}compared with {entry['runs']} of "
        f"{formats.format_count(entry['of'], 'run')}: {entry['why']}"
        for entry in ordered[:NAMED]
    ]
    more = len(ordered) - NAMED
    return texts + ([f"{formats.format_count(more, 'more figure')} not compared with all runs"] if more > 0 else [])


def summarize_history_use(history: Mapping[str, Any]) -> str:
    """Return how many runs of the history are used, and why others are not."""
    reasons_left_out = [f"{len(group['runs'])} {group['why']}" for group in history["left_out"]]
    left = f"; left out: {', '.join(reasons_left_out)}" if reasons_left_out else ""
    return f"{history['used']} of {formats.format_count(history['found'], 'run')} comparable{left}"


def sentence_on_history(verdict: Mapping[str, Any]) -> str:
    """Return what the run was compared with, and which past runs were left out; empty without a history."""
    if not verdict.get("history"):
        return ""
    basis = formats.capitalize_first_letter(comparison_basis_text(verdict))
    return f"{basis}. {summarize_history_use(verdict['history'])}."


def reasons_of_run(run: Run, verdict: Mapping[str, Any]) -> list[str]:
    """Return the reasons of the verdict; without one, the first failure."""
    return explain_verdict(verdict) if verdict else [line for line in run.failures.splitlines() if line][:1]


def render_summary_markdown(run: Run, verdict: Mapping[str, Any], findings: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return summary.md of a run with its verdict (schema verdict/2), which is empty if there is none.

    findings: known causes of what went wrong, as in schema findings/1.
    """
    name = f"{run.record.get('project') or 'run'} {'+'.join(run.record.get('presets') or [])}".strip()
    blocks = [f"# {verdict.get('verdict') or 'no verdict'}: {escape_markdown_line(name)}"]
    why = reasons_of_run(run, verdict)
    bullets = [_reasons_as_bullet_list(why)] if why else []
    answer = [escape_markdown_line(sentence) for sentence in verdict.get("answer") or []]
    rows = list(_kpi_table_lines(verdict))
    table = ["\n".join(rows)] if rows else []
    worse = verdict.get("verdict") == REGRESSION
    blocks += [*bullets, *answer, *table] if worse else [*answer, *table, *bullets]
    blocks += _findings_as_bullet_list(findings)
    blocks += [f"Warning: {escape_markdown_line(warning)}" for warning in verdict.get("warnings") or []]
    if verdict.get("history"):
        blocks.append(escape_markdown_line(sentence_on_history(verdict)))
    return "\n\n".join([*blocks, _run_links_as_list(run)]) + "\n"


def _findings_as_bullet_list(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    if not findings:
        return []
    lines = [
        f"- {escape_markdown_line(format_finding_as_line(finding), 500)}\n"
        f"  {escape_markdown_line(finding['remedy'], 500)}"
        for finding in findings[:FINDINGS]
    ]
    more = len(findings) - FINDINGS
    return ["\n".join(["Known causes:", "", *lines, *([f"- {more} more in findings.json"] if more > 0 else [])])]


def format_finding_as_line(finding: Mapping[str, Any]) -> str:
    """Return a finding (schema findings/1) as one line: what, whose fault, how often, and where that is seen."""
    more = f", {formats.format_count(finding['count'], 'place')}" if finding["count"] > 1 else ""
    runs = finding["past_runs"]
    again = f", also in {formats.format_count(runs, 'past run')} since {finding['first_seen']}" if runs else ""
    first = next(iter(finding["evidence"]), None)
    where = f": {first['file']}:{first['line']}: {first['text']}" if first else ""
    return f"{finding['title']} (fault: {finding['fault']}{more}{again}){where}"


def _reasons_as_bullet_list(why: list[str]) -> str:
    more = (
        [f"{formats.format_count(len(why) - REASONS, 'further reason')} in verdict.json"] if len(why) > REASONS else []
    )
    return "\n".join(f"- {escape_markdown_line(reason)}" for reason in [*why[:REASONS], *more])


def _kpi_table_lines(verdict: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of the figures that matter most: the gravest first."""
    judged = verdict.get("kpis") or []
    kpis = sorted(judged, key=lambda kpi: PRECEDENCE.index(_verdict_of_kpi(kpi)))[:FIGURES]
    if not kpis:
        return
    several = len({kpi["point"] for kpi in judged}) > 1
    yield f"| {'point | ' if several else ''}figure | value | before | change | reading |"
    yield f"|{'---|' if several else ''}---|---|---|---|---|"
    for kpi in kpis:
        cells = [
            *([kpi["point"]] if several else []),
            kpi["title"] + (" (simulated)" if kpi["simulated"] else ""),
            judged_value_text(kpi),
            formats.format_with_unit((kpi.get("old") or {}).get("value"), kpi["unit"]),
            kpi_change_text(kpi),
            _format_kpi_reading(kpi),
        ]
        yield "| " + " | ".join(escape_markdown_line(cell) for cell in cells) + " |"


def judged_value_text(kpi: Mapping[str, Any]) -> str:
    """Return the value of a judged KPI; its bound, as "≥ 18 s", if that is all that is known."""
    if kpi["value"] is None and kpi.get("low") is not None:
        return f"≥ {formats.format_with_unit(kpi['low'], kpi['unit'])}"
    return formats.format_with_unit(kpi["value"], kpi["unit"])


def kpi_change_text(kpi: Mapping[str, Any]) -> str:
    """Return the change of a judged KPI with its interval: +12 % (8 to 16 %); "–" if unknown.

    With several new runs it is that of their mean, which is stated: the value in the same row is that of one run. If of
    some of them only a bound is known, the mean is a bound too.
    """
    if kpi.get("change") is None:
        return "–"
    low, high = kpi.get("change_low"), kpi.get("change_high")
    interval = (
        f" ({formats.format_percent(low)} to {formats.format_percent(high)} %)"
        if low is not None and high is not None
        else ""
    )
    change = formats.format_percent(kpi["change"])
    sign = "+" if kpi["change"] > 0 and change[0].isdigit() else ""
    new = (kpi.get("new") or {}).get("n") or 1
    bounds = sum(
        run["group"] == "new" and run["value"] is None and run["low"] is not None for run in kpi.get("series") or ()
    )
    of = (
        f"the bounds of {new} runs"
        if bounds >= new
        else f"{new} runs" + (f", {bounds} of them bounds" if bounds else "")
    )
    return f"{sign}{change} %{interval}" + (f", mean of {of}" if new > 1 else "")


def _format_kpi_reading(kpi: Mapping[str, Any]) -> str:
    limit = (kpi.get("limit") or {}).get("result")
    parts = [kpi["reading"]] if kpi["reading"] != NOT_JUDGED else []
    return ", ".join([*parts, *([f"{limit} limit" if limit != NOT_MEASURED else limit] if limit else [])]) or "–"


def _run_links_as_list(run: Run) -> str:
    links = [f"run: {run.id}", f"directory: {run.top}"]
    links += ["report: report/index.html"] if (run.top / "report" / "index.html").exists() else []
    links += [f"{export['target']}: {export['address']}" for export in run.record.get("exported") or []]
    return "\n".join(f"- {escape_markdown_line(link)}" for link in links)
