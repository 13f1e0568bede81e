# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the KPIs of each point of a run from their definitions; write kpis.json and attribution.json."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite, prod
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, timeline_views
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    Point,
    Result,
    Run,
    process_points_and_note_errors,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_views import rows_by_client

from . import (
    autoscaling_functions,
    censored_quantiles,
    failure_functions,
    fairness_functions,
    incomplete_gang_functions,
    knee_and_capacity_functions,
    kpi_definitions,
    latency_attribution,
    placement_functions,
    request_functions,
    scheduler_functions,
    timeline_functions,
    training_and_metric_functions,
)
from .kpi_definitions import (
    CLIENTS,
    EVICTED,
    FAILED,
    FAILURES,
    JMESPATH,
    LEVELS,
    MARKED,
    OUTAGES,
    PRIORITIES,
    QUEUES,
    REASONS,
    RESUMED,
    SCALED,
    STAGES,
    STEPPED,
    TEMPLATES,
)
from .point_data import FUNCTIONS, KpiValue, PointData
from .point_labels import add_node_kind_labels, labels_of_point
from .read_point_data import read_point_data

#: Files whose import registers their KPI functions in FUNCTIONS.
REGISTERED = (
    knee_and_capacity_functions,
    failure_functions,
    failure_functions,
    fairness_functions,
    incomplete_gang_functions,
    placement_functions,
    request_functions,
    knee_and_capacity_functions,
    autoscaling_functions,
    scheduler_functions,
    timeline_functions,
    training_and_metric_functions,
)
#: Functions of figures that are not of single workloads.
UNDIVIDED = ("metric",)
#: Most KPIs of one definition, such as one for each of many queues.
MOST_OF_DEFINITION = 10_000
#: Key of the header of a timeline whose rows are no workloads, and label of its figures.
ROWS = "rows"
#: Functions that count GPUs.
OF_GPUS = ("gpu_hours", "gpu_hours_per_million_tokens")
WRITTEN = ("kpis.json", "attribution.json")


def compute_point_kpis(
    data: PointData, definitions: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[dict[str, Any], KpiValue]]:
    """Yield each KPI of a point as in schema kpis/2, with its KpiValue.

    Raises InputError when two definitions yield KPIs of the same name.
    """
    seen: set[str] = set()
    for definition in definitions:
        for words in _for_each_combinations(definition, data):
            name = _replace_placeholders(definition["name"], words)
            if name in seen:
                raise InputError(
                    f"KPI '{name}' is defined twice, the second time by '{definition['name']}': rename one"
                )
            seen.add(name)
            kpi, figure = _compute_kpi(definition, words, data)
            if figure.inapplicable and ROWS in data.table.header:
                continue  # figures of pods are none of requests
            _show_with_others(kpi, figure, data)
            if data.parts is None or not figure.simulated or definition["source"].get("function") in UNDIVIDED:
                yield kpi, figure
            else:
                yield from _real_and_simulated_kpis(definition, words, data.parts)


def _show_with_others(kpi: dict[str, Any], figure: KpiValue, data: PointData) -> None:
    """Let a figure that cannot apply to a point, of workloads of another kind, neither lead nor answer."""
    if figure.inapplicable and data.has_definitions:
        kpi.pop("answer", None)
        kpi["headline"] = False


def _real_and_simulated_kpis(
    entry: Mapping[str, Any], words: Mapping[str, str], parts: tuple[PointData, PointData]
) -> Iterator[tuple[dict[str, Any], KpiValue]]:
    """Yield a KPI twice: measured on real nodes under its name, and simulated as ``<name>_simulated``."""
    kpi, figure = _compute_kpi(entry, words, parts[0])
    _show_with_others(kpi, figure, parts[0])
    yield kpi, figure
    kpi, figure = _compute_kpi(entry, words, parts[1])
    kpi |= {"name": f"{kpi['name']}_simulated", "title": f"{kpi['title']} on simulated nodes", "headline": False}
    kpi["simulated"] = True  # also without a value
    kpi["labels"] = {**kpi["labels"], "nodes": timeline_views.SIMULATED}
    kpi.pop("answer", None)
    yield kpi, figure


def _for_each_combinations(entry: Mapping[str, Any], data: PointData) -> Iterator[dict[str, str]]:
    known = {
        STAGES: lambda: _stages_expected_of_workloads(data.table),
        REASONS: lambda: sorted(data.extras.errors),
        QUEUES: lambda: scheduler_functions.distinct_queue_names(data),
        LEVELS: lambda: placement_functions.level_names_of_topology(data),
        PRIORITIES: lambda: scheduler_functions.distinct_priority_names(data),
        STEPPED: lambda: ["steps"] if data.extras.steps else [],
        SCALED: lambda: (
            ["scaled"] if training_and_metric_functions.does_matrix_vary_scale(data, **entry["source"]) else []
        ),
        TEMPLATES: lambda: training_and_metric_functions.workload_template_names(data),
        FAILURES: lambda: failure_functions.failure_kinds_that_hit_workloads(data),
        OUTAGES: lambda: failure_functions.kinds_of_outages(data),
        FAILED: lambda: ["failures"] if data.extras.failures is not None else [],
        EVICTED: lambda: failure_functions.kinds_of_failures_with_evictions(data),
        MARKED: lambda: failure_functions.kinds_of_failures_with_marked_nodes(data),
        RESUMED: lambda: failure_functions.kinds_of_failures_of_trainings(data),
        CLIENTS: lambda: [str(client) for client in rows_by_client(data.table)],
    }
    words = entry.get("for_each") or {}
    values = [list(word) if isinstance(word, list) else known[word]() for word in words.values()]
    if (number := prod(map(len, values))) > MOST_OF_DEFINITION:
        raise DataError(f"KPI '{entry['name']}' would be {number:,} KPIs, and {MOST_OF_DEFINITION:,} are the most")
    for combination in itertools.product(*values):
        yield dict(zip(words, (str(value) for value in combination), strict=True))


def _stages_expected_of_workloads(table: TimelineTable) -> list[str]:
    """Return the stages that every workload should reach: without first pods and failures, and after being sent."""
    return [
        stage["name"]
        for stage in table.stages
        if stage["ends"] != "failed"
        and not stage["name"].endswith("_first")
        and stage["name"] != table.header.get("sent_is")
    ]


def _replace_placeholders(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace("{" + word + "}", text)
        return value
    if isinstance(value, list):
        return [_replace_placeholders(entry, words) for entry in value]
    if isinstance(value, Mapping):
        return {key: _replace_placeholders(entry, words) for key, entry in value.items()}
    return value


def _compute_kpi(
    entry: Mapping[str, Any], words: Mapping[str, str], data: PointData
) -> tuple[dict[str, Any], KpiValue]:
    source = {key: _replace_placeholders(value, words) for key, value in entry["source"].items()}
    if JMESPATH in source:
        figure = _evaluate_jmespath_expression(data, source[JMESPATH])
    else:
        function = source.pop("function")
        figure = FUNCTIONS[function](data, **source)
        if data.extras.simulated_gpus and not figure.simulated and (function in OF_GPUS or source.get("per") == "gpu"):
            figure = replace(figure, simulated=True, note=figure.note or "the GPUs of the nodes are simulated")
    if figure.value is not None and not isfinite(figure.value):  # of a file from elsewhere
        figure = replace(
            figure, value=None, interval=None, confidence=None, replicates=None, note="it is not a finite number"
        )
    name = _replace_placeholders(entry["name"], words)
    spoken = {word: formats.stage_display_name(text) if word == "stage" else text for word, text in words.items()}
    kpi: dict[str, Any] = {
        "name": name,
        "title": _replace_placeholders(entry.get("title", ""), spoken) or name.replace("_", " "),
        "value": figure.value,
        "unit": entry["unit"],
        "direction": entry["direction"],
        "help": " ".join(_replace_placeholders(entry["help"], spoken).split()),
        "n": figure.n,
        "of": figure.of,
        "simulated": figure.simulated,
        "interval": list(figure.interval) if figure.interval else None,
        "confidence": figure.confidence.document() if figure.confidence else None,
        "writers": list(figure.writers),
        "labels": {**figure.labels, **_replace_placeholders(entry.get("labels", {}), words)},
        "headline": bool(entry.get("headline", False)),
    }
    if ROWS in data.table.header:
        kpi |= _with_noun_of_rows(kpi, str(data.table.header[ROWS]))
    note = figure.note
    if figure.at_least is not None:
        kpi["at_least"] = figure.at_least
        note = f"≥ {formats.format_with_unit(figure.at_least, entry['unit'])}: {note}"
    if note:
        kpi["note"] = note
    if entry.get("answer"):
        # Of a load of others it is known when the API server stored a workload, not when it was sent.
        sent = "stored" if data.sent_is else "sent"
        labels = {name: text for name, text in figure.labels.items() if isinstance(text, str)}
        kpi["answer"] = _replace_placeholders(entry["answer"], {**labels, **spoken, "sent": sent})
    return kpi, figure


def _with_noun_of_rows(kpi: Mapping[str, Any], noun: str) -> dict[str, Any]:
    """Return what a KPI of a timeline says whose rows are no workloads: title, unit, definition, and a label."""

    def renamed(text: str) -> str:
        return text.replace("workload", noun).replace("Workload", noun.capitalize())

    labels = {**kpi["labels"], ROWS: f"{noun}s"}
    return {**{key: renamed(kpi[key]) for key in ("title", "unit", "help")}, "labels": labels}


def _evaluate_jmespath_expression(data: PointData, expression: str) -> KpiValue:
    """Return the number that a JMESPath expression selects from the point's document; of a list of numbers the mean."""
    import jmespath

    result = jmespath.search(expression, _point_data_as_document(data))
    simulated = bool(data.simulated_stages)
    many = result if isinstance(result, list) else [result]
    values = [float(number) for number in many if isinstance(number, (int, float)) and not isinstance(number, bool)]
    of = data.of if isinstance(result, list) else 1
    if not values:
        note = "the expression selected no number"
        return KpiValue(None, 0, max(of, len(many)) if isinstance(result, list) else of, simulated, note=note)
    return KpiValue(sum(values) / len(values), len(values), max(of, len(values)), simulated)


def _point_data_as_document(data: PointData) -> dict[str, Any]:
    """Return all data of a point as plain types. Built per expression, because it is large and they are few."""
    records = data.table.records()
    header = next(records)
    return {
        "timeline": {"header": header, "workloads": list(records)},
        "training": list(data.extras.training),
        "errors": dict(data.extras.errors),
        "users": dict(data.extras.users),
        "metrics": {name: metric.document() for name, metric in data.extras.metrics.items()},
    }


def write_kpis_of_point(
    run: Run,
    point: Point,
    definitions: Sequence[Mapping[str, Any]],
    warnings: list[str],
    labels: Mapping[str, Any],
    first: dict[str, tuple[str, KpiValue]],
) -> list[dict[str, Any]]:
    """Write the KPIs and the attribution of a point; return the KPIs.

    first: name -> (point, figure) of the first point with each KPI that has an answer, the reference for later points.
    """
    data = read_point_data(run, point, warnings)
    rows = []
    settings = point.all_settings or {}
    chosen = kpi_definitions.kpis_defined_for_settings(definitions, settings) if data.of else []
    # A figure that a setting chose has the same points as those that have an answer.
    names = {key: name for definition in chosen for key, name in definition.get("answer", {}).get("names", {}).items()}
    for kpi, figure in compute_point_kpis(data, chosen):
        if kpi["name"] == settings.get(kpi_definitions.NAMED_ANSWER):
            kpi.setdefault("answer", {"text": f"{kpi['title']}: {{value}}", **({"names": names} if names else {})})
        if "answer" in kpi:
            kpi |= _difference_from_first_point(first.setdefault(kpi["name"], (point.number, figure)), point, figure)
        rows.append(kpi)
    selection = data.table.header.get("selection")
    all_labels = {**add_node_kind_labels(labels, data.table), **({"selection": selection["text"]} if selection else {})}
    kpis = {"schema": "kpis/2", "run": run.id, "point": point.number, "labels": all_labels, "kpis": rows}
    files.write_json(point.folder / WRITTEN[0], kpis, "kpis/2")
    shares = latency_attribution.attribution_document(data.parts[0] if data.parts else data, run.id, point.number)
    if data.parts:
        shares["nodes"] = timeline_views.REAL
    files.write_json(point.folder / WRITTEN[1], shares, "attribution/1")
    return rows


def _difference_from_first_point(first: tuple[str, KpiValue], point: Point, figure: KpiValue) -> dict[str, Any]:
    number, before = first
    if number == point.number or before.value is None or figure.value is None:
        return {}
    value = figure.value - before.value
    confidence = censored_quantiles.difference_interval(before.replicates, figure.replicates, value)
    document = {"point": number, "value": value, "confidence": confidence.document() if confidence else None}
    return {"difference": document}


def load_and_check_kpi_definitions(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Read and check KPI definitions; see kpi_definitions.load_kpi_definitions()."""
    return kpi_definitions.load_kpi_definitions(paths, FUNCTIONS)


def write_kpis(run_dir: str, definitions: Iterable[str], points: Iterable[str] = ()) -> Result:
    """Write kpis.json and attribution.json of the points from their timelines."""
    run = run_reader.read_run_directory(Path(run_dir))
    loaded = load_and_check_kpi_definitions(definitions)
    first: dict[str, tuple[str, KpiValue]] = {}

    def one(point: Point, warnings: list[str]) -> Result:
        kpis = write_kpis_of_point(run, point, loaded, warnings, labels_of_point(run, point), first)
        return {
            "point": point.number,
            "kpis": len(kpis),
            "without_value": sum(1 for kpi in kpis if kpi["value"] is None),
        }

    result = process_points_and_note_errors(run, points, WRITTEN, one)
    count = sum(row["kpis"] for row in result["points"])
    result["summary"] = (
        f"{formats.format_count(count, 'figure')} in {formats.format_count(len(result['points']), 'point')}"
    )
    return result
