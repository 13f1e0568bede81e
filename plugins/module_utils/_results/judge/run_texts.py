# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of a run that may say why it failed: errors, answers of the API server, captured objects, events, logs.

Files of a run may be damaged, or come from elsewhere: what has another form than expected is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.finding_schemas import PLACES
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import field_at_path
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

#: Where texts are: errors of phases and points; answers to requests of the load; objects, events, logs of a capture.
ERRORS, REQUESTS, PODS, OBJECTS, NODES, EVENTS, LOGS = PLACES
#: Limits of what is read: bytes of a file and of all files, letters of a line.
FILE_BYTES, ALL_BYTES, MOST_LETTERS = 2**20, 64 * 2**20, 10_000
#: Captures of what was there before the load cannot explain its failure.
_BEFORE = "before-the-test"
#: Answers to requests of the load that are no success.
_NOT_CREATED = ("refused", "retry", "ambiguous")

Document = dict[str, Any]


@dataclass(frozen=True)
class RunText:
    """A text of a run, of one or several lines. line: number of the first one. cause: class of the error."""

    place: str
    file: str
    line: int
    text: str
    about: str = ""
    cause: str = ""


def run_texts(run: Run) -> Iterator[RunText]:
    """Yield the texts of a run in which causes are searched, the most direct ones first, within ALL_BYTES."""
    yield from _error_texts(run)
    budget = [ALL_BYTES]
    for ledger in sorted(run.top.glob("points/*/ledger.jsonl")):
        yield from _request_texts(run.top, ledger, budget)
    captures = [
        folder for folder in sorted(run.top.glob("capture/[0-9]*")) if folder.is_dir() and _BEFORE not in folder.name
    ]
    well: set[str] = set()
    for folder in captures:
        yield from _capture_texts(run.top, folder, budget, well)
    for log in sorted([*run.top.glob("capture/*/logs/*.log"), *run.top.glob("[0-9][0-9][0-9]__*/log")]):
        yield from _log_text(run.top, log, budget)
    for log in sorted(run.top.glob("points/*/logs/*.log")):
        if log.stem not in well:
            yield from _log_text(run.top, log, budget)


def _error_texts(run: Run) -> Iterator[RunText]:
    """Yield the errors of phases and points with the line of their file, and those that only FAILURES has."""
    known: list[str] = []
    for name, phase in (run.record.get("phases") or {}).items():
        if phase.get("error"):
            known.append(str(phase["error"]))
            line = _line_of_entry(run.top / "run.yml", ("phases", str(name), "error"))
            yield _error_text("run.yml", line, phase, f"phase {name}")
    for point in run.points:
        if point.record.get("error"):
            known.append(str(point.record["error"]))
            path = point.folder / "point.yml"
            line = _line_of_entry(path, ("error",))
            yield _error_text(str(path.relative_to(run.top)), line, point.record, f"point {point.number}")
    for number, line_text in enumerate(run.failures.splitlines(), start=1):
        if line_text.strip() and not any(line_text in error for error in known):
            yield RunText(ERRORS, "FAILURES", number, line_text)


def _error_text(file: str, line: int, record: Mapping[str, Any], about: str) -> RunText:
    text = " ".join(str(record["error"]).split())
    return RunText(ERRORS, file, line, text, about, str(record.get("cause") or ""))


def _line_of_entry(path: Path, keys: Sequence[str]) -> int:
    """Return the line of an entry of nested mappings in a YAML file that we have written; 1 if it is not found."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 1
    place, indent = 0, ""
    for key in keys:
        for number in range(place, len(lines)):
            if lines[number].startswith(f"{indent}{key}:"):
                place = number + 1
                break
        else:
            return 1
        indent += "  "
    return place


def _request_texts(top: Path, path: Path, budget: list[int]) -> Iterator[RunText]:
    """Yield the answers of the API server to requests of the load that created nothing."""
    name = str(path.relative_to(top))
    for number, line in _json_objects(path, budget, tuple(f'"{outcome}"'.encode() for outcome in _NOT_CREATED)):
        if line.get("type") == "attempt" and line.get("outcome") in _NOT_CREATED:
            words = (str(line.get(key) or "") for key in ("status", "reason", "message"))
            yield RunText(REQUESTS, name, number, _one_line(words), f"{line.get('kind')} {line.get('name')}")


def _capture_texts(top: Path, folder: Path, budget: list[int], well: set[str]) -> Iterator[RunText]:
    """Yield what a capture says of pods, objects, nodes and events. well: gets the pods that are well by name."""
    well_uids = set()
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.name.startswith("events-")):
        name = str(path.relative_to(top))
        for number, item in _json_objects(path, budget):
            about = _about(item)
            if path.name.startswith("events-"):
                involved = _mapping(item.get("involvedObject"))
                if item.get("type") != "Normal" and str(involved.get("uid")) not in well_uids:
                    about = f"{involved.get('kind')} {involved.get('name')}"
                    words = (str(item.get("reason") or ""), str(item.get("message") or item.get("note") or ""))
                    yield RunText(EVENTS, name, number, _one_line(words), about)
                continue
            if item.get("kind") == "Pod" and _is_well(item):
                well_uids.add(str(field_at_path(item, "metadata.uid")))
                well.add(str(field_at_path(item, "metadata.name")))
                continue
            place = PODS if item.get("kind") == "Pod" else OBJECTS
            for text in _status_texts(item):
                yield RunText(place, name, number, text, about)
    for _number, state in _json_objects(folder / "state.json", budget):
        for node, value in _mapping(state.get("nodes")).items():
            summary = _mapping(value)
            facts = [] if summary.get("ready") else ["NotReady"]
            facts += [] if summary.get("schedulable", True) else ["unschedulable"]
            for text in (*facts, *map(str, _entries(summary.get("conditions")))):
                yield RunText(NODES, str((folder / "state.json").relative_to(top)), 1, text, f"Node {node}")


def _about(item: Mapping[str, Any]) -> str:
    return f"{item.get('kind')} {field_at_path(item, 'metadata.name', '')}"


def _is_well(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has succeeded, or runs and is ready."""
    phase = field_at_path(pod, "status.phase", "")
    statuses = _mappings(field_at_path(pod, "status.containerStatuses"))
    restarted = any(field_at_path(status, "lastState.terminated") for status in statuses)
    return phase == "Succeeded" or (
        phase == "Running" and not restarted and bool(statuses) and all(status.get("ready") for status in statuses)
    )


def _status_texts(item: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sentences of an object's status: of its conditions, its containers, and itself."""
    status = item.get("status")
    if not isinstance(status, Mapping):
        return
    yield _one_line(str(status.get(key) or "") for key in ("phase", "reason", "message"))
    for condition in _mappings(status.get("conditions")):
        yield _one_line(
            f"{condition.get('type')}={condition.get('status')}" if key == "type" else str(condition.get(key) or "")
            for key in ("type", "reason", "message")
        )
    for key in ("initContainerStatuses", "containerStatuses"):
        for container in _mappings(status.get(key)):
            for when in ("state", "lastState"):
                for state, facts in _mapping(container.get(when)).items():
                    if isinstance(facts, Mapping) and state != "running":
                        code = f"exit code {facts['exitCode']}" if "exitCode" in facts else ""
                        yield _one_line(
                            (
                                f"container {container.get('name')} {state}",
                                *(str(facts.get(k) or "") for k in ("reason", "message")),
                                code,
                            )
                        )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _entries(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in _entries(value) if isinstance(entry, Mapping)]


def _one_line(words: Iterable[str]) -> str:
    """Return the words that are not empty as one line."""
    return ": ".join(" ".join(word.split()) for word in words if word)[:MOST_LETTERS]


def _json_objects(path: Path, budget: list[int], having: Sequence[bytes] = ()) -> Iterator[tuple[int, Document]]:
    """Yield the objects of a file of JSON lines with their line numbers, within the budget of bytes.

    having: only lines that contain one of these. Damaged and very long lines are left out.
    """
    try:
        with path.open("rb") as stream:
            number = 0
            while budget[0] > 0 and (line := stream.readline(FILE_BYTES)):
                budget[0] -= len(line)
                number += line.endswith(b"\n") or len(line) < FILE_BYTES
                if having and not any(word in line for word in having):
                    continue
                try:
                    item = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(item, dict):
                    yield number, item
    except OSError:
        return


def _log_text(top: Path, path: Path, budget: list[int]) -> Iterator[RunText]:
    """Yield the end of a log."""
    try:
        size = path.stat().st_size
        take = min(size, FILE_BYTES, budget[0])
        if take <= 0 or path.is_symlink():
            return
        budget[0] -= take
        with path.open("rb") as stream:
            before, left = 1, size - take
            while left > 0 and (part := stream.read(min(left, FILE_BYTES))):
                before += part.count(b"\n")
                left -= len(part)
            text = stream.read(take).decode("utf-8", "replace")
    except OSError:
        return
    yield RunText(LOGS, str(path.relative_to(top)), before, text)
