# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are computed from a run: timeline, KPIs, attribution."""

from __future__ import annotations

from typing import Any

from .point_schemas import NODES, VERSIONS
from .schema_field_types import (
    COUNT,
    FREE,
    MATRIX_POINT_ID,
    MOMENT,
    MOMENT_OR_NULL,
    POINT_ID,
    RUN_ID,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TRUTH,
    json_line_schema,
    object_schema,
)

INTERVAL = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
INTERVAL_OR_NULL = {"anyOf": [INTERVAL, {"type": "null"}]}
VALUE = {"type": ["number", "null"]}
#: Values of for_each that depend on the point.
FOR_EACH = [
    *("stages", "reasons", "queues", "priorities", "levels", "stepped", "scaled", "templates", "clients"),
    *("failures", "failed", "outages", "resumed", "evicted", "marked"),
]
#: low and high are null if unknown.
CONFIDENCE = object_schema({"low": VALUE, "high": VALUE, "level": {"type": "number"}, "method": TEXT})

#: Sentence of a report. text: with {value}. bound: if only a bound is known. missed: if the lowest rate missed the
#: objective. one, one_bound: for a single workload.
#: names: matrix value -> display name. only_real: no sentence for a simulated figure.
ANSWER = object_schema(
    {"text": TEXT},
    {
        "bound": TEXT,
        "missed": TEXT,
        "one": TEXT,
        "one_bound": TEXT,
        "names": {"type": "object", "additionalProperties": TEXT},
        "only_real": TRUTH,
    },
)

KPI = object_schema(
    {
        "name": TEXT,
        "value": VALUE,
        "unit": TEXT,
        "direction": {"enum": ["higher", "lower", "none"]},
        "help": TEXT,
        "n": COUNT,  # rows with a value
        "of": COUNT,  # all rows
        "simulated": TRUTH,
    },
    {
        "interval": INTERVAL_OR_NULL,  # measurement interval
        "confidence": {"anyOf": [CONFIDENCE, {"type": "null"}]},  # over repeated loads of the same kind
        "writers": TEXTS,  # of the stages behind it
        "labels": FREE,
        "headline": TRUTH,
        "title": TEXT,  # display name
        "at_least": {"type": "number"},  # lower bound of an unknown value
        "note": TEXT,  # a remark, such as "≥ 12 s: 3 of 12 were not seen to reach it"
        "answer": ANSWER,
        # of a figure with an answer: difference from the first point, with its confidence interval
        "difference": object_schema(
            {"point": POINT_ID, "value": {"type": "number"}, "confidence": {"anyOf": [CONFIDENCE, {"type": "null"}]}}
        ),
    },
)

#: What makes points comparable. Unknown labels are absent.
LABELS = object_schema(
    {
        "matrix": FREE,  # values that the matrix set
        # What ran, on the cluster under test.
        "ran": object_schema(
            {"simulated": TRUTH},
            {
                "simulated_writers": TEXTS,
                # On a cluster with real and simulated nodes: whether the workloads ran on real ones, or on both.
                "workload_nodes": {"enum": ["real", "mixed"]},
                "provider": TEXT,
                "kubernetes": TEXT,
                "openshift": TEXT,
                "kind": TEXT,
                "collection": TEXT,  # version of this collection
                "revision": TEXT,  # of the git repository
                "nodes": NODES,
                "operators": VERSIONS,
                "images": VERSIONS,
            },
        ),
        "attempt": object_schema({"point": MATRIX_POINT_ID, "number": {"type": "integer", "minimum": 1}}),
    },
    {
        "project": TEXT,
        "presets": TEXTS,
        "settings": FREE,  # all settings of the point
        "uuid": TEXT,
        "selection": TEXT,
    },
)

#: One part of the latency: of a stage, or of a writer.
SHARE = object_schema(
    {
        "name": TEXT,
        "writer": TEXT,
        "simulated": TRUTH,
        "mean": MOMENT,  # seconds per workload, over those that ended
        "share": {"type": "number"},
        "confidence": {"anyOf": [CONFIDENCE, {"type": "null"}]},
    },
    {"slowest": MOMENT_OR_NULL, "on_path": COUNT},
)

#: The selection of a point's workloads by head, tail and skip_errors.
SELECTION = object_schema(
    {
        "head": {"type": ["integer", "null"], "minimum": 1},
        "tail": {"type": ["integer", "null"], "minimum": 1},
        "skip_errors": TRUTH,
        "of": COUNT,  # rows before
        "left_out": {"type": "object", "additionalProperties": COUNT},  # by skip_errors: outcome -> rows
        "text": TEXT,
    }
)

RESULTS: dict[str, dict[str, Any]] = {
    "timeline/1": json_line_schema(
        {
            "header": object_schema(
                {
                    "schema": {"const": "timeline/1"},
                    "run": RUN_ID,
                    "point": POINT_ID,
                    "start": MOMENT,  # of the load; stages are times on the same clock
                    "end": MOMENT,  # of the observation
                    "planned": COUNT,
                    # in order; writer: the component that makes the transition
                    "stages": {
                        "type": "array",
                        "items": object_schema(
                            {
                                "name": TEXT,
                                "kind": TEXT,
                                "writer": TEXT,
                                "simulated": TRUTH,  # for at least one workload
                                "ends": {"enum": ["succeeded", "failed", None]},
                            },
                            # needs: stages that it waits for; its own duration counts from the last of them
                            {"needs": TEXTS},
                        ),
                    },
                    "gaps": {"type": "array", "items": FREE},
                },
                # notes: missing and damaged records in its input files
                # selection: of a replot
                # simulated_writers: of a cluster that also has real nodes
                # rows: what a row is, by default a workload
                # sent_is: of a load that others submitted, the stage that shows when a workload was sent
                # dated_by: of such a load, stage -> source of its times -> number of objects
                # clocks: of a load by several clients. reference: the clock of the timeline. offset: bounds of what to
                # add to the client's clock at its start, seconds, null if unknown. drift: assumed limit of their rates
                # clients: number of clients of such a load; workload i is that of client i modulo this number
                {
                    "clients": COUNT,
                    "clocks": {
                        "type": "array",
                        "items": object_schema(
                            {
                                "client": COUNT,
                                "reference": TRUTH,
                                "offset": {"type": ["array", "null"], "items": {"type": "number"}},
                                "drift": {"type": "number"},
                            }
                        ),
                    },
                    "rows": TEXT,
                    "sent_is": TEXT,
                    "dated_by": {
                        "type": "object",
                        "additionalProperties": {"type": "object", "additionalProperties": COUNT},
                    },
                    "notes": TEXTS,
                    "selection": SELECTION,
                    "simulated_writers": TEXTS,
                },
            ),
            "workload": object_schema(
                {
                    "index": COUNT,
                    "name": TEXT,
                    "kind": TEXT,
                    "template": TEXT,
                    "uid": TEXT_OR_NULL,
                    "intended": MOMENT_OR_NULL,
                    "sent": MOMENT_OR_NULL,
                    "answered": MOMENT_OR_NULL,
                    # stage name -> [earliest, latest]; stages not reached are absent
                    "stages": {"type": "object", "additionalProperties": INTERVAL},
                    "outcome": {"enum": ["succeeded", "failed", "unfinished", "deleted", "refused", "lost", "unsent"]},
                    "censored": TRUTH,
                    "pods": COUNT,
                    "gpus": {"type": "number"},
                    "contradictions": TEXTS,
                },
                # nodes: of its pods, on a cluster with real and simulated ones
                {"attempts": COUNT, "nodes": {"enum": ["real", "simulated", "mixed"]}},
            ),
        }
    ),
    "kpis/1": object_schema(
        {
            "schema": {"const": "kpis/1"},
            "run": RUN_ID,
            "point": POINT_ID,
            "labels": FREE,
            "kpis": {"type": "array", "items": KPI},
        }
    ),
    "kpis/2": object_schema(
        {
            "schema": {"const": "kpis/2"},
            "run": RUN_ID,
            "point": POINT_ID,
            "labels": LABELS,
            "kpis": {"type": "array", "items": KPI},
        }
    ),
    # KPI definitions of a project.
    "kpi_definitions/1": {
        "type": "array",
        "items": object_schema(
            {
                "name": TEXT,
                "unit": TEXT,
                "direction": {"enum": ["higher", "lower", "none"]},
                "help": TEXT,
                "source": {
                    "type": "object",
                    "oneOf": [
                        {"required": ["function"], "properties": {"function": TEXT}},
                        {"required": ["jmespath"], "properties": {"jmespath": TEXT}, "additionalProperties": False},
                    ],
                },
            },
            {
                "title": TEXT,
                "headline": TRUTH,
                "answer": ANSWER,
                "labels": FREE,
                "settings": FREE,
                "for_each": {
                    "type": "object",
                    "additionalProperties": {"anyOf": [{"type": "array"}, {"enum": FOR_EACH}]},
                },
            },
        ),
    },
    # Latency of a point's workloads by stage and by writer.
    "attribution/1": object_schema(
        {
            "schema": {"const": "attribution/1"},
            "run": RUN_ID,
            "point": POINT_ID,
            "n": COUNT,  # workloads that ended
            "of": COUNT,
            "total": VALUE,  # mean seconds from sending to the end
            "stages": {"type": "array", "items": SHARE},
            "writers": {"type": "array", "items": SHARE},
            # workloads that had not ended, by the stage that they waited for, with the mean seconds waited
            "waiting": {"type": "array", "items": object_schema({"name": TEXT, "n": COUNT, "mean": MOMENT})},
        },
        # nodes: of its workloads, if others ran on simulated nodes
        {"selection": SELECTION, "slowest": COUNT, "nodes": {"const": "real"}},
    ),
    # Uploaded beside exported files: names, sizes and checksums, to verify a download.
    "manifest/1": object_schema(
        {
            "schema": {"const": "manifest/1"},
            "run": TEXT,
            "status": {"enum": ["valid", "invalid"]},
            "verdict": TEXT,
            "files": {
                "type": "array",
                "items": object_schema({"name": TEXT, "bytes": COUNT, "sha256": TEXT}),
            },
        }
    ),
    # In the archive of a run for others. settings: those that were set, by dotted name. user_files: copies of files
    # that settings name.
    "bundle/1": object_schema(
        {
            "schema": {"const": "bundle/1"},
            "run": TEXT,
            "project": TEXT,
            "role": TEXT,
            "presets": TEXTS,
            "verdict": TEXT_OR_NULL,
            "status": TEXT,
            "written": TEXT,
            "versions": {"type": "object", "additionalProperties": TEXT},
            "revision": TEXT_OR_NULL,
            "settings": FREE,
            "user_files": {
                "type": "array",
                "items": object_schema({"setting": TEXT, "path": TEXT, "file": TEXT}),
            },
            "left_out": TEXTS,
            "files": {
                "type": "array",
                "items": object_schema({"name": TEXT, "bytes": COUNT, "sha256": TEXT}),
            },
        }
    ),
}
