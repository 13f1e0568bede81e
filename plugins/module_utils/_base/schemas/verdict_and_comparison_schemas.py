# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts of runs, and comparisons of runs."""

from __future__ import annotations

from typing import Any

from .result_schemas import CONFIDENCE, VALUE
from .schema_field_types import (
    COUNT,
    FREE,
    MATRIX_POINT_ID,
    MOMENT,
    POINT_ID,
    RUN_ID,
    STAMP,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TRUTH,
    json_line_schema,
    object_schema,
)

#: Verdict -> (code, exit status). Codes ascend with gravity; the exit status is that of a CI job.
VERDICTS = {
    "pass": (0, 0),
    "improvement": (1, 0),
    "inconclusive": (2, 2),
    "invalid": (3, 2),
    "regression": (4, 1),
    "error": (5, 3),
}
#: Results of checks that did not pass, the gravest first.
FAILED_CHECKS = ("error", "invalid", "outside")
NO_HISTORY = "not enough history"
#: The verdict of a document, and its numbers.
JUDGEMENT: dict[str, Any] = {
    "verdict": {"enum": list(VERDICTS)},
    "code": {"enum": [code for code, _status in VERDICTS.values()]},
    "exit_status": {"enum": sorted({status for _code, status in VERDICTS.values()})},
}
#: Readings of a KPI against history, and against a limit.
READINGS = (
    "pass",
    "regression",
    "improvement",
    "inconclusive",
    NO_HISTORY,
    "not measured",
    "not judged",
    "acknowledged",
)
LIMIT_READINGS = ("within", "outside", "across", "not measured")
#: A group of runs: how many have the KPI, and their value.
GROUP = object_schema({"n": COUNT, "value": VALUE})
#: A KPI of a point as the verdict reads it. change and its interval: share of the old value.
JUDGED_KPI = object_schema(
    {
        "point": POINT_ID,
        "name": TEXT,
        "title": TEXT,
        "unit": TEXT,
        "direction": {"enum": ["higher", "lower", "none"]},
        "value": VALUE,
        "reading": {"enum": list(READINGS)},
        "why": TEXT,
        "simulated": TRUTH,
    },
    {
        "low": VALUE,
        "high": VALUE,
        "limit": object_schema({"text": TEXT, "result": {"enum": list(LIMIT_READINGS)}}, {"min": VALUE, "max": VALUE}),
        "method": TEXT,
        "old": GROUP,
        "new": GROUP,
        "change": VALUE,
        "change_low": VALUE,
        "change_high": VALUE,
        "p": VALUE,
        "p_corrected": VALUE,
        # in the order of the runs; run: the first one after the change; before, after: medians
        "change_points": {
            "type": "array",
            "items": object_schema({"run": TEXT, "p": VALUE, "before": VALUE, "after": VALUE}),
        },
        "further_runs": {"anyOf": [COUNT, {"type": "null"}]},
        # What the picture of the report shows: the compared runs in order of time, the attempts of this run last, and
        # the interval in which one more run of the old group is expected.
        "series": {
            "type": "array",
            "items": object_schema(
                {"run": TEXT, "value": VALUE, "group": {"enum": ["old", "new"]}},
                {"low": VALUE, "high": VALUE},
            ),
        },
        "band": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
    },
)
#: Runs of the history that were found, used and left out.
HISTORY = object_schema(
    {
        "sources": TEXTS,
        "found": COUNT,
        "used": COUNT,
        "left_out": {"type": "array", "items": object_schema({"why": TEXT, "runs": TEXTS})},
    },
    {
        # Judged figures that not all comparable runs have: runs that it is compared with, of how many.
        "not_compared": {
            "type": "array",
            "items": object_schema({"point": POINT_ID, "name": TEXT, "runs": COUNT, "of": COUNT, "why": TEXT}),
        },
    },
)
#: Judged figures by all attempts so far. e_value: of the always-valid test; low, high: of its interval.
SCHEDULE_READINGS = {
    "type": "array",
    "items": object_schema(
        {"kpi": TEXT, "reading": {"enum": [*READINGS, *LIMIT_READINGS]}},
        {
            "point": MATRIX_POINT_ID,
            "attempts": COUNT,
            "value": VALUE,
            "low": VALUE,
            "high": VALUE,
            "e_value": VALUE,
            "text": TEXT,
        },
    ),
}

VERDICT: dict[str, dict[str, Any]] = {
    "verdict/1": object_schema(
        {
            "schema": {"const": "verdict/1"},
            "run": RUN_ID,
            "verdict": {"enum": ["pass", "fail", "invalid", "inconclusive"]},
            "checks": {
                "type": "array",
                "items": object_schema(
                    {
                        "check": TEXT,
                        "result": {"enum": ["pass", "fail", "invalid", "no baseline", "not judged"]},
                        "detail": TEXT,
                    },
                    {"point": TEXT_OR_NULL},
                ),
            },
            "baseline": TEXT_OR_NULL,
            "headline": {"type": "array", "items": FREE},
        },
        {
            "selection": TEXT,
            # Sentences: the answer by its definition, and reasons to doubt the figures.
            # Absent in files of older versions.
            "answer": TEXTS,
            "warnings": TEXTS,
        },
    ),
    "verdict/2": object_schema(
        {
            "schema": {"const": "verdict/2"},
            "run": RUN_ID,
            **JUDGEMENT,
            "checks": {
                "type": "array",
                "items": object_schema(
                    {
                        "check": TEXT,
                        "result": {"enum": ["pass", "outside", "invalid", "error", "not judged", NO_HISTORY]},
                        "detail": TEXT,
                    },
                    {"point": TEXT_OR_NULL},
                ),
            },
            "kpis": {"type": "array", "items": JUDGED_KPI},
            "baseline": TEXT_OR_NULL,
            "headline": {"type": "array", "items": FREE},
            # Sentences: the answer by its definition, and reasons to doubt the figures.
            "answer": TEXTS,
            "warnings": TEXTS,
        },
        {
            "cause": TEXT_OR_NULL,  # class of the error that prevented the measurement, from _base/errors.py
            "history": HISTORY,
            "selection": TEXT,
        },
    ),
    # Past runs that the last session of a repetition has read, by source.
    "history/1": object_schema(
        {
            "schema": {"const": "history/1"},
            "session": TEXT,
            "sources": {
                "type": "object",
                "additionalProperties": object_schema(
                    {"runs": {"type": "array", "items": FREE}, "notes": TEXTS, "whole": TRUTH}
                ),
            },
        }
    ),
    "bisection/1": object_schema(
        {
            "schema": {"const": "bisection/1"},
            "run": RUN_ID,
            "over": TEXT,  # the setting
            "kpi": TEXT,
            "values": {"type": "array", "minItems": 2},  # of the setting, from the good one to the bad one
            "measurements": {
                "type": "array",
                # index: in values. at_least: a bound, if the figure itself is unknown
                "items": object_schema({"index": COUNT, "point": POINT_ID, "figure": VALUE}, {"at_least": VALUE}),
            },
            "probabilities": {"type": "array", "items": {"type": "number"}},  # of a step behind each value but the last
            **JUDGEMENT,
            "why": TEXT,
        },
        {
            # index: of the last value before the step
            "step": object_schema({"index": COUNT, "before": {}, "after": {}, "probability": {"type": "number"}}),
            "left_out": {"type": "array", "items": COUNT},  # indices of values where no run had the figure
        },
    ),
    # schedule.jsonl, append-only: which point was measured next, and why.
    "schedule/1": json_line_schema(
        {
            # repeat, bisect: these words as the session was given them
            "session": object_schema(
                {"schema": {"const": "schedule/1"}, "run": RUN_ID, "at": STAMP}, {"repeat": FREE, "bisect": FREE}
            ),
            "decided": object_schema(
                {"at": STAMP, "point": POINT_ID, "attempt": {"type": "integer", "minimum": 1}, "why": TEXT},
                {"readings": SCHEDULE_READINGS, "remaining_budget": VALUE},  # in seconds; null without a budget
            ),
            "finished": object_schema({"at": STAMP, "why": TEXT}, {"readings": SCHEDULE_READINGS}),
        }
    ),
}


RUN_SHOWN = object_schema(
    {"run": TEXT, "label": TEXT, "verdict": TEXT, "simulated": TRUTH}, {"selection": TEXT_OR_NULL}
)
DELTA = object_schema(
    {
        "name": TEXT,
        "title": TEXT,
        "unit": TEXT,
        "direction": {"enum": ["higher", "lower", "none"]},
        "before": VALUE,
        "after": VALUE,
        "difference": VALUE,
        "percent": VALUE,
        "confidence": {"anyOf": [CONFIDENCE, {"type": "null"}]},  # of the difference
        "reading": {"enum": ["better", "worse", "same", "unclear"]},
        "simulated": TRUTH,
        "n": {"type": "array", "items": COUNT},
        "of": {"type": "array", "items": COUNT},
    },
    # before_at_least, after_at_least: the bound of a figure without a value
    {"note": TEXT, "headline": TRUTH, "before_at_least": VALUE, "after_at_least": VALUE},
)
PART = object_schema(
    {
        "name": TEXT,
        "writer": TEXT,
        "before": MOMENT,
        "after": MOMENT,
        "difference": MOMENT,
        "confidence": {"anyOf": [CONFIDENCE, {"type": "null"}]},
        "simulated": TRUTH,
    }
)

#: A figure of a group, compared with the first group. group: its letter.
COMPARED_KPI = {**JUDGED_KPI, "properties": {**JUDGED_KPI["properties"], "group": TEXT}}
#: Runs of the same labels. what: the labels that differ from those of the first group, as text.
COMPARED_GROUP = object_schema({"letter": TEXT, "runs": TEXTS, "what": TEXT})
#: The stage with the largest part in the difference of the mean times. before, after: seconds per workload.
CHANGED = object_schema(
    {
        "group": TEXT,
        "point": TEXT,
        "stage": TEXT,
        "writer": TEXT,
        "before": MOMENT,
        "after": MOMENT,
        "share": {"type": "number"},
        "text": TEXT,
    }
)

_COMPARISON: dict[str, Any] = {
    "made": STAMP,
    "runs": {"type": "array", "items": RUN_SHOWN},
    "settings": {"type": "array", "items": object_schema({"name": TEXT, "values": {"type": "array"}})},
    # one entry per pair of points: one of the first run, one of another
    "pairs": {
        "type": "array",
        "items": object_schema(
            {
                "label": TEXT,
                "run": TEXT,
                "points": TEXTS,
                "kpis": {"type": "array", "items": DELTA},
                "stages": {"type": "array", "items": PART},
                "writers": {"type": "array", "items": PART},
                "total": {"type": "array", "items": VALUE},
            },
            {"sides": TEXTS},  # labels of both; absent in files of before 1.0.0
        ),
    },
    "notes": TEXTS,
}

COMPARISON: dict[str, dict[str, Any]] = {
    # report/comparisons.json: the comparisons that a report links to. path: from the report's folder
    "comparisons/1": object_schema(
        {
            "schema": {"const": "comparisons/1"},
            "comparisons": {"type": "array", "items": object_schema({"path": TEXT, "title": TEXT, "made": STAMP})},
        }
    ),
    "comparison/1": object_schema({"schema": {"const": "comparison/1"}, **_COMPARISON}),
    # verdict and its fields: absent if the points of one run are compared
    "comparison/2": object_schema(
        {"schema": {"const": "comparison/2"}, **_COMPARISON},
        {
            **JUDGEMENT,
            "history": HISTORY,
            "why": TEXTS,
            "kpis": {"type": "array", "items": COMPARED_KPI},
            "groups": {"type": "array", "items": COMPARED_GROUP},
            "changed": {"type": "array", "items": CHANGED},
        },
    ),
}
