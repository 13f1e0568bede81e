# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run in Prometheus' text format, for the textfile collector of the node exporter.

Only one series has the run's id, so that the others continue from run to run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_and_comparison_schemas import (
    READINGS,
    VERDICTS,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    Point,
    Run,
    one_attempt_per_point,
)

#: Name of a series -> its help text.
SERIES = {
    "seatrial_run_info": "The last run, and what it ran on. Always 1.",
    "seatrial_run_end_timestamp_seconds": "Time at which the last session of the run ended.",
    "seatrial_verdict_code": "Verdict as a number: "
    + ", ".join(f"{VERDICTS[verdict][0]} {verdict}" for verdict in VERDICTS)
    + ".",
    "seatrial_verdict": "1 for the verdict of the run, 0 for the others.",
    "seatrial_kpi": "Value of a KPI, in the unit of its label.",
    "seatrial_kpi_low": "Lower end of the interval of a judged KPI.",
    "seatrial_kpi_high": "Upper end of the interval of a judged KPI.",
    "seatrial_kpi_change_ratio": "Change of a judged KPI since the earlier runs, as a share of the earlier value.",
    "seatrial_kpi_reading_code": "Result of a judged KPI: "
    + ", ".join(f"{code} {reading}" for code, reading in enumerate(READINGS))
    + ". A KPI outside its limit is a regression, one across it is inconclusive.",
    "seatrial_kpi_rows": "Rows with a value.",
    "seatrial_kpi_rows_of": "All rows.",
}
_OF_LIMIT = {"outside": "regression", "across": "inconclusive", "not measured": "not measured"}
Sample = tuple[str, Mapping[str, Any], float]


def prometheus_textfile(run: Run, verdict: Mapping[str, Any]) -> str:
    """Return the samples of a run with its verdict (schema verdict/2), which is empty if there is none."""
    samples = [*_run_info_samples(run), *_verdict_samples(run, verdict)]
    lines = []
    for name, text in SERIES.items():
        lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
        lines += [_format_sample_line(*sample) for sample in samples if sample[0] == name]
    return "\n".join(lines) + "\n"


def _common_sample_labels(run: Run) -> dict[str, str]:
    return {"project": run.record.get("project") or "", "preset": "+".join(run.record.get("presets") or [])}


def _run_info_samples(run: Run) -> Iterator[Sample]:
    cluster = run.clusters.get("sutest") or {}
    info = {
        **_common_sample_labels(run),
        "run": run.id,
        "kubernetes": cluster.get("version") or "",
        "openshift": cluster.get("openshift") or "",
        "collection": (run.record.get("versions") or {}).get("perfscale.seatrial") or "",
        "provider": cluster.get("provider") or "",
    }
    yield "seatrial_run_info", info, 1.0
    if run.record.get("ended"):
        ended = datetime.fromisoformat(run.record["ended"]).timestamp()
        yield "seatrial_run_end_timestamp_seconds", _common_sample_labels(run), ended


def _verdict_samples(run: Run, verdict: Mapping[str, Any]) -> Iterator[Sample]:
    common = _common_sample_labels(run)
    if "code" in verdict:
        yield "seatrial_verdict_code", common, verdict["code"]
    result = verdict.get("verdict") or "unknown"
    for name in (*VERDICTS, "unknown"):
        yield "seatrial_verdict", {**common, "verdict": name}, float(name == result)
    judged = {(kpi["point"], kpi["name"]): kpi for kpi in verdict.get("kpis") or []}
    for point in one_attempt_per_point(run.points):
        for kpi in point.kpis or []:
            labels = {
                **common,
                "point": _point_matrix_values(point),
                "kpi": kpi["name"],
                "unit": kpi["unit"],
                "simulated": str(kpi["simulated"]).lower(),
            }
            # That of a repeated point is the mean of its attempts, under the number of the point.
            mean = judged.get((point.of, kpi["name"]), {}) if run.repeats else {}
            for name, value in _kpi_metric_values(
                kpi, mean or judged.get((point.number, kpi["name"]), {}), mean
            ).items():
                if value is not None:
                    yield name, labels, value


def _kpi_metric_values(
    kpi: Mapping[str, Any], judged: Mapping[str, Any], mean: Mapping[str, Any]
) -> dict[str, float | None]:
    return {
        "seatrial_kpi": mean.get("value", kpi["value"]),
        "seatrial_kpi_rows": kpi["n"],
        "seatrial_kpi_rows_of": kpi["of"],
        "seatrial_kpi_low": judged.get("low"),
        "seatrial_kpi_high": judged.get("high"),
        "seatrial_kpi_change_ratio": judged.get("change"),
        "seatrial_kpi_reading_code": _kpi_reading_code(judged) if judged else None,
    }


def _kpi_reading_code(judged: Mapping[str, Any]) -> float:
    result = _OF_LIMIT.get((judged.get("limit") or {}).get("result", ""), judged["reading"])
    return float(READINGS.index("regression" if judged["reading"] == "regression" else result))


def _point_matrix_values(point: Point) -> str:
    """Return the matrix values of a point, which stay the same from run to run, unlike its number and attempts."""
    return ",".join(f"{key}={value}" for key, value in sorted(point.settings.items()))


def _format_sample_line(name: str, labels: Mapping[str, Any], value: float) -> str:
    inside = ",".join(f'{key}="{_escape_label_value(value)}"' for key, value in labels.items())
    return f"{name}{{{inside}}} {float(value)!r}"


def _escape_label_value(text: object) -> str:
    return str(text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
