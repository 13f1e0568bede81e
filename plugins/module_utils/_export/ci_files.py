# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files for CI systems: JUnit XML (one test case per check) and Prometheus textfile (one sample per KPI)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.run_reader import Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._schemas.verdict_schemas import NO_HISTORY, VERDICTS

#: Results of checks that neither pass nor fail.
SKIPPED = ("not judged", NO_HISTORY)
#: Result of a check -> element of its test case.
ELEMENTS = {"outside": "failure", "invalid": "error", "error": "error", **dict.fromkeys(SKIPPED, "skipped")}
#: Characters that XML 1.0 does not allow.
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(run: Run, verdict: Mapping[str, Any]) -> str:
    """Return JUnit XML: a suite of the checks of the verdict, KPIs as properties."""
    checks = list(verdict.get("checks") or [])
    if not checks:
        checks = [{"check": "verdict", "result": "error", "detail": "There is no verdict.", "point": None}]
    name = f"{run.record.get('project') or 'run'}.{'+'.join(run.record.get('presets') or []) or 'default'}"
    counts = {
        "tests": len(checks),
        "failures": sum(one["result"] == "outside" for one in checks),
        "errors": sum(one["result"] in ("invalid", "error") for one in checks),
        "skipped": sum(one["result"] in SKIPPED for one in checks),
    }
    seconds = sum(float(one.get("seconds") or 0) for one in (run.record.get("phases") or {}).values())
    top = ElementTree.Element("testsuites", {key: str(value) for key, value in counts.items()})
    suite = ElementTree.SubElement(top, "testsuite", {"name": _clean(name), **{k: str(v) for k, v in counts.items()}})
    suite.set("time", f"{seconds:.3f}")
    if run.record.get("started"):
        suite.set("timestamp", str(run.record["started"]).removesuffix("Z"))
    properties = ElementTree.SubElement(suite, "properties")
    _property(properties, "run", run.id)
    _property(properties, "verdict", verdict.get("verdict") or "unknown")
    if verdict.get("selection"):
        _property(properties, "selection", verdict["selection"])
    for point in run.points:
        for kpi in point.kpis or []:
            suffix = " (simulated)" if kpi["simulated"] else ""
            text = "unknown" if kpi["value"] is None else f"{kpi['value']:.6g}"
            _property(properties, f"{point.number}.{kpi['name']}", f"{text} {kpi['unit']}{suffix}".replace("  ", " "))
    for one in checks:
        where = f" point {one['point']}" if one.get("point") else ""
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": _clean(name), "name": _clean(f"{one['check']}{where}")}
        )
        kind = ELEMENTS.get(one["result"])
        if kind:
            ElementTree.SubElement(case, kind, {"message": _clean(one["detail"])})
    ElementTree.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(top, encoding="unicode") + "\n"


def _property(of: Any, name: str, value: Any) -> None:
    ElementTree.SubElement(of, "property", {"name": _clean(name), "value": _clean(value)})


def _clean(text: Any) -> str:
    return _NOT_XML.sub("?", str(text))


def textfile(run: Run, verdict: Mapping[str, Any]) -> str:
    """Return samples in Prometheus' text format, for the textfile collector of the node exporter."""
    common = {"project": run.record.get("project") or "", "preset": "+".join(run.record.get("presets") or [])}
    lines = [
        "# HELP seatrial_verdict Verdict of the run: 1 for its verdict, 0 for the others.",
        "# TYPE seatrial_verdict gauge",
    ]
    found = verdict.get("verdict") or "unknown"
    for one in (*VERDICTS, "unknown"):
        lines.append(_sample("seatrial_verdict", {**common, "run": run.id, "verdict": one}, float(one == found)))
    groups: dict[str, list[str]] = {"seatrial_kpi": [], "seatrial_kpi_rows": [], "seatrial_kpi_rows_of": []}
    for point in run.points:
        for kpi in point.kpis or []:
            labels = {
                **common,
                "run": run.id,
                "point": point.number,
                "kpi": kpi["name"],
                "unit": kpi["unit"],
                "simulated": str(kpi["simulated"]).lower(),
            }
            if kpi["value"] is not None:
                groups["seatrial_kpi"].append(_sample("seatrial_kpi", labels, kpi["value"]))
            groups["seatrial_kpi_rows"].append(_sample("seatrial_kpi_rows", labels, kpi["n"]))
            groups["seatrial_kpi_rows_of"].append(_sample("seatrial_kpi_rows_of", labels, kpi["of"]))
    helps = {
        "seatrial_kpi": "Value of a KPI, in the unit of its label.",
        "seatrial_kpi_rows": "Rows with a value.",
        "seatrial_kpi_rows_of": "All rows.",
    }
    for name, samples in groups.items():
        lines += [f"# HELP {name} {helps[name]}", f"# TYPE {name} gauge", *samples]
    return "\n".join(lines) + "\n"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(one)}"' for key, one in labels.items())
    return f"{name}{{{inside}}} {float(value)!r}"


def _escaped(text: str) -> str:
    return str(text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
