# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One row of training.jsonl for each log of a point: its figures, and the progress of its training.

The progress is read from the files that the training has written: when it did each step, and its checkpoints.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    limit_processor_time,
    parse_json,
)

from .training_log import LogFigures, LogFormat, parse_log_figures

#: Seconds of processor time in which the names of the files of a training are searched for checkpoints.
PATHS_LIMIT = 10.0
#: Seconds by which the times in a log and in the progress may differ.
_TOLERANCE = 1.0


@dataclass(frozen=True)
class ProgressFormat:
    """How a program writes its progress, as ``progress`` in flavour.yml.

    file: JSON lines, below the folder of the training. step, time: dotted names in a line; a time without an offset is
    in UTC. checkpoint: regular expression for the path of a file that each checkpoint has; its group is the step.
    """

    file: str
    step: str
    time: str
    checkpoint: str = "($^)"

    @classmethod
    def of(cls, values: Mapping[str, str]) -> ProgressFormat | None:
        """Return the format that a flavour describes, None if it describes none. Raises InputError."""
        if not values:
            return None
        if not isinstance(values, Mapping):
            raise InputError(f"progress is a {type(values).__name__}, and it must be a dictionary")
        known = {entry.name for entry in fields(cls)}
        if (unknown := sorted(values.keys() - known)) or (values.keys() < known - {"checkpoint"}):
            wrong = f"unknown {unknown[0]}" if unknown else "file, step and time are needed"
            raise InputError(f"progress: {wrong}; it has {', '.join(sorted(known))}")
        for name, text in values.items():
            if not isinstance(text, str):
                raise InputError(f"progress.{name} is a {type(text).__name__}, and it must be a text")
        form = cls(**values)
        try:
            groups = re.compile(form.checkpoint).groups
        except re.error as error:
            what = f"'{form.checkpoint}' is not a valid regular expression: {error}"
            raise InputError(f"progress.checkpoint: {what}") from error
        if groups != 1:
            raise InputError(f"progress.checkpoint: '{form.checkpoint}' has {groups} groups, and one must be the step")
        return form


def read_training_progress(folder: Path, form: ProgressFormat) -> dict[str, Any]:
    """Return the progress of the training whose files are in ``folder``; empty if it has written none.

    steps: [step, seconds since 1970] in their order. checkpoints: their steps. A line that is no step is left out, such
    as the last one of a process that was killed while it wrote.
    """
    path = folder / form.file
    if not path.is_file():
        return {}
    steps: list[list[float]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = parse_json(line)
            moment = datetime.fromisoformat(_value(row, form.time))
            step = int(_value(row, form.step))
        except (ValueError, TypeError, KeyError, OverflowError):
            continue
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        steps.append([step, moment.timestamp()])
    pattern = re.compile(form.checkpoint)
    paths = (str(found.relative_to(folder)) for found in folder.rglob("*") if found.is_file())
    with limit_processor_time(
        PATHS_LIMIT, f"searching the names of files with progress.checkpoint '{form.checkpoint}'"
    ):
        found_steps = {match[1] or "" for path in paths if (match := pattern.search(path))}
    return {"steps": steps, "checkpoints": sorted(int(step) for step in found_steps if step.isdecimal())}


def was_training_restarted(progress: Mapping[str, Any], runtime: float) -> bool:
    """Return whether a training went on in a further process: its steps go back, or take longer than its last one.

    runtime: seconds that the last process trained, as it says.
    """
    steps = progress["steps"]
    moments = [moment for _step, moment in steps]
    backwards = any(later < step for (step, _at), (later, _then) in pairwise(steps))
    return backwards or (bool(moments) and max(moments) - min(moments) > runtime + _TOLERANCE)


def _value(row: Any, name: str) -> Any:
    for part in name.split("."):
        row = row[part]
    return row


#: Seconds of processor time for the figures of a log, of which a gigabyte takes less.
LOG_LIMIT = 120.0
_POD = re.compile(r"-(?P<index>\d+)-(?P<replica>master|worker|launcher)-\d+$")

#: Figures of a summary, by the names of the Hugging Face Trainer.
SUMMARY = (
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
    "train_tokens_per_second",
    "train_loss",
)
_RESTARTED = "the training was restarted, and its log is that of the last part"
NOTHING: Mapping[str, float] = MappingProxyType({})
#: The format of simulated logs, whatever the flavour (_training_simulation).
SIMULATED = LogFormat(summary=SUMMARY, loss=("loss",), over=("epoch",))


@dataclass(frozen=True)
class TrainingLog:
    """One log to read: its pod, the index and name of the workload, its node, or why there is no log."""

    pod: str
    index: int | None = None
    workload: str = ""
    path: str = ""
    error: str | None = None
    node: str = ""


def find_logs_in_folder(folder: str | Path) -> list[TrainingLog]:
    """Return the logs <pod>.log in ``folder``; index and workload follow from the name of the pod."""
    logs: list[TrainingLog] = []
    for path in sorted(Path(folder).glob("*.log")):
        match = _POD.search(path.stem)
        index = int(match["index"]) if match else None
        workload = path.stem[: match.start("replica") - 1] if match else ""
        logs.append(TrainingLog(path.stem, index, workload, str(path)))
    return logs


def logs_from_pod_logs(collected: Iterable[dict[str, Any]], folder: str | Path) -> list[TrainingLog]:
    """Return the logs of ``pods``, a result of module pod_logs."""
    logs: list[TrainingLog] = []
    for pod in collected:
        path = str(Path(folder) / pod["log"]) if pod.get("log") else ""
        workload, node = pod.get("workload") or "", pod.get("node") or ""
        logs.append(TrainingLog(pod["pod"], pod.get("index"), workload, path, pod.get("error"), node))
    return logs


def build_training_rows(
    logs: Iterable[TrainingLog],
    log_format: LogFormat,
    simulated: bool,
    root: str | Path,
    real_nodes: Collection[str] = (),
    settings: Mapping[str, float] = NOTHING,
) -> list[dict[str, Any]]:
    """Return one row of training.jsonl (schema training/1) for each log; paths are relative to ``root``.

    log_format: of the program. simulated: whether logs are simulated, except those of pods on ``real_nodes``.
    settings: the hyper-parameters that are numbers, and ``processes``, those of a training in all its pods.
    """
    return [
        _build_training_row(log, log_format, simulated and log.node not in real_nodes, Path(root), settings)
        for log in logs
    ]


def _build_training_row(
    log: TrainingLog, log_format: LogFormat, simulated: bool, root: Path, settings: Mapping[str, float]
) -> dict[str, Any]:
    processes = settings.get("processes", 1.0)
    figures = LogFigures(error=log.error)
    if not log.error:
        try:
            with (
                open(log.path, encoding="utf-8", errors="replace", newline="\n") as stream,
                limit_processor_time(LOG_LIMIT, f"searching {log.path} with the patterns of log_format"),
            ):
                figures = parse_log_figures(stream, SIMULATED if simulated else log_format)
        except InputError as error:
            figures = LogFigures(error=str(error))
        except OSError as error:
            figures = LogFigures(error=f"log {log.path} cannot be read: {error.strerror}")
    if not simulated:
        for name in figures.values.keys() & log_format.per_process:
            figures.values[name] *= processes
        figures.values.update(log_format.derived_of(figures.values))
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
    several = processes > 1 and not simulated and not figures.error
    if several and (why := _reason_cooperation_unchecked(figures.values, log_format, settings)):
        row["unchecked"] = why
    if figures.loss:
        row["loss"] = {"over": figures.over, "points": [list(point) for point in figures.loss]}
    return row


def _reason_cooperation_unchecked(
    figures: Mapping[str, float], log_format: LogFormat, settings: Mapping[str, float]
) -> str:
    """Return why it is unknown whether the processes of a training worked together, an empty string if it is known."""
    expected = log_format.expected_of(settings)
    if not log_format.expected:
        return "the flavour does not describe how its program prints it"
    if not expected:
        return f"the settings do not give {' or '.join(log_format.expected)}"
    if not expected.keys() & figures.keys():
        return f"the log does not have {' or '.join(expected)}"
    return ""


def write_training_rows(
    point_dir: str | Path,
    logs: list[TrainingLog],
    log_format: LogFormat,
    simulated: bool,
    real_nodes: Collection[str] = (),
    settings: Mapping[str, float] = NOTHING,
    progress: ProgressFormat | None = None,
) -> tuple[bool, list[dict[str, Any]]]:
    """Write training.jsonl of a point; return whether it changed, and its rows.

    progress: how the program writes its progress to files, which are in ``files`` of the point if they were fetched.
    Raises InputError if the directory of the point does not exist.
    """
    folder = Path(point_dir)
    if not folder.is_dir():
        raise InputError(f"point directory {folder} does not exist")
    target = folder / "training.jsonl"
    written = build_training_rows(logs, log_format, simulated, folder, real_nodes, settings)
    for row in written:
        if progress is None or not row.get("workload"):
            continue
        if found := read_training_progress(folder / "files" / row["workload"], progress):
            row["progress"] = found
            if log_format.summary and not row["simulated"]:
                _leave_out_figures_of_last_part(row, log_format)
    before = target.read_bytes() if target.exists() else None
    files.write_json_lines(target, written, "training/1")
    return target.read_bytes() != before, written


def _leave_out_figures_of_last_part(row: dict[str, Any], log_format: LogFormat) -> None:
    """Leave out the figures that a restarted training prints as those of the whole, and of which it knows a part only.

    The Hugging Face Trainer divides all samples and steps by the time since the restart, and the loss since then by all
    steps.
    """
    figures = row["figures"]
    if not was_training_restarted(row["progress"], figures.get("train_runtime", math.inf)):
        return
    kept = {name: value for name, value in figures.items() if name not in (*SUMMARY, *log_format.derived)}
    kept |= log_format.derived_of(kept)
    if left := sorted(figures.keys() - kept.keys()):
        row["figures"], row["left_out"] = kept, dict.fromkeys(left, _RESTARTED)


def unexpected_figures(written: list[dict[str, Any]], expected: Mapping[str, float]) -> list[str]:
    """Return the figures of logs, except simulated ones, that are not as expected."""
    return [
        f"{name} is {_format_number(row['figures'][name])} in the log of {row['pod']}, and the settings"
        f" give {_format_number(value)}"
        for row in written
        if not row["simulated"]
        for name, value in expected.items()
        if row["figures"].get(name, value) != value
    ]


def describe_unchecked_joint_training(written: list[dict[str, Any]]) -> str:
    """Return how many trainings were not checked for working together, and why; an empty string if all were."""
    reasons = [row["unchecked"] for row in written if "unchecked" in row]
    if not reasons:
        return ""
    which = "" if len(reasons) == len(written) else f" of {len(reasons)} of {formats.format_count(len(written), 'job')}"
    return f"whether the processes{which} trained together was not checked: {reasons[0]}"


def summarize_figures(written: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the number of logs, of logs with figures, and the median of each figure."""
    good = [row for row in written if not row["error"]]
    names = sorted({name for row in good for name in row["figures"]})
    medians = {
        name: statistics.median(row["figures"][name] for row in good if name in row["figures"]) for name in names
    }
    return {"logs": len(written), "with_figures": len(good), "medians": medians}


def format_summary_sentence(written: list[dict[str, Any]]) -> str:
    """Return the summary in one sentence, the headline figure first."""
    overview = summarize_figures(written)
    medians = overview["medians"]
    shown = ("train_samples_per_second", "train_tokens_per_second", "train_runtime", "train_loss")
    units = {"train_runtime": " s", "train_loss": ""}
    figures = [f"{name} {_format_number(medians[name])}{units.get(name, '/s')}" for name in shown if name in medians]
    simulated = [row["simulated"] for row in written]
    words = "simulated, not measured" if all(simulated) else "partly simulated"
    remark = f" ({words})" if any(simulated) and figures else ""
    tail = f": median {', '.join(figures)}{remark}" if figures else ""
    reasons = [row["error"] for row in written if row["error"]]
    missing = f" ({formats.format_count(len(reasons), 'log')} without: {reasons[0]})" if reasons else ""
    doubt = describe_unchecked_joint_training(written)
    doubt = f"; {doubt}" if doubt else ""
    left = [row["left_out"] for row in written if row.get("left_out")]
    doubt += f"; {formats.format_count(len(left), 'log')} without {', '.join(left[0])}: {_RESTARTED}" if left else ""
    return (
        f"training figures in {overview['with_figures']} of"
        f" {formats.format_count(overview['logs'], 'log')}{tail}{missing}{doubt}"
    )


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
