# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run tells others: why it failed, by signatures of failures; its answer with figures and verdict."""

from __future__ import annotations

from typing import Any

from .field_types import (
    COUNT,
    FREE,
    MATRIX_POINT_ID,
    POINT_ID,
    RUN_ID,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TRUTH,
    object_schema,
)
from .result_schemas import VALUE
from .verdict_schemas import LIMIT_READINGS, READINGS, VERDICTS

#: Whose fault a failure is.
FAULT = {"enum": ["test", "product", "lab"]}
#: Where the texts of a run are, the most direct ones first.
PLACES = ("errors", "requests", "pods", "objects", "nodes", "events", "logs")
#: A line of a file of the run, without secrets. about: the object that it is about.
EVIDENCE = object_schema({"file": TEXT, "line": {"type": "integer", "minimum": 1}, "text": TEXT}, {"about": TEXT})
#: A cause that was found. count: lines that show it. past_runs: runs of the history that had it too.
FINDING = object_schema(
    {
        "signature": TEXT,
        "title": TEXT,
        "fault": FAULT,
        "remedy": TEXT,
        "count": COUNT,
        "places": {"type": "array", "items": {"enum": list(PLACES)}},
        "points": {"type": "array", "items": POINT_ID},
        "evidence": {"type": "array", "items": EVIDENCE},
        "past_runs": COUNT,
        "first_seen": TEXT_OR_NULL,  # run id
    }
)
#: A figure of a point. low, high: of its confidence interval, or of the interval in which it was measured, as in
#: ``bounds``. at_least: all that is known of a figure without a value. n of of: rows behind it.
FIGURE = object_schema(
    {
        "title": TEXT,
        "unit": TEXT,
        "direction": {"enum": ["higher", "lower", "none"]},
        "value": VALUE,
        "low": VALUE,
        "high": VALUE,
        "bounds": {"enum": ["confidence", "measurement", None]},
        "at_least": VALUE,
        "n": COUNT,
        "of": COUNT,
        "simulated": TRUTH,
        "reading": {"enum": [*READINGS, None]},
        "limit": {"enum": [*LIMIT_READINGS, None]},
    }
)

FINDINGS: dict[str, dict[str, Any]] = {
    "signatures/1": {
        "type": "array",
        "items": object_schema(
            {"name": TEXT, "title": TEXT, "fault": FAULT, "remedy": TEXT, "patterns": TEXTS},
            {
                "in": {"type": "array", "items": {"enum": list(PLACES)}},
                "not": TEXTS,
                "causes": TEXTS,
                "yields_to": TEXTS,
            },
        ),
    },
    "answer/1": object_schema(
        {
            "schema": {"const": "answer/1"},
            "run": {"anyOf": [RUN_ID, {"const": "unknown"}]},
            "project": TEXT,
            "presets": TEXTS,
            "status": TEXT,  # running, passed, failed, interrupted, unknown
            "started": TEXT_OR_NULL,
            "ended": TEXT_OR_NULL,
            "verdict": {"enum": [*VERDICTS, None]},  # null: the run was not judged
            "exit_status": {"anyOf": [COUNT, {"type": "null"}]},  # of a CI job
            "answer": TEXTS,
            "reasons": TEXTS,
            "warnings": TEXTS,
            "simulated": TRUTH,  # any figure
            # by point of the matrix; of several attempts, figures are means
            "points": {
                "type": "array",
                "items": object_schema(
                    {
                        "point": MATRIX_POINT_ID,
                        "status": TEXT,
                        "settings": FREE,  # values of the matrix
                        "attempts": COUNT,
                        "figures": {"type": "object", "additionalProperties": FIGURE},  # by name
                    }
                ),
            },
            "findings": {"type": "array", "items": FINDING},
            "held": TEXTS,  # what is not given back yet
            "directory": TEXT,
            "report": TEXT_OR_NULL,  # path in the directory
            "links": {"type": "object", "additionalProperties": TEXT},  # target of an export -> address
        }
    ),
    "findings/1": object_schema(
        {
            "schema": {"const": "findings/1"},
            "run": {"anyOf": [RUN_ID, {"const": "unknown"}]},
            "findings": {"type": "array", "items": FINDING},
            "unexplained": {"type": "array", "items": EVIDENCE},  # errors that no signature matches
            # of the history: how many runs, and signature -> ids of the runs that had it, oldest first
            "past": object_schema(
                {"runs": COUNT, "signatures": {"type": "object", "additionalProperties": TEXTS}},
            ),
        }
    ),
}
