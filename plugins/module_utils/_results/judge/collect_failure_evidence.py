# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of a run that may say why it failed: errors, answers of the API server, captured objects, events, logs.

Files of a run may be damaged, or come from elsewhere: what has another form than expected is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import open_regular_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.run_schemas import PLACES
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import field_at_path
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

#: Where texts are: errors of phases and points; answers to requests of the load; objects, events, logs of a capture.
ERRORS, REQUESTS, PODS, OBJECTS, NODES, EVENTS, LOGS = PLACES
#: Limits of what is read: bytes of a log, of all files and of the ledgers among them, letters of a line.
FILE_BYTES, ALL_BYTES, LEDGER_BYTES, MOST_LETTERS = 2**20, 64 * 2**20, 16 * 2**20, 10_000
#: Captures of what was there before the load cannot explain its failure.
_BEFORE = "before-the-test"
#: The outcome of the last attempt to create an object that the API server refused. Other attempts were repeated; if the
#: last one of these got no answer, it is the error of its point.
_REFUSED = "refused"
#: Objects of the software under test in a capture.
_STACK = "stack.jsonl"

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


def texts_to_search_for_causes(run: Run) -> Iterator[RunText]:
    """Yield the texts of a run in which causes are searched, the most direct ones first, within ALL_BYTES."""
    yield from _error_texts(run)
    budget = [LEDGER_BYTES]
    for ledger in sorted(run.top.glob("points/*/ledger.jsonl")):
        yield from _request_texts(run.top, ledger, budget)
    budget = [ALL_BYTES - LEDGER_BYTES]
    captures = [
        folder for folder in sorted(run.top.glob("capture/[0-9]*")) if folder.is_dir() and _BEFORE not in folder.name
    ]
    pods = {folder: _CapturedPods() for folder in captures}
    for folder in captures:
        yield from _capture_texts(run.top, folder, budget, pods[folder])
    logs = [log for folder in captures for log in sorted(folder.glob("logs/*.log")) if pods[folder].may_explain(log)]
    logs += sorted(run.top.glob("[0-9][0-9][0-9]__*/log"))
    well = {name for captured in pods.values() for name in captured.well_names}
    logs += [log for log in sorted(run.top.glob("points/*/logs/*.log")) if log.stem not in well]
    for log in logs:
        yield from _log_text(run.top, log, budget)


@dataclass
class _CapturedPods:
    """What a capture says of the pods whose logs it has.

    well: <namespace>_<name> of each pod of the run, with which names of logs begin -> whether it is well. namespaces:
    those of these pods. unready: namespaces of the software under test that is not ready.
    """

    well: dict[str, bool] = field(default_factory=dict)
    well_names: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    unready: set[str] = field(default_factory=set)

    def add(self, pod: Mapping[str, Any], well: bool) -> None:
        namespace, name = (str(field_at_path(pod, f"metadata.{key}", "")) for key in ("namespace", "name"))
        self.well[f"{namespace}_{name}"] = well
        self.namespaces.add(namespace)
        if well:
            self.well_names.add(name)

    def may_explain(self, log: Path) -> bool:
        """Return whether a log is of a pod that is not well, or of software that is not ready.

        Of very many pods a capture has not all, but then the logs of those that failed.
        """
        pod = log.stem.rpartition("_")[0]
        known = self.well.get(pod)
        return pod.partition("_")[0] in self.namespaces | self.unready if known is None else not known


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
    """Yield the answers of the API server to requests of the load that it refused for good."""
    name = str(path.relative_to(top))
    for number, line in _json_objects(path, budget, f'"{_REFUSED}"'.encode()):
        if line.get("type") == "attempt" and line.get("outcome") == _REFUSED:
            words = (str(line.get(key) or "") for key in ("status", "reason", "message"))
            yield RunText(REQUESTS, name, number, _one_line(words), f"{line.get('kind')} {line.get('name')}")


def _capture_texts(top: Path, folder: Path, budget: list[int], pods: _CapturedPods) -> Iterator[RunText]:
    """Yield what a capture says of pods, objects, nodes and events. pods: gets what it says of their logs."""
    well_uids = set()
    stack: list[Document] = []
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
            if path.name == _STACK:
                stack.append(item)
            if item.get("kind") == "Pod":
                pods.add(item, _is_well(item))
                if _is_well(item):
                    well_uids.add(str(field_at_path(item, "metadata.uid")))
                    continue
            place = PODS if item.get("kind") == "Pod" else OBJECTS
            for text in _status_texts(item):
                yield RunText(place, name, number, text, about)
    for _number, state in _json_objects(folder / "state.json", budget):
        pods.unready |= _unready_namespaces(stack, _mapping(state.get("stack")))
        for node, value in _mapping(state.get("nodes")).items():
            summary = _mapping(value)
            facts = [] if summary.get("ready") else ["NotReady"]
            facts += [] if summary.get("schedulable", True) else ["unschedulable"]
            for text in (*facts, *map(str, _entries(summary.get("conditions")))):
                yield RunText(NODES, str((folder / "state.json").relative_to(top)), 1, text, f"Node {node}")


def _unready_namespaces(stack: Sequence[Document], states: Mapping[str, Any]) -> set[str]:
    """Return the namespaces of software that is not ready.

    They are its own, those that a ClusterOperator names, and that of the operator that owns its kind.

    stack: objects. states: their states by title, as in state.json.
    """

    def title(item: Document) -> str:
        namespace = field_at_path(item, "metadata.namespace")
        return f"{item.get('kind')} {f'{namespace}/' if namespace else ''}{field_at_path(item, 'metadata.name')}"

    unready = [item for item in stack if _mapping(states.get(title(item))).get("ready") is False]
    kinds = {str(item.get("kind")) for item in unready}
    owned = "spec.customresourcedefinitions.owned"
    owners = [
        item for item in stack if any(str(kind.get("kind")) in kinds for kind in _mappings(field_at_path(item, owned)))
    ]
    named = (entry for item in unready for entry in _mappings(field_at_path(item, "status.relatedObjects")))
    return {
        *(str(field_at_path(item, "metadata.namespace", "")) for item in (*unready, *owners)),
        *(str(entry.get("name")) for entry in named if entry.get("resource") == "namespaces"),
    }


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


def _json_objects(path: Path, budget: list[int], having: bytes = b"") -> Iterator[tuple[int, Document]]:
    """Yield the objects of a file of JSON lines with their line numbers, within the budget of bytes.

    having: only lines that contain this. Damaged and very long lines are left out.
    """
    try:
        with open_regular_file(path) as stream:
            number = 0
            while budget[0] > 0 and (line := stream.readline(FILE_BYTES)):
                budget[0] -= len(line)
                number += line.endswith(b"\n") or len(line) < FILE_BYTES
                if having not in line:
                    continue
                try:
                    item = parse_json(line)
                except ValueError:
                    continue
                if isinstance(item, dict):
                    yield number, item
    except (OSError, DataError):
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
