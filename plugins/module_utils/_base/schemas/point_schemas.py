# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a test point: points/<nnn>/."""

from __future__ import annotations

from typing import Any

from .schema_field_types import (
    COUNT,
    FREE,
    MATRIX_POINT_ID,
    MOMENT,
    MOMENT_OR_NULL,
    POINT_ID,
    QUANTILES_OR_NULL,
    RUN_ID,
    STAMP,
    STAMP_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TRUTH,
    json_line_schema,
    object_schema,
)

#: node -> the GPUs that pods of the run have held there.
GPUS_OF_NODES = {
    "type": "object",
    "additionalProperties": object_schema({"product": TEXT, "allocatable": COUNT, "held": COUNT, "pods": COUNT}),
}
#: package -> version, or image -> digest.
VERSIONS = {"type": "object", "additionalProperties": TEXT}
#: Nodes of a cluster. cpus, memory_gib, gpus: allocatable on all of them.
NODES = object_schema(
    {"count": COUNT},
    {
        "cpus": {"type": "number", "minimum": 0},
        "memory_gib": {"type": "number", "minimum": 0},
        "gpus": COUNT,
        "gpu_products": {"type": "object", "additionalProperties": COUNT},
    },
)
POINT: dict[str, dict[str, Any]] = {
    "point/1": object_schema(
        {
            "schema": {"const": "point/1"},
            "point": POINT_ID,
            "uuid": TEXT,
            "settings": FREE,  # matrix values of this point
            "status": {"enum": ["planned", "running", "passed", "failed"]},
        },
        {
            "started": STAMP_OR_NULL,
            "ended": STAMP_OR_NULL,
            "exit_code": {"type": ["integer", "null"]},
            "error": TEXT_OR_NULL,
        },
    ),
    "point/2": object_schema(
        {
            "schema": {"const": "point/2"},
            "point": POINT_ID,
            "attempt": {"type": "integer", "minimum": 1},
            "uuid": TEXT,
            "settings": FREE,  # matrix values of this point
            "status": {"enum": ["planned", "running", "passed", "failed", "skipped"]},
        },
        {
            "of": MATRIX_POINT_ID,  # of a further attempt: the point that it measures again
            "why": TEXT,  # it is measured again, or was skipped
            "started": STAMP_OR_NULL,
            "ended": STAMP_OR_NULL,
            "exit_code": {"type": ["integer", "null"]},
            "error": TEXT_OR_NULL,
            "cause": TEXT_OR_NULL,  # class of the error, from module_utils/_base/errors.py
            "nodes": FREE,  # settings about nodes that differ from those of the run: scaled before the point
            "resumed": {"type": "boolean"},  # a killed session had begun its load: its times include the interruption
        },
    ),
    # ran.json: what ran on the cluster under test at the end of the point. Unknown parts are absent; notes: why.
    "ran/1": object_schema(
        {"schema": {"const": "ran/1"}, "run": RUN_ID, "point": POINT_ID, "at": STAMP},
        {"nodes": NODES, "operators": VERSIONS, "images": VERSIONS, "gpus": GPUS_OF_NODES, "notes": TEXTS},
    ),
    # Inference servers that a run has deployed. stages: of each, the last time without it and the first one with it, in
    # seconds since the objects were applied; none if nothing was changed.
    "deployment/1": object_schema(
        {
            "schema": {"const": "deployment/1"},
            "urls": TEXTS,
            "changed": TRUTH,
            "stages": {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 2},
            },
        },
        # Whether a pod that was there before is still one of the servers; files of earlier versions lack it.
        {"earlier_servers": TRUTH},
    ),
    # Figures printed by workloads; one row per pod log.
    "training/1": object_schema(
        {
            "index": {"type": ["integer", "null"]},
            "pod": TEXT,
            "figures": {"type": "object", "additionalProperties": {"type": "number"}},
            "simulated": TRUTH,
        },
        {
            "log": TEXT,
            "workload": TEXT,
            "error": TEXT_OR_NULL,
            # why it is unknown whether all processes of the training worked together
            "unchecked": TEXT,
            # figures that its log has and that say nothing of the whole training, with the reason
            "left_out": {"type": "object", "additionalProperties": TEXT},
            # what it wrote to files: [step, when it was done, seconds since 1970]; steps of its checkpoints
            "progress": object_schema(
                {
                    "steps": {
                        "type": "array",
                        "items": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
                    },
                    "checkpoints": {"type": "array", "items": {"type": "integer"}},
                }
            ),
            # during the training: [step or epoch, loss]
            "loss": object_schema(
                {
                    "over": TEXT,
                    "points": {
                        "type": "array",
                        "items": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
                    },
                }
            ),
        },
    ),
    # The metric queries of a project.
    "metric_queries/1": {
        "type": "array",
        "items": object_schema({"name": TEXT, "query": TEXT, "unit": TEXT}, {"help": TEXT, "labels": TEXTS}),
    },
    # users/users.json: what the users in pods have reported. Times in seconds on the clocks of the pods; null: unknown.
    "users/1": object_schema(
        {
            "schema": {"const": "users/1"},
            "run": RUN_ID,
            "point": POINT_ID,
            "count": COUNT,
            "required": COUNT,
            "succeeded": COUNT,
            "success_percent": {"type": "number"},
            "reaction": QUANTILES_OR_NULL,
            "report_delay": QUANTILES_OR_NULL,
            "command": QUANTILES_OR_NULL,
        },
        {
            # Of all users: files that were fetched; that exceeded the limit; users that could not send theirs, and why.
            "files": object_schema(
                {
                    "count": COUNT,
                    "left_out": COUNT,
                    "left_out_users": COUNT,
                    "limit": TEXT,
                    "failed_users": COUNT,
                    "first_error": TEXT,
                }
            ),
            # Of simulated users: the objects that they have created.
            "operations": object_schema(
                {
                    "count": COUNT,
                    "succeeded": COUNT,
                    "success_percent": {"type": "number"},
                    "create": QUANTILES_OR_NULL,
                    "usable": QUANTILES_OR_NULL,
                    "delete": QUANTILES_OR_NULL,
                }
            ),
        },
    ),
    # users/uploads.json: the objects of an S3 server that users may have uploaded; it is deleted with them.
    "user_uploads/1": object_schema(
        {
            "schema": {"const": "user_uploads/1"},
            "bucket": TEXT,
            "endpoint": TEXT,
            "keys": {"type": "array", "items": TEXT},
        }
    ),
    # metrics_dump.json: what metrics_dump.om.gz holds.
    "metrics_dump/1": object_schema(
        {
            "schema": {"const": "metrics_dump/1"},
            "server": TEXT,
            "from": MOMENT,
            "to": MOMENT,
            "matchers": TEXTS,
            "metrics": COUNT,
            "series": COUNT,
            "samples": COUNT,
            "interval": {"type": "number", "minimum": 0},
            "bytes": COUNT,
            "sha256": TEXT,
            "left_out": {"type": "array", "items": object_schema({"name": TEXT, "why": TEXT})},
        }
    ),
    "metrics/1": json_line_schema(
        {
            "header": object_schema(
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
            "metric": object_schema(
                {
                    "name": TEXT,
                    "query": TEXT,
                    "unit": TEXT,
                    "help": TEXT,
                    "per": TEXTS,
                    "error": TEXT_OR_NULL,
                    "series": {
                        "type": "array",
                        "items": object_schema(
                            {
                                "labels": FREE,
                                "moments": {"type": "array", "items": MOMENT},
                                "values": {"type": "array", "items": MOMENT_OR_NULL},
                            }
                        ),
                    },
                }
            ),
        }
    ),
}
