# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Range queries to a Prometheus-compatible server, read-only, and the captured metrics of the time of test points."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, yaml_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    parse_json,
    require_json_object,
    require_list_of_json_objects,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import HttpClient, HttpPolicy
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import (
    HttpRefused,
    TooLarge,
    check_url_usable_and_secure,
    url_without_secrets,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

from . import metrics_file
from .metrics_file import MetricSeries

#: The route to OpenShift's monitoring, and the CA bundle of its routes.
ROUTE = "/apis/route.openshift.io/v1/namespaces/openshift-monitoring/routes/thanos-querier"
ROUTER_CA = "/api/v1/namespaces/openshift-config-managed/configmaps/default-ingress-cert"

#: Largest answers, with all samples of a metric and with series, in bytes; as Python objects they take about ten times
#: as much.
MOST_ANSWER, MOST_SERIES = 16 << 20, 64 << 20
#: Most metrics of a dump, of which a large cluster has some thousands, and characters of a name.
MOST_NAMES, LONGEST_NAME = 50_000, 1000
#: Warnings of a server that are kept of one answer.
_DOUBTS = 5
#: Seconds since the epoch that no sample has reached: in the year 5138.
_END_OF_TIME = 1e11


class QueryError(AccessError):
    """The server refused this query."""


@dataclass(frozen=True)
class PrometheusServer:
    """Address and credentials. authority: CAs as PEM text, default the system's. Always verified."""

    url: str
    token: str = field(default="", repr=False)
    authority: str = ""

    def __post_init__(self) -> None:
        check_url_usable_and_secure(f"metrics server {self.shown}", self.url, https_only=bool(self.token))

    @property
    def shown(self) -> str:
        """Return the address without credentials, query and fragment."""
        return url_without_secrets(self.url)


def find_prometheus_server(
    url: str, token: str, ca_file: str | None, kubeconfig: str | None, context: str = ""
) -> PrometheusServer:
    """Return the server at ``url``, or else that of the OpenShift cluster of ``kubeconfig`` and its ``context``.

    Raises InputError, AccessError.
    """
    authority = ""
    if ca_file:
        try:
            authority = Path(ca_file).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"ca_file {ca_file} can't be read: {error}") from error
    if url:
        return PrometheusServer(url, token, authority)
    if not kubeconfig:
        raise InputError("neither url nor kubeconfig is given: which server is to be asked?")
    with Client.from_kubeconfig(kubeconfig, context) as client:
        server = openshift_thanos_querier(client)
    # The cluster has named this server: it gets what the cluster knows, and not the token for the server at ``url``.
    return PrometheusServer(server.url, server.token, authority or server.authority)


def openshift_thanos_querier(client: Client) -> PrometheusServer:
    """Return the Thanos querier of an OpenShift cluster, with the token of its kubeconfig. Raises AccessError."""
    try:
        host = client.request("GET", ROUTE)["spec"]["host"]
    except (SeatrialError, KeyError, TypeError) as error:
        raise AccessError(
            f"{client.access.server}: there is no route thanos-querier in openshift-monitoring ({error}); "
            "is this an OpenShift with monitoring? Name a server with metrics_url otherwise"
        ) from error
    kind, _space, token = client.access.authorization.partition(" ")
    if kind != "Bearer":
        raise AccessError(
            f"{client.access.source} has no token, which the Thanos route requires: log in with `oc login`, or give "
            "metrics_url and metrics_token"
        )
    try:
        authority = str(client.request("GET", ROUTER_CA)["data"]["ca-bundle.crt"])
    except (SeatrialError, KeyError, TypeError):  # not readable: use the system's CAs, or metrics_ca_file
        authority = ""
    return PrometheusServer(f"https://{host}", token, authority)


class PrometheusClient:
    """Requests to one server."""

    def __init__(self, server: PrometheusServer) -> None:
        self.server = server
        secret = f"Bearer {server.token}" if server.token else ""
        self._http = HttpClient(server.shown, server.url, secret, server.authority, policy=HttpPolicy.of_query())
        #: What the server has said against its answers, such as that a part of the servers behind it did not answer.
        self.doubts: list[str] = []

    def range(self, query: str, begin: float, end: float, step: float) -> list[MetricSeries]:
        """Return the series of a query. Raises QueryError if refused, AccessError without an answer."""
        arguments = {"query": query, "start": f"{begin:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        answer = self._post("/api/v1/query_range", arguments, MOST_SERIES)
        with expect_documented_form(f"{self.server.shown}: POST /api/v1/query_range", answer):
            data = answer["data"]
            if data["resultType"] != "matrix":
                raise QueryError(f"{self.server.shown}: '{query}' returned {data['resultType']} instead of series")
            return [_parse_series(result) for result in data["result"]]

    def names(self, selector: str, begin: float, end: float) -> list[str]:
        """Return the names of metrics with samples of ``selector`` in a time, in seconds since the epoch."""
        arguments = {"match[]": selector, "start": f"{begin:.3f}", "end": f"{end:.3f}"}
        path = "/api/v1/label/__name__/values"
        answer = self._answer("GET", f"{path}?{urlencode(arguments)}")
        with expect_documented_form(f"{self.server.shown}: GET {path}", answer):
            names = [str(name) for name in answer["data"]]
        if len(names) > MOST_NAMES or any(len(name) > LONGEST_NAME for name in names):
            raise AccessError(
                f"{self.server.shown}: it names {len(names):,} metrics, and at most {MOST_NAMES:,} with names of up to "
                f"{LONGEST_NAME} characters are dumped: choose some with metrics_dump_matchers"
            )
        return names

    def samples(self, selector: str, begin: float, end: float) -> list[dict[str, Any]]:
        """Return the samples of ``selector`` as the server stores them, by its API: values are texts, times numbers.

        Raises QueryError if they are refused or are more than MOST_ANSWER bytes, AccessError without an answer.
        """
        # In milliseconds, the resolution of the samples.
        arguments = {"query": f"{selector}[{round((end - begin) * 1000)}ms]", "time": f"{end:.3f}"}
        answer = self._post("/api/v1/query", arguments, MOST_ANSWER)
        what = f"{self.server.shown}: POST /api/v1/query"
        with expect_documented_form(what, answer):
            series = require_list_of_json_objects(what, answer["data"]["result"])
            for part in series:
                part["metric"] = _labels(part["metric"])
                part["values"] = [(_moment(moment), value) for moment, value in part.get("values") or ()]
            return series

    def _post(self, path: str, arguments: dict[str, str], max_bytes: int = 0) -> dict[str, Any]:
        return self._answer("POST", path, urlencode(arguments).encode(), max_bytes)

    def _answer(self, method: str, path: str, body: bytes | None = None, max_bytes: int = 0) -> dict[str, Any]:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            headers = form if body else None
            answer = self._http.json(method, path, body, headers=headers, max_bytes=max_bytes, what=self.server.shown)
            answer = require_json_object(f"{self.server.shown}: {method} {path.partition('?')[0]}", answer)
            told = answer.get("warnings")
            self.doubts += [str(text)[:300] for text in (told if isinstance(told, list) else [])[:_DOUBTS]]
            return answer
        except TooLarge as error:
            raise QueryError(str(error)) from error
        except HttpRefused as error:
            told = error.reply.text
            if error.status in (400, 422) or '"errorType":"timeout"' in told:
                raise QueryError(
                    f"{self.server.shown} refused the query: {_error_message_of_response(told)}"
                ) from error
            if error.status in (401, 403):
                raise AccessError(f"{error}; check metrics_token") from error
            raise


def _error_message_of_response(text: str) -> str:
    try:
        return str(parse_json(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text[:200]


def _parse_series(result: dict[str, Any]) -> MetricSeries:
    moments = [_moment(moment) for moment, _value in result["values"]]
    numbers = [float(value) for _moment, value in result["values"]]
    return MetricSeries(_labels(result["metric"]), moments, [value if isfinite(value) else None for value in numbers])


def _labels(labels: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in dict(labels).items()}


def _moment(seconds: Any) -> float:
    """Return the time of a sample. Raises ValueError for one that is none."""
    if not 0 <= (moment := float(seconds)) < _END_OF_TIME:
        raise ValueError(f"{moment} is no time")
    return moment


REQUIRED, OPTIONAL = ("name", "query", "unit"), ("help", "labels")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
#: Maximum number of moments per query, and minimum step in seconds.
MOMENTS, LEAST_STEP = 300, 1.0
#: Default of {range}: this many steps, and at least this many seconds (four scrapes of 15 s).
RANGE_STEPS, LEAST_RANGE = 4, 60.0


def load_metric_queries(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Read queries from YAML files; a later query replaces one of the same name. Raises InputError naming the place."""
    return yaml_definitions.read_yaml_definitions(
        paths, "query", "queries", "metric_queries/1", REQUIRED, OPTIONAL, _check_metric_query
    )


def _check_metric_query(entry: Mapping[str, Any], where: str) -> None:
    if not _NAME.fullmatch(str(entry["name"])):
        raise InputError(
            f"{where}: a name consists of lower-case letters, digits and _, because a file is named after it"
        )


def point_time_window(point: Point, now: float) -> tuple[float, float] | None:
    """Return begin and end of a point in seconds since the epoch; ``now`` as the end of an unfinished one."""
    begin = _parse_timestamp(point.record.get("started"))
    if begin is None:
        return None
    return begin, max(_parse_timestamp(point.record.get("ended")) or now, begin + LEAST_STEP)


def _parse_timestamp(text: Any) -> float | None:
    moment = formats.parse_timestamp(text)
    return moment.timestamp() if moment else None


def replace_query_placeholders(query: str, names: Mapping[str, str]) -> str:
    """Return the query with {range}, {run} and other names replaced; braces of PromQL contain no bare name and stay."""
    for name, text in names.items():
        query = query.replace("{" + name + "}", text)
    return " ".join(query.split())


def capture_metrics_of_points(
    run_dir: str,
    server: PrometheusServer,
    files: Sequence[str],
    step: float = 0.0,
    look_back: float = 0.0,
    points: Iterable[str] = (),
    names: Mapping[str, str] | None = None,
    keep: bool = False,
) -> dict[str, Any]:
    """Write the metrics of the points. step, look_back: in seconds, 0 for values that fit the length of the point.

    keep: leave the metrics of the points that have values as they are, and add others.
    A refused query becomes a warning and an entry without values. Raises AccessError when the server does not answer.
    """
    run = run_reader.read_run_directory(Path(run_dir))
    queries = load_metric_queries(files)
    prometheus = PrometheusClient(server)
    warnings: list[str] = []
    rows: list[dict[str, Any]] = []
    for point in run_reader.points_with_numbers(run, points):
        when = point_time_window(point, time.time())
        if when is None:
            warnings.append(f"point {point.number} was not started: no metrics")
            continue
        begin, end = when
        earlier = point.folder / metrics_file.FILE
        kept = metrics_file.read_metrics_jsonl(earlier) if keep and earlier.is_file() else {}
        kept = {name: metric for name, metric in kept.items() if metric.series}
        each = step or max(LEAST_STEP, ceil((end - begin) / MOMENTS))
        # One file has one step.
        begin, end, each = next(
            ((metric.begin, metric.end, metric.step) for metric in kept.values()), (begin, end, each)
        )
        back = look_back or max(LEAST_RANGE, RANGE_STEPS * each)
        known = {"range": f"{back:.0f}s", "run": run.id, **(names or {})}
        fresh = {
            query["name"]: _capture_query(prometheus, query, known, (begin, end, each), warnings)
            for query in queries
            if query["name"] not in kept
        }
        metrics = list({**kept, **fresh}.values())
        header = {"run": run.id, "point": point.number, "server": server.shown, "from": begin, "to": end, "step": each}
        metrics_file.write_metrics_files(point.folder, header, metrics)
        rows.append(
            {"point": point.number, "metrics": len(metrics), "series": sum(len(metric.series) for metric in metrics)}
        )
    total = sum(row["series"] for row in rows)
    summary = f"{formats.format_count(len(queries), 'query', 'queries')} to {server.shown}: {total} series"
    return {"changed": bool(rows), "points": rows, "warnings": warnings, "summary": summary}


def _capture_query(
    prometheus: PrometheusClient,
    query: Mapping[str, Any],
    names: Mapping[str, str],
    when: tuple[float, float, float],
    warnings: list[str],
) -> metrics_file.CapturedMetric:
    text = replace_query_placeholders(query["query"], names)
    series: list[metrics_file.MetricSeries] = []
    trouble = ""
    try:
        prometheus.doubts.clear()
        series = prometheus.range(text, *when)
        doubted = f"metric {query['name']}: its values may be wrong, the server says"
        warnings += [f"{doubted}: {doubt}" for doubt in prometheus.doubts]
    except QueryError as error:
        trouble = str(error)
        warnings.append(f"metric {query['name']}: {trouble}")
    return metrics_file.CapturedMetric(
        query["name"],
        text,
        query["unit"],
        query.get("help", ""),
        series,
        *when,
        trouble,
        False,
        query.get("labels", ()),
    )
