# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files by which a run meets others: metrics of a server, comparisons of runs, what was exported."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._schemas.field_types import (
    COUNT,
    FREE,
    MOMENT,
    POINT_ID,
    RUN_ID,
    STAMP,
    TEXT,
    TEXT_OR_NULL,
    TRUTH,
    line_of,
    record,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._schemas.result_schemas import CONFIDENCE, VALUE

TEXTS = {"type": "array", "items": TEXT}
RUN_SHOWN = record({"run": TEXT, "label": TEXT, "verdict": TEXT, "simulated": TRUTH}, {"selection": TEXT_OR_NULL})
DELTA = record(
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
    {"note": TEXT, "headline": TRUTH},
)
PART = record(
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

EXCHANGE: dict[str, dict[str, Any]] = {
    # Queries, as they lie beside a project.
    "metric_queries/1": {
        "type": "array",
        "items": record({"name": TEXT, "query": TEXT, "unit": TEXT}, {"help": TEXT, "labels": TEXTS}),
    },
    "metrics/1": line_of(
        {
            "header": record(
                {
                    "schema": {"const": "metrics/1"},
                    "run": RUN_ID,
                    "point": POINT_ID,
                    "server": TEXT,
                    "from": MOMENT,
                    "to": MOMENT,
                    "step": {"type": "number", "exclusiveMinimum": 0},
                }
            ),
            "metric": record(
                {
                    "name": TEXT,
                    "query": TEXT,
                    "unit": TEXT,
                    "help": TEXT,
                    "per": TEXTS,
                    "error": TEXT_OR_NULL,
                    "series": {
                        "type": "array",
                        "items": record(
                            {
                                "labels": FREE,
                                "moments": {"type": "array", "items": MOMENT},
                                "values": {"type": "array", "items": VALUE},
                            }
                        ),
                    },
                }
            ),
        }
    ),
    # report/comparisons.json: the comparisons that a report links to. path: from the report's folder
    "comparisons/1": record(
        {
            "schema": {"const": "comparisons/1"},
            "comparisons": {"type": "array", "items": record({"path": TEXT, "title": TEXT, "made": STAMP})},
        }
    ),
    "comparison/1": record(
        {
            "schema": {"const": "comparison/1"},
            "made": STAMP,
            "runs": {"type": "array", "items": RUN_SHOWN},
            "settings": {"type": "array", "items": record({"name": TEXT, "values": {"type": "array"}})},
            # one entry a pair of points: the first run's with one of another
            "pairs": {
                "type": "array",
                "items": record(
                    {
                        "label": TEXT,
                        "run": TEXT,
                        "points": TEXTS,
                        "kpis": {"type": "array", "items": DELTA},
                        "stages": {"type": "array", "items": PART},
                        "writers": {"type": "array", "items": PART},
                        "total": {"type": "array", "items": VALUE},
                    },
                ),
            },
            "notes": TEXTS,
        }
    ),
    # Beside exported files: what they are, so that whoever fetches them can tell whether they are whole.
    "manifest/1": record(
        {
            "schema": {"const": "manifest/1"},
            "run": TEXT,
            "status": {"enum": ["valid", "invalid"]},
            "verdict": TEXT,
            "files": {
                "type": "array",
                "items": record({"name": TEXT, "bytes": COUNT, "sha256": TEXT}),
            },
        }
    ),
}
