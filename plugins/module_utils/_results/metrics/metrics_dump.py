# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dump the samples that a Prometheus server has of the time of a run. Module metrics_dump calls it.

Samples are read through the query API (a range selector in an instant query), which each Prometheus and Thanos has and
which leaves nothing on the server. The file is OpenMetrics text, of which promtool makes blocks of a database.
"""

from __future__ import annotations

import gzip
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.wait_until import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader

from . import capture_metrics
from .prometheus import Prometheus, PrometheusServer, QueryError

#: In the run directory: the samples, and what they are (schema metrics_dump/1).
FILE, INDEX = "metrics_dump.om.gz", "metrics_dump.json"
#: Seconds before the first point, so that rates over a window are known from its beginning.
BEFORE = 300.0
#: A time of this many seconds or less is not divided further.
LEAST_TIME = 5.0
#: Number of metrics between two progress lines.
AGAIN = 200
#: Names and labels that OpenMetrics has without quotes; the server may have others.
_PLAIN = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_END = gzip.compress(b"# EOF\n")


class _LeftOut(Exception):
    """The reason why a metric is not in the dump."""


@dataclass
class _Samples:
    """The samples of one metric as lines of OpenMetrics text. ``interval``: between two samples, in seconds."""

    lines: list[str] = field(default_factory=list)
    series: set[str] = field(default_factory=set)
    interval: float = 0.0
    histograms: int = 0


def dump(
    run_dir: str,
    server: PrometheusServer,
    limit: int,
    seconds: float,
    say: Say,
    matchers: Sequence[str] = (),
    queries: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the samples of all metrics from before the first point to the end of the last one.

    limit: bytes of the file. seconds: time for all of it. matchers: label matchers that a series must meet. queries:
    files with queries whose metrics are read first. The index and a warning name what was left out.
    Raises InputError, AccessError.
    """
    top = Path(run_dir)
    begin, end = _time_of(top)
    deadline = time.monotonic() + seconds
    prometheus = Prometheus(server)
    names = _first(prometheus.names(selector("", matchers), begin, end), queries)
    left: list[dict[str, str]] = []
    series = samples = histograms = 0
    interval = 0.0
    temporary = top / f".{FILE}.{os.getpid()}"
    try:
        with open(temporary, "wb") as stream:
            for number, name in enumerate(names):
                if number % AGAIN == AGAIN - 1:
                    say(f"{number} of {formats.count(len(names), 'metric')}, {formats.value(stream.tell(), 'bytes')}")
                try:
                    if time.monotonic() > deadline:
                        raise _LeftOut(f"the time limit of {formats.seconds(seconds)}")
                    found = _read(prometheus, name, selector(name, matchers), begin, end)
                    packed = gzip.compress("".join(found.lines).encode(), 6)
                    if stream.tell() + len(packed) + len(_END) > limit:
                        raise _LeftOut(f"the limit of {formats.value(limit, 'bytes')}")
                except (_LeftOut, QueryError) as error:
                    left.append({"name": name, "why": str(error)})
                    continue
                stream.write(packed)
                series, samples = series + len(found.series), samples + len(found.lines)
                histograms, interval = histograms + found.histograms, max(interval, found.interval)
            stream.write(_END)
        os.replace(temporary, top / FILE)
    finally:
        temporary.unlink(missing_ok=True)
    index: dict[str, Any] = {
        "schema": "metrics_dump/1",
        "server": server.shown,
        "from": begin,
        "to": end,
        "matchers": list(matchers),
        "metrics": len(names) - len(left),
        "series": series,
        "samples": samples,
        "interval": interval,
        "bytes": (top / FILE).stat().st_size,
        "sha256": files.sha256_of(top / FILE),
        "left_out": left,
    }
    files.write_json(top / INDEX, index, "metrics_dump/1")
    summary = (
        f"{formats.count(index['metrics'], 'metric')} of {server.shown}, {formats.count(samples, 'sample')}: "
        f"{formats.value(index['bytes'], 'bytes')}"
    )
    return {"changed": True, **index, "summary": summary, "warnings": _warnings(left, histograms)}


def _time_of(top: Path) -> tuple[float, float]:
    windows = [capture_metrics.window(one, time.time()) for one in run_reader.read(top).points]
    known = [one for one in windows if one is not None]
    if not known:
        raise InputError(f"{top}: no point was started, so there is no time to dump metrics of")
    return min(begin for begin, _end in known) - BEFORE, max(end for _begin, end in known)


def selector(name: str, matchers: Sequence[str]) -> str:
    """Return the PromQL selector of the series of a metric (of all metrics, if empty) that meet all label matchers."""
    # One matcher at least must not match an empty label.
    named = f'__name__="{name}"' if name else '__name__=~".+"'
    return "{" + ",".join([named, *matchers]) + "}"


def _first(names: Sequence[str], queries: Sequence[str]) -> list[str]:
    """Return the names, first those that occur in a query: they matter most if the dump must end early."""
    known = {word for one in capture_metrics.load(queries) for word in _PLAIN.findall(one["query"])}
    return sorted(names, key=lambda name: (name not in known, name))


def _read(prometheus: Prometheus, name: str, selected: str, begin: float, end: float) -> _Samples:
    if not _PLAIN.fullmatch(name):
        raise _LeftOut("its name needs quotes")
    found = _Samples()
    intervals = []
    after: dict[str, float] = {}
    for one in _parts(prometheus, selected, begin, end):
        found.histograms += "histograms" in one
        labels = one["metric"]
        title = _title(name, labels)
        # A server may return a sample at the border of two parts twice.
        pairs = [pair for pair in one.get("values") or () if pair[0] > after.get(title, 0.0)]
        if not pairs:
            continue
        after[title] = pairs[-1][0]
        found.series.add(title)
        found.lines += [f"{title} {value} {moment:.3f}\n" for moment, value in pairs]
        if len(pairs) > 2:
            intervals.append(median(later[0] - earlier[0] for earlier, later in zip(pairs, pairs[1:], strict=False)))
    found.interval = max(intervals, default=0.0)
    return found


def _parts(prometheus: Prometheus, selected: str, begin: float, end: float) -> Iterator[dict[str, Any]]:
    """Yield the series of a metric, divided in time where the answer would be too large. Raises QueryError."""
    try:
        found = prometheus.samples(selected, begin, end)
    except QueryError:
        if end - begin <= LEAST_TIME:
            raise
        middle = round((begin + end) / 2, 3)
        yield from _parts(prometheus, selected, begin, middle)
        yield from _parts(prometheus, selected, middle, end)
        return
    yield from found


def _title(name: str, labels: Mapping[str, str]) -> str:
    pairs = [f'{key}="{_escaped(text)}"' for key, text in sorted(labels.items()) if key != "__name__"]
    return f"{name}{{{','.join(pairs)}}}" if pairs else name


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _warnings(left: Sequence[Mapping[str, str]], histograms: int) -> list[str]:
    found = []
    if left:
        whys = ", ".join(dict.fromkeys(one["why"] for one in left[:3]))
        names = formats.listed(one["name"] for one in left)
        found.append(f"{formats.count(len(left), 'metric')} not dumped ({whys}): {names}")
    if histograms:
        found.append(f"native histograms of {histograms} series are not dumped: OpenMetrics text cannot hold them")
    return found
