# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetches the logs of many pods concurrently, one file per pod, without secrets that their programs print."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import (
    files,
    formats,
    run_labels,
    secret_gate,
    secret_names,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_errors import api_error
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

#: Labels of the training-operator, of JobSets and of Kubernetes that name a pod's job.
JOB_LABELS = (
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)

#: Interval between two progress lines, seconds.
_INTERVAL = 5.0
#: How the last line of a private key begins.
_KEY_END = "-----END "


@dataclass(frozen=True)
class LogCollectionSpec:
    """Parameters of module pod_logs. ``limit_bytes``: per log, 0 for no limit; ``maximum``: 0 for no limit."""

    dest: str
    namespace: str = ""
    selector: str = ""
    which: str = "all"
    maximum: int = 0
    container: str = ""
    limit_bytes: int = 0
    tail_lines: int = 0
    parallel: int = 16

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> LogCollectionSpec:
        """Return a module's parameters. Raises InputError for an empty selector."""
        spec = cls(**{field.name: params[field.name] for field in fields(cls)})
        if spec.which != "none" and not spec.selector:
            raise InputError("selector is empty: it has to select the pods whose logs are collected")
        return spec


@dataclass(frozen=True)
class LoggedPod:
    """A pod whose log may be fetched."""

    name: str
    namespace: str
    phase: str
    index: int | None
    workload: str
    containers: tuple[str, ...]
    node: str = ""

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> LoggedPod:
        """Return a pod from its object."""
        meta = item["metadata"]
        labels = meta.get("labels") or {}
        workload = next((labels[name] for name in JOB_LABELS if labels.get(name)), "")
        # Pods of a template that several workloads share have no index; the names of workloads end with it.
        own = workload.startswith(f"{labels.get(run_labels.RUN)}-")
        index = labels.get(run_labels.INDEX) or (workload.rpartition("-")[2] if own else "")
        return cls(
            meta["name"],
            meta["namespace"],
            (item.get("status") or {}).get("phase") or "Unknown",
            formats.parse_whole_number(index),
            workload,
            tuple(container["name"] for container in item["spec"]["containers"]),
            item["spec"].get("nodeName") or "",
        )


def choose_pods(pods: Sequence[LoggedPod], which: str, maximum: int) -> tuple[list[LoggedPod], int]:
    """Return the pods whose logs are fetched, by index, and the number of pods beyond ``maximum``.

    ``which``: ``all``, ``failed`` or ``none``. With ``all`` and a maximum, failed pods take precedence.
    """
    wanted = [] if which == "none" else [pod for pod in pods if which == "all" or pod.phase == "Failed"]
    wanted.sort(
        key=lambda candidate: (
            candidate.phase != "Failed",
            candidate.index is None,
            candidate.index or 0,
            candidate.name,
        )
    )
    taken = wanted[:maximum] if maximum else wanted
    return sorted(taken, key=lambda chosen: (chosen.index is None, chosen.index or 0, chosen.name)), len(wanted) - len(
        taken
    )


def pod_log_file_name(pod: LoggedPod, pods: Sequence[LoggedPod]) -> str:
    """Return the name of a pod's log file; it contains the namespace only if two pods have the same name."""
    same = sum(other.name == pod.name for other in pods)
    return f"{pod.name}.log" if same == 1 else f"{pod.namespace}_{pod.name}.log"


def log_without_secrets(data: bytes, gate: secret_gate.SecretScanner, limit: int) -> bytes:
    """Return a log without secrets. limit: of its bytes, 0 for none; at the limit, it may end within a secret."""
    if limit and len(data) >= limit:
        data = data[: max(data.rfind(b" "), data.rfind(b"\n")) + 1]
    text = secret_names.mask_assignments(data.decode("utf-8", "surrogateescape"))
    return gate.masked_bytes(text.encode("utf-8", "surrogateescape"))


def end_of_log(text: str, most: int) -> str:
    """Return the end of a log, which may have more lines: at most ``most`` letters, and not from within a secret."""
    if len(text) > most:
        text = text[-most:]
        parts = text.split(maxsplit=1)
        text = parts[1] if len(parts) > 1 else ""
    end = text.find(_KEY_END)
    if end >= 0 and "-----BEGIN " not in text[:end]:
        text = text[text.find("-----", end + len(_KEY_END)) + len("-----") :]
    return text


class LogCollection:
    """One call: list the pods, fetch their logs."""

    def __init__(
        self,
        client: Client,
        spec: LogCollectionSpec,
        gate: secret_gate.SecretScanner,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """gate: masks the secrets in the logs."""
        self.client = client
        self.spec = spec
        self.say = say
        self._gate = gate
        self._lock = threading.Lock()
        self._done = 0
        self._changed = False
        self._reported = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Return the module's result. A log that cannot be fetched is an ``error`` of its pod, not of the call."""
        spec = self.spec
        if spec.which == "none":
            return {"changed": False, "pods": [], "found": 0, "collected": 0, "left_out": 0, "unread": []}
        listed = self.client.list(self.client.kind("v1", "Pod"), spec.namespace, spec.selector)[0]
        pods = [LoggedPod.of(item) for item in listed]
        chosen, left_out = choose_pods(pods, spec.which, spec.maximum)
        folder = Path(spec.dest)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"dest {folder} cannot be created: {error.strerror}") from error
        with ThreadPool(max(1, spec.parallel)) as pool:
            rows = list(
                pool.map(lambda pod: self._one(pod, folder, pod_log_file_name(pod, chosen), len(chosen)), chosen)
            )
        unread = [f"{row['pod']}: {row['error']}" for row in rows if row["error"]]
        return {
            "changed": self._changed,
            "pods": rows,
            "found": len(pods),
            "collected": len(rows) - len(unread),
            "left_out": left_out,
            "unread": unread,
        }

    def _one(self, pod: LoggedPod, folder: Path, name: str, of: int) -> dict[str, Any]:
        row = {
            "pod": pod.name,
            "index": pod.index,
            "workload": pod.workload,
            "phase": pod.phase,
            "node": pod.node,
            "log": None,
            "error": None,
        }
        try:
            path = files.path_in_folder(folder, name)
            log = log_without_secrets(self._fetch(pod), self._gate, self.spec.limit_bytes)
            if files.write_bytes_if_changed(path, log):
                self._changed = True
            row["log"] = path.name
        except (ApiError, AccessError) as error:
            row["error"] = str(error)
        except OSError as error:
            row["error"] = f"{folder / name}: {error.strerror}"
        self._report(of)
        return row

    def _fetch(self, pod: LoggedPod) -> bytes:
        spec = self.spec
        query: dict[str, Any] = {"limitBytes": spec.limit_bytes or None, "tailLines": spec.tail_lines or None}
        container = spec.container or (pod.containers[0] if len(pod.containers) > 1 else "")
        query["container"] = container
        path = self.client.kind("v1", "Pod").path(pod.namespace, pod.name, "log")
        reply = self.client.raw("GET", path, accept="*/*", query=query)
        if reply.status >= 300:
            raise api_error(reply, f"log of pod {pod.namespace}/{pod.name}", self.client.access)
        return reply.body

    def _report(self, of: int) -> None:
        with self._lock:
            self._done += 1
            if time.monotonic() - self._reported >= _INTERVAL:
                self._reported = time.monotonic()
                self.say(f"{self._done} of {of} logs")


def format_collection_result(result: Mapping[str, Any]) -> str:
    """Return the result in one sentence."""
    parts = [f"{result['collected']} of {result['found']} pods' logs collected"]
    if result["left_out"]:
        parts.append(f"{result['left_out']} left out by the maximum")
    if result["unread"]:
        parts.append(f"{len(result['unread'])} could not be read, first: {result['unread'][0]}")
    return ", ".join(parts)
