# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JUnit XML of a run: a test case for each phase, test point, check and judged figure.

A regression is a ``failure``. What made the run an error or invalid is an ``error``; its consequences are ``skipped``
and name it, so that one unreachable cluster is one error and never a failure. A figure that could not be decided is
``skipped`` too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

from ..statistics.readings import INCONCLUSIVE, OUTSIDE, REGRESSION
from .overall_verdict import ERROR, INVALID, NOT_JUDGED, PASS

FAILURE, SKIPPED = "failure", "skipped"
#: Readings of figures that are no remark.
_SILENT = ("pass", "improvement", "within")
#: Characters that XML 1.0 does not allow.
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Case:
    """One test case. kind: ``failure``, ``error``, ``skipped``, or empty for one that passed."""

    name: str
    kind: str = ""
    message: str = ""
    type: str = ""
    seconds: float | None = None
    output: str = ""


def suite_name(run: Run) -> str:
    """Return <project>.<presets>."""
    return f"{run.record.get('project') or 'run'}.{'+'.join(run.record.get('presets') or []) or 'default'}"


def junit(run: Run, verdict: Mapping[str, Any]) -> str:
    """Return the JUnit XML of a run with its verdict (schema verdict/2), which is empty if there is none."""
    seconds = sum(float(one.get("seconds") or 0) for one in (run.record.get("phases") or {}).values())
    properties = {"run": run.id, "verdict": verdict.get("verdict") or "unknown"}
    properties |= {key: verdict[key] for key in ("code", "selection") if key in verdict}
    figures = "\n".join(f"{point.number} {_figure(kpi)}" for point in run.points for kpi in point.kpis or [])
    started = str(run.record.get("started") or "").removesuffix("Z")
    return document(suite_name(run), cases(run, verdict), seconds, started, properties, figures)


def of_comparison(comparison: Mapping[str, Any]) -> str:
    """Return the JUnit XML of a comparison (schema comparison/2): a case for each judged figure, and for its verdict.

    If the runs must not be compared, that is the only error, and no figure is a failure.
    """
    result = comparison.get("verdict", "")
    several = len({one["group"] for one in comparison.get("kpis") or []}) > 1
    found = [
        replace(one, name=f"{kpi['group']} {one.name}" if several else one.name) for kpi, one in _judged(comparison)
    ]
    why = "; ".join(comparison.get("why") or [])
    if result == INVALID:
        cause = Case("comparison", ERROR, why, INVALID)
        found = [cause, *(_consequence(one, cause) if one.kind == FAILURE else one for one in found)]
    else:
        found = [Case("comparison", SKIPPED if result == INCONCLUSIVE else "", why), *found]
    runs = [str(one["run"]) for one in comparison["runs"]]
    return document("compare", found, properties={"runs": " ".join(runs), "verdict": result or "none"})


def document(
    name: str,
    of: list[Case],
    seconds: float = 0.0,
    started: str = "",
    properties: Mapping[str, Any] | None = None,
    output: str = "",
) -> str:
    """Return JUnit XML with one suite."""
    counts = {"tests": len(of), "failures": _count(of, FAILURE), "errors": _count(of, ERROR)}
    top = ElementTree.Element("testsuites", {key: str(value) for key, value in counts.items()})
    suite = ElementTree.SubElement(top, "testsuite", {"name": _clean(name), **top.attrib})
    suite.set("skipped", str(_count(of, SKIPPED)))
    suite.set("time", f"{seconds:.3f}")
    if started:
        suite.set("timestamp", _clean(started))
    if properties:
        inside = ElementTree.SubElement(suite, "properties")
        for key, value in properties.items():
            ElementTree.SubElement(inside, "property", {"name": _clean(key), "value": _clean(value)})
    for one in of:
        _add(suite, one, name)
    if output:
        ElementTree.SubElement(suite, "system-out").text = _clean(output)
    ElementTree.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(top, encoding="unicode") + "\n"


def _count(of: list[Case], kind: str) -> int:
    return sum(one.kind == kind for one in of)


def _add(suite: ElementTree.Element, one: Case, classname: str) -> None:
    attributes = {"classname": _clean(classname), "name": _clean(one.name)}
    if one.seconds is not None:
        attributes["time"] = f"{one.seconds:.3f}"
    case = ElementTree.SubElement(suite, "testcase", attributes)
    if one.kind:
        finding = ElementTree.SubElement(case, one.kind, {"message": _clean(one.message)})
        if one.type:
            finding.set("type", _clean(one.type))
    if one.output:
        ElementTree.SubElement(case, "system-out").text = _clean(one.output)


def cases(run: Run, verdict: Mapping[str, Any]) -> list[Case]:
    """Return the cases of a run in the order of events; those that are consequences are skipped, naming their cause."""
    phases = list(_phases(run))
    tested = next((place for place, one in enumerate(phases, start=1) if one.name == "phase test"), len(phases))
    found = [*phases[:tested], *_points(run), *phases[tested:], *_checks(run, verdict), *_figures(verdict)]
    result = verdict.get("verdict", ERROR)
    if result not in (ERROR, INVALID):
        return found
    cause = next((one for one in found if one.kind == ERROR), None)
    if cause is None:
        return [*found, Case("verdict", ERROR, "There is no verdict.")]
    # Of an invalid run each reason is an error; of an error everything else follows from it.
    kinds = (FAILURE, ERROR) if result == ERROR else (FAILURE,)
    return [_consequence(one, cause) if one is not cause and one.kind in kinds else one for one in found]


def _consequence(one: Case, cause: Case) -> Case:
    return replace(one, kind=SKIPPED, type="", message=f"Not judged because of {cause.name}: {cause.message}")


def _phases(run: Run) -> Iterator[Case]:
    known: Mapping[str, Mapping[str, Any]] = run.record.get("phases") or {}
    failed_points = any(point.record.get("status") == "failed" for point in run.points)
    last = list(known)[-1] if known else ""
    for name, phase in known.items():
        case = Case(f"phase {name}", seconds=phase.get("seconds"))
        status = phase.get("status")
        text = " ".join(str(phase.get("error") or "no reason was recorded").split())
        if status == "failed" and name == "test" and failed_points:
            case = replace(case, kind=SKIPPED, message=f"Test points failed: {text}")
        elif status == "failed":
            case = replace(case, kind=ERROR, message=text, type=str(phase.get("cause") or ""))
        elif status == "interrupted" or (status == "running" and name != last):
            case = replace(case, kind=ERROR, message="The run was interrupted in this phase.", type="Interrupted")
        elif status == "skipped":
            case = replace(case, kind=SKIPPED, message="The phase had nothing to do.")
        yield case


def _points(run: Run) -> Iterator[Case]:
    there = {point.number: point for point in run.points}
    for number in dict.fromkeys([*there, *(run.record.get("points") or [])]):
        record = there[number].record if number in there else {}
        case = Case(f"point {number}", seconds=_seconds(record))
        status = record.get("status")
        if status == "failed":
            text = " ".join(str(record.get("error") or "no reason was recorded").split())
            case = replace(case, kind=ERROR, message=text, type=str(record.get("cause") or ""))
        elif status == "running":
            case = replace(case, kind=ERROR, message="The point was started, but did not end.", type="Interrupted")
        elif status in ("planned", "skipped") or number not in there:
            case = replace(case, kind=SKIPPED, message=str(record.get("why") or "The point was not measured."))
        yield case


def _seconds(record: Mapping[str, Any]) -> float | None:
    try:
        return (datetime.fromisoformat(record["ended"]) - datetime.fromisoformat(record["started"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return None


def _checks(run: Run, verdict: Mapping[str, Any]) -> Iterator[Case]:
    kinds = {OUTSIDE: FAILURE, INVALID: ERROR, ERROR: ERROR, NOT_JUDGED: SKIPPED}
    for one in verdict.get("checks") or []:
        if (one["check"] == "phases" and run.record.get("phases")) or (one["check"] == "points" and run.points):
            continue  # they have cases
        where = f" {one['point']}" if one.get("point") else ""
        kind = kinds.get(one["result"], "")
        named = {OUTSIDE: REGRESSION, ERROR: str(verdict.get("cause") or ""), INVALID: INVALID}.get(one["result"], "")
        yield Case(f"{one['check']}{where}", kind, one["detail"] if kind else "", named)


def _figures(verdict: Mapping[str, Any]) -> Iterator[Case]:
    return (case for _kpi, case in _judged(verdict))


def _judged(verdict: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Case]]:
    """Yield each judged KPI with its case."""
    for one in verdict.get("kpis") or []:
        case = Case(f"{one['point']} {one['name']}", output=_figure(one))
        limit = one.get("limit") or {}
        if one["reading"] == REGRESSION or limit.get("result") == OUTSIDE:
            case = replace(case, kind=FAILURE, message=one.get("why") or limit.get("text") or "", type=REGRESSION)
        elif one["reading"] not in _SILENT or limit.get("result", PASS) not in _SILENT:
            case = replace(case, kind=SKIPPED, message=one.get("why") or limit.get("text") or one["reading"])
        yield one, case


def _figure(kpi: Mapping[str, Any]) -> str:
    simulated = " (simulated)" if kpi["simulated"] else ""
    text = "unknown" if kpi["value"] is None else f"{kpi['value']:.6g}"
    return f"{kpi['name']} {text} {kpi['unit']}{simulated}".replace("  ", " ")


def _clean(text: Any) -> str:
    return _NOT_XML.sub("?", str(text))
