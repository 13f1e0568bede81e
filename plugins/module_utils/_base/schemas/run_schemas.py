# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files at the top of a run directory."""

from __future__ import annotations

from typing import Any

from .cluster_schemas import CLUSTER
from .field_types import (
    COUNT,
    FREE,
    MATRIX_POINT_ID,
    RUN_ID,
    STAMP,
    STAMP_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TRUTH,
    object_schema,
)

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
            "replot": object_schema({"source": TEXT, "at": STAMP, "migrated": TEXTS}),
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
