# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capture the state of a cluster into the run directory: the work of module cluster_capture. Nothing is changed.

What cannot be read is noted, and the rest is captured: a capture explains a failure and must not become another one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, run_labels, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    DataError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import nodes_operators_images
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import event_time, field_at_path

from . import capture_contents, dynamic_client_objects
from .capture_contents import CaptureFiles
from .pod_logs import end_of_log

FOLDER, INDEX, STATE = "capture", "index.json", "state.json"
#: The cluster under test, the only one that the report compares.
SUTEST = "sutest"
#: Whose pods' restarts are recorded, beside those of operators: the control plane.
_CONTROL_PLANE = ("kube-system", "openshift-etcd", "openshift-kube-apiserver", "openshift-kube-scheduler")
#: Limits of what is kept: namespaces, events of each, logs, bytes of each log, seconds of each request.
NAMESPACES, EVENTS, LOGS, LOG_BYTES, REQUEST = 50, 500, 20, 64 * 1024, 10.0


@dataclass(frozen=True)
class CaptureSpec:
    """The module's options. cluster: the role of the cluster in the run. seconds, limit_bytes: of the whole capture."""

    kubeconfig: str
    run_dir: str
    run_id: str
    context: str = ""
    point: str = ""
    why: str = ""
    cluster: str = SUTEST
    namespaces: Sequence[str] = ()
    seconds: float = 15.0
    limit_bytes: int = 20_000_000
    secrets: Mapping[str, str] = field(default_factory=dict)
    kubeconfigs: Sequence[str] = ()


def capture_cluster_state(spec: CaptureSpec) -> dict[str, Any]:
    """Capture, and return the module's result; ``warnings``: what could not be captured.

    A server that cannot be reached is a warning. Raises InputError if the run has no such point, and DataError if the
    files cannot be written.
    """
    try:
        return _write_capture(spec)
    except OSError as error:
        raise DataError(f"{error.filename or spec.run_dir} cannot be written: {error.strerror}") from error


def _write_capture(spec: CaptureSpec) -> dict[str, Any]:
    top = Path(spec.run_dir)
    point = nodes_operators_images.point_folder(spec.run_dir, spec.point) if spec.point else None
    began = time.monotonic()
    apart = {"cluster": spec.cluster} if spec.cluster != SUTEST else {}
    name = " ".join([f"point-{spec.point}" if spec.point else spec.why, *apart.values()])
    with _new_folder(top / FOLDER, name) as folder:
        known = dict(spec.secrets)
        for path in {spec.kubeconfig, *spec.kubeconfigs}:
            known.update(secret_gate.read_kubeconfig_credentials(path))
        files = CaptureFiles(folder, secret_gate.SecretScanner(known), spec.limit_bytes)
        work = _ClusterReader(spec, files, began + spec.seconds)
        result = work.run(point)
        entry = {
            "folder": folder.name,
            "why": spec.why,
            **({"point": spec.point} if spec.point else {}),
            **apart,
            "at": format_utc_timestamp(),
            "seconds": round(time.monotonic() - began, 3),
            "bytes": sum(file["bytes"] for file in files.written),
            "files": files.written,
            "notes": work.notes,
        }
        _add_to_index(top / FOLDER, spec.run_id, entry)
    warnings = [f"{spec.why}: not captured: {note}" for note in work.notes]
    summary = f"captured {formats.format_count(len(files.written), 'file')} in {folder.name}, {entry['bytes']} bytes"
    ran = f"{result.pop('summary')}; " if "summary" in result else ""
    return {"changed": True, "path": str(folder), **result, "warnings": warnings, "summary": ran + summary}


class _ClusterReader:
    """One capture."""

    def __init__(self, spec: CaptureSpec, files: CaptureFiles, deadline: float) -> None:
        self.spec = spec
        self.files = files
        self.deadline = deadline
        self.notes: list[str] = []

    def run(self, point: Path | None) -> dict[str, Any]:
        """Capture everything; return the keys ``ran``, ``cause``, ``reason`` and ``summary`` of the result."""
        spec = self.spec
        try:
            with Client.from_kubeconfig(spec.kubeconfig, spec.context, timeout=min(REQUEST, spec.seconds)) as client:
                namespaces = self._namespaces(client)
                seen = nodes_operators_images.read_cluster_snapshot(
                    client, spec.run_id, {*namespaces, *_existing_namespaces(client, _CONTROL_PLANE)}
                )
                self.notes += seen.notes
                result: dict[str, Any] = {"ran": seen.parts()}
                if point is not None:
                    result["summary"] = nodes_operators_images.write_ran_json(point, spec.run_id, seen.parts())[1]
                self._state(client, seen, namespaces, point)
                return result
        except SeatrialError as error:
            self.notes.append(self._reason(error))
            return {"ran": {}, "cause": error.error_kind, "reason": self._reason(error)}

    def _state(
        self,
        client: Client,
        seen: nodes_operators_images.ClusterSnapshot,
        namespaces: Sequence[str],
        point: Path | None,
    ) -> None:
        """Write state.json and the files of objects and logs."""
        stack = self._part("stack", lambda: self._dynamic(client, point)) or []
        parts = seen.parts()
        pods = {pod["metadata"]["uid"]: pod for on_node in seen.pods.values() for pod in on_node}
        state = {
            "schema": "captured_state/1",
            "run": self.spec.run_id,
            "at": format_utc_timestamp(),
            "versions": self._part("versions", lambda: _platform_versions(client, stack)) or {},
            "operators": parts.get("operators", {}),
            "images": parts.get("images", {}),
            "nodes": capture_contents.summarize_nodes(seen.nodes or ()),
            "restarts": capture_contents.pod_restart_counts(pods.values()),
            "stack": capture_contents.summarize_tested_components(stack),
        }
        self.files.document(STATE, state, "captured_state/1")
        self.files.objects("stack.jsonl", stack)
        ours = [pod for name in ("", *namespaces) for pod in seen.pods.get(name, ())]
        self.files.objects("pods.jsonl", {pod["metadata"]["uid"]: _reduce_to_pod_status(pod) for pod in ours}.values())
        for name in namespaces:
            self._part(f"events of {name}", partial(self._events, client, name))
        self._logs(client, [pod for pod in pods.values() if _failed_containers(pod)], _failed_containers)
        if not all(component["ready"] for component in state["stack"].values()):
            places = seen.operators.namespaces if seen.operators is not None else ()
            self._logs(client, [pod for name in places for pod in seen.pods.get(name, ())], _pod_containers)

    def _part(self, what: str, work: Callable[[], Any]) -> Any:
        """Return what ``work`` returns; None, and a note, if it fails or the time is over."""
        try:
            if time.monotonic() > self.deadline:
                raise WaitTimeout("not begun")
            return work()
        except (SeatrialError, OSError) as error:
            self.notes.append(f"{what}: {self._reason(error)}")
            return None

    def _reason(self, error: Exception) -> str:
        """Return why something could not be captured. Once the time is over, requests end with various errors."""
        over = time.monotonic() > self.deadline
        return f"the time of the capture, {self.spec.seconds:g} s, is over: {error}" if over else str(error)

    def _namespaces(self, client: Client) -> list[str]:
        """Return the namespaces of the run: with its label, of its loads, and those asked for, if they exist."""
        wanted = set(self.spec.namespaces)
        for plan in Path(self.spec.run_dir).glob("points/*/plan.jsonl"):
            for header in islice(files.read_json_lines(plan), 1):
                wanted |= {
                    template["namespace"]
                    for template in header.get("templates") or ()
                    if template.get("namespace") and "{" not in template["namespace"]  # those have our label
                }
        selector = f"{run_labels.RUN}={self.spec.run_id}"
        kind = client.kind("v1", "Namespace")
        labelled = self._part("namespaces", lambda: client.list(kind, label_selector=selector, metadata_only=True)[0])
        namespaces = {namespace["metadata"]["name"] for namespace in labelled or ()} | set(
            _existing_namespaces(client, sorted(wanted))
        )
        if len(namespaces) > NAMESPACES:
            self.notes.append(f"namespaces: {NAMESPACES} of {len(namespaces)} are captured")
        return sorted(namespaces)[:NAMESPACES]

    def _dynamic(self, client: Client, point: Path | None) -> list[dict[str, Any]]:
        """Return the objects of the stack, and write those of the workloads, all of arbitrary kinds."""
        served = {(kind.api_version.rpartition("/")[0], kind.kind): kind for kind in client.kinds()}
        kinds = [served[key] for key in capture_contents.STACK if key in served]
        workloads = self._part("workloads", lambda: capture_contents.kinds_of_point(point)) if point else []
        if not kinds and not workloads:
            return []
        stack: list[dict[str, Any]] = []
        with dynamic_client_objects.open_dynamic_client(
            self.spec.kubeconfig, self.spec.context, self.deadline
        ) as dynamic:
            for kind in kinds:
                selector = "!olm.copiedFrom" if kind.kind == "ClusterServiceVersion" else ""
                objects = self._part(kind.kind, partial(_list_all_objects, dynamic, kind, selector))
                stack += objects or []
            for workload in workloads or []:
                self._workloads(dynamic, workload, served)
        return stack

    def _workloads(
        self,
        dynamic: dynamic_client_objects.DynamicObjects,
        stages: capture_contents.KindStages,
        served: Mapping[tuple[str, str], ServedKind],
    ) -> None:
        groups = [api_version.rpartition("/")[0] for api_version in stages.api_versions]
        kind = next((served[group, stages.kind] for group in groups if (group, stages.kind) in served), None)
        if kind is None:
            return
        chosen = capture_contents.ChosenWorkloads(stages)
        selector = f"{run_labels.RUN}={self.spec.run_id},{run_labels.POINT}={self.spec.point}"

        def read() -> None:
            for page in dynamic.pages(kind.api_version, kind.kind, selector):
                chosen.add(page)

        self._part(kind.kind, read)
        self.files.objects(f"workloads-{kind.kind.lower()}.jsonl", chosen.kept, sum(chosen.counts.values()))

    def _events(self, client: Client, namespace: str) -> None:
        events = client.list(client.kind("v1", "Event"), namespace)[0]
        events.sort(key=event_time)
        warnings = [event for event in events if event.get("type") != "Normal"]
        kept = sorted(
            [*warnings, *[event for event in events if event.get("type") == "Normal"][::-1]][:EVENTS], key=event_time
        )
        self.files.objects(f"events-{namespace}.jsonl", kept, len(events))

    def _logs(
        self,
        client: Client,
        pods: Sequence[Mapping[str, Any]],
        containers: Callable[[Mapping[str, Any]], list[tuple[str, bool]]],
    ) -> None:
        """Write the logs of these containers; of one that restarted, that of its previous run."""
        wanted = [(pod["metadata"], *container) for pod in pods for container in containers(pod)]
        if len(wanted) > LOGS:
            self.notes.append(f"logs: {LOGS} of {len(wanted)} are captured")
        for meta, name, previous in wanted[:LOGS]:
            what = f"{meta['namespace']}_{meta['name']}_{name}.log"
            text = self._part(
                f"log {what}", partial(_read_container_log, client, meta["namespace"], meta["name"], name, previous)
            )
            if text:
                self.files.text(f"logs/{what}", text)


def _list_all_objects(
    dynamic: dynamic_client_objects.DynamicObjects, kind: ServedKind, selector: str
) -> list[dict[str, Any]]:
    return [item for page in dynamic.pages(kind.api_version, kind.kind, selector) for item in page]


def _existing_namespaces(client: Client, names: Iterable[str]) -> list[str]:
    kind = client.kind("v1", "Namespace")
    existing = []
    for name in names:
        try:
            if client.get(kind, name, metadata_only=True) is not None:
                existing.append(name)
        except ApiError as error:
            if error.status != 403:
                raise
            existing.append(name)  # may not be looked at, but perhaps inside
    return existing


def _platform_versions(client: Client, stack: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    versions = {"kubernetes": str(client.request("GET", "/version")["gitVersion"])}
    for component in stack:
        if component["kind"] == "ClusterVersion":
            versions["openshift"] = str(field_at_path(component, "status.desired.version", ""))
    return versions


def _reduce_to_pod_status(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a pod that did not fail: the rest of its object is that of its workload."""
    meta = pod["metadata"]
    kept = {name: meta[name] for name in ("name", "namespace", "uid", "creationTimestamp", "labels") if name in meta}
    status = {name: value for name, value in (pod.get("status") or {}).items() if name not in ("podIPs", "hostIPs")}
    return {"kind": "Pod", "metadata": kept, "node": field_at_path(pod, "spec.nodeName", ""), "status": status}


def _failed_containers(pod: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Return the containers of a pod that failed, each with whether the failed one is the previous."""
    failed = []
    for place in ("initContainerStatuses", "containerStatuses"):
        for status in field_at_path(pod, f"status.{place}", []):
            ended = field_at_path(status, "state.terminated.exitCode", 0)
            before = field_at_path(status, "lastState.terminated.exitCode", 0)
            if ended or before:
                failed.append((str(status["name"]), not ended))
    return failed


def _pod_containers(pod: Mapping[str, Any]) -> list[tuple[str, bool]]:
    return [(str(container["name"]), False) for container in field_at_path(pod, "spec.containers", [])]


def _read_container_log(client: Client, namespace: str, name: str, container: str, previous: bool) -> str:
    # The last lines, whose number is a guess: a limit in bytes would give the first ones.
    query = {"container": container, "tailLines": 500, "previous": "true" if previous else None}
    return end_of_log(client.text(client.kind("v1", "Pod").path(namespace, name, "log"), query), LOG_BYTES)


@contextmanager
def _new_folder(parent: Path, name: str) -> Iterator[Path]:
    """Yield a new folder NN-<name>, in the order of the captures."""
    parent.mkdir(exist_ok=True)
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:40] or "capture"
    number = 1 + max((int(path.name[:2]) for path in parent.glob("[0-9][0-9]-*")), default=0)
    while True:
        folder = parent / f"{number:02d}-{plain}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            continue
        yield folder
        return


def _add_to_index(parent: Path, run: str, entry: Mapping[str, Any]) -> None:
    """Add an entry to index.json; captures of two processes do not lose each other's."""
    with files.hold_folder_lock(parent):
        path = parent / INDEX
        try:
            before = files.read_json(path)["captures"]
        except DataError:
            before = []
        files.write_json(path, {"schema": "capture/1", "run": run, "captures": [*before, entry]}, "capture/1")
