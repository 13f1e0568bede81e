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
    seconds = sum(float(phase.get("seconds") or 0) for phase in (run.record.get("phases") or {}).values())
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
    several = len({kpi["group"] for kpi in comparison.get("kpis") or []}) > 1
    tests = [
        replace(test, name=f"{kpi['group']} {test.name}" if several else test.name) for kpi, test in _judged(comparison)
    ]
    why = "; ".join(comparison.get("why") or [])
    if result == INVALID:
        cause = Case("comparison", ERROR, why, INVALID)
        tests = [cause, *(_consequence(test, cause) if test.kind == FAILURE else test for test in tests)]
    else:
        tests = [Case("comparison", SKIPPED if result == INCONCLUSIVE else "", why), *tests]
    runs = [str(run["run"]) for run in comparison["runs"]]
    return document("compare", tests, properties={"runs": " ".join(runs), "verdict": result or "none"})


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
    for test in of:
        _add(suite, test, name)
    if output:
        ElementTree.SubElement(suite, "system-out").text = _clean(output)
    ElementTree.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(top, encoding="unicode") + "\n"


def _count(of: list[Case], kind: str) -> int:
    return sum(test.kind == kind for test in of)


def _add(suite: ElementTree.Element, test: Case, classname: str) -> None:
    attributes = {"classname": _clean(classname), "name": _clean(test.name)}
    if test.seconds is not None:
        attributes["time"] = f"{test.seconds:.3f}"
    case = ElementTree.SubElement(suite, "testcase", attributes)
    if test.kind:
        finding = ElementTree.SubElement(case, test.kind, {"message": _clean(test.message)})
        if test.type:
            finding.set("type", _clean(test.type))
    if test.output:
        ElementTree.SubElement(case, "system-out").text = _clean(test.output)


def cases(run: Run, verdict: Mapping[str, Any]) -> list[Case]:
    """Return the cases of a run in the order of events; those that are consequences are skipped, naming their cause."""
    phases = list(_phases(run))
    tested = next((place for place, test in enumerate(phases, start=1) if test.name == "phase test"), len(phases))
    tests = [*phases[:tested], *_points(run), *phases[tested:], *_checks(run, verdict), *_figures(verdict)]
    result = verdict.get("verdict", ERROR)
    if result not in (ERROR, INVALID):
        return tests
    cause = next((test for test in tests if test.kind == ERROR), None)
    if cause is None:
        return [*tests, Case("verdict", ERROR, "There is no verdict.")]
    # Of an invalid run each reason is an error; of an error everything else follows from it.
    kinds = (FAILURE, ERROR) if result == ERROR else (FAILURE,)
    return [_consequence(test, cause) if test is not cause and test.kind in kinds else test for test in tests]


def _consequence(test: Case, cause: Case) -> Case:
    return replace(test, kind=SKIPPED, type="", message=f"Not judged because of {cause.name}: {cause.message}")


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
    for check in verdict.get("checks") or []:
        if (check["check"] == "phases" and run.record.get("phases")) or (check["check"] == "points" and run.points):
            continue  # they have cases
        where = f" {check['point']}" if check.get("point") else ""
        kind = kinds.get(check["result"], "")
        named = {OUTSIDE: REGRESSION, ERROR: str(verdict.get("cause") or ""), INVALID: INVALID}.get(check["result"], "")
        yield Case(f"{check['check']}{where}", kind, check["detail"] if kind else "", named)


def _figures(verdict: Mapping[str, Any]) -> Iterator[Case]:
    return (case for _kpi, case in _judged(verdict))


def _judged(verdict: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Case]]:
    """Yield each judged KPI with its case."""
    for kpi in verdict.get("kpis") or []:
        case = Case(f"{kpi['point']} {kpi['name']}", output=_figure(kpi))
        limit = kpi.get("limit") or {}
        if kpi["reading"] == REGRESSION or limit.get("result") == OUTSIDE:
            case = replace(case, kind=FAILURE, message=kpi.get("why") or limit.get("text") or "", type=REGRESSION)
        elif kpi["reading"] not in _SILENT or limit.get("result", PASS) not in _SILENT:
            case = replace(case, kind=SKIPPED, message=kpi.get("why") or limit.get("text") or kpi["reading"])
        yield kpi, case


def _figure(kpi: Mapping[str, Any]) -> str:
    simulated = " (simulated)" if kpi["simulated"] else ""
    text = "unknown" if kpi["value"] is None else f"{kpi['value']:.6g}"
    return f"{kpi['name']} {text} {kpi['unit']}{simulated}".replace("  ", " ")


def _clean(text: Any) -> str:
    return _NOT_XML.sub("?", str(text))
