# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenSearch: an index template, and the figures of a run as documents with stable ids.

A second export of the same run replaces its documents. The document of the run comes first, with ``whole`` false, and
again after all others, with ``whole`` true: an export that did not end is marked. The server's certificate is always
verified.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    require_json_object,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch_connection import (
    OpenSearchClient,
    OpenSearchServer,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.explain_failures import (
    read_matched_signature_names,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_labels import (
    flatten_labels,
    recorded_labels,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

#: Size of a bulk request in bytes.
BULK_BYTES = 4 * 2**20
#: Seconds in which a request is repeated while the server is busy or restarts.
RETRY_TIME = 300.0
#: Pauses in seconds before documents are sent again that a busy server has refused.
PAUSES = (1.0, 4.0, 15.0, 30.0)
#: Types of the template, and those of an existing index that take the same documents.
_COMPATIBLE = {
    "date": ("date",),
    "boolean": ("boolean",),
    "double": ("double", "float", "long"),
    "flat_object": ("flat_object", "object"),
}
#: Status of a document for which the server had no room.
_BUSY = 429

TEMPLATE: dict[str, Any] = {
    "priority": 200,
    "version": 3,
    "template": {
        "settings": {"index": {"number_of_shards": 1, "mapping.total_fields.limit": 4000}},
        "mappings": {
            # A text such as the preset "2026-11" in the first document would make its field a date for ever.
            "date_detection": False,
            "dynamic_templates": [
                {"texts": {"match_mapping_type": "string", "mapping": {"type": "keyword", "ignore_above": 8191}}}
            ],
            "properties": {
                "@timestamp": {"type": "date"},
                "ended": {"type": "date"},
                "whole": {"type": "boolean"},
                "value": {"type": "double"},
                "at_least": {"type": "double"},
                "interval": {"properties": {"low": {"type": "double"}, "high": {"type": "double"}}},
                "confidence": {"properties": {"low": {"type": "double"}, "high": {"type": "double"}}},
                "simulated": {"type": "boolean"},
                "help": {"type": "text", "index": False},
                # Their names vary and may have dots: one flat field each avoids a mapping explosion, and conflicts.
                "versions": {"type": "flat_object"},
                "settings": {"type": "flat_object"},
                "labels": {"type": "flat_object"},
                "kpi_labels": {"type": "flat_object"},
            },
        },
    },
}


def run_and_kpi_documents(run: Run, verdict: Mapping[str, Any], status: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return (index kind, id, document): one for each KPI of each point; before and after them one for the run."""
    record = run.record
    cluster = run.clusters.get("sutest") or {}
    common = {
        "run": run.id,
        "project": _text_or_none(record.get("project")),
        "presets": [str(preset) for preset in record.get("presets") or []],
        "status": status,
        "verdict": verdict.get("verdict") or "unknown",
        "provider": _text_or_none(cluster.get("provider")),
        "kubernetes": _text_or_none(cluster.get("version")),
        "openshift": _text_or_none(cluster.get("openshift")),
        "gpu_products": sorted(map(str, cluster.get("gpu_products") or {})),
        "revision": _text_or_none((record.get("git") or {}).get("revision")),
        **({"selection": verdict["selection"]} if verdict.get("selection") else {}),
    }
    started = _time_or_none(record.get("started"))
    of_run = {
        **common,
        "@timestamp": started,
        "ended": _time_or_none(record.get("ended")),
        "versions": {str(name): str(version) for name, version in (record.get("versions") or {}).items()},
        "repeats": run.repeats,
        "findings": read_matched_signature_names(run.top),
        "checks": [
            {key: check.get(key) for key in ("check", "result", "detail", "point")}
            for check in verdict.get("checks") or []
        ],
    }
    entries = [("runs", run.id, {**of_run, "whole": False})]
    for point in run.points:
        own = str(point.record.get("uuid") or f"{run.id}-{point.number}")
        # of the whole point: what must be equal for its figures to be comparable
        labels = flatten_labels(recorded_labels(run, point)) if point.kpis else {}
        settings = flatten_labels(point.all_settings or {})
        if point.all_settings is None:  # names of the matrix are paths, with dots
            settings = {name.replace("\\.", "."): value for name, value in flatten_labels(point.settings).items()}
        for kpi in point.kpis or []:
            document = {
                **common,
                "@timestamp": _time_or_none(point.record.get("started")) or started,
                "point": point.number,
                "point_status": point.record.get("status"),
                "resumed": point.resumed,
                "uuid": own,
                "settings": settings,
                "labels": labels,
                **{key: kpi.get(key) for key in ("name", "unit", "direction", "help")},
                **{key: kpi.get(key) for key in ("n", "of", "simulated")},
                "kpi_labels": flatten_labels(kpi.get("labels") or {}),
                "note": kpi.get("note"),
                **_value_and_bounds_document(kpi),
            }
            entries.append(("kpis", f"{own}:{kpi['name']}", document))
    return [*entries, ("runs", run.id, {**of_run, "whole": True})]


def _text_or_none(value: object) -> str | None:
    """Return a text: a number, such as 4.19, would make the field a number for all later runs."""
    return None if value is None else str(value)


def _time_or_none(value: object) -> str | None:
    """Return a time of a file, which may be from elsewhere, as the server takes it; None for anything else."""
    return (
        formats.normalize_time_to_utc_text(value)
        if value is not None and formats.parse_timestamp(value) is not None
        else None
    )


def _value_and_bounds_document(kpi: Mapping[str, Any]) -> dict[str, Any]:
    value, confidence = kpi.get("value"), kpi.get("confidence")
    if value is not None and not isfinite(value):
        # It was computed wrongly, so its bounds bound nothing. Without a value, they would be read as what is known.
        return dict.fromkeys(("value", "at_least", "interval", "confidence"))
    return {
        "value": value,
        "at_least": kpi.get("at_least"),
        "interval": _interval_ends_document(kpi.get("interval")),
        "confidence": _interval_ends_document([confidence["low"], confidence["high"]]) if confidence else None,
    }


def _interval_ends_document(of: Any) -> dict[str, Any] | None:
    return {"low": of[0], "high": of[1]} if of else None


class OpenSearchIndex(OpenSearchClient):
    """The indices of the results on one server."""

    def __init__(self, server: OpenSearchServer) -> None:
        super().__init__(server, retry_time=RETRY_TIME)

    def prepare(self) -> None:
        """Create or replace the index template. Raises DataError if an index has types that refuse our documents."""
        name = f"{self.server.prefix}-seatrial"
        body = {**TEMPLATE, "index_patterns": [f"{self.server.prefix}-runs*", f"{self.server.prefix}-kpis*"]}
        self.call("PUT", f"/_index_template/{name}", json.dumps(body).encode())
        indexes = ",".join(f"{self.server.prefix}-{kind}" for kind in ("runs", "kpis"))
        known = self.call("GET", f"/{indexes}/_mapping?ignore_unavailable=true&allow_no_indices=true")
        with expect_documented_form(f"OpenSearch {self.server.url}: the mappings of {indexes}", known):
            wrong = [text for index, content in sorted(known.items()) for text in _wrong_types(index, content)]
        if wrong:
            raise DataError(
                f"OpenSearch {self.server.url}: {'; '.join(wrong[:3])}. It was made without the template of this "
                "version: set another export_opensearch_index_prefix, or copy its documents into a new index (_reindex)"
            )

    def write(self, entries: Iterable[tuple[str, str, dict[str, Any]]]) -> dict[str, int]:
        """Write documents, all but the last first; return the numbers created and updated.

        The last document is written only if no other one was refused. Raises AccessError for refused ones.
        """
        counts = {"created": 0, "updated": 0}
        *others, last = entries
        for part in (others, [last]):
            refused: list[Mapping[str, Any]] = []
            for body in _bulk_request_bodies(self.server.prefix, part):
                refused += self._write_lines(body, counts)
            if refused:
                first = refused[0]
                reason = first["error"] if isinstance(first["error"], Mapping) else {"reason": first["error"]}
                raise AccessError(
                    f"OpenSearch {self.server.url} refused {formats.format_count(len(refused), 'document')} and wrote "
                    f"{sum(counts.values())}; the export is not whole. The first one is {first.get('_id')} of "
                    f"{first.get('_index')}: {reason.get('type')}: {reason.get('reason')}"
                )
        return counts

    def _write_lines(self, lines: Sequence[bytes], counts: dict[str, int]) -> list[Mapping[str, Any]]:
        """Write documents, again those for which a busy server had no room; return the answers to refused ones."""
        refused: list[Mapping[str, Any]] = []
        for pause in (*PAUSES, None):
            answer = self.call("POST", "/_bulk?refresh=wait_for", b"".join(lines), "application/x-ndjson")
            items = answer.get("items")
            if not isinstance(items, list) or len(items) != len(lines):
                raise AccessError(
                    f"OpenSearch {self.server.url}: the answer to {formats.format_count(len(lines), 'document')} does "
                    "not say what became of each, so it is unknown whether they were written"
                )
            with expect_documented_form(f"OpenSearch {self.server.url}: POST /_bulk", answer):
                results = [require_json_object("the answer for a document", item.get("index") or {}) for item in items]
            busy = []
            for line, result in zip(lines, results, strict=True):
                if not result.get("error"):
                    counts["created" if result.get("result") == "created" else "updated"] += 1
                elif result.get("status") == _BUSY and pause is not None:
                    busy.append(line)
                else:
                    refused.append(result)
            if not busy or pause is None:
                break
            time.sleep(pause)
            lines = busy
        return refused


def _wrong_types(index: str, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of an index that have another type than in the template."""
    mappings = TEMPLATE["template"]["mappings"]
    known = (content.get("mappings") or {}).get("properties") or {}
    for name, field in known.items():
        found = field.get("type", "object")
        wanted = mappings["properties"].get(name, {}).get("type", "")
        if found == "date" and wanted != "date":
            yield f"field {name} of index {index} is a date instead of a text"
        elif wanted in _COMPATIBLE and found not in _COMPATIBLE[wanted]:
            yield f"field {name} of index {index} is of type {found} instead of {wanted}"


def _bulk_request_bodies(prefix: str, entries: Iterable[tuple[str, str, dict[str, Any]]]) -> Iterator[list[bytes]]:
    """Yield the lines of bulk requests: an action and a document each."""
    lines: list[bytes] = []
    size = 0
    for kind, identity, document in entries:
        action = {"index": {"_index": f"{prefix}-{kind}", "_id": identity}}
        texts = (json.dumps(part, allow_nan=False).encode() for part in (action, _without_infinity(document)))
        lines.append(b"".join(text + b"\n" for text in texts))
        size += len(lines[-1])
        if size >= BULK_BYTES:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines


def _without_infinity(value: Any) -> Any:
    """Return a document with None for numbers that are not finite, which JSON does not have."""
    if isinstance(value, Mapping):
        return {str(name): _without_infinity(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_infinity(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value
