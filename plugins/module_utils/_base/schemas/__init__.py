# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON Schemas (draft 2020-12) of every file of a run directory.

They are Python data so that a module carries them along; ``docs/schemas`` holds the same as published JSON.
The name of a schema carries its version: a file with another version is migrated or refused, never guessed at.
"""

from __future__ import annotations

from typing import Any

from .comparison_schemas import COMPARISON
from .lease_schema import LEASE
from .point_schemas import POINT
from .result_schemas import RESULTS
from .run_schemas import RUN
from .verdict_schemas import VERDICT

SCHEMAS: dict[str, dict[str, Any]] = {**RUN, **POINT, **RESULTS, **VERDICT, **LEASE, **COMPARISON}


def schema(name: str) -> dict[str, Any]:
    """Return the schema called ``name``, such as ``run/1``. Raises KeyError for an unknown name."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **SCHEMAS[name]}
