# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON Schemas (draft 2020-12) of every file of a run directory.

They are Python data so that a module carries them along. Those that others may read are published as JSON, in
``docs/schemas``, which ``make docs`` and the build of the collection write.
The name of a schema carries its version: a file with another version is migrated or refused, never guessed at.
"""

from __future__ import annotations

from typing import Any

from .cluster_schemas import CLUSTERS
from .load_schemas import LOAD
from .point_schemas import POINT
from .result_schemas import RESULTS
from .run_schemas import FINDINGS, RUN
from .verdict_and_comparison_schemas import COMPARISON, VERDICT

SCHEMAS: dict[str, dict[str, Any]] = {
    **RUN,
    **CLUSTERS,
    **POINT,
    **LOAD,
    **RESULTS,
    **VERDICT,
    **FINDINGS,
    **COMPARISON,
}

#: Schemas of the files that others may read. The other files are for the modules and roles of this collection.
PUBLISHED = (
    *(
        "run/1",
        "request/1",
        "settings/1",
        "provenance/1",
        "cluster/2",
        "lease/1",
        "schedule/1",
        "capture/1",
        "run_diff/1",
    ),
    *("point/2", "plan/1", "ledger/1", "requests/1", "observations/1", "timeline/1"),
    *("training/1", "ran/1", "metrics/1", "users/1"),
    *("kpis/2", "attribution/1", "history/1", "verdict/2", "comparison/2", "timing/1"),
    *("answer/1", "bundle/1", "findings/1", "signatures/1", "kpi_definitions/1", "metric_queries/1"),
)


def schema_by_name(name: str) -> dict[str, Any]:
    """Return the schema called ``name``, such as ``run/1``. Raises KeyError for an unknown name."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **SCHEMAS[name]}
