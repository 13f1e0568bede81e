# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are computed from a run: timeline, KPIs, verdict."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._schemas.words import (
    COUNT,
    FREE,
    MOMENT,
    MOMENT_OR_NULL,
    POINT_ID,
    RUN_ID,
    TEXT,
    TEXT_OR_NULL,
    TRUTH,
    line_of,
    record,
)

INTERVAL = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
INTERVAL_OR_NULL = {"anyOf": [INTERVAL, {"type": "null"}]}
VALUE = {"type": ["number", "null"]}

KPI = record(
    {
        "name": TEXT,
        "value": VALUE,
        "unit": TEXT,
        "direction": {"enum": ["higher", "lower", "none"]},
        "help": TEXT,
        "n": COUNT,  # rows that the value rests on …
        "of": COUNT,  # … of so many that there are
        "simulated": TRUTH,
    },
    # title: for people; note: what has to be said about the value, such as "≥ 12 s, the rest never got there"
    {"interval": INTERVAL_OR_NULL, "labels": FREE, "headline": TRUTH, "title": TEXT, "note": TEXT},
)

RESULTS: dict[str, dict[str, Any]] = {
    "timeline/1": line_of(
        {
            "header": record(
                {
                    "schema": {"const": "timeline/1"},
                    "run": RUN_ID,
                    "point": POINT_ID,
                    "start": MOMENT,  # of the load; stages are absolute moments on the same clock
                    "end": MOMENT,  # of the observation
                    "planned": COUNT,
                    # in the order of a workload's life; writer: who makes the transition happen
                    "stages": {
                        "type": "array",
                        "items": record(
                            {
                                "name": TEXT,
                                "kind": TEXT,
                                "writer": TEXT,
                                "simulated": TRUTH,
                                "ends": {"enum": ["succeeded", "failed", None]},
                            },
                            # needs: stages that it waits for; its own duration counts from the last of them
                            {"needs": {"type": "array", "items": TEXT}},
                        ),
                    },
                    "gaps": {"type": "array", "items": FREE},
                },
                # notes: what is missing or damaged in the files that it was made from
                {"notes": {"type": "array", "items": TEXT}},
            ),
            "workload": record(
                {
                    "index": COUNT,
                    "name": TEXT,
                    "kind": TEXT,
                    "template": TEXT,
                    "uid": TEXT_OR_NULL,
                    "intended": MOMENT_OR_NULL,
                    "sent": MOMENT_OR_NULL,
                    "answered": MOMENT_OR_NULL,
                    # stage name -> [earliest, latest]; a stage that was not seen is absent
                    "stages": {"type": "object", "additionalProperties": INTERVAL},
                    "outcome": {"enum": ["succeeded", "failed", "unfinished", "deleted", "refused", "lost", "unsent"]},
                    "censored": TRUTH,
                    "pods": COUNT,
                    "gpus": {"type": "number"},
                    "contradictions": {"type": "array", "items": TEXT},
                },
                {"attempts": COUNT},
            ),
        }
    ),
    "kpis/1": record(
        {
            "schema": {"const": "kpis/1"},
            "run": RUN_ID,
            "point": POINT_ID,
            "labels": FREE,
            "kpis": {"type": "array", "items": KPI},
        }
    ),
    "verdict/1": record(
        {
            "schema": {"const": "verdict/1"},
            "run": RUN_ID,
            "verdict": {"enum": ["pass", "fail", "invalid", "inconclusive"]},
            "checks": {
                "type": "array",
                "items": record(
                    {"check": TEXT, "result": {"enum": ["pass", "fail", "invalid", "no baseline"]}, "detail": TEXT},
                    {"point": TEXT_OR_NULL},
                ),
            },
            "baseline": TEXT_OR_NULL,
            "headline": {"type": "array", "items": FREE},
        }
    ),
}
