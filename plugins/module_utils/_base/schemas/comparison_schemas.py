# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a comparison of runs."""

from __future__ import annotations

from typing import Any

from .field_types import COUNT, MOMENT, STAMP, TEXT, TEXT_OR_NULL, TEXTS, TRUTH, object_schema
from .result_schemas import CONFIDENCE, VALUE
from .verdict_schemas import HISTORY, JUDGED_KPI, JUDGEMENT

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
GROUP = object_schema({"letter": TEXT, "runs": TEXTS, "what": TEXT})
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
            "groups": {"type": "array", "items": GROUP},
            "changed": {"type": "array", "items": CHANGED},
        },
    ),
}
