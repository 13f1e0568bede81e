# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files at the top of a run directory: what ran, why it failed by signatures of failures, and its answer."""

from __future__ import annotations

from typing import Any

from .cluster_schemas import CLUSTER
from .result_schemas import VALUE
from .schema_field_types import (
    COUNT,
    FREE,
    MATRIX_POINT_ID,
    POINT_ID,
    RUN_ID,
    STAMP,
    STAMP_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TRUTH,
    object_schema,
)
from .verdict_and_comparison_schemas import LIMIT_READINGS, READINGS, VERDICTS

PHASE = object_schema(
    {"status": {"enum": ["running", "passed", "skipped", "failed", "interrupted"]}, "started": STAMP},
    {
        "ended": STAMP_OR_NULL,
        "seconds": {"type": ["number", "null"], "minimum": 0},
        "error": TEXT_OR_NULL,
        "cause": TEXT_OR_NULL,  # class of the error, from module_utils/_base/errors.py
    },
)

#: ends: what happens at ``until``; empty for nothing.
HELD = object_schema({"what": TEXT, "since": STAMP}, {"until": STAMP_OR_NULL, "ends": TEXT, "where": TEXT})

RUN: dict[str, dict[str, Any]] = {
    "run/1": object_schema(
        {
            "schema": {"const": "run/1"},
            "id": RUN_ID,
            "project": TEXT,
            "presets": TEXTS,
            "status": {"enum": ["running", "passed", "failed", "interrupted"]},
            "started": STAMP,
            "command": TEXT,
            "give_back": TEXT,
            "git": object_schema({"revision": TEXT_OR_NULL, "dirty": {"type": ["boolean", "null"]}}),
            "versions": {"type": "object", "additionalProperties": TEXT},
            "environment": FREE,
            "phases": {"type": "object", "additionalProperties": PHASE},
            "clusters": {"type": "object", "additionalProperties": CLUSTER},
            "points": {"type": "array", "items": MATRIX_POINT_ID},
            "held": {"type": "array", "items": HELD},
        },
        {
            "ended": STAMP_OR_NULL,
            # where the run was made: a copy of its directory holds nothing; absent in runs of older versions
            "directory": TEXT,
            # number of that directory in its file system; absent in runs of older versions
            "inode": COUNT,
            # full name of the project's role; absent in runs of older versions, whose roles were all of this collection
            "role": TEXT,
            # roles whose settings the project reads, and all others; absent in runs of older versions
            "roles": object_schema({"read": TEXTS, "other": TEXTS}),
            "sessions": {
                "type": "array",
                "items": object_schema(
                    # pid and began (seconds since the epoch) identify the ansible-playbook process. held: resources
                    # held at the start of a session that may acquire some; kept: whether its -e apply later.
                    # ended: absent while a session runs, and after it was cut short.
                    {"started": STAMP, "command": TEXT, "tags": TEXTS},
                    {
                        "pid": COUNT,
                        "began": {"type": "number"},
                        "ended": STAMP,
                        "held": TEXTS,
                        "kept": TRUTH,
                    },
                ),
            },
            # destinations of exports, and the source of a replot
            "exported": {
                "type": "array",
                "items": object_schema(
                    {"target": TEXT, "address": TEXT, "status": {"enum": ["valid", "invalid"]}, "at": STAMP}
                ),
            },
            "replot": object_schema(
                {"source": TEXT, "at": STAMP, "migrated": TEXTS}, {"directory": TEXT, "inode": COUNT}
            ),
            "split": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
        },
    ),
    "request/1": object_schema(
        {
            "schema": {"const": "request/1"},
            "project": TEXT,
            "presets": TEXTS,
            # Layers in order of application; values as written, not rendered.
            "layers": {
                "type": "array",
                "items": object_schema({"source": TEXT, "kind": TEXT, "values": FREE}, {"origins": FREE}),
            },
        }
    ),
    "provenance/1": object_schema(
        {
            "schema": {"const": "provenance/1"},
            "settings": {
                "type": "object",
                "additionalProperties": {
                    "type": "array",
                    "items": object_schema({"source": TEXT, "value": {}}, {"where": TEXT_OR_NULL, "files": FREE}),
                },
            },
        }
    ),
    "settings/1": {"type": "object", "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"}},
    # elsewhere.json of a point: the host on which its load runs, and its result once its files are fetched.
    "elsewhere/1": object_schema(
        {
            "schema": {"const": "elsewhere/1"},
            "host": TEXT,
            "root": TEXT,
            "state": {"enum": ["started", "fetched"]},
            "result": FREE,
        },
        {
            "collect": object_schema({"bucket": TEXT, "endpoint": TEXT, "keys": {"type": "array", "items": TEXT}}),
            "removed": TRUTH,  # nothing is left of it elsewhere
        },
    ),
    "messages/1": object_schema(
        {"schema": {"const": "messages/1"}},
        {"github": object_schema({}, {"comment": COUNT, "check": COUNT}), "slack": object_schema({}, {"thread": TEXT})},
    ),
    # One line per finished part of a module, from which the times of a run are summed.
    "timing/1": object_schema({"category": TEXT, "seconds": {"type": "number", "minimum": 0}}, {"what": TEXT}),
}


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
