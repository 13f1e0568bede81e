# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the figures that a training prints from the logs of its pods.

Two formats are supported:

- The last line of a Hugging Face Trainer: a Python dictionary, ``{'train_runtime': 12.3, 'train_loss': 0.9, …}``.
- JSON lines, mostly with terminal colours, one per step, as instruct-lab's training library prints them
  (``{"step": 7, "overall_throughput": 11.2, "samples_seen": 350, "total_loss": 0.7, …}``). Newer versions print
  ``batch_size`` and ``avg_loss`` instead of ``elapsed_time`` and ``total_loss``.

Names are those of the Trainer, so that KPIs do not depend on the library. Units are seconds and items per second.
"""

from __future__ import annotations

import ast
import json
import math
import re
import statistics
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _format
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError

#: A summary line contains at least one of these.
SUMMARY = (
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
    "train_tokens_per_second",
    "train_loss",
)

#: Alternative names -> ours.
_ALSO = {
    "tokens_per_second": "train_tokens_per_second",
    "train_tokens_per_sec": "train_tokens_per_second",
}

#: Terminal colours and cursor movements (ECMA-48 control sequences).
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_DICTIONARY = re.compile(r"\{[^{}]*\}")
#: nan and inf, which are no Python literals.
_NOT_FINITE = re.compile(r"(?<=[\s:,])(nan|-?inf)(?=\s*[,}])")
_POD = re.compile(r"-(?P<index>\d+)-(?P<replica>master|worker|launcher)-\d+$")

#: A line longer than this is a progress bar or a dump; a summary has a few hundred characters.
_LONGEST = 16_384


@dataclass
class LogFigures:
    """Figures of one log: ``values`` by name, or ``error``, the reason why there are none."""

    values: dict[str, float] = field(default_factory=dict)
    error: str | None = None


def parse(lines: Iterable[str]) -> LogFigures:
    """Return the figures of one log. Of several summaries, the last one counts.

    Never raises for the content of a log: a log without figures has an ``error``.
    """
    summary: dict[str, float] = {}
    steps: list[dict[str, float]] = []
    trouble, empty = "", True
    for raw in lines:
        text = plain(raw)
        if not text:
            continue
        empty = False
        if "Traceback (most recent call last)" in text or "OutOfMemoryError" in text:
            trouble = text
        for record in _records(text):
            found = _numbers(record)
            if any(name in found for name in SUMMARY):
                summary = found
            elif "overall_throughput" in found or ("step" in found and "total_loss" in found):
                steps.append(found)
    if summary:
        return LogFigures(summary)
    if steps:
        return LogFigures(_of_steps(steps))
    if empty:
        return LogFigures(error="the log is empty, as those of simulated nodes are")
    return LogFigures(error=f"the log reports: {trouble[:200]}" if trouble else "no line with training figures")


def plain(line: str) -> str:
    """Return a log line without colours and end of line; of a progress bar, only its last state."""
    text = _CONTROL.sub("", line.rstrip("\r\n"))
    text = text.rsplit("\r", 1)[-1].strip()
    return "" if len(text) > _LONGEST else text


def _records(text: str) -> Iterable[dict[Any, Any]]:
    """Yield the dictionaries (Python or JSON) in a line."""
    if "{" not in text:
        return
    for found in _DICTIONARY.finditer(text):
        body = found.group()
        for read in (json.loads, _literal):
            try:
                record = read(body)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record
            break


def _literal(body: str) -> Any:
    return ast.literal_eval(_NOT_FINITE.sub("None", body))


def _numbers(record: dict[Any, Any]) -> dict[str, float]:
    """Return the finite numbers of a record by name, including numbers as text."""
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, bool):
            continue
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            continue
        if math.isfinite(number):
            found[_ALSO.get(str(name), str(name))] = number
    return found


def _of_steps(steps: list[dict[str, float]]) -> dict[str, float]:
    """Summarize a training that prints only its steps.

    Throughput is the median over the steps except the first (which compiles and fills caches), loss that of the last
    step, runtime the sum of the durations of the steps.
    """
    steady = steps[1:] or steps
    figures: dict[str, float] = {"steps": float(len(steps))}
    rates = [one["overall_throughput"] for one in steady if "overall_throughput" in one]
    if rates:
        figures["train_samples_per_second"] = statistics.median(rates)
    durations = [seconds for one in steps if (seconds := _seconds_of(one)) is not None]
    if durations:
        figures["train_runtime"] = sum(durations)
        if figures["train_runtime"] > 0:
            figures["train_steps_per_second"] = len(durations) / figures["train_runtime"]
    losses = [one[name] for one in steps for name in ("avg_loss", "total_loss") if name in one]
    if losses:
        figures["train_loss"] = losses[-1]
    return figures


def _seconds_of(step: dict[str, float]) -> float | None:
    """Return the duration of a step: as printed, else from its samples and its samples per second."""
    if "elapsed_time" in step:
        return step["elapsed_time"]
    rate, samples = step.get("overall_throughput", 0.0), step.get("batch_size")
    return samples / rate if samples is not None and rate > 0 else None


@dataclass(frozen=True)
class TrainingLog:
    """One log to read: its pod, the index and name of the workload, its node, or why there is no log."""

    pod: str
    index: int | None = None
    workload: str = ""
    path: str = ""
    error: str | None = None
    node: str = ""


def logs_in(folder: str | Path) -> list[TrainingLog]:
    """Return the logs <pod>.log in ``folder``; index and workload follow from the name of the pod."""
    logs: list[TrainingLog] = []
    for path in sorted(Path(folder).glob("*.log")):
        found = _POD.search(path.stem)
        index = int(found["index"]) if found else None
        workload = path.stem[: found.start("replica") - 1] if found else ""
        logs.append(TrainingLog(path.stem, index, workload, str(path)))
    return logs


def logs_of(collected: Iterable[dict[str, Any]], folder: str | Path) -> list[TrainingLog]:
    """Return the logs of ``pods``, a result of module pod_logs."""
    logs: list[TrainingLog] = []
    for one in collected:
        path = str(Path(folder) / one["log"]) if one.get("log") else ""
        workload, node = one.get("workload") or "", one.get("node") or ""
        logs.append(TrainingLog(one["pod"], one.get("index"), workload, path, one.get("error"), node))
    return logs


def rows(
    logs: Iterable[TrainingLog], simulated: bool, root: str | Path, real_nodes: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return one row of training.jsonl (schema training/1) for each log; paths are relative to ``root``.

    simulated: whether logs are, except those of pods on ``real_nodes``.
    """
    return [_row(log, simulated and log.node not in real_nodes, Path(root)) for log in logs]


def _row(log: TrainingLog, simulated: bool, root: Path) -> dict[str, Any]:
    figures = LogFigures(error=log.error)
    if not log.error:
        try:
            with open(log.path, encoding="utf-8", errors="replace", newline="\n") as stream:
                figures = parse(stream)
        except OSError as error:
            figures = LogFigures(error=f"log {log.path} cannot be read: {error.strerror}")
    row: dict[str, Any] = {
        "index": log.index,
        "pod": log.pod,
        "figures": figures.values,
        "simulated": simulated,
        "error": figures.error,
    }
    if log.workload:
        row["workload"] = log.workload
    if log.path:
        path = Path(log.path)
        row["log"] = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
    return row


def write(
    point_dir: str | Path, logs: list[TrainingLog], simulated: bool, real_nodes: Collection[str] = ()
) -> tuple[bool, list[dict[str, Any]]]:
    """Write training.jsonl of a point; return whether it changed, and its rows.

    Raises InputError if the directory of the point does not exist.
    """
    folder = Path(point_dir)
    if not folder.is_dir():
        raise InputError(f"point directory {folder} does not exist")
    target = folder / "training.jsonl"
    written = rows(logs, simulated, folder, real_nodes)
    before = target.read_bytes() if target.exists() else None
    _files.write_lines(target, written, "training/1")
    return target.read_bytes() != before, written


def summary(written: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the number of logs, of logs with figures, and the median of each figure."""
    good = [row for row in written if not row["error"]]
    names = sorted({name for row in good for name in row["figures"]})
    medians = {
        name: statistics.median(row["figures"][name] for row in good if name in row["figures"]) for name in names
    }
    return {"logs": len(written), "with_figures": len(good), "medians": medians}


def text(written: list[dict[str, Any]]) -> str:
    """Return the summary in one sentence, the headline figure first."""
    found = summary(written)
    medians = found["medians"]
    shown = ("train_samples_per_second", "train_tokens_per_second", "train_runtime", "train_loss")
    units = {"train_runtime": " s", "train_loss": ""}
    figures = [f"{name} {_shown(medians[name])}{units.get(name, '/s')}" for name in shown if name in medians]
    simulated = [row["simulated"] for row in written]
    words = "simulated, not measured" if all(simulated) else "partly simulated"
    remark = f" ({words})" if any(simulated) and figures else ""
    tail = f": median {', '.join(figures)}{remark}" if figures else ""
    reasons = [row["error"] for row in written if row["error"]]
    missing = f" ({_format.count(len(reasons), 'log')} without: {reasons[0]})" if reasons else ""
    return f"training figures in {found['with_figures']} of {_format.count(found['logs'], 'log')}{tail}{missing}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
