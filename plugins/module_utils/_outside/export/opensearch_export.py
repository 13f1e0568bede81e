# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenSearch: an index template, and the figures of a run as documents with stable ids.

A second export of the same run replaces its documents. The server's certificate is always verified.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch import OpenSearchClient
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.labels import (
    flatten_labels,
    recorded_labels,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

#: Size of a bulk request in bytes.
BULK_BYTES = 4 * 2**20

TEMPLATE: dict[str, Any] = {
    "priority": 200,
    "version": 2,
    "template": {
        "settings": {"index": {"number_of_shards": 1, "mapping.total_fields.limit": 4000}},
        "mappings": {
            "dynamic_templates": [
                {"texts": {"match_mapping_type": "string", "mapping": {"type": "keyword", "ignore_above": 8191}}}
            ],
            "properties": {
                "@timestamp": {"type": "date"},
                "value": {"type": "double"},
                "at_least": {"type": "double"},
                "interval": {"properties": {"low": {"type": "double"}, "high": {"type": "double"}}},
                "confidence": {"properties": {"low": {"type": "double"}, "high": {"type": "double"}}},
                "simulated": {"type": "boolean"},
                "help": {"type": "text", "index": False},
                # Names of settings and labels vary: one flat field each avoids a mapping explosion.
                "settings": {"type": "flat_object"},
                "labels": {"type": "flat_object"},
                "kpi_labels": {"type": "flat_object"},
            },
        },
    },
}


def run_and_kpi_documents(run: Run, verdict: Mapping[str, Any], status: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return (index kind, id, document): one for the run, and one for each KPI of each point."""
    record = run.record
    cluster = run.clusters.get("sutest") or {}
    common = {
        "run": run.id,
        "project": record.get("project"),
        "presets": record.get("presets") or [],
        "status": status,
        "verdict": verdict.get("verdict") or "unknown",
        "provider": cluster.get("provider"),
        "kubernetes": cluster.get("version"),
        "openshift": cluster.get("openshift"),
        "gpu_products": sorted(cluster.get("gpu_products") or {}),
        "revision": (record.get("git") or {}).get("revision"),
        **({"selection": verdict["selection"]} if verdict.get("selection") else {}),
    }
    started = record.get("started")
    whole = {**common, "@timestamp": started, "ended": record.get("ended"), "versions": record.get("versions") or {}}
    whole["repeats"] = run.repeats
    whole["checks"] = [
        {key: check.get(key) for key in ("check", "result", "detail", "point")} for check in verdict.get("checks") or []
    ]
    entries = [("runs", run.id, whole)]
    for point in run.points:
        own = str(point.record.get("uuid") or f"{run.id}-{point.number}")
        # of the whole point: what must be equal for its figures to be comparable
        labels = flatten_labels(recorded_labels(run, point)) if point.kpis else {}
        settings = point.settings if point.all_settings is None else flatten_labels(point.all_settings)
        for kpi in point.kpis or []:
            document = {
                **common,
                "@timestamp": point.record.get("started") or started,
                "point": point.number,
                "point_status": point.record.get("status"),
                "resumed": point.resumed,
                "uuid": own,
                "settings": settings,
                "labels": labels,
                **{key: kpi.get(key) for key in ("name", "value", "at_least", "unit", "direction", "help")},
                **{key: kpi.get(key) for key in ("n", "of", "simulated")},
                "kpi_labels": kpi.get("labels") or {},
                "note": kpi.get("note"),
                "interval": _interval_ends_document(kpi.get("interval")),
                "confidence": _interval_ends_document([kpi["confidence"]["low"], kpi["confidence"]["high"]])
                if kpi.get("confidence")
                else None,
            }
            entries.append(("kpis", f"{own}:{kpi['name']}", document))
    return entries


def _interval_ends_document(of: Any) -> dict[str, Any] | None:
    return {"low": of[0], "high": of[1]} if of else None


class OpenSearchIndex(OpenSearchClient):
    """The indices of the results on one server."""

    def prepare(self) -> None:
        """Create or replace the index template."""
        name = f"{self.server.prefix}-seatrial"
        body = {**TEMPLATE, "index_patterns": [f"{self.server.prefix}-runs*", f"{self.server.prefix}-kpis*"]}
        self.call("PUT", f"/_index_template/{name}", json.dumps(body).encode())

    def write(self, entries: Iterable[tuple[str, str, dict[str, Any]]]) -> dict[str, int]:
        """Write documents; return the numbers created and updated. Raises AccessError for a refused one."""
        counts = {"created": 0, "updated": 0}
        for body in _bulk_request_bodies(self.server.prefix, entries):
            answer = self.call("POST", "/_bulk?refresh=wait_for", body, "application/x-ndjson")
            for item in answer["items"]:
                result = item["index"]
                if result.get("error"):
                    raise AccessError(
                        f"OpenSearch {self.server.url} refused document {result['_id']} of {result['_index']}: "
                        f"{result['error'].get('type')}: {result['error'].get('reason')}"
                    )
                counts["created" if result["result"] == "created" else "updated"] += 1
        return counts


def _bulk_request_bodies(prefix: str, entries: Iterable[tuple[str, str, dict[str, Any]]]) -> Iterable[bytes]:
    body = b""
    for kind, identity, document in entries:
        action = {"index": {"_index": f"{prefix}-{kind}", "_id": identity}}
        body += json.dumps(action).encode() + b"\n" + json.dumps(document).encode() + b"\n"
        if len(body) >= BULK_BYTES:
            yield body
            body = b""
    if body:
        yield body
