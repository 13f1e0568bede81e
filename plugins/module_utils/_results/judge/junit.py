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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

from ..statistics.readings_from_p_values import INCONCLUSIVE, OUTSIDE, REGRESSION
from .overall_verdict import ERROR, INVALID, NOT_JUDGED, PASS, format_finding_as_line

FAILURE, SKIPPED = "failure", "skipped"
#: Readings of figures that are no remark.
_SILENT = ("pass", "improvement", "within")
#: Characters that XML 1.0 does not allow.
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class JUnitTestCase:
    """One test case. kind: ``failure``, ``error``, ``skipped``, or empty for one that passed."""

    name: str
    kind: str = ""
    message: str = ""
    type: str = ""
    seconds: float | None = None
    output: str = ""


def junit_suite_name(run: Run) -> str:
    """Return <project>.<presets>."""
    return f"{run.record.get('project') or 'run'}.{'+'.join(run.record.get('presets') or []) or 'default'}"


def render_run_xml(run: Run, verdict: Mapping[str, Any], findings: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the JUnit XML of a run with its verdict (schema verdict/2), which is empty if there is none.

    findings: known causes of what went wrong, as in schema findings/1; they are the output of the first case that
    did not pass.
    """
    seconds = sum(float(phase.get("seconds") or 0) for phase in (run.record.get("phases") or {}).values())
    properties = {"run": run.id, "verdict": verdict.get("verdict") or "unknown"}
    properties |= {key: verdict[key] for key in ("code", "selection") if key in verdict}
    figures = "\n".join(f"{point.number} {_kpi_value_text(kpi)}" for point in run.points for kpi in point.kpis or [])
    started = str(run.record.get("started") or "")  # with its Z: without a time zone, readers take it as local
    tests = _with_findings(run_test_cases(run, verdict), findings)
    return render_suite_xml(junit_suite_name(run), tests, seconds, started, properties, figures)


def _with_findings(tests: list[JUnitTestCase], findings: Sequence[Mapping[str, Any]]) -> list[JUnitTestCase]:
    """Return the cases, the first error or else failure with the known causes as its output."""
    grave = [test for kind in (ERROR, FAILURE) for test in tests if test.kind == kind]
    if not grave or not findings:
        return tests
    lines = [f"{format_finding_as_line(finding)}\n  {finding['remedy']}" for finding in findings]
    output = "\n".join(["Known causes:", *lines, *([grave[0].output] if grave[0].output else [])])
    return [replace(test, output=output) if test is grave[0] else test for test in tests]


def render_comparison_xml(comparison: Mapping[str, Any]) -> str:
    """Return the JUnit XML of a comparison (schema comparison/2): a case for each judged figure, and for its verdict.

    If the runs must not be compared, that is the only error, and no figure is a failure.
    """
    result = comparison.get("verdict", "")
    several = len({kpi["group"] for kpi in comparison.get("kpis") or []}) > 1
    tests = [
        replace(test, name=f"{kpi['group']} {test.name}" if several else test.name)
        for kpi, test in _judged_kpis_with_cases(comparison)
    ]
    why = "; ".join(comparison.get("why") or [])
    if result == INVALID:
        cause = JUnitTestCase("comparison", ERROR, why, INVALID)
        tests = [cause, *(_skipped_consequence_case(test, cause) if test.kind == FAILURE else test for test in tests)]
    else:
        tests = [JUnitTestCase("comparison", SKIPPED if result == INCONCLUSIVE else "", why), *tests]
    runs = [str(run["run"]) for run in comparison["runs"]]
    return render_suite_xml("compare", tests, properties={"runs": " ".join(runs), "verdict": result or "none"})


def render_suite_xml(
    name: str,
    of: list[JUnitTestCase],
    seconds: float = 0.0,
    started: str = "",
    properties: Mapping[str, Any] | None = None,
    output: str = "",
) -> str:
    """Return JUnit XML with one suite."""
    counts = {
        "tests": len(of),
        "failures": _count_cases_of_kind(of, FAILURE),
        "errors": _count_cases_of_kind(of, ERROR),
    }
    top = ElementTree.Element("testsuites", {key: str(value) for key, value in counts.items()})
    suite = ElementTree.SubElement(top, "testsuite", {"name": _replace_invalid_xml_characters(name), **top.attrib})
    suite.set("skipped", str(_count_cases_of_kind(of, SKIPPED)))
    suite.set("time", f"{seconds:.3f}")
    if started:
        suite.set("timestamp", _replace_invalid_xml_characters(started))
    if properties:
        inside = ElementTree.SubElement(suite, "properties")
        for key, value in properties.items():
            ElementTree.SubElement(
                inside,
                "property",
                {"name": _replace_invalid_xml_characters(key), "value": _replace_invalid_xml_characters(value)},
            )
    for test in of:
        _add_case_element(suite, test, name)
    if output:
        ElementTree.SubElement(suite, "system-out").text = _replace_invalid_xml_characters(output)
    ElementTree.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(top, encoding="unicode") + "\n"


def _count_cases_of_kind(of: list[JUnitTestCase], kind: str) -> int:
    return sum(test.kind == kind for test in of)


def _add_case_element(suite: ElementTree.Element, test: JUnitTestCase, classname: str) -> None:
    attributes = {
        "classname": _replace_invalid_xml_characters(classname),
        "name": _replace_invalid_xml_characters(test.name),
    }
    if test.seconds is not None:
        attributes["time"] = f"{test.seconds:.3f}"
    case = ElementTree.SubElement(suite, "testcase", attributes)
    if test.kind:
        finding = ElementTree.SubElement(case, test.kind, {"message": _replace_invalid_xml_characters(test.message)})
        if test.type:
            finding.set("type", _replace_invalid_xml_characters(test.type))
    if test.output:
        ElementTree.SubElement(case, "system-out").text = _replace_invalid_xml_characters(test.output)


def run_test_cases(run: Run, verdict: Mapping[str, Any]) -> list[JUnitTestCase]:
    """Return the cases of a run in the order of events; those that are consequences are skipped, naming their cause."""
    phases = list(_phase_test_cases(run))
    tested = next((place for place, test in enumerate(phases, start=1) if test.name == "phase test"), len(phases))
    tests = [
        *phases[:tested],
        *_point_test_cases(run),
        *phases[tested:],
        *_check_test_cases(run, verdict),
        *_judged_kpi_cases(verdict),
    ]
    result = verdict.get("verdict", ERROR)
    if result not in (ERROR, INVALID):
        return tests
    cause = next((test for test in tests if test.kind == ERROR), None)
    if cause is None:
        return [*tests, JUnitTestCase("verdict", ERROR, "There is no verdict.")]
    # Of an invalid run each reason is an error; of an error everything else follows from it.
    kinds = (FAILURE, ERROR) if result == ERROR else (FAILURE,)
    return [
        _skipped_consequence_case(test, cause) if test is not cause and test.kind in kinds else test for test in tests
    ]


def _skipped_consequence_case(test: JUnitTestCase, cause: JUnitTestCase) -> JUnitTestCase:
    return replace(test, kind=SKIPPED, type="", message=f"Not judged because of {cause.name}: {cause.message}")


def _phase_test_cases(run: Run) -> Iterator[JUnitTestCase]:
    known: Mapping[str, Mapping[str, Any]] = run.record.get("phases") or {}
    failed_points = any(point.record.get("status") == "failed" for point in run.points)
    last = list(known)[-1] if known else ""
    for name, phase in known.items():
        case = JUnitTestCase(f"phase {name}", seconds=phase.get("seconds"))
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


def _point_test_cases(run: Run) -> Iterator[JUnitTestCase]:
    there = {point.number: point for point in run.points}
    for number in dict.fromkeys([*there, *(run.record.get("points") or [])]):
        record = there[number].record if number in there else {}
        case = JUnitTestCase(f"point {number}", seconds=_record_duration_seconds(record))
        status = record.get("status")
        if status == "failed":
            text = " ".join(str(record.get("error") or "no reason was recorded").split())
            case = replace(case, kind=ERROR, message=text, type=str(record.get("cause") or ""))
        elif status == "running":
            case = replace(case, kind=ERROR, message="The point was started, but did not end.", type="Interrupted")
        elif status in ("planned", "skipped") or number not in there:
            case = replace(case, kind=SKIPPED, message=str(record.get("why") or "The point was not measured."))
        yield case


def _record_duration_seconds(record: Mapping[str, Any]) -> float | None:
    try:
        return (datetime.fromisoformat(record["ended"]) - datetime.fromisoformat(record["started"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return None


def _check_test_cases(run: Run, verdict: Mapping[str, Any]) -> Iterator[JUnitTestCase]:
    kinds = {OUTSIDE: FAILURE, INVALID: ERROR, ERROR: ERROR, NOT_JUDGED: SKIPPED}
    for check in verdict.get("checks") or []:
        if (check["check"] == "phases" and run.record.get("phases")) or (check["check"] == "points" and run.points):
            continue  # they have cases
        where = f" {check['point']}" if check.get("point") else ""
        kind = kinds.get(check["result"], "")
        named = {OUTSIDE: REGRESSION, ERROR: str(verdict.get("cause") or ""), INVALID: INVALID}.get(check["result"], "")
        yield JUnitTestCase(f"{check['check']}{where}", kind, check["detail"] if kind else "", named)


def _judged_kpi_cases(verdict: Mapping[str, Any]) -> Iterator[JUnitTestCase]:
    return (case for _kpi, case in _judged_kpis_with_cases(verdict))


def _judged_kpis_with_cases(verdict: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], JUnitTestCase]]:
    """Yield each judged KPI with its case."""
    for kpi in verdict.get("kpis") or []:
        case = JUnitTestCase(f"{kpi['point']} {kpi['name']}", output=_kpi_value_text(kpi))
        limit = kpi.get("limit") or {}
        if kpi["reading"] == REGRESSION or limit.get("result") == OUTSIDE:
            case = replace(case, kind=FAILURE, message=kpi.get("why") or limit.get("text") or "", type=REGRESSION)
        elif kpi["reading"] not in _SILENT or limit.get("result", PASS) not in _SILENT:
            case = replace(case, kind=SKIPPED, message=kpi.get("why") or limit.get("text") or kpi["reading"])
        yield kpi, case


def _kpi_value_text(kpi: Mapping[str, Any]) -> str:
    simulated = " (simulated)" if kpi["simulated"] else ""
    bound = kpi.get("at_least", kpi.get("low"))
    without = "unknown" if bound is None else f"≥ {bound:.6g}"
    text = without if kpi["value"] is None else f"{kpi['value']:.6g}"
    return f"{kpi['name']} {text} {kpi['unit']}{simulated}".replace("  ", " ")


def _replace_invalid_xml_characters(text: Any) -> str:
    return _NOT_XML.sub("?", str(text))
