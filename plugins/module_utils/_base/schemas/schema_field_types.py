# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words that the schemas are built from."""

from __future__ import annotations

from typing import Any

RUN_ID = {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{5,19}$"}
#: A point of the matrix.
MATRIX_POINT_ID = {"type": "string", "pattern": "^[0-9]{3,}$"}
#: A point as its folder is called: 003, or 003-2 for the second attempt at point 003.
POINT_ID = {"type": "string", "pattern": "^[0-9]{3,}(-[1-9][0-9]*)?$"}
TEXT = {"type": "string"}
TEXT_OR_NULL = {"type": ["string", "null"]}
COUNT = {"type": "integer", "minimum": 0}
#: Seconds since the Unix epoch on the clock of the file's session line.
MOMENT = {"type": "number"}
MOMENT_OR_NULL = {"type": ["number", "null"]}
#: Wall time as text: 2026-11-21T04:41:18Z.
STAMP = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$"}
STAMP_OR_NULL = {"anyOf": [STAMP, {"type": "null"}]}
FREE = {"type": "object"}
TEXTS = {"type": "array", "items": TEXT}
TRUTH = {"type": "boolean"}
#: Quantiles of times in seconds: p50, p95, p99, max.
QUANTILES_OR_NULL = {"type": ["object", "null"], "additionalProperties": {"type": "number"}}


def object_schema(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {**required, **(optional or {})},
    }


def json_line_schema(kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a JSON line whose ``type`` says which of ``kinds`` it is."""
    return {"oneOf": [_schema_with_type_field(kind, body) for kind, body in kinds.items()]}


def _schema_with_type_field(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    properties = {"type": {"const": kind}, **body["properties"]}
    return {**body, "required": ["type", *body["required"]], "properties": properties}


#: Anchor of a clock, see module_utils/_base/point_clock.py.
ANCHOR = object_schema({"wall": MOMENT, "monotonic": {"type": "number"}, "boot": TEXT})
