# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a run failed: signatures of failures, and what was found of them in a run."""

from __future__ import annotations

from typing import Any

from .field_types import COUNT, POINT_ID, RUN_ID, TEXT, TEXT_OR_NULL, TEXTS, object_schema

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
