# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions over requests to inference servers: tokens and their gaps, rates, service level objectives.

A service level objective (SLO) is the setting ``serving_slo``: limits of a request, in seconds, and the share of the
requests that has to keep them. A request that did not succeed has missed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.capacity_search import USUAL_SHARE
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.request_reader import RequestFigures

from .censored_quantiles import BootstrapResampling, DurationSample, parse_quantile
from .point_data import ENDED, INTENDED, SENT, KpiValue, NoFigure, PointData, kpi_function

FIRST, LAST = "first_token", "last_token"
SLO, METRICS_URL = "serving_slo", "serving_metrics_url"
#: Key of the SLO -> its name in sentences.
LIMITS = {"ttft": "TTFT", "tpot": "TPOT", "stall": "stall", "total": "total"}
#: The time between the first end and the last request counts, unless it is a smaller share of that since the first.
LEAST_STEADY = 0.5


def require_request_figures(data: PointData) -> RequestFigures:
    """Return the figures of the requests of a point. Raises NoFigure for any other point."""
    if data.extras.requests is None:
        raise NoFigure(KpiValue(None, 0, data.of, note="no inference server was measured"))
    return data.extras.requests()


def requests_succeeded(data: PointData) -> Any:
    """Return a boolean array (rows,): whether the request succeeded."""
    return data.np.array([outcome == "succeeded" for outcome in data.table.outcome], dtype=bool)


def tpot_per_request(data: PointData, figures: RequestFigures) -> Any:
    """Return an array (rows,): seconds per output token after the first; NaN with fewer than two."""
    tokens = figures.columns["output_tokens"]
    with data.np.errstate(invalid="ignore", divide="ignore"):
        each = (data.stage_midpoints(LAST) - data.stage_midpoints(FIRST)) / (tokens - 1)
    return data.np.where(tokens > 1, each, data.np.nan)


def longest_stall_per_request(data: PointData, figures: RequestFigures) -> Any:
    """Return an array (rows,): the longest gap between two chunks of a request; NaN with fewer than two."""
    longest = data.np.full(data.of, -1.0)
    data.np.maximum.at(longest, figures.gap_row, figures.gaps)
    return data.np.where(longest < 0, data.np.nan, longest)


def request_seconds(data: PointData, figure: str) -> Any:
    """Return an array (rows,) of a figure of each request, in seconds. Raises InputError for an unknown one."""
    figures = require_request_figures(data)
    known: dict[str, Callable[[], Any]] = {
        "ttft": lambda: data.stage_midpoints(FIRST) - data.stage_bounds(INTENDED)[0],
        "tpot": lambda: tpot_per_request(data, figures),
        "stall": lambda: longest_stall_per_request(data, figures),
        "total": lambda: data.stage_midpoints(ENDED) - data.stage_bounds(INTENDED)[0],
        "lag": lambda: figures.columns["lag"],
    }
    if figure not in known:
        raise formats.unknown_value_error("figure", figure, known)
    return known[figure]()


@kpi_function
def request_time(data: PointData, figure: str, quantile: Any) -> KpiValue:
    """A quantile over requests of ``tpot``, ``stall`` (the longest gap), ``total``, ``ttft`` or ``lag`` of the client.

    Requests that did not succeed count as slower than all others; those with fewer than two tokens have no gap.
    """
    values = request_seconds(data, figure)
    good = requests_succeeded(data)
    counted = ~good | ~data.np.isnan(values) if figure != "lag" else ~data.np.isnan(values)
    times = data.np.where(good | (figure == "lag"), values, data.np.nan)[counted]
    sample = DurationSample(times, times, times, data.np.zeros(len(times)))
    q = parse_quantile(quantile)
    estimate = sample.quantile(q)
    note = f"{estimate.of - estimate.n:,} of {estimate.of:,} did not succeed" if estimate.at_least is not None else ""
    return KpiValue(
        estimate.value,
        estimate.n,
        estimate.of,
        at_least=estimate.at_least,
        note=note or ("" if estimate.of else "no request has one"),
        labels={"figure": figure, "quantile": str(quantile)},
        **data.bootstrap_quantile(sample, q, estimate.value),
        **({} if figure == "lag" else data.provenance(LAST)),
    )


@kpi_function
def token_gap(data: PointData, quantile: Any) -> KpiValue:
    """A quantile of the seconds between consecutive chunks with text, of all requests together.

    The confidence interval draws requests, not gaps: the gaps of one request are alike.
    """
    np = data.np
    figures = require_request_figures(data)
    n = len(figures.gaps)
    provenance = data.provenance(LAST)
    if not n:
        return KpiValue(None, 0, 0, note="no request has two chunks of text", **provenance)
    q = parse_quantile(quantile)
    order = np.argsort(figures.gaps)
    ordered, rows = figures.gaps[order], figures.gap_row[order]
    value = float(np.quantile(ordered, q))

    def replicate(drawing: BootstrapResampling) -> Any:
        return drawing.quantiles_of_parts(ordered, rows, q)

    bootstrap = data.bootstrap(data.of, value, replicate) if 0 < q < 1 else {}
    return KpiValue(value, n, n, labels={"quantile": str(quantile)}, **bootstrap, **provenance)


def time_window_of_rates(data: PointData) -> tuple[float, float, str]:
    """Return begin and end of the time that rates count, in seconds after the start, and a remark.

    It begins when the first request has ended and ends when the last one was sent, so that neither filling nor draining
    the server makes a rate too small. A load that is short beside its requests has no such time: all of it counts.
    """
    np = data.np
    sent, ended = data.stage_bounds(SENT)[0], data.stage_midpoints(ENDED)
    if not data.of or np.isnan(ended).all():
        raise NoFigure(KpiValue(None, 0, data.of, note="no request ended"))
    first, last = float(np.nanmin(sent)), float(np.nanmax(ended))
    begin, end = float(np.nanmin(ended)), float(np.nanmax(sent))
    steady = end - begin - load_interruption_seconds(data, begin, end)
    if steady > 0 and steady >= LEAST_STEADY * (end - first - load_interruption_seconds(data, first, end)):
        return begin, end, ""
    return first, last, "over all of the load, because it was short beside its requests"


def load_interruption_seconds(data: PointData, begin: float, end: float) -> float:
    """Return the seconds between two moments in which the load was interrupted."""
    pauses = require_request_figures(data).pauses
    return sum((max(0.0, min(end, after) - max(begin, before)) for before, after in pauses), 0.0)


def _rate_per_second(data: PointData, moments: Any, weights: Any, rows: Any, per: float = 1.0) -> KpiValue:
    """Return what came at ``moments``, with ``weights``, per second of the steady time. rows: the row of each."""
    np = data.np
    begin, end, note = time_window_of_rates(data)
    paused = load_interruption_seconds(data, begin, end)
    if paused:
        note = "; ".join(filter(None, [note, f"without {formats.format_duration(paused)} of interruption"]))
    length = end - begin - paused
    if length <= 0:
        return KpiValue(None, 0, data.of, note="no time passed")
    inside = (moments >= begin) & (moments <= end)
    by_row = np.bincount(rows[inside], weights=weights[inside], minlength=data.of)
    value = float(by_row.sum()) / length / per

    def replicate(drawing: BootstrapResampling) -> Any:
        return drawing.means(by_row) * data.of / length / per

    return KpiValue(
        value,
        int((by_row > 0).sum()),
        data.of,
        note=note,
        **data.bootstrap(data.of, value, replicate),
        **data.provenance(LAST),
    )


@kpi_function
def request_rate(data: PointData, slo: bool = False) -> KpiValue:
    """Requests per second that succeeded, in the time between the first end and the last request sent.

    slo: only those that kept the service level objective (goodput).
    """
    require_request_figures(data)
    good, labels = requests_succeeded(data), {}
    if slo:
        good, _share, text = requests_within_slo(data)
        labels = {"slo": text}
    rows = data.np.flatnonzero(good)
    rate = _rate_per_second(data, data.stage_midpoints(ENDED)[rows], data.np.ones(len(rows)), rows)
    return replace(rate, labels=labels)


@kpi_function
def output_rate(data: PointData, per: str = "") -> KpiValue:
    """Output tokens per second that were received between the first end and the last request sent.

    per: ``gpu`` divides by the accelerators, the setting serving_accelerators.
    """
    np = data.np
    figures = require_request_figures(data)
    accelerators = 1.0
    if per == "gpu":
        accelerators = _accelerators(point_settings(data))
        if not accelerators:
            return KpiValue(None, 0, data.of, note="the number of accelerators is unknown: set serving_accelerators")
    # The tokens of a request are spread over its chunks: a server may send several in one.
    first = data.stage_midpoints(FIRST)
    tokens, chunks = figures.columns["output_tokens"], figures.columns["chunks"]
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(chunks > 0, tokens / chunks, 0.0)
    began = np.flatnonzero(~np.isnan(first) & (each > 0))
    rows = np.concatenate([began, figures.gap_row])
    moments = np.concatenate([first[began], first[figures.gap_row] + figures.gap_end])
    return _rate_per_second(data, moments, np.nan_to_num(each)[rows], rows, accelerators)


@kpi_function
def cached_share(data: PointData) -> KpiValue:
    """Share of the prompt tokens that the server had in its prefix cache, in percent, as it reports them."""
    np = data.np
    columns = require_request_figures(data).columns
    cached, prompt = columns["cached_tokens"], columns["prompt_tokens"]
    known = ~np.isnan(cached) & (prompt > 0)
    n = int(known.sum())
    if not n:
        return KpiValue(None, 0, data.of, note="the server does not report cached tokens")
    hit, asked = np.where(known, cached, 0.0), np.where(known, prompt, 0.0)
    value = 100 * float(hit.sum() / asked.sum())

    def replicate(drawing: BootstrapResampling) -> Any:
        return 100 * drawing.means(hit) / np.maximum(drawing.means(asked), 1e-9)

    return KpiValue(value, n, data.of, **data.bootstrap(data.of, value, replicate), **data.provenance(FIRST))


@kpi_function
def prefix_affinity(data: PointData) -> KpiValue:
    """Share of the later turns of conversations whose server had the turn before in its prefix cache, in percent.

    A server that had only the turn before that one has at most its prompt and its answer, as servers keep that cache
    generated tokens. It had the turn before if more than half of what that turn's prompt had beyond these was cached;
    the rest may be part of a block. What all conversations begin with does not count, because every server caches that.
    Turns whose prompt has nothing beyond these are left out.
    """
    np = data.np
    columns = require_request_figures(data).columns
    conversation, turn, prompt, answer, cached = (
        columns[name] for name in ("conversation", "turn", "prompt_tokens", "output_tokens", "cached_tokens")
    )
    shared = float(point_settings(data).get("serving_shared_prefix_tokens") or 0)
    prompts = dict(zip(zip(conversation, turn, strict=True), prompt, strict=True))
    said = {(row, -1.0): shared for row in conversation}
    said.update(zip(zip(conversation, turn, strict=True), prompt + answer, strict=True))
    needed = np.full(data.of, np.nan)
    for row in np.flatnonzero(turn > 0):
        least = prompts.get((conversation[row], turn[row] - 1), np.nan)
        without = said.get((conversation[row], turn[row] - 2), np.nan)
        if least > without:
            needed[row] = (least + without) / 2
    known = ~np.isnan(needed) & ~np.isnan(cached)
    n = int(known.sum())
    if not n:
        return KpiValue(None, 0, data.of, note="there is no later turn of a conversation with its cached tokens")
    hit, counted = (known & (cached > needed)).astype(float), known.astype(float)
    value = 100 * float(hit.sum()) / n

    def replicate(drawing: BootstrapResampling) -> Any:
        return 100 * drawing.means(hit) / np.maximum(drawing.means(counted), 1e-9)

    return KpiValue(value, n, n, **data.bootstrap(data.of, value, replicate), **data.provenance(FIRST))


def _accelerators(settings: Mapping[str, Any]) -> float:
    """Return the number of accelerators: as set, else those of the servers that the run deployed; 0: unknown."""
    number = float(settings.get("serving_accelerators") or 0)
    if not number and settings.get("serving_deploy", "none") != "none":
        number = float(settings.get("serving_gpus") or 0) * float(settings.get("serving_replicas") or 0)
    return number


def point_settings(data: PointData) -> Mapping[str, Any]:
    """Return the settings of a point."""
    return data.extras.matrix.settings if data.extras.matrix is not None else {}


def requests_within_slo(data: PointData) -> tuple[Any, float, str]:
    """Return a boolean array (rows,): whether the request kept the SLO; the share that has to, and the SLO as text.

    Raises NoFigure without an SLO.
    """
    slo = point_settings(data).get(SLO) or {}
    limits = {key: float(slo[key]) for key in LIMITS if slo.get(key) is not None}
    if not limits:
        raise NoFigure(KpiValue(None, 0, data.of, note=f"there is no service level objective: set {SLO}"))
    kept = requests_succeeded(data)
    for key, most in limits.items():
        values = request_seconds(data, key)
        # A request with one token has no time per further token, and cannot miss its limit.
        kept &= ~(values > most) if key in ("tpot", "stall") else values <= most
    text = ", ".join(f"{LIMITS[key]} ≤ {formats.format_duration(most)}" for key, most in limits.items())
    return kept, float(slo.get("share") or USUAL_SHARE), text


@kpi_function
def slo_attainment(data: PointData) -> KpiValue:
    """Share of all planned requests that kept the service level objective, in percent."""
    kept, _share, text = requests_within_slo(data)
    value = 100 * float(kept.mean()) if data.of else None

    def replicate(drawing: BootstrapResampling) -> Any:
        return 100 * drawing.means(kept.astype(float))

    bootstrap = data.bootstrap(data.of, value, replicate)
    return KpiValue(value, data.of, data.of, note=text, labels={"slo": text}, **bootstrap, **data.provenance(LAST))


@kpi_function
def server_mean(data: PointData, metric: str, ours: str = "") -> KpiValue:
    """The mean of a histogram of the servers, from its sums and counts before and after the load, in seconds.

    ours: the stage that ends the same time. Its mean since sending, over the requests that succeeded, is shown, too.
    """
    figures = require_request_figures(data)
    if (pods := _pods_behind_urls(data, figures)) > len(figures.servers):
        known = formats.format_count(len(figures.servers), "address", "addresses")
        note = f"{pods} servers share {known}, so /metrics before and after are not of the same: set {METRICS_URL}"
        return KpiValue(None, 0, data.of, note=note)
    total, count = (_server_increase(figures.servers, f"{metric}_{part}") for part in ("sum", "count"))
    if not count:
        return KpiValue(None, 0, data.of, note=f"the servers do not report {metric}")
    value = total / count
    note = ""
    if ours:
        own = data.stage_midpoints(ours) - data.stage_bounds(SENT)[0]
        own = own[requests_succeeded(data) & ~data.np.isnan(own)]
        if len(own):
            mean = float(own.mean())
            more = formats.format_duration(abs(mean - value))
            than = "more" if mean >= value else "less"
            note = f"our mean is {formats.format_duration(mean)}, {more} {than}, over {len(own):,} requests"
    return KpiValue(value, int(count), int(count), note=note, labels={"metric": metric}, **data.provenance(LAST))


def _pods_behind_urls(data: PointData, figures: RequestFigures) -> int:
    """Return how many pods can have answered for the servers: those deployed, or those that were ready meanwhile.

    0 if that is unknown, and if the user has named the servers whose metrics are read.
    """
    settings = point_settings(data)
    if settings.get(METRICS_URL):
        return 0
    deployed = int(settings.get("serving_replicas") or 0) if figures.deployment else 0
    watched = {change["pod"] for change in figures.scale if change["type"] == "pod" and change["stage"] == "ready"}
    return max(deployed, len(watched))


def _server_increase(servers: Sequence[Mapping[str, Any]], name: str) -> float:
    """Return by how much a counter of all servers has increased, over all of its labels."""
    total = 0.0
    for server in servers:
        before, after = server.get("before") or {}, server.get("after") or {}
        for series, amount in after.items():
            if series.partition("{")[0] == name and amount is not None:
                total += float(amount) - float(before.get(series) or 0.0)
    return total
