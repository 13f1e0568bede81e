# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read past runs from the indices of export_opensearch: one document for a run, and one for each KPI of a point."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch import (
    OpenSearchClient,
    OpenSearchServer,
)

from .past_runs import PastPoint, PastRun, counted, kpis_of, left_out

#: Timeout of each request in seconds: a history is worth less than the time of a run.
TIMEOUT = 30.0
#: Documents in one answer; runs whose points are requested together; points in one answer, the server's default limit.
PAGE, BATCH, MOST_POINTS = 1000, 5, 10_000
_NEWEST: list[dict[str, Any]] = [{"@timestamp": "desc"}, {"run": {"order": "asc", "unmapped_type": "keyword"}}]
_BY_POINT = [{name: {"order": "asc", "unmapped_type": "keyword"}} for name in ("uuid", "name")]

Document = Mapping[str, Any]


def read(server: OpenSearchServer, project: str, notes: list[str]) -> Iterator[PastRun]:
    """Yield the runs of a project, the newest first. notes: gets a sentence on each run with unreadable documents.

    Raises AccessError, InputError.
    """
    client = OpenSearchClient(server, TIMEOUT)
    batch: list[Document] = []
    query = {"term": {"project": project}}
    for run in _found(client, "runs", query, _NEWEST, ["run", "@timestamp", "verdict", "repeats"]):
        batch.append(run)
        if len(batch) == BATCH:
            yield from _runs(client, batch, notes)
            batch = []
    if batch:
        yield from _runs(client, batch, notes)


def _runs(client: OpenSearchClient, batch: Sequence[Document], notes: list[str]) -> Iterator[PastRun]:
    """Yield runs with their points."""
    ids = [str(one.get("run")) for one in batch]
    query = {"terms": {"run": ids}}
    figures: dict[str, list[Document]] = {}
    for one in _found(client, "kpis", query, _BY_POINT, ["uuid", "name", "value", "unit", "confidence"]):
        figures.setdefault(str(one.get("uuid")), []).append(one)
    points = _points(client, query) if figures else []
    where = f"{client.server.url}, index {client.server.prefix}-kpis"
    for run, document in zip(ids, batch, strict=True):
        own = []
        for point in points:
            if point.get("run") != run or point.get("point_status", "passed") != "passed" or point.get("resumed"):
                continue
            with left_out(notes, f"{where}, run {run}"):
                own.append(_point(point, figures.get(str(point.get("uuid")), []), f"{where}, run {run}"))
        at, verdict = str(document.get("@timestamp") or ""), str(document.get("verdict") or "")
        yield PastRun(
            run, at, "" if verdict == "unknown" else verdict, where, counted(own, document.get("repeats") is True)
        )


def _point(point: Document, figures: Sequence[Document], where: str) -> PastPoint:
    labels = point.get("labels") or {}
    if not isinstance(labels, dict):
        raise DataError(f"{where}: the labels of point {point.get('point')} are not a mapping")
    return PastPoint(str(point.get("point")), str(point.get("@timestamp") or ""), labels, kpis_of(figures, where))


def _points(client: OpenSearchClient, query: Document) -> list[Document]:
    """Return one document of each point, in order of the points. All documents of a point have its labels."""
    body = {
        "query": query,
        "collapse": {"field": "uuid"},
        "size": MOST_POINTS,
        "_source": ["run", "point", "point_status", "resumed", "uuid", "@timestamp", "labels"],
    }
    hits = _hits(client, "kpis", body)
    return sorted((one["_source"] for one in hits), key=lambda one: str(one.get("point")))


def _found(
    client: OpenSearchClient, kind: str, query: Document, sort: Sequence[Document], fields: Sequence[str]
) -> Iterator[Document]:
    """Yield the documents that match a query, page by page."""
    body: dict[str, Any] = {"query": query, "sort": list(sort), "size": PAGE, "_source": list(fields)}
    while hits := _hits(client, kind, body):
        yield from (one["_source"] for one in hits)
        if len(hits) < PAGE:
            return
        body["search_after"] = hits[-1]["sort"]


def _hits(client: OpenSearchClient, kind: str, body: Document) -> list[dict[str, Any]]:
    """Return the hits of a search; none if the index does not exist."""
    path = f"/{client.server.prefix}-{kind}/_search?ignore_unavailable=true"
    answer = client.call("POST", path, json.dumps(body).encode())
    failed = (answer.get("_shards") or {}).get("failed") or answer.get("timed_out")
    if failed:
        raise DataError(f"OpenSearch {client.server.url}{path}: the answer is incomplete")
    return list((answer.get("hits") or {}).get("hits") or [])
