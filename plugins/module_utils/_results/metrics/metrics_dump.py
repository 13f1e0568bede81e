# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dump the samples that a Prometheus server has of the time of a run, and serve a dump with a local Prometheus.

Samples are read through the query API (a range selector in an instant query), which each Prometheus and Thanos has and
which leaves nothing on the server. The file is OpenMetrics text, of which promtool makes blocks of a database. The
local server listens on loopback, for figures that were not captured at the time.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say, wait_until
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader

from . import capture_prometheus_metrics
from .capture_prometheus_metrics import PrometheusClient, PrometheusServer, QueryError

#: In the run directory: the samples, and what they are (schema metrics_dump/1).
FILE, INDEX = "metrics_dump.om.gz", "metrics_dump.json"
#: Seconds before the first point, so that rates over a window are known from its beginning.
BEFORE = 300.0
#: A time of this many seconds or less is not divided further.
LEAST_TIME = 5.0
#: Number of metrics between two progress lines.
AGAIN = 200
#: Limit of the unpacked size of a dump that is read, in bytes, and how much of it is read at once.
MOST_UNPACKED, _PART = 8 * 2**30, 2**20
#: Names and labels that OpenMetrics has without quotes; the server may have others.
_PLAIN = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
#: A value as the API of Prometheus writes it. Any other text could add lines to the file.
_VALUE = re.compile(r"NaN|[+-]?(?:Inf|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_END = gzip.compress(b"# EOF\n")
#: Seconds for promtool to make the blocks, for the server to answer, and to end.
BLOCKS, STARTED, ENDED = 1800.0, 300.0, 20.0
#: Prometheus looks back this many seconds for a sample, and never less than the least.
LOOK_BACK, LEAST_LOOK_BACK = 300.0, 5.0
_LISTENS = re.compile(r'msg="?Listening on"? .*?address=(127\.0\.0\.1:[0-9]+)')
_READY = "Server is ready to receive web requests"
#: Runs a program that the kernel ends when its parent dies (PR_SET_PDEATHSIG, prctl(2)), also if that is killed.
_WITH_PARENT = """
import ctypes, os, sys
getattr(ctypes.CDLL(None), 'prctl', lambda *_all: 0)(1, 9)
os.execv(sys.argv[1], sys.argv[1:])
"""


#: Returns the series of a selector with their samples from one time to another. Raises QueryError, _LeftOut.
_Query: TypeAlias = Callable[[str, float, float], "list[dict[str, Any]]"]


class _LeftOut(Exception):
    """The reason why a metric is not in the dump."""


@dataclass
class _MetricSamples:
    """The samples of one metric as lines of OpenMetrics text. ``interval``: between two samples, in seconds."""

    lines: list[str] = field(default_factory=list)
    series: set[str] = field(default_factory=set)
    interval: float = 0.0
    histograms: int = 0


def write_metrics_dump(
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
    begin, end = _time_window_of_run(top)
    deadline = time.monotonic() + seconds
    prometheus = PrometheusClient(server)
    names = _queried_metrics_first(prometheus.names(promql_series_selector("", matchers), begin, end), queries)
    left: list[dict[str, str]] = []
    series = samples = histograms = 0
    interval = 0.0
    temporary = top / f".{FILE}.{os.getpid()}"

    def query(selected: str, since: float, until: float) -> list[dict[str, Any]]:
        if time.monotonic() > deadline:
            raise _LeftOut(f"the time limit of {formats.format_duration(seconds)}")
        return prometheus.samples(selected, since, until)

    try:
        with open(temporary, "wb") as stream:
            for number, name in enumerate(names):
                if number % AGAIN == AGAIN - 1:
                    say(
                        f"{number} of {formats.format_count(len(names), 'metric')},"
                        f" {formats.format_with_unit(stream.tell(), 'bytes')}"
                    )
                try:
                    samples_read = _query_metric_samples(
                        query, name, promql_series_selector(name, matchers), begin, end
                    )
                    packed = gzip.compress("".join(samples_read.lines).encode(), 6)
                    if stream.tell() + len(packed) + len(_END) > limit:
                        raise _LeftOut(f"the limit of {formats.format_with_unit(limit, 'bytes')}")
                except (_LeftOut, QueryError) as error:
                    left.append({"name": name, "why": str(error)})
                    continue
                stream.write(packed)
                series, samples = series + len(samples_read.series), samples + len(samples_read.lines)
                histograms, interval = histograms + samples_read.histograms, max(interval, samples_read.interval)
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
        f"{formats.format_count(index['metrics'], 'metric')} of {server.shown},"
        f" {formats.format_count(samples, 'sample')}: "
        f"{formats.format_with_unit(index['bytes'], 'bytes')}"
    )
    doubts = [f"the dump may be incomplete, the server says: {doubt}" for doubt in dict.fromkeys(prometheus.doubts)]
    return {"changed": True, **index, "summary": summary, "warnings": [*_dump_warnings(left, histograms), *doubts[:5]]}


def _time_window_of_run(top: Path) -> tuple[float, float]:
    windows = [
        capture_prometheus_metrics.point_time_window(point, time.time())
        for point in run_reader.read_run_directory(top).points
    ]
    known = [window for window in windows if window is not None]
    if not known:
        raise InputError(f"{top}: no point was started, so there is no time to dump metrics of")
    return min(begin for begin, _end in known) - BEFORE, max(end for _begin, end in known)


def promql_series_selector(name: str, matchers: Sequence[str]) -> str:
    """Return the PromQL selector of the series of a metric (of all metrics, if empty) that meet all label matchers."""
    # One matcher at least must not match an empty label.
    named = f'__name__="{name}"' if name else '__name__=~".+"'
    return "{" + ",".join([named, *matchers]) + "}"


def _queried_metrics_first(names: Sequence[str], queries: Sequence[str]) -> list[str]:
    """Return the names, first those that occur in a query: they matter most if the dump must end early."""
    known = {
        word
        for query in capture_prometheus_metrics.load_metric_queries(queries)
        for word in _PLAIN.findall(query["query"])
    }
    return sorted(names, key=lambda name: (name not in known, name))


def _query_metric_samples(query: _Query, name: str, selected: str, begin: float, end: float) -> _MetricSamples:
    if not _PLAIN.fullmatch(name):
        raise _LeftOut("its name needs quotes")
    samples = _MetricSamples()
    intervals = []
    after: dict[str, float] = {}
    for part in _query_series_in_parts(query, selected, begin, end):
        samples.histograms += "histograms" in part
        labels = part["metric"]
        if not all(map(_PLAIN.fullmatch, labels)):
            raise _LeftOut("the name of a label needs quotes")
        title = _format_series_name(name, labels)
        wrong = [value for _moment, value in part.get("values") or () if not _is_value(value)]
        if wrong:
            raise _LeftOut(f"the server sent the value {str(wrong[0])[:40]!r}, which is no number")
        # A server may return a sample at the border of two parts twice.
        pairs = [pair for pair in part.get("values") or () if pair[0] > after.get(title, 0.0)]
        if not pairs:
            continue
        after[title] = pairs[-1][0]
        samples.series.add(title)
        samples.lines += [f"{title} {value} {moment:.3f}\n" for moment, value in pairs]
        if len(pairs) > 2:
            intervals.append(median(later[0] - earlier[0] for earlier, later in zip(pairs, pairs[1:], strict=False)))
    samples.interval = max(intervals, default=0.0)
    return samples


def _is_value(value: Any) -> bool:
    return isinstance(value, str) and _VALUE.fullmatch(value) is not None


def _query_series_in_parts(query: _Query, selected: str, begin: float, end: float) -> Iterator[dict[str, Any]]:
    """Yield the series of a metric, divided in time where the answer would be too large. Raises QueryError."""
    try:
        parts = query(selected, begin, end)
    except QueryError:
        if end - begin <= LEAST_TIME:
            raise
        middle = round((begin + end) / 2, 3)
        yield from _query_series_in_parts(query, selected, begin, middle)
        yield from _query_series_in_parts(query, selected, middle, end)
        return
    yield from parts


def _format_series_name(name: str, labels: Mapping[str, str]) -> str:
    pairs = [f'{key}="{_escape_label_value(text)}"' for key, text in sorted(labels.items()) if key != "__name__"]
    return f"{name}{{{','.join(pairs)}}}" if pairs else name


def _escape_label_value(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _dump_warnings(left: Sequence[Mapping[str, str]], histograms: int) -> list[str]:
    sentences = []
    if left:
        whys = ", ".join(dict.fromkeys(metric["why"] for metric in left[:3]))
        names = formats.format_list(metric["name"] for metric in left)
        sentences.append(f"{formats.format_count(len(left), 'metric')} not dumped ({whys}): {names}")
    if histograms:
        sentences.append(f"native histograms of {histograms} series are not dumped: OpenMetrics text cannot hold them")
    return sentences


@contextmanager
def run_prometheus_on_dump(run_dir: str, program: str = "") -> Iterator[PrometheusServer]:
    """Run Prometheus on the dump of a run while the body does; nothing is left of it.

    program: the file ``prometheus``; by default that of PATH. ``promtool`` must be beside it or on PATH.
    Raises InputError without a dump or a program, DataError for a damaged dump, ProcessError.
    """
    top = Path(run_dir)
    if not (top / INDEX).is_file():
        raise InputError(f"{top} has no dump of metrics ({INDEX}): the run was made without metrics_dump")
    prometheus, promtool = _find_prometheus_programs(program)
    index = files.read_json(top / INDEX)
    if files.sha256_of(top / FILE) != index["sha256"]:
        raise DataError(f"{top / FILE} is damaged: its checksum is not that of {INDEX}")
    with tempfile.TemporaryDirectory(prefix=".metrics-", dir=top) as scratch:
        folder = Path(scratch)
        _make_blocks(top / FILE, promtool, folder)
        # Ended series have no marker of their end in the dump, so a longer look-back would prolong them.
        look_back = min(max(2.5 * float(index["interval"]), LEAST_LOOK_BACK), LOOK_BACK)
        child = _start_local_prometheus(prometheus, folder, look_back)
        process = processes.ProcessReference.of(child.pid)
        try:
            yield PrometheusServer(f"http://{_wait_for_prometheus_address(child, folder / 'log')}")
        finally:
            processes.terminate_processes([process], ENDED)


def _find_prometheus_programs(program: str) -> tuple[str, str]:
    """Return the paths of prometheus and promtool. Raises InputError."""
    prometheus = shutil.which(program or "prometheus")
    if prometheus is None:
        raise InputError(
            f"metrics_prometheus: there is no program '{program or 'prometheus'}'{'' if program else ' on PATH'}; "
            "install Prometheus, or name its file"
        )
    promtool = shutil.which(str(Path(prometheus).with_name("promtool"))) or shutil.which("promtool")
    if promtool is None:
        raise InputError(f"metrics_prometheus: there is no promtool beside {prometheus} or on PATH")
    return prometheus, promtool


def _make_blocks(packed: Path, promtool: str, folder: Path) -> None:
    text = folder / "samples.om"
    try:
        with gzip.open(packed) as source, open(text, "wb") as target:
            while part := source.read(_PART):
                if target.tell() + len(part) > MOST_UNPACKED:
                    raise DataError(f"{packed}: it unpacks to more than {MOST_UNPACKED / 2**30:.0f} GiB")
                target.write(part)
    except (OSError, EOFError) as error:
        raise DataError(f"{packed}: cannot be unpacked: {error}") from error
    (folder / "data").mkdir()
    done = processes.run_to_completion(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", str(text), "data"], BLOCKS, folder
    )
    text.unlink()
    if done.code:
        raise ProcessError(f"{promtool} could not make blocks of {packed}: {done.last_line}")


def _start_local_prometheus(prometheus: str, folder: Path, look_back: float) -> subprocess.Popen[bytes]:
    (folder / "prometheus.yml").write_text("{}\n", encoding="ascii")
    options = {
        "config.file": "prometheus.yml",
        "storage.tsdb.path": "data",
        "storage.tsdb.retention.time": "100y",
        "query.lookback-delta": f"{look_back:.0f}s",
        "web.listen-address": "127.0.0.1:0",
    }
    command = [
        sys.executable,
        "-I",
        "-c",
        _WITH_PARENT,
        prometheus,
        *(f"--{key}={text}" for key, text in options.items()),
    ]
    try:
        return processes.start_in_new_session(command, folder, processes.environment_without_ansible(), folder / "log")
    except OSError as error:
        raise ProcessError(f"{prometheus} can't be started: {error.strerror}") from error


def _wait_for_prometheus_address(child: subprocess.Popen[bytes], log: Path) -> str:
    def look() -> tuple[str | None, str]:
        text = log.read_text(encoding="utf-8", errors="replace")
        match = _LISTENS.search(text)
        if match and _READY in text:
            return match[1], ""
        if child.poll() is not None:
            raise ProcessError(f"the local Prometheus ended with {child.returncode}: {text[-500:].strip()}")
        return None, "the local Prometheus has not started"

    return wait_until(look, STARTED, lambda _text: None, lambda message: f"{message} after {STARTED:.0f} s", 0.1)
