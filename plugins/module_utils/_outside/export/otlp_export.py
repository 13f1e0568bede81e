# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OTLP: workloads as traces, from the timelines of a run, to a receiver of OTLP over HTTP with JSON.

A workload is one trace: a span for the whole, from its sending to its last stage, and below it a span for each stage
that it reached. Ids follow from the run, so that a repeated export has the same ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import HttpClient, HttpPolicy
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import (
    HttpRefused,
    check_url_usable_and_secure,
    url_without_secrets,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_labels import (
    flatten_labels,
    recorded_labels,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import (
    Point,
    Run,
    run_with_counted_attempts,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import (
    TimelineTable,
    read_timeline_jsonl,
)

PATH = "/v1/traces"
#: Most spans of a request: some 1.5 MB, below the limits of the usual receivers.
MOST_SPANS = 2000
#: Seconds of a request, and in which it is repeated while the receiver is busy or restarts.
TIMEOUT, RETRY_TIME = 60.0, 300.0
#: Most characters of a reason that a receiver gives.
MOST_REASON = 300
#: Kind of a span in OTLP: an operation inside of an application. Status codes of OTLP.
_INTERNAL, _OK, _ERROR = 1, 1, 2
_FAILED = ("failed", "refused", "lost")

Document = dict[str, Any]


@dataclass(frozen=True)
class OtlpReceiver:
    """Address of a receiver, with or without its path. Raises InputError for one that is unusable or not secure."""

    url: str
    token: str = field(default="", repr=False)
    authority: str = ""

    def __post_init__(self) -> None:
        check_url_usable_and_secure(self.name, self.url, https_only=True)

    @property
    def name(self) -> str:
        """The receiver in messages."""
        return f"OTLP receiver {url_without_secrets(self.url)}"

    @property
    def address(self) -> str:
        """The address for traces."""
        url = self.url.rstrip("/")
        return url if url.endswith(PATH) else f"{url}{PATH}"


def spans_of_workloads(table: TimelineTable, point: str, most: int) -> Iterator[list[Document]]:
    """Yield the spans of each workload that was sent: its trace.

    point: the uuid of the point. most: workloads at most, evenly spaced in the order in which they were planned.
    """
    step = max(1, -(-len(table) // most))
    for row in range(0, len(table), step):
        sent, answered = (table.moments[name][row] for name in ("sent", "answered"))
        if isnan(sent):
            continue
        trace = _hex_id(f"{point}/{table.index[row]}", 32)
        root = _hex_id(f"{trace}/", 16)
        ends = {
            stage["name"]: table.latest[stage["name"]][row]
            for stage in table.stages
            if not isnan(table.latest[stage["name"]][row])
        }
        outcome = table.outcome[row]
        attributes = {
            "seatrial.kind": table.kind[row],
            "seatrial.name": table.name[row],
            "seatrial.uid": table.uid[row] or "",
            "seatrial.index": table.index[row],
            "seatrial.template": table.template[row],
            "seatrial.outcome": outcome,
            "seatrial.attempts": table.attempts[row],
            "seatrial.pods": table.pods[row],
            "seatrial.gpus": float(table.gpus[row]),
            "seatrial.lateness": _seconds(sent - table.moments["intended"][row]),
            "seatrial.nodes": table.nodes[row] or "",
        }
        end = max([sent, *([] if isnan(answered) else [answered]), *ends.values()])
        spans = [_span(trace, root, "", table.kind[row], sent, end, attributes)]
        if outcome in _FAILED:
            spans[0]["status"] = {"code": _ERROR, "message": outcome}
        elif outcome == "succeeded":
            spans[0]["status"] = {"code": _OK}
        for stage in table.stages:
            name = stage["name"]
            if name not in ends:
                continue
            # As in the attribution of latency: a stage begins when the last one that it waits for was reached.
            begin = max([sent, *(ends[need] for need in stage.get("needs", ()) if need in ends)])
            attributes = {
                "seatrial.writer": stage["writer"],
                "seatrial.simulated": bool(stage["simulated"]),
                "seatrial.earliest": _seconds(table.earliest[name][row] - sent),
                "seatrial.latest": _seconds(ends[name] - sent),
            }
            own = _hex_id(f"{trace}/{name}", 16)
            spans.append(_span(trace, own, root, name, min(begin, ends[name]), ends[name], attributes))
        yield spans


def resource_of_point(run: Run, point: Point, verdict: Mapping[str, Any], status: str) -> Document:
    """Return what all spans of a point share."""
    ran = flatten_labels({"ran": recorded_labels(run, point).get("ran") or {}})
    attributes = {
        "service.name": str(run.record.get("project") or "perfscale.seatrial"),
        "service.namespace": "perfscale.seatrial",
        "service.version": str((run.record.get("versions") or {}).get("perfscale.seatrial") or ""),
        "service.instance.id": str(point.record.get("uuid") or ""),
        "seatrial.run": run.id,
        "seatrial.presets": ", ".join(map(str, run.record.get("presets") or [])),
        "seatrial.point": point.number,
        "seatrial.verdict": str(verdict.get("verdict") or "unknown"),
        "seatrial.status": status,
        **{f"seatrial.matrix.{name}": formats.format_setting_value(value) for name, value in point.settings.items()},
        **{f"seatrial.{name}": value for name, value in ran.items()},
    }
    return {"attributes": _attributes(attributes)}


def requests_of_run(run: Run, verdict: Mapping[str, Any], status: str, most: int) -> Iterator[tuple[Document, int]]:
    """Yield the bodies of requests with the number of traces that each of them ends, point by point."""
    for point in run_with_counted_attempts(run).points:
        path = point.folder / "timeline.jsonl"
        if not path.exists():
            continue
        table = read_timeline_jsonl(path)
        resource = resource_of_point(run, point, verdict, status)
        identity = str(point.record.get("uuid") or f"{run.id}-{point.number}")
        spans: list[Document] = []
        traces = 0
        for workload in spans_of_workloads(table, identity, most):
            if spans and len(spans) + len(workload) > MOST_SPANS:
                yield _request(resource, spans), traces
                spans, traces = [], 0
            spans += workload
            traces += 1
        if spans:
            yield _request(resource, spans), traces


def send_traces(receiver: OtlpReceiver, requests: Iterable[tuple[Document, int]]) -> dict[str, int]:
    """Send requests; return the numbers of traces and spans. Raises AccessError, also for refused spans."""
    http = HttpClient(
        receiver.name,
        receiver.address,
        f"Bearer {receiver.token}" if receiver.token else "",
        receiver.authority,
        policy=HttpPolicy(timeout=TIMEOUT, retry_time=RETRY_TIME),
    )
    counts = {"traces": 0, "spans": 0}
    for body, traces in requests:
        spans = len(body["resourceSpans"][0]["scopeSpans"][0]["spans"])
        _check_answer(receiver, _post(http, receiver, body), counts["spans"], spans)
        counts["traces"] += traces
        counts["spans"] += spans
    return counts


def _post(http: HttpClient, receiver: OtlpReceiver, body: Document) -> Any:
    """Return the answer to a request. Raises AccessError with the remedy."""
    try:
        return http.send("POST", "", body, repeat="always", what=receiver.name).body
    except HttpRefused as error:
        hint = {
            400: "; it does not take OTLP as JSON",
            401: "; check export_otlp_token",
            403: "; check export_otlp_token",
            404: f"; is this the address of an OTLP/HTTP receiver? {PATH} is appended to it",
            405: f"; is this the address of an OTLP/HTTP receiver? {PATH} is appended to it",
            415: "; it does not take OTLP as JSON",
        }.get(error.status, "")
        raise AccessError(f"{error}{hint}") from error


def _check_answer(receiver: OtlpReceiver, answer: Any, before: int, spans: int) -> None:
    """Raise AccessError if a receiver has refused spans of a request. before: spans of earlier requests."""
    with expect_documented_form(receiver.name, answer):
        partial = (answer.get("partialSuccess") if isinstance(answer, Mapping) else None) or {}
        refused = int(partial.get("rejectedSpans") or 0)
        why = str(partial.get("errorMessage") or "it does not say why")[:MOST_REASON]
    if refused:
        raise AccessError(
            f"{receiver.name} refused {refused} of {formats.format_count(spans, 'span')} and took {before} before: "
            f"{why}"
        )


def _request(resource: Document, spans: list[Document]) -> Document:
    scope = {"scope": {"name": "perfscale.seatrial"}, "spans": spans}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _span(
    trace: str, own: str, parent: str, name: str, start: float, end: float, attributes: Mapping[str, Any]
) -> Document:
    return {
        "traceId": trace,
        "spanId": own,
        **({"parentSpanId": parent} if parent else {}),
        "name": name,
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(start),
        "endTimeUnixNano": _nanoseconds(end),
        "attributes": _attributes(attributes),
    }


def _attributes(values: Mapping[str, Any]) -> list[Document]:
    """Return attributes in the JSON of OTLP, without empty texts and unknown numbers."""
    return [{"key": name, "value": _value(value)} for name, value in values.items() if value not in ("", None)]


def _value(value: Any) -> Document:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": value if isinstance(value, str) else json.dumps(value)}


def _seconds(value: float) -> float | None:
    return None if isnan(value) else round(value, 6)


def _nanoseconds(moment: float) -> str:
    """Return a time as text, in microseconds: a timeline has no more digits."""
    return str(round(moment * 1e6) * 1000)


def _hex_id(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
